"""The type stub of the native extension names what is there, and nothing else."""

from __future__ import annotations

import ast
import unittest
from pathlib import Path
from typing import TYPE_CHECKING

from support import has, needs_native

if TYPE_CHECKING or has("rlgen._native"):
    import rlgen
    from rlgen import _native


@needs_native
class StubTest(unittest.TestCase):
    """Names in _native.pyi against names in _native."""

    def test_names(self) -> None:
        stub = ast.parse(Path(rlgen.__file__).with_name("_native.pyi").read_text())
        classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
        functions = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
        found = {name for name in vars(_native) if not name.startswith("_")}
        self.assertEqual(classes.keys() | functions, found)
        for name, node in classes.items():
            members = {member.name for member in node.body if isinstance(member, ast.FunctionDef)} - {"__init__"}
            with self.subTest(name=name):
                self.assertEqual(members, {member for member in vars(getattr(_native, name)) if member[0] != "_"})


if __name__ == "__main__":
    unittest.main()
