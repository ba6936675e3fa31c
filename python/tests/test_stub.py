"""The type stub of the native extension names what is there, and nothing else."""

from __future__ import annotations

import ast
import re
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support import has, needs_native

if TYPE_CHECKING or has("rlgen._native"):
    import rlgen
    from rlgen import _native


Parameters = list[tuple[str, bool]]


def parameters_of(function: ast.FunctionDef) -> Parameters:
    """Name of each parameter, and whether it may be left out."""
    names = [*function.args.posonlyargs, *function.args.args]
    first_default = len(names) - len(function.args.defaults)
    return [(name.arg, place >= first_default) for place, name in enumerate(names)]


def parameters_of_native(function: Any) -> Parameters:
    """The same of a function of the extension, by the text that it carries."""
    text = function.__nb_signature__[0][0]
    text = re.sub(r"= \\\d+", "= ...", re.sub(r"ndarray\[[^\]]*\]", "ndarray", text))
    (parsed,) = ast.parse(text + ": ...").body
    assert isinstance(parsed, ast.FunctionDef)
    return parameters_of(parsed)


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

    def test_parameters(self) -> None:
        stub = ast.parse(Path(rlgen.__file__).with_name("_native.pyi").read_text())
        compared = 0
        for node in ast.walk(stub):
            place = _native if node is stub else getattr(_native, getattr(node, "name", ""), None)
            if not isinstance(node, ast.Module | ast.ClassDef):
                continue
            for member in node.body:
                function = getattr(place, getattr(member, "name", ""), None)
                if isinstance(member, ast.FunctionDef) and hasattr(function, "__nb_signature__"):
                    with self.subTest(place=getattr(node, "name", ""), member=member.name):
                        self.assertEqual(parameters_of(member), parameters_of_native(function))
                        compared += 1
        self.assertGreater(compared, 60)


if __name__ == "__main__":
    unittest.main()
