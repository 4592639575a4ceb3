"""Modules of the static program that run when they are first needed."""

from __future__ import annotations

import importlib
import importlib.util
import marshal
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

MODULES = {
    "early": "import late_one\nimport late_two\nran = []",
    "late_one": "import early, late_two\nearly.ran.append(__name__)\ndef kind(): return late_two.NAME",
    "late_two": "import early, late_one\nearly.ran.append(__name__)\nNAME = __name__\n"
    "seen = hasattr(late_one, 'kind')",
    "late_broken": "raise ValueError('broken')",
}
"""What is packed; those that begin with late are to run late."""


class Packed(ModuleType):
    """The table of a program."""

    def __init__(self, modules: dict[str, str]) -> None:
        super().__init__("_packed")
        self.entries = {name: marshal.dumps(compile(text, name, "exec")) for name, text in modules.items()}

    def find(self, name: str) -> bool | None:
        return False if name in self.entries else None

    def read(self, name: str) -> bytes:
        return self.entries[name]


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """boot.py, which ends at once, with its importer before all others."""
    monkeypatch.setitem(sys.modules, "_packed", Packed(MODULES))
    found: dict[str, Any] = {}
    for name in ("prepared", "boot"):
        spec = importlib.util.find_spec(f"tools.release.{name}")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        source = spec.loader.get_source(spec.name)  # type: ignore[attr-defined]
        exec(source.removesuffix("main()\n"), module.__dict__)
        found[name] = module
    found["boot"].LATE = frozenset(name for name in MODULES if name.startswith("late"))
    monkeypatch.setattr(sys, "meta_path", [found["boot"].Importer, *sys.meta_path])
    yield found["boot"]
    for name in MODULES:
        sys.modules.pop(name, None)


def test_a_late_module_runs_when_it_is_asked_for_something(boot: Any) -> None:
    early = importlib.import_module("early")
    assert early.ran == []
    assert type(early.late_one) is boot.LateModule
    assert early.late_one.kind() == "late_two"
    assert early.ran == ["late_one", "late_two"]
    assert type(early.late_one) is ModuleType, "from now on it is like any other"
    assert early.late_one is sys.modules["late_one"]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        early.late_one.nothing  # noqa: B018


def test_two_late_modules_that_need_each_other_run_once(boot: Any) -> None:
    del boot
    early = importlib.import_module("early")
    assert early.late_two.NAME == "late_two"
    assert early.late_two.seen is True, "the other one was run meanwhile"
    assert sorted(early.ran) == ["late_one", "late_two"]


def test_threads_that_ask_at_once_all_get_it(boot: Any) -> None:
    del boot
    early, seen = importlib.import_module("early"), []
    threads = [threading.Thread(target=lambda: seen.append(early.late_one.kind())) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert seen == ["late_two"] * 8
    assert sorted(early.ran) == ["late_one", "late_two"]


def test_one_that_cannot_run_says_why_each_time(boot: Any) -> None:
    del boot
    broken = importlib.import_module("late_broken")
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            broken.opname  # noqa: B018


def test_from_import_runs_it(boot: Any) -> None:
    del boot
    names: dict[str, Any] = {}
    exec("from late_two import NAME", names)
    assert names["NAME"] == "late_two"
