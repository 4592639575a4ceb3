"""What was compiled is compiled again when anything of it changes; and only one build at a time uses it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from tools.release import interpreter, keeping, libraries, program, toolchain
from tools.release.keeping import Part
from tools.release.sources import CannotBuild
from tools.release.targets import TARGETS
from tools.release.toolchain import Toolchain

PARTS = {
    "prefix": keeping.prefix, "python": keeping.python, "extensions": keeping.extensions,
    "allocator": keeping.allocator_part,
}  # fmt: skip


@pytest.fixture(name="installed", autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The packages that compile, in versions of ours."""
    found = {"ziglang": "0.17.0", "cython": "3.3.1"}
    monkeypatch.setattr(metadata, "version", found.__getitem__)
    return found


@pytest.fixture(name="tools")
def _tools(tmp_path: Path) -> Toolchain:
    (tmp_path / "linux-amd64").mkdir()
    return Toolchain(TARGETS["linux-amd64"], tmp_path / "linux-amd64")


def keys(tools: Toolchain) -> dict[str, str]:
    return {name: keeping.key(tools, part()) for name, part in PARTS.items()}


def changed(tools: Toolchain, change: Callable[[], None]) -> set[str]:
    before = keys(tools)
    assert before == keys(tools)
    change()
    after = keys(tools)
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("recipe", "again"),
    [
        pytest.param(libraries, {"prefix", "python", "extensions"}, id="of the libraries"),
        pytest.param(interpreter, {"python", "extensions"}, id="of Python"),
        pytest.param(program, {"extensions"}, id="of the extensions"),
        pytest.param(toolchain, set(PARTS), id="of the compiler"),
    ],
)
def test_a_recipe_is_that_of_all_that_is_compiled_with_what_it_makes(
    tools: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: ModuleType, again: set[str]
) -> None:
    other = tmp_path / "recipe.py"
    other.write_text(f"{Path(str(recipe.__file__)).read_text()}# other options\n")
    assert changed(tools, lambda: monkeypatch.setattr(recipe, "__file__", str(other))) == again


@pytest.mark.parametrize(("package", "again"), [("cython", {"extensions"}), ("ziglang", set(PARTS))])
def test_another_compiler_compiles_again(
    tools: Toolchain, installed: dict[str, str], package: str, again: set[str]
) -> None:
    assert changed(tools, lambda: installed.update({package: "4"})) == again


def test_a_compiler_that_is_not_installed_is_named(tools: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(CannotBuild, match=r"there is no ziglang; run make \.venv/\.release"):
        keeping.key(tools, keeping.prefix())


def test_a_part_is_built_once_and_again_after_a_failure(tools: Toolchain) -> None:
    part, built = Part("thing", ()), []

    def fail() -> None:
        raise CannotBuild("cannot build thing")

    assert not keeping.has(tools, part, lambda: built.append(1))
    assert keeping.has(tools, part, fail)
    other = Part("thing", (), tools=())
    with pytest.raises(CannotBuild):
        keeping.has(tools, other, fail)
    assert not keeping.has(tools, part, lambda: built.append(2))
    assert built == [1, 2]


def test_a_build_waits_for_another_one_and_says_so(tmp_path: Path) -> None:
    folder, way = tmp_path / "cache", Way()
    with keeping.alone(folder, way.say):
        second = threading.Thread(target=way.second, args=(folder,))
        second.start()
        assert way.told.wait(timeout=60)
        way.order.append("first has ended")
    second.join(timeout=60)
    assert way.order == [
        f"{folder}: another build is using it, and is waited for", "first has ended", "second has begun",
    ]  # fmt: skip


class Way:
    """What happened, in which order."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.told = threading.Event()

    def say(self, text: str) -> None:
        self.order.append(text)
        self.told.set()

    def second(self, folder: Path) -> None:
        with keeping.alone(folder, self.say):
            self.order.append("second has begun")


def test_a_build_that_fails_lets_the_next_one_in(tmp_path: Path) -> None:
    def nobody(text: str) -> None:
        raise AssertionError(text)

    with pytest.raises(CannotBuild), keeping.alone(tmp_path, nobody):
        raise CannotBuild("cannot build")
    with keeping.alone(tmp_path, nobody):
        assert (tmp_path / keeping.LOCK).is_file()
