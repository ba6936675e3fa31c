"""The comparison of the contract finds nothing in what is right, and every single change."""

from __future__ import annotations

import copy
import shutil
import sys
import tempfile
import types
import unittest
from pathlib import Path
from typing import Any

import cpp_side
import facts as contract
from python_side import compare_module

PRELUDE = """
import abc, dataclasses, typing
from typing import Any, NotRequired, Optional, TypedDict, Union
class BatchedDataDict(dict):
    def __class_getitem__(cls, item): return f"BatchedDataDict[{item}]"
class torch:
    class dtype: pass
    class Tensor: pass
class ray:
    class ObjectRef: pass
MasterConfig = DataPlaneConfig = Any
"""


def source_of_class(facts: dict[str, Any]) -> str:
    """Python text of a class as the table has it."""
    kind = facts["kind"]
    base = {"TypedDict": "TypedDict", "abc": "abc.ABC", "pydantic": "BaseModel"}.get(kind, "")
    lines = [f"class {facts['name']}({base}):", "    pass"]
    if "dataclass" in kind:
        lines.insert(0, f"@dataclasses.dataclass(frozen={kind.startswith('frozen')})")
    for field in facts["fields"]:
        default = f" = {field['default']}" if "default" in field else ""
        lines.append(f"    {field['name']}: {field['type']}{default}")
    for member in facts["members"]:
        first = "cls" if member["kind"] == "classmethod" else "self"
        inner = member["signature"][1:]
        joined = f"({first}{'' if inner.startswith(')') else ', '}{inner}"
        lines += [f"    @{decorator}" for decorator in decorators_of(member)]
        lines.append(f"    def {member['name']}{joined}: ...")
    return "\n".join(lines)


def decorators_of(member: dict[str, Any]) -> list[str]:
    """What stands above a member."""
    kinds = [member["kind"]] if member["kind"] != "method" else []
    return kinds + (["abc.abstractmethod"] if member["abstract"] else [])


def module_of(facts: dict[str, Any]) -> types.ModuleType:
    """A module that is what the table says."""
    text = ["from __future__ import annotations", PRELUDE]
    names = {"BaseModel": base_model()}
    for constant in facts["constants"]:
        if "torch" not in constant["value"]:
            text.append(f"{constant['name']} = {constant['value']}")
    text += [source_of_class(cls) for cls in facts["classes"]]
    text += [f"def {function['name']}{function['signature']}: ..." for function in facts["functions"]]
    module = types.ModuleType("made")
    sys.modules["made"] = module  # dataclasses look their module up
    module.__dict__.update(names)
    exec(compile("\n".join(text), "made", "exec"), module.__dict__)
    module.__dict__["__getattr__"] = torch_missing
    return module


def torch_missing(name: str) -> Any:
    """Constants that are torch types, where torch is not installed."""
    if "ROUTED_EXPERTS" in name:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    raise AttributeError(name)


def base_model() -> type:
    """A class that looks like pydantic's to the comparison."""

    class Field:
        def __init__(self, annotation: Any, default: Any) -> None:
            self.annotation, self.default = annotation, default

        def is_required(self) -> bool:
            return False

    class BaseModel:
        def __init_subclass__(cls) -> None:
            cls.model_fields = {  # type: ignore[attr-defined]
                name: Field(annotation, getattr(cls, name)) for name, annotation in cls.__annotations__.items()
            }

    BaseModel.__module__ = "pydantic.main"
    return BaseModel


def changed(facts: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Tables that differ from `facts` in one thing each, with a word for it."""
    tables = []

    def add(what: str, change: Any) -> None:
        table = copy.deepcopy(facts)
        change(table)
        tables.append((what, table))

    for i, constant in enumerate(facts["constants"]):
        add(constant["name"], lambda table, i=i: table["constants"][i].update(name="OTHER"))
    for i, function in enumerate(facts["functions"]):
        add(function["name"], lambda table, i=i: table["functions"][i].update(name="other"))
        add(function["name"] + " result", lambda table, i=i: swap_result(table["functions"][i]))
    for i, cls in enumerate(facts["classes"]):
        add(cls["name"], lambda table, i=i: table["classes"][i].update(name="Other"))
        add(cls["name"] + " kind", lambda table, i=i: table["classes"][i].update(kind="other"))
        for j, field in enumerate(cls["fields"]):
            name = f"{cls['name']}.{field['name']}"
            add(name, lambda table, i=i, j=j: table["classes"][i]["fields"][j].update(name="other"))
            add(f"{name} type", lambda table, i=i, j=j: table["classes"][i]["fields"][j].update(type="bytes"))
            if "default" in field:
                add(f"{name} default", lambda table, i=i, j=j: table["classes"][i]["fields"][j].update(default="99"))
        for j, member in enumerate(cls["members"]):
            name = f"{cls['name']}.{member['name']}"
            add(name, lambda table, i=i, j=j: table["classes"][i]["members"][j].update(name="other"))
            add(f"{name} result", lambda table, i=i, j=j: swap_result(table["classes"][i]["members"][j]))
            add(f"{name} abstract", lambda table, i=i, j=j: flip(table["classes"][i]["members"][j]))
    return tables


def swap_result(entry: dict[str, Any]) -> None:
    """Another result type."""
    entry["signature"] = entry["signature"].rsplit("->", 1)[0] + "-> bytes"


def flip(member: dict[str, Any]) -> None:
    """Abstract becomes concrete and the other way round."""
    member["abstract"] = not member["abstract"]


class PythonSide(unittest.TestCase):
    """Comparison with a Python module."""

    facts = contract.load_facts()

    def test_what_is_right_has_no_difference(self) -> None:
        """A module made from the table has no difference."""
        self.assertEqual(compare_module(self.facts, module_of(self.facts)), [])

    def test_every_single_change_is_found(self) -> None:
        """Each table that differs in one thing is told from the module."""
        module = module_of(self.facts)
        tables = changed(self.facts)
        self.assertGreater(len(tables), 150)
        for what, table in tables:
            with self.subTest(what):
                self.assertNotEqual(compare_module(table, module), [])

    def test_parameters_are_compared_one_by_one(self) -> None:
        """Names, kinds, types and defaults of parameters count."""
        module = module_of(self.facts)
        for signature in (
            "(data: Any, pad_value: int = 0, raise_error: bool = True) -> tuple[bool, Union[str, None]]",
            "(data: int, value: int = 0, raise_error: bool = True) -> tuple[bool, str | None]",
            "(data: int, pad_value: int = 1, raise_error: bool = True) -> tuple[bool, str | None]",
            "(data: int, pad_value: int = 0, *, raise_error: bool = True) -> tuple[bool, str | None]",
        ):
            table = copy.deepcopy(self.facts)
            entry = next(one for one in table["functions"] if one["name"] == "verify_right_padding")
            entry["signature"] = signature
            self.assertNotEqual(compare_module(table, module), [])

    def test_spellings_of_one_type_are_alike(self) -> None:
        """Optional, Union and | of the same types are one type."""
        spellings = ("Optional[int]", "int | None", "Union[None, int]", "'int | None'", "typing.Optional[int]")
        self.assertEqual({contract.canonical_type(text) for text in spellings}, {"None | int"})
        self.assertEqual(contract.canonical_type("list[torch.Tensor]"), "list[Tensor]")
        self.assertEqual(contract.canonical_type("NotRequired[ForwardRef('torch.Tensor')]"), "NotRequired[Tensor]")
        self.assertNotEqual(contract.canonical_type("dict[str, int]"), contract.canonical_type("dict[int, str]"))


class CppSide(unittest.TestCase):
    """Comparison with the headers."""

    facts = contract.load_facts()

    def test_the_headers_have_every_name(self) -> None:
        """The headers of this tree pass."""
        self.assertEqual(cpp_side.compare_headers(self.facts, contract.ROOT), [])

    def test_a_name_that_goes_is_missed(self) -> None:
        """A header without a name, or with a member that is no longer abstract, fails."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            shutil.copytree(contract.ROOT / "src" / "contract", root / "src" / "contract")
            for header, old, new in (
                ("generation_interface.h", "blocks_training", "blocks"),
                ("generation_interface.h", "shutdown() = 0", "shutdown()"),
                ("config/disagg_config.h", "num_decode_engines", "decoders"),
                ("batch/generation_specs.h", "r3_routed_experts_actual_routes", "actual"),
                ("refit_deadline.h", "reject_unenforceable_refit_deadline", "reject"),
                ("routes/routed_experts.h", "kRoutedExpertsFallbackDtype", "kFallback"),
            ):
                file = root / "src" / "contract" / header
                text = file.read_text()
                with self.subTest(header=header, old=old):
                    self.assertIn(old, text)
                    file.write_text(text.replace(old, new))
                    self.assertNotEqual(cpp_side.compare_headers(self.facts, root), [])
                file.write_text(text)
            (root / "src/contract/warn_once.h").unlink()
            self.assertNotEqual(cpp_side.compare_headers(self.facts, root), [])


if __name__ == "__main__":
    unittest.main()
