"""The moments at which a path changes, one step at a time, also after somebody was faster than the plan."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.files import commits, private
from nodemanager.host.files.tree import Tree
from nodemanager.plan.facts import FileFact, Kind
from nodemanager.plan.resources import file_id
from nodemanager.plan.steps import FileStep, MakeDirectory, MakeLink, RemovePath, SetAttributes
from support.descriptors import none_left_open
from support.root_tree import needs_root

pytestmark = needs_root
EVE = 1000


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "root"
    made.mkdir()
    with none_left_open(made):
        yield made


def do(root: Path, step: FileStep) -> None:
    """Carry a step out, as the next pass would: with nothing remembered of the walk."""
    tree = Tree(str(root))
    try:
        if isinstance(step, MakeDirectory):
            commits.make_directory(tree, step)
        commits.carry_out(tree, step, None)
    finally:
        tree.close()


def attributes(
    path: str, kind: Kind = Kind.FILE, *, content: str | None = None, **wanted: Any
) -> SetAttributes:
    digest = "" if content is None else hashlib.sha256(content.encode()).hexdigest()
    before = wanted.pop("before", FileFact(kind, digest=digest))
    return SetAttributes(id=file_id(path), sources=("a",), reason="", path=path, before=before, **wanted)


def seen(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param({"uid": 7}, (7, 2, 0o640), id="owner"),
        pytest.param({"gid": 8}, (1, 8, 0o640), id="group"),
        pytest.param({"uid": 0, "gid": 0}, (0, 0, 0o640), id="both"),
        pytest.param({"mode": 0o600}, (1, 2, 0o600), id="mode"),
        pytest.param({"uid": 7, "gid": 8, "mode": 0o2755}, (7, 8, 0o2755), id="all"),
    ],
)
@pytest.mark.parametrize("kind", ["file", "file-as-it-was-read", "directory", "root"])
def test_only_what_is_wanted_is_changed(
    root: Path, kind: str, wanted: dict[str, int], expected: tuple[int, int, int]
) -> None:
    path = root if kind == "root" else root / "x"
    if kind == "directory":
        path.mkdir()
    elif kind != "root":
        path.write_text("content")
    os.chown(path, 1, 2)
    path.chmod(0o640)
    step = attributes(
        "/" if kind == "root" else "/x",
        Kind.FILE if kind.startswith("file") else Kind.DIRECTORY,
        content="content" if kind == "file-as-it-was-read" else None,
        **wanted,
    )
    if kind != "root":
        root.chmod(0o755)
    do(root, step)
    assert seen(path) == expected


def test_the_owner_of_a_link_is_its_own_and_not_that_of_its_target(root: Path) -> None:
    target, link = root / "target", root / "link"
    target.write_text("root's")
    link.symlink_to("target")
    do(root, attributes("/link", Kind.SYMLINK, uid=EVE, gid=EVE))
    assert seen(link)[:2] == (EVE, EVE)
    assert seen(target)[:2] == (0, 0)


def test_a_link_in_the_place_of_a_file_is_not_followed(root: Path) -> None:
    """Its target would become eve's, and she only had to wait for the plan."""
    shadow, path = root / "shadow", root / "x"
    shadow.write_text("root:hash")
    shadow.chmod(0o600)
    path.symlink_to("shadow")
    with pytest.raises(OSError, match="symbolic link"):
        do(root, attributes("/x", uid=EVE, mode=0o644))
    assert seen(shadow) == (0, 0, 0o600)


def test_a_pipe_in_the_place_of_a_file_makes_nobody_wait(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To open a pipe means to wait for its other end: the agent would stand still as long as eve likes."""
    os.mkfifo(root / "x")
    real = os.open

    def opening(path: str, flags: int, *args: Any, **kwargs: Any) -> int:
        assert path != "x" or flags & os.O_NONBLOCK, "it would wait"
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", opening)
    with pytest.raises(commits.Unsafe, match="cannot change owner or mode of /x: it is no longer a file"):
        do(root, attributes("/x", uid=EVE))
    assert seen(root / "x")[0] == 0


@pytest.mark.parametrize("kind", [Kind.FILE, Kind.DIRECTORY, Kind.OTHER])
def test_what_is_of_another_kind_is_not_changed(root: Path, kind: Kind) -> None:
    path = root / "x"
    if kind is Kind.FILE:
        path.mkdir()
    else:
        path.write_text("")
    with pytest.raises(commits.Unsafe, match=f"it is no longer {kind.words}"):
        do(root, attributes("/x", kind, uid=EVE))
    assert seen(path)[0] == 0


def test_a_file_where_others_write_since_a_moment_ago_is_left(root: Path) -> None:
    root.chmod(0o777)
    for name, kind in (("file", Kind.FILE), ("link", Kind.SYMLINK)):
        path = root / name
        if kind is Kind.FILE:
            path.write_text("")
        else:
            path.symlink_to("file")
        with pytest.raises(commits.Unsafe, match="others can write there since a moment ago"):
            do(root, attributes(f"/{name}", kind, uid=EVE))
        assert seen(path)[0] == 0


def test_powers_are_given_to_what_was_looked_at_only(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, modes = root / "x", []
    path.write_text("evil")
    real = os.fchown

    def chowning(opened: int, uid: int, gid: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(opened).st_mode))
        real(opened, uid, gid)

    monkeypatch.setattr(os, "fchown", chowning)
    with pytest.raises(commits.Unsafe, match="cannot change the mode of /x: its content was changed"):
        do(root, attributes("/x", content="good", uid=0, mode=0o4755))
    assert seen(path)[2] == 0o644
    assert modes == [0o644]


def test_a_mode_that_is_right_is_not_set_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To set it would change the time of the last change, at which others look."""
    (root / "x").write_text("")
    calls: list[int] = []
    monkeypatch.setattr(os, "fchmod", lambda _, mode: calls.append(mode))
    monkeypatch.setattr(os, "fchown", lambda *_: calls.append(-1))
    do(root, attributes("/x", mode=0o644))
    assert calls == []


def test_attributes_are_on_disk_when_they_count(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "x").write_text("")
    synced: list[int] = []
    real = os.fsync

    def spying(opened: int) -> None:
        synced.append(os.fstat(opened).st_mode)
        real(opened)

    monkeypatch.setattr(os, "fsync", spying)
    do(root, attributes("/x", mode=0o600))
    assert [stat.S_IMODE(mode) for mode in synced] == [0o600]


def test_a_directory_of_hers_gets_its_mode_and_loses_her_list(root: Path) -> None:
    path = root / "d"
    path.mkdir(mode=0o755)
    os.chown(path, EVE, EVE)
    os.setxattr(path, private._ACL, _acl())
    root.chmod(0o777)
    before = FileFact(Kind.DIRECTORY, stat.S_IMODE(path.stat().st_mode), EVE, EVE, writer=-2, acl=True)
    do(root, attributes("/d", before=before, mode=0o700))
    assert seen(path) == (EVE, EVE, 0o700)
    assert os.listxattr(path) == []


@pytest.mark.parametrize(("uid", "mode"), [(0, 0o755), (EVE, 0o700)])
def test_another_directory_than_the_planned_one_is_left(root: Path, uid: int, mode: int) -> None:
    """She moved one of root's, or another one of hers, to the path meanwhile."""
    path = root / "d"
    path.mkdir()
    os.chown(path, uid, uid)
    path.chmod(mode)
    root.chmod(0o777)
    before = FileFact(Kind.DIRECTORY, 0o755, EVE, EVE, writer=-2)
    with pytest.raises(commits.Unsafe, match="another directory was put there meanwhile"):
        do(root, attributes("/d", before=before, mode=0o777))
    assert seen(path) == (uid, uid, mode)


def make(path: str, *, mode: int = 0o750, uid: int = 7, gid: int = 8) -> MakeDirectory:
    return MakeDirectory(
        id=file_id(path), sources=("a",), reason="", path=path, before=FileFact(), mode=mode, uid=uid, gid=gid
    )


def test_a_directory_is_made_with_its_parents(root: Path) -> None:
    do(root, make("/a/b/c"))
    assert seen(root / "a/b/c") == (7, 8, 0o750)
    assert seen(root / "a/b") == (0, 0, 0o755)


def test_a_directory_of_root_s_that_appeared_meanwhile_is_given_its_attributes(root: Path) -> None:
    (root / "d").mkdir()
    do(root, make("/d"))
    assert seen(root / "d") == (7, 8, 0o750)


@pytest.mark.parametrize("there", ["file", "link"])
def test_what_appeared_in_the_place_of_a_directory_is_not_changed(root: Path, there: str) -> None:
    (root / "real").mkdir()
    if there == "file":
        (root / "d").write_text("")
    else:
        (root / "d").symlink_to("real")
    with pytest.raises(NotADirectoryError):
        do(root, make("/d"))
    assert [seen(root / name)[:2] for name in ("d", "real")] == [(0, 0)] * 2


def test_what_others_can_have_put_in_the_place_of_a_directory_is_told_and_left(root: Path) -> None:
    (root / "d").mkdir()
    (root / "d/hers").write_text("")
    root.chmod(0o777)
    with pytest.raises(commits.Unsafe, match="cannot make directory /d: others than root can have put there"):
        do(root, make("/d"))
    assert seen(root / "d")[:2] == (0, 0)
    assert (root / "d/hers").exists()


@pytest.mark.parametrize("kind", [Kind.FILE, Kind.SYMLINK, Kind.DIRECTORY])
def test_what_goes_is_of_the_kind_that_was_looked_at(root: Path, kind: Kind) -> None:
    step = RemovePath(id=file_id("/x"), sources=("a",), reason="", path="/x", before=FileFact(kind))
    do(root, step)  # somebody else has removed it already
    path = root / "x"
    for there in Kind.FILE, Kind.SYMLINK, Kind.DIRECTORY:
        if there is Kind.DIRECTORY:
            path.mkdir()
        elif there is Kind.SYMLINK:
            path.symlink_to("y")
        else:
            path.write_text("")
        if (there is Kind.DIRECTORY) != (kind is Kind.DIRECTORY):
            with pytest.raises(OSError):
                do(root, step)
            assert path.is_symlink() or path.exists()
            path.rmdir() if there is Kind.DIRECTORY else path.unlink()
        else:
            do(root, step)
            assert not path.is_symlink()
            assert not path.exists()


def test_what_replaces_is_told_from_what_only_changes() -> None:
    link = MakeLink(
        id=file_id("/l"), sources=("a",), reason="", path="/l", before=FileFact(), target="/x", uid=0, gid=0
    )
    assert commits.replaces(link)
    assert not commits.replaces(make("/d"))
    assert not commits.replaces(attributes("/x"))


def test_no_other_step_is_taken_for_one_of_these(root: Path) -> None:
    step = FileStep(id=file_id("/x"), sources=("a",), reason="", path="/x", before=FileFact())
    with pytest.raises(TypeError, match="cannot do FileStep to files"):
        do(root, step)


def _acl() -> bytes:
    """Return a list that grants a user what the mode does not."""
    return bytes.fromhex("0200000001000700ffffffff02000700e903000004000500ffffffff10000700ffffffff"
                         "20000500ffffffff")  # fmt: skip
