"""What is heard of paths: files, what is above them, what is not there; in a real tree."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.root_tree import needs_root
from support.watched import Watched

pytestmark = needs_root
FILE = "/etc/app/conf"


def plant(root: Path) -> Path:
    (root / "etc/app").mkdir(parents=True)
    (root / "etc/app/conf").write_text("one")
    return root / "etc/app/conf"


def replace(file: Path) -> None:
    fresh = file.with_name("fresh")
    fresh.write_text("other")
    fresh.rename(file)


def replace_parent(file: Path) -> None:
    file.parent.rename(file.parents[1] / "old")
    file.parent.mkdir()
    file.write_text("other")


def replace_grandparent(file: Path) -> None:
    file.parents[1].rename(file.parents[2] / "old")
    file.parent.mkdir(parents=True)
    file.write_text("other")


DEEDS: dict[str, Callable[[Path], object]] = {
    "write": lambda file: file.write_text("two"),
    "chmod": lambda file: file.chmod(0o600),
    "chown": lambda file: os.chown(file, 7, 7),
    "unlink": lambda file: file.unlink(),
    "replaced": replace,
    "linked elsewhere": lambda file: file.with_name("second").hardlink_to(file),
    "parent removed": lambda file: shutil.rmtree(file.parent),
    "parent replaced": replace_parent,
    "grandparent replaced": replace_grandparent,
    "moved away": lambda file: file.rename(file.with_name("elsewhere")),
}


@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)
async def test_a_change_is_heard_and_so_is_the_next_one(
    tmp_path: Path, deed: Callable[[Path], object]
) -> None:
    file = plant(tmp_path)
    async with Watched(tmp_path, FILE) as watched:
        deed(file)
        assert await watched.paths() == {FILE}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("there again")
        assert await watched.paths() == {FILE}
        file.chmod(0o640)
        assert await watched.paths() == {FILE}
        replace(file)
        assert await watched.paths() == {FILE}
        file.write_text("and again")
        assert await watched.paths() == {FILE}


async def test_what_somebody_writes_without_closing_is_heard(tmp_path: Path) -> None:
    file = plant(tmp_path)
    async with Watched(tmp_path, FILE) as watched:
        with file.open("a") as opened:
            opened.write("more")
            opened.flush()
            assert await watched.paths() == {FILE}


async def test_what_is_absent_is_heard_of_when_it_comes(tmp_path: Path) -> None:
    path = "/var/lib/deep/down/file"
    async with Watched(tmp_path, path) as watched:
        watched.at("/var").mkdir()
        assert await watched.paths() == {path}
        watched.at("/else").mkdir()
        assert await watched.paths() == set()
        watched.at("/var/lib/deep/down").mkdir(parents=True)
        assert await watched.paths() == {path}
        watched.at(path).symlink_to("nowhere")
        assert await watched.paths() == {path}


async def test_both_ends_of_a_link_on_the_way_are_watched(tmp_path: Path) -> None:
    plant(tmp_path)
    (tmp_path / "opt").symlink_to("/etc")
    path = "/opt/app/conf"
    async with Watched(tmp_path, path) as watched:
        watched.at(FILE).write_text("two")
        assert await watched.paths() == {path}
        watched.at("/else/app").mkdir(parents=True)
        watched.at("/fresh").symlink_to("else")
        watched.at("/fresh").rename(watched.at("/opt"))
        assert await watched.paths() == {path}
        watched.at(FILE).write_text("three")
        assert await watched.paths() == set()
        watched.at("/else/app/conf").write_text("here now")
        assert await watched.paths() == {path}
        os.lchown(watched.at("/opt"), 7, 7)
        assert await watched.paths() == {path}


async def test_new_entries_matter_only_to_a_directory_that_is_purged(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "purged").mkdir()
    purged = {"path": "/purged", "ensure": "directory", "purge": True}
    async with Watched(tmp_path, purged, {"path": "/kept", "ensure": "directory"}) as watched:
        watched.at("/kept/new").write_text("")
        watched.at("/purged/.nodemanager-staged").write_text("ours")
        assert await watched.paths() == set()
        watched.at("/purged/new").write_text("")
        assert await watched.paths() == {"/purged"}
        watched.at("/kept").chmod(0o700)
        assert await watched.paths() == {"/kept"}


async def test_owners_names_concern_the_files_that_have_them(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("")
    named, group = {"path": "/named", "owner": "app"}, {"path": "/group", "group": "app"}
    async with Watched(tmp_path, named, group, {"path": "/plain", "owner": "7"}) as watched:
        watched.at("/etc/passwd").write_text("app:x:7:7::/:/bin/sh\n")
        assert await watched.paths() == {"/named"}
        watched.at("/etc/group").write_text("app:x:7:\n")
        assert await watched.paths() == {"/group"}


async def test_what_is_declared_anew_is_told_of_once(tmp_path: Path) -> None:
    async with Watched(tmp_path, "/a", "/b") as watched:
        assert {one.name for one in (await watched.follow("/a", "/c")).resources} == {"/c"}
        assert (await watched.follow("/a", "/c")).resources == frozenset()
        watched.at("/b").write_text("nobody's any more")
        watched.at("/c").write_text("")
        assert await watched.paths() == {"/c"}


async def test_nothing_is_left_of_what_is_no_longer_declared(tmp_path: Path) -> None:
    plant(tmp_path)
    async with Watched(tmp_path) as watched:
        before = watches()
        await watched.follow(FILE, "/var/lib/none", "/etc/app")
        assert watches() > before
        replace_parent(watched.at(FILE))
        await watched.follow(FILE)
        await watched.follow()
        assert watches() == before


def watches() -> int:
    """Return how many inodes this process watches, as the kernel says."""
    found = 0
    for one in Path("/proc/self/fdinfo").iterdir():
        try:
            found += one.read_text().count("\ninotify wd:")
        except OSError:
            continue
    return found


@contextlib.contextmanager
def no_more_files() -> Iterator[None]:
    """Nothing can be opened in here."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("moved", ["file", "folder"])
async def test_what_changes_while_nothing_can_be_opened_is_watched_again_after_it(
    tmp_path: Path, moved: str
) -> None:
    file = plant(tmp_path)
    shutil.copytree(tmp_path / "etc", tmp_path / "new")
    async with Watched(tmp_path, FILE) as watched:
        with no_more_files():
            if moved == "file":
                (tmp_path / "new/app/conf").rename(file)
            else:
                (tmp_path / "etc").rename(tmp_path / "old")
                (tmp_path / "new").rename(tmp_path / "etc")
            assert await watched.paths() == {FILE}
        [said] = watched.watch.shortfalls
        assert " not watched: " in said
        assert FILE in {one.name for one in (await watched.follow(FILE)).resources}
        assert watched.watch.shortfalls == ()
        file.write_text("two")
        assert await watched.paths() == {FILE}
        assert not (await watched.follow(FILE)).resources
