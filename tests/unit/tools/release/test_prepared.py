"""What is compiled when the static program is built, and found again when it starts."""

from __future__ import annotations

import importlib
import importlib.util
import marshal
import sys
from types import CodeType, ModuleType
from typing import Any

import pytest

TEXT = "def f(a):\n return a + 1"


class Table(ModuleType):
    """The table of a program, as `_packed`."""

    def __init__(self) -> None:
        super().__init__("_packed")
        self.entries: dict[str, bytes] = {}

    def find(self, name: str) -> bool | None:
        return False if name in self.entries else None

    def read(self, name: str) -> bytes:
        return self.entries[name]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    made = Table()
    monkeypatch.setitem(sys.modules, "_packed", made)
    for name in ("prepared", "recording"):
        spec = importlib.util.find_spec(f"tools.release.{name}")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
    return made


def recorded(table: Table) -> Any:
    return sys.modules["recording"].Recorder()


def test_text_that_was_compiled_is_run_without_a_compiler(table: Table) -> None:
    recorder, prepared = recorded(table), sys.modules["prepared"]
    first: dict[str, Any] = {}
    hooked: dict[str, Any] = {}
    recorder.hook("dataclasses", hooked)
    hooked["exec"](TEXT, {}, first)
    recorder.hook("collections", hooked)
    assert hooked["eval"]("lambda a: a * 2", {})(4) == 8
    assert isinstance(prepared.code("exec", TEXT), str), "nothing is in the table yet"
    table.entries.update(recorder.found)
    assert isinstance(prepared.code("exec", TEXT), CodeType)
    names: dict[str, Any] = {}
    prepared.hook("dataclasses", names)
    prepared.hook("collections", names)
    second: dict[str, Any] = {}
    names["exec"](TEXT, {}, second)
    assert first["f"](1) == second["f"](1) == 2
    assert names["eval"]("lambda a: a * 2", {})(4) == 8
    assert names["eval"]("lambda a: a * 3", {})(4) == 12, "what is not in the table is compiled"
    assert prepared.code("eval", TEXT) == TEXT, "to run and to evaluate are two things"


@pytest.mark.parametrize("pattern", [r"(?P<a>x+)(y{2,})?\Z", rb"[^a-z\x00]*", "(?i)straße|\\d"])
def test_an_expression_is_the_same_one_without_a_compiler(table: Table, pattern: Any) -> None:
    spec = importlib.util.find_spec("re._compiler")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)  # one of our own: the real one stays as it is
    spec.loader.exec_module(module)
    recorder, prepared = recorded(table), sys.modules["prepared"]
    recorder.hook("re._compiler", vars(module))
    expected = vars(module)["compile"](pattern, 0)
    table.entries.update(recorder.found)
    asked: list[Any] = []
    compile_expression = prepared.compiler(lambda *given: asked.append(given))
    assert compile_expression(pattern, 0) == expected  # patterns, flags and programs are compared
    assert asked == []
    compile_expression(pattern, 8)
    assert asked == [(pattern, 8)]


class Typed:
    """As types of ours are declared; one refers to something by a string in it."""

    plain: int
    listed: list[str] | None
    quoted: list["Typed"]  # noqa: UP037


def test_annotations_are_evaluated_without_a_compiler(table: Table) -> None:
    spec = importlib.util.find_spec("msgspec._utils")
    assert spec is not None
    assert spec.loader is not None
    utils: Any = importlib.util.module_from_spec(spec)  # one of our own: the real one stays as it is
    spec.loader.exec_module(utils)
    usual = {name: vars(utils)[name] for name in ("_forward_ref", "_eval_type")}
    expected = utils.get_class_annotations(Typed)
    recorder, prepared = recorded(table), sys.modules["prepared"]
    recorder.hook("msgspec._utils", vars(utils))
    assert utils.get_class_annotations(Typed) == expected, "who records changes nothing"
    table.entries.update(recorder.found)
    hints = {prepared.name_of("hint", text) for text in ("int", "list[str] | None")}
    assert set(table.entries) == hints, "what is more than an expression is left to typing"
    vars(utils).update(usual)
    prepared.hook("msgspec._utils", vars(utils))
    assert utils.get_class_annotations(Typed) == expected
    assert expected == {"plain": int, "listed": list[str] | None, "quoted": list[Typed]}


def test_another_pattern_under_the_same_digest_is_compiled(table: Table) -> None:
    prepared = sys.modules["prepared"]
    table.entries[prepared.name_of_expression("a", 0)] = marshal.dumps(("b", 0, [1], 0, {}, (None,)))
    asked: list[Any] = []
    prepared.compiler(lambda *given: asked.append(given))("a", 0)
    assert asked == [("a", 0)]
