"""New content beside the file that it will replace: complete before the rename, and gone if there is none."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.files import staging
from nodemanager.host.files.staging import Areas, Exchanged, stage_file, stage_link
from nodemanager.host.files.tree import Tree
from nodemanager.plan.desired import Content
from nodemanager.plan.facts import FileFact, Kind
from nodemanager.plan.resources import file_id
from nodemanager.plan.steps import MakeLink, WriteFile
from support.descriptors import none_left_open
from support.root_tree import needs_root

pytestmark = needs_root
EVE = 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    (made / "hers").mkdir(parents=True)
    os.chown(made / "hers", EVE, EVE)
    return made


@pytest.fixture
def tree(root: Path) -> Iterator[Tree]:
    with none_left_open(root):
        found = Tree(str(root))
        yield found
        found.close()


@pytest.fixture
def areas() -> Iterator[Areas]:
    found = Areas()
    yield found
    found.close()


def write(path: str = "/x", *, kind: Kind = Kind.ABSENT, **fields: Any) -> WriteFile:
    found = {"mode": 0o640, "uid": 7, "gid": 8, **fields}
    content = Content(b"new", hashlib.sha256(b"new").hexdigest())
    return WriteFile(
        id=file_id(path),
        sources=("a",),
        reason="",
        path=path,
        before=FileFact(kind),
        content=content,
        **found,
    )


def link(path: str = "/l") -> MakeLink:
    return MakeLink(
        id=file_id(path),
        sources=("a",),
        reason="",
        path=path,
        before=FileFact(),
        target="there",
        uid=7,
        gid=8,
    )


def left(root: Path) -> list[str]:
    return sorted(str(one.relative_to(root)) for one in root.rglob(".nodemanager-*"))


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("path", ["/x", "/hers/x", "/new/parent/x"])
def test_a_file_is_complete_before_it_has_its_name(tree: Tree, areas: Areas, root: Path, path: str) -> None:
    staged = stage_file(tree, write(path, mode=0o4750), areas)
    assert not (root / path[1:]).exists()
    found = os.fstat(staged.descriptor)
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode), found.st_size) == (7, 8, 0o4750, 3)
    assert (staged.area >= 0) is (path == "/hers/x")
    if staged.area < 0:
        assert (root / staged.temporary[1:]).read_text() == "new"
    staged.close()
    staged.commit(tree)
    assert (root / path[1:]).read_text() == "new"
    staged.commit(tree)  # it has its name: nothing is left to do
    staged.discard(tree)
    assert (root / path[1:]).read_text() == "new"
    areas.close()
    assert left(root) == []


@pytest.mark.parametrize("path", ["/l", "/hers/l", "/new/parent/l"])
def test_a_link_has_its_owner_before_its_name(tree: Tree, areas: Areas, root: Path, path: str) -> None:
    staged = stage_link(tree, link(path), areas)
    assert not (root / path[1:]).is_symlink()
    assert (staged.area >= 0) is (path == "/hers/l")
    staged.commit(tree)
    made = root / path[1:]
    assert (str(made.readlink()), made.lstat().st_uid, made.lstat().st_gid) == ("there", 7, 8)
    areas.close()
    assert left(root) == []


def test_nobody_reads_a_file_before_it_has_its_owner(
    tree: Tree, areas: Areas, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    real = os.fchown

    def spying(opened: int, uid: int, gid: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(opened).st_mode))
        real(opened, uid, gid)

    monkeypatch.setattr(os, "fchown", spying)
    stage_file(tree, write(mode=0o666), areas).discard(tree)
    assert modes == [0o600]


@pytest.mark.parametrize("path", ["/x", "/hers/x"])
def test_what_is_discarded_is_gone(tree: Tree, areas: Areas, root: Path, path: str) -> None:
    staged = stage_file(tree, write(path), areas)
    staged.discard(tree)
    staged.discard(tree)
    areas.close()
    assert left(root) == []
    assert not (root / path[1:]).exists()


@pytest.mark.parametrize("path", ["/x", "/hers/x"])
@pytest.mark.parametrize("call", ["fchown", "fchmod", "write"])
def test_what_could_not_be_staged_leaves_nothing(
    tree: Tree, areas: Areas, root: Path, monkeypatch: pytest.MonkeyPatch, path: str, call: str
) -> None:
    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        stage_file(tree, write(path), areas)
    monkeypatch.undo()
    if path == "/hers/x":
        assert len(left(root)) == 1  # the folder, and nothing in it
    areas.close()
    assert left(root) == []


@pytest.mark.parametrize("path", ["/l", "/hers/l"])
def test_a_link_that_could_not_be_staged_leaves_nothing(
    tree: Tree, areas: Areas, root: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(os, "chown", full)
    with pytest.raises(OSError, match="No space left"):
        stage_link(tree, link(path), areas)
    monkeypatch.undo()
    assert len(left(root)) == (path == "/hers/l")
    areas.close()
    assert left(root) == []


def test_a_descriptor_that_was_handed_over_is_not_closed_by_us(tree: Tree, areas: Areas) -> None:
    staged = stage_file(tree, write(), areas)
    descriptor = staged.hand_over()
    staged.discard(tree)
    os.fstat(descriptor)
    os.close(descriptor)
    assert staged.hand_over() == -1


@pytest.mark.parametrize("gone", [False, True])
def test_what_was_exchanged_does_not_get_the_name(tree: Tree, areas: Areas, root: Path, gone: bool) -> None:
    staged = stage_file(tree, write(), areas)
    (root / staged.name).rename(root / "taken")
    if not gone:
        (root / staged.name).write_text("evil")
    with pytest.raises(Exchanged, match="cannot put /x in place: somebody exchanges files in its directory"):
        staged.commit(tree)
    assert not (root / "x").exists()
    staged.discard(tree)
    assert left(root) == []


def test_what_was_exchanged_in_the_last_moment_is_told(
    tree: Tree, areas: Areas, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.rename

    def exchanging(source: str, target: str, **folders: int) -> None:
        (root / source).unlink()
        (root / source).write_text("evil")
        real(source, target, **folders)

    staged = stage_file(tree, write(), areas)
    monkeypatch.setattr(os, "rename", exchanging)
    with pytest.raises(Exchanged):
        staged.commit(tree)
    staged.discard(tree)
    assert (root / "x").read_text() == "evil"  # it has its name already: that is for the next pass to see


def test_a_directory_has_one_folder_for_all_that_is_staged_in_it(
    tree: Tree, areas: Areas, root: Path
) -> None:
    (root / "hers/too").mkdir()
    assert areas.of(tree.place("/x")) == -1
    one, two = areas.of(tree.place("/hers/a")), areas.of(tree.place("/hers/b"))
    assert one == two
    assert areas.of(tree.place("/hers/too/a")) != one
    assert len(left(root)) == 2
    areas.close()
    assert left(root) == []


@pytest.mark.parametrize("path", ["/x", "/hers/x"])
def test_attributes_come_from_the_old_file_of_root_s_and_from_no_other(
    tree: Tree, areas: Areas, root: Path, path: str
) -> None:
    old = root / path[1:]
    old.write_text("old")
    os.setxattr(old, "user.note", b"mine")
    staged = stage_file(tree, write(path, kind=Kind.FILE), areas)
    assert os.listxattr(staged.descriptor) == (["user.note"] if path == "/x" else [])
    staged.discard(tree)
    staged = stage_file(tree, write(path), areas)  # it was not there when it was looked at
    assert os.listxattr(staged.descriptor) == []
    staged.discard(tree)


def test_attributes_of_a_stranger_s_file_are_not_kept_also_where_only_root_writes(
    tree: Tree, areas: Areas, root: Path
) -> None:
    (root / "x").write_text("old")
    os.setxattr(root / "x", "user.note", b"hers")
    os.chown(root / "x", EVE, EVE)
    staged = stage_file(tree, write(kind=Kind.FILE), areas)
    assert os.listxattr(staged.descriptor) == []
    staged.discard(tree)


def test_the_powers_of_a_program_are_not_kept_and_everything_else_is(
    tree: Tree, areas: Areas, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "x").write_text("old")
    names = ["security.capability", "user.a", "user.bad", "user.c"]
    kept: list[str] = []

    def setting(_: int, name: str, value: bytes) -> None:
        assert value == name.encode()
        if name == "user.bad":
            full()
        kept.append(name)

    monkeypatch.setattr(os, "listxattr", lambda _: names)
    monkeypatch.setattr(os, "getxattr", lambda _, name: name.encode())
    monkeypatch.setattr(os, "setxattr", setting)
    stage_file(tree, write(kind=Kind.FILE), areas).discard(tree)
    assert kept == ["user.a", "user.c"]


@pytest.mark.parametrize(
    ("number", "said"), [(errno.ENOTSUP, ""), (errno.EIO, "cannot keep the attributes of /x: Input/output")]
)
def test_attributes_that_cannot_be_listed_are_told_unless_there_are_none(
    tree: Tree, areas: Areas, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any, number: int, said: str
) -> None:
    def failing(_: int) -> list[str]:
        raise OSError(number, os.strerror(number))

    (root / "x").write_text("old")
    monkeypatch.setattr(os, "listxattr", failing)
    stage_file(tree, write(kind=Kind.FILE), areas).discard(tree)
    assert said in caplog.text
    assert bool(said) is bool(caplog.text)


@pytest.mark.parametrize("there", ["nothing", "link", "no such call"])
def test_an_old_file_that_is_none_any_more_has_no_attributes(
    tree: Tree, areas: Areas, root: Path, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    if there == "link":
        (root / "x").symlink_to("/etc/passwd")
    elif there == "no such call":
        monkeypatch.delattr(os, "listxattr")
    staged = stage_file(tree, write(kind=Kind.FILE), areas)
    staged.commit(tree)
    staged.close()
    assert (root / "x").read_text() == "new"


def test_what_a_killed_pass_left_is_swept_and_counted(tree: Tree, root: Path) -> None:
    (root / ".nodemanager-file").write_text("staged")
    (root / ".nodemanager-link").symlink_to("/etc")
    (root / ".nodemanager-own").mkdir(mode=0o700)
    (root / ".nodemanager-own/.nodemanager-1").write_text("staged")
    (root / ".nodemanager-full").mkdir(mode=0o700)
    (root / ".nodemanager-full/precious").write_text("somebody's")
    (root / "nodemanager-x").write_text("not ours")
    assert staging.sweep(tree, "/") == (3, 0)
    assert sorted(one.name for one in root.iterdir()) == [".nodemanager-full", "hers", "nodemanager-x"]
    assert staging.sweep(tree, "/nothing") == (0, 0)


@pytest.mark.parametrize(("owner", "mode"), [(EVE, 0o700), (0, 0o755), (0, 0o1700)])
def test_what_only_looks_like_a_private_folder_is_not_emptied(
    tree: Tree, root: Path, owner: int, mode: int
) -> None:
    folder = root / ".nodemanager-1"
    folder.mkdir()
    (folder / ".nodemanager-2").write_text("hers")
    os.chown(folder, owner, owner)
    folder.chmod(mode)
    assert staging.sweep(tree, "/") == (0, 0)
    assert (folder / ".nodemanager-2").exists()
