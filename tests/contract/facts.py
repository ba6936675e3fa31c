"""The names that a trainer relies on: facts.json, and signatures in a form that can be compared."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FACTS = HERE / "facts.json"


def load_facts(file: Path = FACTS) -> dict[str, Any]:
    """The table: constants, functions and classes with their fields and members."""
    return json.loads(file.read_text(encoding="utf-8"))


def canonical_type(text: str) -> str:
    """A type expression in one spelling: no module names, unions as sorted members, no quotes.

    "Optional[int]", "Union[None, int]" and "int | None" come out alike.
    """
    return _canonical(ast.parse(text.strip(), mode="eval").body)


def _canonical(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return canonical_type(node.value) if isinstance(node.value, str) else repr(node.value)
    if isinstance(node, ast.Name):
        return "None" if node.id == "NoneType" else node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _union([node.left, node.right])
    if isinstance(node, ast.Subscript):
        return _subscript(node)
    if isinstance(node, ast.Call) and _canonical(node.func) == "ForwardRef":
        return _canonical(node.args[0])
    return ast.unparse(node)


def _subscript(node: ast.Subscript) -> str:
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    head = _canonical(node.value)
    if head == "Optional":
        return _union([*inner, ast.Constant(None)])
    if head == "Union":
        return _union(inner)
    return f"{head}[{', '.join(_canonical(part) for part in inner)}]"


def _union(parts: list[ast.expr]) -> str:
    members: set[str] = set()
    for part in parts:
        members.update(_canonical(part).split(" | "))
    return " | ".join(sorted(members))


def parse_signature(text: str) -> dict[str, Any]:
    """Parameters (name, kind, type, default as text or None) and result of "(a: int, *, b: str = 'x') -> bool"."""
    function = ast.parse(f"def f{text}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    parameters = []
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    defaults += arguments.defaults
    for argument, default in zip(plain, defaults, strict=True):
        parameters.append(_parameter(argument, "POSITIONAL_OR_KEYWORD", default))
    if arguments.vararg:
        parameters.append(_parameter(arguments.vararg, "VAR_POSITIONAL", None))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters.append(_parameter(argument, "KEYWORD_ONLY", default))
    if arguments.kwarg:
        parameters.append(_parameter(arguments.kwarg, "VAR_KEYWORD", None))
    assert function.returns is not None
    return {"parameters": parameters, "returns": _canonical(function.returns)}


def _parameter(argument: ast.arg, kind: str, default: ast.expr | None) -> dict[str, str | None]:
    assert argument.annotation is not None
    return {
        "name": argument.arg,
        "kind": kind,
        "type": _canonical(argument.annotation),
        "default": None if default is None else repr(ast.literal_eval(default)),
    }
