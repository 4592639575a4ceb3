"""Whatever happens to a tree, whoever would see something else now is told to look."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodemanager.host.files import file_facts
from nodemanager.host.files.file_facts import DigestCache
from nodemanager.host.files.tree import Tree
from nodemanager.plan.facts import NOBODY, FileFact, Kind
from support import examples
from support.root_tree import needs_root
from support.watched import Watched

pytestmark = [needs_root, pytest.mark.timeout(300)]
MANAGED = ("/", "/a", "/a/x", "/a/x/z", "/a/y", "/b/x", "/l/x/z", "/m/y", "/n/deep/er/x")
PLACES = ("a", "b", "l", "a/x", "a/y", "a/x/z", "b/x", "n/deep", "else")
TARGETS = ("a", "b", "/a", "/n/deep/er", "../a", "l", "none", "x")

places = st.sampled_from(PLACES)
operations = st.one_of(
    st.tuples(st.just("write"), places, st.sampled_from(("one", "two", ""))),
    st.tuples(st.just("append"), places, st.just("more")),
    st.tuples(st.just("chmod"), places, st.sampled_from(("755", "777", "600"))),
    st.tuples(st.just("chown"), places, st.sampled_from(("0", "7"))),
    st.tuples(st.just("mkdir"), places, st.just("")),
    st.tuples(st.just("remove"), places, st.just("")),
    st.tuples(st.just("symlink"), places, st.sampled_from(TARGETS)),
    st.tuples(st.just("swap"), places, st.sampled_from(TARGETS)),
    st.tuples(st.just("rename"), places, places),
    st.tuples(st.just("link"), places, places),
)


def append(place: Path, text: str) -> None:
    """Write to the end of a file."""
    with place.open("a") as file:
        file.write(text)


def remove(place: Path) -> None:
    """Remove whatever is there."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink()


def swap(fresh: Path, place: Path, target: str) -> None:
    """Put a link in place of what is there."""
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.rename(place)


DEEDS: dict[str, Callable[[Path, Path, str], object]] = {
    "write": lambda _, place, value: place.write_text(value),
    "append": lambda _, place, value: append(place, value),
    "chmod": lambda _, place, value: place.chmod(int(value, 8)),
    "chown": lambda _, place, value: os.lchown(place, int(value), -1),
    "mkdir": lambda _, place, _value: place.mkdir(parents=True),
    "remove": lambda _, place, _value: remove(place),
    "symlink": lambda _, place, value: place.symlink_to(value),
    "swap": lambda root, place, value: swap(root / "fresh", place, value),
    "rename": lambda root, place, value: place.rename(root / value),
    "link": lambda root, place, value: (root / value).hardlink_to(place),
}


def attempt(root: Path, operation: tuple[str, str, str]) -> None:
    """Do something, if it can be done, and nothing outside of the root."""
    what, where, value = operation
    place = root / where
    inside = os.path.realpath(place.parent).startswith(str(root)) and os.path.realpath(place).startswith(
        str(root)
    )
    if inside or what in ("swap", "symlink", "remove"):
        with contextlib.suppress(OSError, RuntimeError, shutil.Error):
            DEEDS[what](root, place, value)


def look(tree: Tree) -> dict[str, FileFact]:
    """Return what is at each path; nobody cares how many directories are in one, nor who could."""
    tree.forget()
    facts = {path: file_facts.observe(tree, path, None, DigestCache()) for path in MANAGED}
    digests = {
        path: tree_content(tree, path) if fact.kind is Kind.FILE else "" for path, fact in facts.items()
    }
    return {
        path: replace(
            fact, digest=digests[path], links=1 if fact.kind is Kind.DIRECTORY else fact.links, writer=NOBODY
        )
        for path, fact in facts.items()
    }


def tree_content(tree: Tree, path: str) -> str:
    """Return the digest of a file of any size."""
    opened = file_facts.open_file(tree.place(path))
    try:
        return file_facts.hash_descriptor(opened)
    finally:
        os.close(opened)


def plant(root: Path) -> None:
    """Make a tree with everything in it, so that most operations have something to work on."""
    for folder in ("a/x", "b", "n/deep/er"):
        (root / folder).mkdir(parents=True)
    for file in ("a/x/z", "a/y", "b/x", "n/deep/er/x", "else"):
        (root / file).write_text(file)
    (root / "l").symlink_to("a")
    (root / "m").symlink_to("/l")


async def check(root: Path, steps: list[list[tuple[str, str, str]]]) -> None:
    """Do what is to be done, in batches, and look after each."""
    plant(root)
    tree = Tree(str(root))
    async with Watched(root, *MANAGED) as watched:
        before = look(tree)
        for batch in steps:
            for operation in batch:
                attempt(root, operation)
            touched = await watched.paths()
            now = look(tree)
            differing = {path for path in MANAGED if before[path] != now[path]}
            assert differing <= touched, (differing - touched, batch)
            before = now
    tree.close()


@settings(max_examples=examples.some(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(st.lists(operations, min_size=1, max_size=4), min_size=1, max_size=12))
def test_whoever_sees_something_else_is_told(steps: list[list[tuple[str, str, str]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder).resolve(), steps))
