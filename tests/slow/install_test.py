"""cmake --install gives the command, and what a C++ program outside the tree needs, and shows nothing else.

Installs a finished build into a temporary prefix, builds examples/cpp with it and runs it.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("RLGEN_BUILD", ROOT / "build" / "release"))
MODEL = ROOT / "tests" / "fixtures" / "checkpoints" / "llama_text"
PUBLIC = ("api", "contract", "generation")
LINE = re.compile(r"row (\d+)  token +(\d+)  logprob +(-?[\d.]+)  version (\d+)")


def run(*command: str | Path) -> str:
    """The output of a command. Raises with all that it said where it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def exported_names(library: Path) -> list[str]:
    """What the library shows: the demangled name of every function and datum, without parameters."""
    lines = run("nm", "--dynamic", "--defined-only", "--extern-only", "--demangle", library).splitlines()
    return [line.split(maxsplit=2)[2] for line in lines]


def own_name(symbol: str) -> str:
    """rlgen::Class::member of `symbol`, whatever stands around it."""
    symbol = re.sub(r"^(vtable|typeinfo|typeinfo name) for ", "", symbol)
    return re.sub(r"operator\W+$", "operator", symbol.replace("[abi:cxx11]", "").split("(")[0])


class Install(unittest.TestCase):
    """Looks at one installation."""

    @classmethod
    def setUpClass(cls) -> None:
        """Installs, and builds the example with what was installed alone."""
        cls.folder = Path(tempfile.mkdtemp(prefix="rlgen-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        source = cls.folder / "cpp"
        shutil.copytree(ROOT / "examples" / "cpp", source)
        shutil.copy(ROOT / "tests" / "slow" / "own_backend.cpp", source)
        with (source / "CMakeLists.txt").open("a", encoding="utf-8") as lists:
            lists.write("add_executable(own_backend own_backend.cpp)\n")
            lists.write("target_link_libraries(own_backend PRIVATE rlgen::rlgen)\n")
        run("cmake", "-S", source, "-B", cls.folder / "build", f"-DCMAKE_PREFIX_PATH={cls.prefix}")
        run("cmake", "--build", cls.folder / "build")
        cls.library = next(cls.prefix.rglob("librlgen.so"))
        cls.include = cls.prefix / "include"
        cls.headers = sorted(cls.include.rglob("*.h"))

    def test_the_command_runs(self) -> None:
        """It needs nothing of the build folder."""
        command = self.prefix / "bin" / "rlgen"
        self.assertIn("llama", run(command, "inspect", "--model", MODEL))
        self.assertNotIn(str(BUILD), run("readelf", "--dynamic", command))

    def test_the_example_sees_new_weights(self) -> None:
        """Two rollouts of two rows: the second is of version 1 and differs."""
        output = run(self.folder / "build" / "rollout", MODEL)
        tokens = [LINE.fullmatch(line) for line in output.splitlines()]
        self.assertTrue(all(tokens), output)
        versions = [int(match[4]) for match in tokens if match]
        self.assertEqual(versions, sorted(versions))
        self.assertEqual(set(versions), {0, 1})
        rollouts = [[match.groups()[:3] for match in tokens if match and match[4] == v] for v in "01"]
        self.assertNotEqual(rollouts[0], rollouts[1])
        for rollout in rollouts:
            self.assertEqual({row for row, _, _ in rollout}, {"0", "1"})
            self.assertTrue(all(-50 < float(logprob) <= 0 and math.isfinite(float(logprob)) for *_, logprob in rollout))

    def test_a_backend_of_ones_own(self) -> None:
        """GenerationInterface is implemented and used without anything of the tree."""
        self.assertEqual(
            run(self.folder / "build" / "own_backend").splitlines(),
            ["generate: OK", "restart_shard: OwnBackend.restart_shard is not supported", "blocks_training: 0"],
        )

    def test_a_model_that_is_not_there_is_one_error(self) -> None:
        """The program ends with the key and the value."""
        done = subprocess.run([self.folder / "build" / "rollout", "no/such/model"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no/such/model", done.stderr)

    def test_nothing_lies_where_it_does_not_belong(self) -> None:
        """The command, headers, libraries and the package; no stand-ins of tests, no extension of Python."""
        files = {path.relative_to(self.prefix).as_posix() for path in self.prefix.rglob("*") if path.is_file()}
        expected = re.compile(r"bin/rlgen$|include/rlgen/.*\.h$|lib.*/(librlgen\.so|cmake/rlgen/)")
        self.assertEqual([name for name in files if not expected.match(name)], [])
        self.assertEqual([name for name in files if re.search(r"fake_|fixture|_test", name)], [])
        folders = {path.relative_to(self.include / "rlgen").parts[0] for path in self.headers}
        self.assertLess({*PUBLIC}, folders)
        self.assertFalse(folders & {"engine", "kernels", "models", "refit", "backends", "cli"}, folders)

    def test_every_header_stands_alone(self) -> None:
        """Each can be included first."""
        for header in self.headers:
            name = header.relative_to(self.include).as_posix()
            with self.subTest(header=name):
                text = header.read_text(encoding="utf-8")
                self.assertNotRegex(text, r'#include "(?!rlgen/)')
        source = self.folder / "all.cpp"
        for order in (self.headers, self.headers[::-1]):
            lines = [f'#include "{header.relative_to(self.include).as_posix()}"\n' for header in order]
            source.write_text("".join(lines), encoding="utf-8")
            run("c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", self.include, source)

    def test_only_public_names_are_seen(self) -> None:
        """Every exported name is declared in an installed header, and what the example needs is there."""
        words = set(re.findall(r"\w+", "".join(header.read_text(encoding="utf-8") for header in self.headers)))
        names = [own_name(symbol) for symbol in exported_names(self.library)]
        self.assertIn("rlgen::open_generation", names)
        self.assertIn("rlgen::generation::RlgenGeneration::generate", names)
        self.assertIn("rlgen::GenerationInterface", names)
        hidden = [name for name in names if not re.match(r"rlgen::(generation::|text::)?\w", name)]
        self.assertEqual(hidden, [])
        inner = r"rlgen::(engine|kernels|models|refit|backends|cli|python)::"
        self.assertEqual([name for name in names if re.match(inner, name)], [])
        self.assertEqual([name for name in names if name.split("::")[-1].lstrip("~") not in words], [])


if __name__ == "__main__":
    unittest.main()
