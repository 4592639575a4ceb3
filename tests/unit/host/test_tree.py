"""The walk to a directory: what is followed, who can exchange what is reached, what is made on the way."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.files import tree as tree_module
from nodemanager.host.files.tree import (
    MAX_LINKS,
    MAX_OPEN,
    NoParent,
    Obstructed,
    Tree,
    TreeError,
    is_running,
    make_folder,
)
from nodemanager.plan.facts import ANYBODY, NOBODY
from support.descriptors import held_open, none_left_open
from support.root_tree import needs_root

pytestmark = needs_root
EVE, BOB = 1000, 1001


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir(mode=0o755)
    return made


@pytest.fixture
def tree(root: Path) -> Iterator[Tree]:
    with none_left_open(root):
        found = Tree(str(root))
        yield found
        found.close()


def folder(path: Path, owner: int = 0, mode: int = 0o755) -> Path:
    path.mkdir(parents=True)
    os.chown(path, owner, owner)
    path.chmod(mode)
    return path


def where(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def test_a_path_is_a_name_in_an_open_directory(tree: Tree, root: Path) -> None:
    folder(root / "a/b")
    place = tree.place("/a/b/c/")
    assert (where(place.folder), place.name, place.path) == (str(root / "a/b"), "c", "/a/b/c/")
    assert place.writer == NOBODY
    assert where(tree.place("/x").folder) == str(root)
    assert where(tree.folder("/a/./b//")) == str(root / "a/b")


@pytest.mark.parametrize("path", ["", "/", "//", "x", "a/b", "/a/.", "/a/..", "/..", "/."])
def test_what_names_no_entry_of_a_directory_is_refused(tree: Tree, root: Path, path: str) -> None:
    folder(root / "a")
    with pytest.raises(TreeError, match="it names no entry of a directory") as caught:
        tree.place(path)
    assert caught.value.errno == errno.EINVAL


def test_a_root_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("nothing", "file"):
        with pytest.raises(TreeError, match=f"cannot use root {tmp_path}/{name}: "):
            Tree(str(tmp_path / name))


def test_paths_have_a_name_outside_of_the_root(tree: Tree, root: Path) -> None:
    assert tree.outside("/x") == f"{root}/x"
    whole = Tree()
    assert whole.outside("/x") == "/x"
    whole.close()
    whole.close()  # once more is no harm


def test_which_root_is_that_of_the_running_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_running("/")
    assert not is_running(str(tmp_path))
    assert not is_running(str(tmp_path / "nothing"))
    # What PID 1 has for its root not everybody may see.
    monkeypatch.setattr(Path, "samefile", lambda _, other: other == "/proc/1/root")
    assert is_running(str(tmp_path))


def test_a_directory_on_the_way_that_is_missing_is_told(tree: Tree) -> None:
    with pytest.raises(NoParent, match="cannot reach /a/b: a does not exist"):
        tree.place("/a/b/c")


@pytest.mark.parametrize("make", [False, True])
def test_what_is_in_the_way_is_told(tree: Tree, root: Path, make: bool) -> None:
    (root / "file").write_text("")
    os.mkfifo(root / "pipe")
    for name in ("file", "pipe"):
        with pytest.raises(Obstructed, match=f"cannot reach /{name}: {name} is not a directory"):
            tree.place(f"/{name}/x", make_parents=make)
    long = "n" * 300
    with pytest.raises(Obstructed, match=f"cannot reach /{long}: File name too long"):
        tree.place(f"/{long}/x", make_parents=make)


@pytest.mark.parametrize(("call", "name"), [("readlink", "l"), ("stat", "f")])
def test_what_cannot_be_looked_at_is_in_the_way_too(
    tree: Tree, root: Path, monkeypatch: pytest.MonkeyPatch, call: str, name: str
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (root / "l").symlink_to("/")
    (root / "f").write_text("")
    monkeypatch.setattr(os, call, failing)
    with pytest.raises(Obstructed, match=f"cannot reach /{name}: Input/output error"):
        tree.folder(f"/{name}")


def test_up_leads_no_further_than_the_root(tree: Tree, root: Path) -> None:
    folder(root / "a/b")
    assert where(tree.folder("/a/b/..")) == str(root / "a")
    assert where(tree.folder("/a/b/../..")) == str(root)
    assert where(tree.folder("/../../a")) == str(root / "a")


@pytest.mark.parametrize("target", ["/a/b", "../a/b", "../../../a/b", "./../a//b/.", "/../a/b"])
def test_links_of_root_s_lead_where_they_would_lead_in_the_root(tree: Tree, root: Path, target: str) -> None:
    folder(root / "a/b")
    folder(root / "deep")
    (root / "deep/link").symlink_to(target)
    assert where(tree.folder("/deep/link")) == str(root / "a/b")
    tree.forget()
    assert where(tree.place("/deep/link/x").folder) == str(root / "a/b")


def test_an_absolute_link_begins_at_the_root_wherever_it_is(tree: Tree, root: Path) -> None:
    folder(root / "one/two/three")
    folder(root / "x")
    (root / "one/two/three/link").symlink_to("/x")
    assert where(tree.folder("/one/two/three/link/..")) == str(root)


def test_so_many_links_are_followed_and_no_more(tree: Tree, root: Path) -> None:
    folder(root / "l0")
    for number in range(1, MAX_LINKS + 2):
        (root / f"l{number}").symlink_to(f"l{number - 1}")
    assert where(tree.folder(f"/l{MAX_LINKS}")) == str(root / "l0")
    with pytest.raises(Obstructed, match="too many links lead to each other"):
        tree.folder(f"/l{MAX_LINKS + 1}")


@pytest.mark.parametrize(
    ("of", "above", "mode", "why"),
    [
        pytest.param(EVE, 0, 0o755, "made by user 1000", id="hers, in root's"),
        pytest.param(0, EVE, 0o755, "in a directory that others may change", id="root's, in hers"),
        pytest.param(0, EVE, 0o1777, "in a directory that others may change", id="root's, in hers, sticky"),
        pytest.param(0, 0, 0o775, "in a directory that others may change", id="a group may write"),
        pytest.param(0, 0, 0o757, "in a directory that others may change", id="others may write"),
        pytest.param(0, 0, 0o1777, "", id="sticky"),
        pytest.param(EVE, 0, 0o1777, "made by user 1000", id="hers, where all may write"),
        pytest.param(0, 0, 0o700, "", id="root's, in root's"),
    ],
)
def test_only_a_link_that_nobody_else_can_have_put_there_is_followed(
    tree: Tree, root: Path, of: int, above: int, mode: int, why: str
) -> None:
    folder(root / "target")
    link = folder(root / "d", above, mode) / "link"
    link.symlink_to("/target")
    os.lchown(link, of, of)
    if why:
        with pytest.raises(Obstructed, match=f"link is a link {why}, which is not followed; remove it"):
            tree.folder("/d/link")
    else:
        assert where(tree.folder("/d/link")) == str(root / "target")


@pytest.mark.parametrize(
    ("way", "writer"),
    [
        pytest.param([(0, 0o755)], NOBODY, id="root's"),
        pytest.param([(EVE, 0o755)], EVE, id="hers"),
        pytest.param([(0, 0o775)], ANYBODY, id="a group's"),
        pytest.param([(0, 0o757)], ANYBODY, id="everybody's"),
        pytest.param([(0, 0o1777)], ANYBODY, id="sticky, where it ends"),
        pytest.param([(0, 0o1777), (0, 0o755)], NOBODY, id="sticky, on the way"),
        pytest.param([(0, 0o777), (0, 0o755)], ANYBODY, id="everybody's, on the way"),
        pytest.param([(EVE, 0o755), (0, 0o755)], EVE, id="hers, on the way"),
        pytest.param([(EVE, 0o700), (EVE, 0o700)], EVE, id="hers, all of it"),
        pytest.param([(EVE, 0o755), (BOB, 0o755)], ANYBODY, id="of two"),
        pytest.param([(EVE, 0o1777), (0, 0o755)], EVE, id="hers, sticky: she may all the same"),
    ],
)
def test_who_can_exchange_what_is_at_a_path(
    tree: Tree, root: Path, way: list[tuple[int, int]], writer: int
) -> None:
    path = root
    for number, (owner, mode) in enumerate(way):
        path = folder(path / f"d{number}", owner, mode)
    assert tree.place(f"/{path.relative_to(root)}/x").writer == writer


def test_somebody_who_is_not_root_trusts_root_and_herself(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, owner in (("roots", 0), ("hers", EVE), ("his", BOB)):
        folder(root / name, owner)
    monkeypatch.setattr(os, "geteuid", lambda: EVE)
    tree = Tree(str(root))
    assert [tree.place(f"/{one}/x").writer for one in ("roots", "hers", "his")] == [NOBODY, NOBODY, BOB]
    tree.close()


def test_the_root_itself_counts(root: Path) -> None:
    folder(root / "d")
    os.chown(root, EVE, EVE)
    tree = Tree(str(root))
    assert tree.place("/d/x").writer == tree.place("/x").writer == EVE
    tree.close()


def test_directories_stay_open_until_they_are_forgotten_and_not_too_many(tree: Tree, root: Path) -> None:
    for number in range(MAX_OPEN + 20):
        folder(root / f"d{number}")
    first = tree.folder("/d0")
    assert tree.folder("/d0") == first
    for number in range(1, MAX_OPEN):
        tree.folder(f"/d{number}")
        assert tree.folder("/d0") == first  # what is used stays
    for number in range(MAX_OPEN, MAX_OPEN + 20):
        tree.folder(f"/d{number}")
    below = [name for _, name in held_open() if name.startswith(f"{root}/")]
    assert len(below) == MAX_OPEN
    assert f"{root}/d0" in below
    assert f"{root}/d1" not in below
    tree.forget()
    assert not [name for _, name in held_open() if name.startswith(f"{root}/")]
    (root / "d0").rename(root / "moved")
    with pytest.raises(NoParent):
        tree.folder("/d0")


def test_a_walk_is_the_caller_s_to_close_and_tells_every_name(tree: Tree, root: Path) -> None:
    folder(root / "a/b")
    (root / "l").symlink_to("a")
    seen: list[tuple[str, str, bool]] = []
    opened = tree.walk("/l/../l/b", lambda here, name, link: seen.append((where(here), name, link)))
    assert where(opened) == str(root / "a/b")
    os.close(opened)
    r, a = str(root), str(root / "a")
    step = [(r, "l", False), (r, "l", True), (r, "a", False)]
    assert seen == [*step, *step, (a, "b", False)]


def test_a_directory_is_opened_for_reading_and_closed(tree: Tree, root: Path) -> None:
    folder(root / "d/e")
    with tree.readable(tree.folder("/d")) as opened:
        assert [entry.name for entry in os.scandir(opened)] == ["e"]
        os.fsync(opened)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_parents_are_made_of_root_s_and_for_all_to_enter(tree: Tree, root: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        place = tree.place("/a/b/c", make_parents=True)
    finally:
        os.umask(before)
    assert where(place.folder) == str(root / "a/b")
    for made in (root / "a", root / "a/b"):
        assert (made.stat().st_uid, stat.S_IMODE(made.stat().st_mode)) == (0, 0o755)
    assert not (root / "a/b/c").exists()


def test_a_directory_that_somebody_else_makes_at_the_same_moment_is_used(
    tree: Tree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faster(above: int, name: str, *args: Any, **kwargs: Any) -> int:
        monkeypatch.undo()
        (root / "a").mkdir()
        return make_folder(above, name, *args, **kwargs)

    monkeypatch.setattr(tree_module, "make_folder", faster)
    place = tree.place("/a/b/c", make_parents=True)  # and what is below of it is made all the same
    assert where(place.folder) == str(root / "a/b")


def test_a_link_into_nothing_is_not_made_to_lead_somewhere_by_force(tree: Tree, root: Path) -> None:
    (root / "l").symlink_to("nothing")
    assert where(tree.folder("/l", make=True)) == str(root / "nothing")
    tree.forget()
    folder(root / "hers", EVE)
    (root / "hers/l").symlink_to("/elsewhere")
    with pytest.raises(Obstructed, match="which is not followed"):
        tree.folder("/hers/l", make=True)
    assert not (root / "elsewhere").exists()


def test_a_parent_that_cannot_be_made_is_told(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(Obstructed, match="cannot make /a: No space left on device"):
        tree.place("/a/b", make_parents=True)


@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_where_others_write_a_directory_has_its_owner_before_its_name(
    tree: Tree, root: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """In between she could exchange it, and be given what was meant for another."""
    folder(root / "d", 0 if mode & 0o022 else EVE, mode)
    real, names = os.mkdir, []

    def spying(name: str, *args: Any, **kwargs: Any) -> None:
        names.append(name)
        real(name, *args, **kwargs)

    monkeypatch.setattr(os, "mkdir", spying)
    tree.place("/d/new/x", make_parents=True)
    assert "new" not in names
    assert all(name.startswith(".nodemanager-") for name in names)
    assert [one.name for one in (root / "d").iterdir()] == ["new"]


def test_below_of_her_directory_a_parent_is_made_the_careful_way_too(
    tree: Tree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(root / "hers", EVE)
    folder(root / "hers/root_s")
    writers: list[int] = []

    def spying(*args: Any, writer: int, **kwargs: Any) -> int:
        writers.append(writer)
        return make_folder(*args, writer=writer, **kwargs)

    monkeypatch.setattr(tree_module, "make_folder", spying)
    tree.place("/hers/root_s/new/x", make_parents=True)
    tree.place("/plain/x", make_parents=True)
    assert writers == [EVE, NOBODY]


@pytest.mark.parametrize("writer", [NOBODY, EVE])
def test_a_directory_is_made_with_owner_and_mode(root: Path, writer: int) -> None:
    above = os.open(root, os.O_RDONLY)
    with none_left_open(root / "x"):
        made = make_folder(above, "x", 0o2750, 7, 8, writer=writer)
        assert where(made) == str(root / "x")
        os.close(made)
        os.close(make_folder(above, "g", 0o755, gid=9, writer=writer))
        os.close(make_folder(above, "u", 0o755, uid=9, writer=writer))
    os.close(above)
    found = {name: (root / name).stat() for name in "xgu"}
    assert {name: (one.st_uid, one.st_gid, stat.S_IMODE(one.st_mode)) for name, one in found.items()} == {
        "x": (7, 8, 0o2750), "g": (0, 9, 0o755), "u": (9, 0, 0o755),
    }  # fmt: skip
    assert len(list(root.iterdir())) == 3


@pytest.mark.parametrize("writer", [NOBODY, EVE])
@pytest.mark.parametrize("there", ["full", "file", "link"])
def test_what_is_there_already_stays(root: Path, writer: int, there: str) -> None:
    if there == "full":
        folder(root / "x/y")
    elif there == "file":
        (root / "x").write_text("")
    else:
        (root / "x").symlink_to("/")
    above = os.open(root, os.O_RDONLY)
    try:
        with none_left_open(root), pytest.raises(FileExistsError):
            make_folder(above, "x", 0o777, 7, 7, writer=writer)
    finally:
        os.close(above)
    assert [one.name for one in root.iterdir()] == ["x"]
    assert (root / "x").lstat().st_uid == 0


@pytest.mark.parametrize(("writer", "call"), [(NOBODY, "fchown"), (EVE, "fchown"), (EVE, "rename")])
def test_a_directory_that_could_not_be_finished_leaves_nothing_open(
    root: Path, monkeypatch: pytest.MonkeyPatch, writer: int, call: str
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    above = os.open(root, os.O_RDONLY)
    monkeypatch.setattr(os, call, full)
    try:
        with none_left_open(root), pytest.raises(OSError, match="quota"):
            make_folder(above, "x", 0o755, 7, 7, writer=writer)
    finally:
        os.close(above)
    assert not [one for one in root.iterdir() if one.name.startswith(".nodemanager-")]


def test_a_directory_never_has_more_than_its_mode_not_even_for_a_moment(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    real = os.fchmod

    def spying(opened: int, mode: int) -> None:
        seen.append(stat.S_IMODE(os.fstat(opened).st_mode))
        real(opened, mode)

    monkeypatch.setattr(os, "fchmod", spying)
    above = os.open(root, os.O_RDONLY)
    os.close(make_folder(above, "x", 0o2700))
    os.close(above)
    assert seen == [0o700]


def test_a_link_in_the_place_of_a_new_directory_is_not_opened(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(root / "root_s", mode=0o700)
    real = os.mkdir

    def exchanging(name: str, *args: Any, **kwargs: Any) -> None:
        real(name, *args, **kwargs)
        (root / name).rmdir()
        (root / name).symlink_to("root_s")

    monkeypatch.setattr(os, "mkdir", exchanging)
    above = os.open(root, os.O_RDONLY)
    with pytest.raises(NotADirectoryError):
        make_folder(above, "x", 0o777, EVE, EVE)
    os.close(above)
    assert (root / "root_s").stat().st_uid == 0
