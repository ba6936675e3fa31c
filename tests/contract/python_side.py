"""Compares the table with a Python module."""

from __future__ import annotations

import abc
import dataclasses
import inspect
import typing
from typing import Any

from facts import canonical_type, parse_signature

SPECIAL = {"self", "cls"}


def type_text(annotation: Any) -> str:
    """An annotation, evaluated or not, in its one spelling."""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, str):
        return canonical_type(annotation)
    if isinstance(annotation, typing.ForwardRef):
        return canonical_type(annotation.__forward_arg__)
    return canonical_type(inspect.formatannotation(annotation).replace("<class '", "").replace("'>", ""))


def signature_of(function: Any) -> dict[str, Any]:
    """What parse_signature gives, of a function that is there; without self and cls."""
    signature = inspect.signature(function)
    parameters = []
    for name, parameter in signature.parameters.items():
        if name in SPECIAL:
            continue
        default = None if parameter.default is inspect.Parameter.empty else repr(parameter.default)
        bare = parameter.annotation is inspect.Parameter.empty
        parameters.append(
            {
                "name": name,
                "kind": parameter.kind.name,
                "type": "nothing" if bare else type_text(parameter.annotation),
                "default": default,
            }
        )
    empty = signature.return_annotation is inspect.Signature.empty
    return {"parameters": parameters, "returns": "nothing" if empty else type_text(signature.return_annotation)}


def compare_signature(name: str, wanted: str, function: Any) -> list[str]:
    """What differs, in words."""
    expected, found = parse_signature(wanted), signature_of(function)
    problems = []
    names = [parameter["name"] for parameter in expected["parameters"]]
    found_names = [parameter["name"] for parameter in found["parameters"]]
    if names != found_names:
        return [f"{name}: parameters are {found_names}, not {names}"]
    for one, other in zip(expected["parameters"], found["parameters"], strict=True):
        for what in ("kind", "type", "default"):
            if one[what] != other[what]:
                problems.append(f"{name}: {what} of {one['name']} is {other[what]}, not {one[what]}")
    if expected["returns"] != found["returns"]:
        problems.append(f"{name}: result is {found['returns']}, not {expected['returns']}")
    return problems


def kind_of(cls: type) -> str:
    """What kind of class it is, in the words of the table."""
    if typing.is_typeddict(cls):
        return "TypedDict"
    if dataclasses.is_dataclass(cls):
        return "frozen dataclass" if cls.__dataclass_params__.frozen else "dataclass"  # type: ignore[attr-defined]
    if any(base.__module__.startswith("pydantic") and base.__name__ == "BaseModel" for base in cls.__mro__):
        return "pydantic"
    return "abc" if isinstance(cls, abc.ABCMeta) else "class"


def fields_of(cls: type, kind: str) -> dict[str, tuple[str, str | None]]:
    """Name -> type and default as text, in order. A key that may be absent is NotRequired[...]."""
    if kind == "TypedDict":
        optional = getattr(cls, "__optional_keys__", frozenset())
        found = {}
        for name, annotation in cls.__annotations__.items():
            text = type_text(annotation)
            if name in optional and not text.startswith("NotRequired["):
                text = f"NotRequired[{text}]"
            found[name] = (text, None)
        return found
    if kind == "pydantic":
        return {
            name: (type_text(field.annotation), None if field.is_required() else repr(field.default))
            for name, field in cls.model_fields.items()  # type: ignore[attr-defined]
        }
    if "dataclass" in kind:
        missing = dataclasses.MISSING
        return {
            field.name: (type_text(field.type), None if field.default is missing else repr(field.default))
            for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        }
    return {}


def compare_fields(facts: dict[str, Any], cls: type) -> list[str]:
    """Fields that are missing, surplus, in another order, of another type or default."""
    name = facts["name"]
    wanted = {field["name"]: (canonical_type(field["type"]), default_text(field)) for field in facts["fields"]}
    found = fields_of(cls, facts["kind"])
    if list(wanted) != list(found):
        return [f"{name}: fields are {list(found)}, not {list(wanted)}"]
    problems = []
    for field, (type_, default) in wanted.items():
        if found[field][0] != type_:
            problems.append(f"{name}.{field}: type is {found[field][0]}, not {type_}")
        if found[field][1] != default:
            problems.append(f"{name}.{field}: default is {found[field][1]}, not {default}")
    return problems


def default_text(field: dict[str, Any]) -> str | None:
    """The default of a field of the table as repr() gives it; None without one."""
    return repr(eval(field["default"], {"__builtins__": {}})) if "default" in field else None


def compare_members(facts: dict[str, Any], cls: type) -> list[str]:
    """Members that are missing, of another kind, abstract or not, with another signature."""
    problems = []
    for member in facts["members"]:
        name = f"{facts['name']}.{member['name']}"
        raw = inspect.getattr_static(cls, member["name"], None)
        if raw is None:
            problems.append(f"{name} is missing")
            continue
        kind = "classmethod" if isinstance(raw, classmethod) else "property" if isinstance(raw, property) else "method"
        if kind != member["kind"]:
            problems.append(f"{name} is a {kind}, not a {member['kind']}")
            continue
        if bool(getattr(raw, "__isabstractmethod__", False)) != member["abstract"]:
            problems.append(f"{name} is {'not ' if member['abstract'] else ''}abstract")
        function = raw.fget if kind == "property" else raw.__func__ if kind == "classmethod" else raw
        problems += compare_signature(name, member["signature"], function)
    wanted = {member["name"] for member in facts["members"] if member["abstract"]}
    surplus = set(getattr(cls, "__abstractmethods__", ())) - wanted
    problems += [f"{facts['name']}.{name} is abstract, which it must not be" for name in sorted(surplus)]
    return problems


def compare_class(facts: dict[str, Any], module: Any) -> list[str]:
    """What differs in one class."""
    cls = getattr(module, facts["name"], None)
    if cls is None:
        return [f"{facts['name']} is missing"]
    kind = kind_of(cls)
    if kind != facts["kind"]:
        return [f"{facts['name']} is a {kind}, not a {facts['kind']}"]
    return compare_fields(facts, cls) + compare_members(facts, cls)


def compare_constant(facts: dict[str, Any], module: Any) -> list[str]:
    """Whether the constant is there and has its value; without torch, only that it asks for torch."""
    needs_torch = "torch." in facts["value"]
    try:
        value = getattr(module, facts["name"])
    except AttributeError:
        return [f"{facts['name']} is missing"]
    except ImportError as error:
        return [] if needs_torch and error.name == "torch" else [f"{facts['name']}: {error}"]
    if needs_torch and repr(value) == facts["value"]:
        return []
    if not needs_torch and value == eval(facts["value"], {"__builtins__": {}}):
        return []
    return [f"{facts['name']} is {value!r}, not {facts['value']}"]


def compare_module(facts: dict[str, Any], module: Any) -> list[str]:
    """Every difference between the table and `module`."""
    problems = []
    for constant in facts["constants"]:
        problems += compare_constant(constant, module)
    for function in facts["functions"]:
        found = getattr(module, function["name"], None)
        if found is None:
            problems.append(f"{function['name']} is missing")
        else:
            problems += compare_signature(function["name"], function["signature"], found)
    for cls in facts["classes"]:
        problems += compare_class(cls, module)
    return problems
