"""What `make release` leaves in dist/ when a program may not be released."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.release import __main__ as release
from tools.release import elf, keeping, program, revision
from tools.release.revision import Revision
from tools.release.sources import CannotBuild
from tools.release.targets import LARGEST, TARGETS, Target, native
from tools.release.toolchain import Toolchain

from nodemanager import __version__
from support.executables import executable


class Workshop(release.Workshop):
    """One in which all parts are there."""

    def interpreter(self, target: Target) -> Path:
        return self.tools(target).folder / "python"

    def extensions(self, target: Target) -> None:
        """They are there."""

    def allocator(self, target: Target) -> None:
        """It is there."""


HERE = Revision("c" * 40, "clean", "5" * 64)


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> dict[str, Revision]:
    """The revision of the sources that are here, and of those that the program is made of."""
    found = {"here": HERE, "made": HERE}
    monkeypatch.setattr(revision, "of_tree", lambda: found["here"])
    return found


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tree: dict[str, Revision]) -> None:
    """What is linked is as it has to be, but that it is too large for FreeBSD."""
    for name in ("install_site", "prepare", "pack"):
        monkeypatch.setattr(program, name, lambda *_: Path())

    def build(tools: Toolchain, _packed: Path, output: Path) -> None:
        output.parent.mkdir(parents=True, exist_ok=True)
        executable(output, elf.MACHINES[tools.target.name.partition("-")[2]])
        with output.open("ab") as file:
            file.write(tree["made"].packed())
        if not tools.target.is_static:
            os.truncate(output, LARGEST + 1)

    monkeypatch.setattr(program, "build", build)


@pytest.mark.usefixtures("compiler")
def test_nothing_of_a_release_is_there_unless_all_programs_may_be(tmp_path: Path) -> None:
    dist, shop = tmp_path / "dist", Workshop(tmp_path / "cache", 1700000000, 1)
    with pytest.raises(CannotBuild, match=r"freebsd-amd64: it has 25\.00 MiB"):
        release.build(shop, [native(), TARGETS["freebsd-amd64"]], dist, None, packages=False)
    assert list(dist.iterdir()) == []


@pytest.mark.usefixtures("compiler")
def test_no_program_of_other_sources_is_released(tmp_path: Path, tree: dict[str, Revision]) -> None:
    dist, shop = tmp_path / "dist", Workshop(tmp_path / "cache", 1700000000, 1)
    tree["made"] = Revision("d" * 40, "clean", "6" * 64)
    with pytest.raises(CannotBuild, match=r"cannot release .*linux-a.*: it is of commit dddddddddddd, and"):
        release.build(shop, [native()], dist, None, packages=False)
    assert list(dist.iterdir()) == []


def test_sources_that_change_while_they_are_built_are_not_released(
    tmp_path: Path, compiler: None, tree: dict[str, Revision], monkeypatch: pytest.MonkeyPatch
) -> None:
    del compiler
    dist, shop = tmp_path / "dist", Workshop(tmp_path / "cache", 1700000000, 1)
    build = program.build

    def edited(*arguments: Any) -> None:
        build(*arguments)
        tree["here"] = Revision(HERE.commit, "modified", "6" * 64)

    monkeypatch.setattr(program, "build", edited)
    with pytest.raises(CannotBuild, match="the sources have changed meanwhile"):
        release.build(shop, [native()], dist, None, packages=False)
    assert list(dist.iterdir()) == []


@pytest.mark.usefixtures("compiler")
def test_the_cache_is_used_by_one_build_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Path] = []

    @contextlib.contextmanager
    def alone(folder: Path, _say: Any) -> Iterator[None]:
        used.append(folder)
        yield

    monkeypatch.setattr(keeping, "alone", alone)
    with pytest.raises(CannotBuild):
        release.build(
            Workshop(tmp_path / "cache", 0, 1), [TARGETS["freebsd-amd64"]], tmp_path, None, packages=False
        )
    assert used == [tmp_path / "cache"]


MINISIGN = """#!/bin/sh
echo "$*" >> "$0.calls"
exit {status}
"""


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("there", "status", "said"),
    [
        pytest.param(False, 0, "there is no minisign", id="no minisign"),
        pytest.param(True, 1, "is .*/key a secret key, and the password right", id="a wrong password"),
        pytest.param(True, 0, "there is no key .*/key", id="no key"),
    ],
)
def test_nothing_is_built_for_a_key_that_does_not_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool, status: int, said: str
) -> None:
    tools, dist, key = tmp_path / "tools", tmp_path / "dist", tmp_path / "key"
    tools.mkdir()
    if there:
        (tools / "minisign").write_text(MINISIGN.format(status=status))
        (tools / "minisign").chmod(0o755)
    if status:
        key.write_text("a secret key\n")
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(CannotBuild, match=f"cannot sign.*{said}"):
        release.build(Workshop(tmp_path / "cache", 0, 1), [native()], dist, key, packages=False)
    assert not (tmp_path / "cache").exists()
    assert not dist.exists()


def test_the_bill_lists_files_of_earlier_builds_only_of_the_same_sources(
    tmp_path: Path, compiler: None, tree: dict[str, Revision], monkeypatch: pytest.MonkeyPatch
) -> None:
    del compiler
    billed: list[list[str]] = []

    def write_sbom(_shop: Any, files: list[Path], _parts: Any, output: Path) -> Path:
        billed.append([file.name for file in files])
        bill = output / f"nodemanager-{__version__}.cdx.json"
        bill.touch()
        return bill

    monkeypatch.setattr(release, "_parts", lambda *_: [])
    monkeypatch.setattr(release, "_write_sbom", write_sbom)
    dist, shop, own = tmp_path / "dist", Workshop(tmp_path / "cache", 0, 1), f"nodemanager-{__version__}"
    for target in (TARGETS["linux-arm"], TARGETS["linux-arm64"]):
        release.build(shop, [target], dist, None, packages=False)
    assert billed.pop() == [f"{own}-linux-arm64", f"{own}-linux-arm"]
    tree["here"] = tree["made"] = Revision("d" * 40, "clean", HERE.sources)
    release.build(shop, [TARGETS["linux-arm64"]], dist, None, packages=False)
    assert billed.pop() == [f"{own}-linux-arm64"]
    assert "linux-arm\n" not in (dist / "SHA256SUMS").read_text()
