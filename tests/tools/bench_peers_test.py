"""bench/peers.py: the logic that needs no peer."""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "bench" / "peers" / "workers"))

from peers import llama_cpp, own, report
from peers.environment import PeerError
from peers.peer import Setting
from peers.runner import Results, measure
from peers.work import WORK, Timing, Work, choose_work, rates

DECODE = Work("decode/8", 8, 128, 128)
PREFILL = Work("prefill/2048", 1, 2048, 1)
LLAMA_LINE = (
    '{"n_kv_max": 2048, "pp": 128, "tg": 128, "pl": 8, "n_kv": 2048, "t_pp": 2.0, "speed_pp": 512.0, '
    '"t_tg": 4.0, "speed_tg": 256.0, "t": 6.0, "speed": 341.0}'
)


class FakePeer:
    """Gives the rates it is told; fails on the rows it is told."""

    arithmetic = "bfloat16"

    def __init__(
        self, name: str, seconds: list[float], fails: tuple[str, ...] = (), fractions: list[float] | None = None
    ) -> None:
        self.name = name
        self.fractions = fractions
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
        fraction = self.fractions[seed % len(self.seconds)] if self.fractions else None
        return Timing(seconds / 2, seconds / 2, seconds, fraction)

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
        self.assertEqual(
            [row.name for row in choose_work(["decode/64", "prefill/2048"])], ["prefill/2048", "decode/64"]
        )
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


class Profiles(unittest.TestCase):
    """Which profiles of rlgen are measured."""

    def test_that_of_amx_where_the_processor_has_it(self) -> None:
        """By whole names of flags: amx_fp16 alone is not enough, nor is a line of another kind."""
        both = ["float32", "bfloat16"]
        amx = "processor\t: 0\nflags\t\t: fpu avx512_bf16 amx_bf16 avx512_fp16 amx_tile amx_int8\nbugs\t\t: none\n"
        self.assertEqual(own.profiles_for(amx), [*both, "bfloat16_amx"])
        for other in (
            "",
            "flags\t\t: fpu avx512_bf16\n",
            amx.replace("amx_bf16", "amx_fp16"),
            amx.replace("amx_tile", "amx_int8"),
            amx.replace("flags", "vmx flags"),
        ):
            self.assertEqual(own.profiles_for(other), both, other)

    def test_what_they_are_compared_with(self) -> None:
        """Both that round stand against engines in bfloat16."""
        setting = Setting(Path("model"), 2, Path("folder"), Path("rlgen"))
        for profile, arithmetic in (("float32", "float32"), ("bfloat16", "bfloat16"), ("bfloat16_amx", "bfloat16")):
            engine = own.Rlgen(setting, profile)
            self.assertEqual((engine.name, engine.arithmetic), (f"rlgen {profile}", arithmetic))


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

    def test_results_are_kept_after_each_row(self) -> None:
        """A run that is broken off in its second round leaves all that it measured."""
        kept: list[tuple[int, int]] = []

        def keep(results: Results) -> None:
            kept.append((results.rounds("decode/8"), results.rounds("prefill/2048")))
            if len(kept) == 3:
                raise KeyboardInterrupt

        peer = FakePeer("rlgen", [1.0])
        with self.assertRaises(KeyboardInterrupt):
            measure([peer], [DECODE, PREFILL], 3, lambda line: None, keep)
        self.assertEqual(kept, [(1, 0), (1, 1), (2, 1)])
        self.assertTrue(peer.stopped)

    def test_the_fraction_is_that_of_the_best_round(self) -> None:
        """Not of the newest one, nor of the warm round."""
        peer = FakePeer("rlgen", [0.1, 4.0, 2.0, 3.0], fractions=[0.9, 0.3, 0.6, 0.5])
        results = measure([peer], [DECODE], 3, lambda line: None)
        self.assertEqual(results.fraction("decode/8", "decode", "rlgen"), 0.6)
        self.assertIsNone(results.fraction("prefill/2048", "prefill", "rlgen"))

    def test_failures_are_kept(self) -> None:
        """A peer that does not start, and one that cannot do a row, cost nobody else."""
        good = FakePeer("rlgen", [1.0])
        absent, small = FakePeer("absent", [1.0], ("start",)), FakePeer("small", [1.0], ("prefill/2048",))
        results = measure([good, absent, small], [DECODE, PREFILL], 3, lambda line: None)
        self.assertEqual(results.failures, {("", "absent"): "not installed", ("prefill/2048", "small"): "too large"})
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

    def document(self, peers: Sequence[tuple[str, str]] = PEERS) -> dict[str, Any]:
        """Two rows, one peer left out."""
        results = Results()
        results.rates = {
            ("decode/8", "decode", "rlgen float32"): [300.0, 360.0],
            ("decode/8", "decode", "rlgen bfloat16"): [480.0],
            ("decode/8", "decode", "rlgen bfloat16_amx"): [960.0],
            ("decode/8", "decode", "llama.cpp"): [240.0, 200.0],
            ("decode/8", "decode", "Transformers"): [100.0],
            ("decode/8", "decode", "Transformers float32"): [120.0],
            ("decode/8", "whole", "rlgen float32"): [100.0],
            ("prefill/2048", "prefill", "rlgen float32"): [900.0],
        }
        results.fractions = {("decode/8", "rlgen float32"): [0.7, 0.87]}
        results.failures = {("", "vLLM compiled"): "not installed"}
        facts = {"date": "2026-01-01", "model": "small", "threads": 2}
        return report.document_of(results, [PREFILL, DECODE], peers, facts, {"cpu": "Fast One"})

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

    def test_three_profiles(self) -> None:
        """Those that round have a ratio each to the best engine in bfloat16."""
        document = self.document([*self.PEERS[:2], ("rlgen bfloat16_amx", "bfloat16"), *self.PEERS[2:]])
        table = report.table_of(document)
        self.assertIn("| work | rlgen float32 | rlgen bfloat16 | rlgen bfloat16_amx | llama.cpp (bfloat16) |", table)
        self.assertIn("| float32: to the best | bfloat16: to the best | bfloat16_amx: to the best |", table)
        self.assertIn("| decode, 8 | 360 (87 %) | 480 | 960 | 240 | 100 | 120 | - | 3.00x | 2.00x | 4.00x |", table)
        self.assertRegex(report.text_of(document), r"decode/8 +decode +360\.0 +480\.0 +960\.0 .* +2\.00x +4\.00x")

    def test_a_run_that_was_broken_off_says_so(self) -> None:
        """Its rows were not measured equally often."""
        for counts, words in (
            ((0, 0), "no round"),
            ((0, 1), "one round"),
            ((1, 1), "one round"),
            ((2, 2), "the best of 2 rounds"),
            ((1, 2), "the best of 1 to 2 rounds"),
        ):
            document = self.document()
            for work, count in zip(document["work"], counts, strict=True):
                work["rounds"] = count
            self.assertIn(f", {words} in which", report.table_of(document))

    def test_a_page_has_tables_of_several_results(self) -> None:
        """Each goes to its own place."""
        places = [f"{report.begin_mark(name)}\nold {name}\n{report.END}\n" for name in ("a.json", "b.json")]
        page = "before\n" + "between\n".join(places) + "after\n"
        for name, other in (("a.json", "old b"), ("b.json", "old a")):
            put = report.put_table(page, name, "new")
            self.assertNotIn(f"old {name}", put)
            self.assertIn(other, put)
            self.assertTrue(put.startswith("before\n") and "between\n" in put and put.endswith("\nafter\n"))
            self.assertEqual(report.put_table(put, name, "new"), put)
        for unfit in ("nothing", page + places[0], page.replace(report.END, "")):
            with self.assertRaisesRegex(ValueError, "no place"):
                report.put_table(unfit, "a.json", "new")

    def test_the_largest_batch_is_shown_from_begin_to_end_too(self) -> None:
        """Rates with the prompts, without the fraction, which is that of the stretch after them."""
        document = self.document()
        for row in document["rows"]:
            row["row"] = row["row"].replace("decode/8", "decode/64")
        document["fractions_of_the_limit"] = {"rlgen float32": {"decode/64": 0.87}}
        lines = report.table_of(document).splitlines()
        self.assertIn("| decode, 64 | 360 (87 %) | 480 | 240 | 100 | 120 | - | 3.00x | 2.00x |", lines)
        self.assertIn("| decode, 64, with the prompts | 100 | - | - | - | - | - | - | - |", lines)

    def test_pages_have_the_tables_of_the_committed_results(self) -> None:
        """README that of the demo's model, docs/benchmarks.md all others."""
        for results in sorted((ROOT / "bench" / "results").glob("*.json")):
            page = ROOT / ("README.md" if results.name == "peers.json" else "docs/benchmarks.md")
            with self.subTest(results=results.name):
                text = page.read_text()
                made = report.table_of(report.read_document(results))
                self.assertEqual(report.put_table(text, results.name, made), text)


if __name__ == "__main__":
    unittest.main()
