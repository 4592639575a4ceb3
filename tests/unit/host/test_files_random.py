"""Any declarations over any tree: what is reported done is done, a second pass has nothing to do."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodemanager.plan.steps import changes
from support import examples
from support.root_tree import RootTree, config_set, needs_root, outcomes

pytestmark = [needs_root, pytest.mark.timeout(300)]
PATHS = ("/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/z", "/c")
STRANGERS = ("/stranger", "/dir/stranger")
TEXTS = ("", "one", "two")
TARGETS = ("z", "none", "w/w")
"""Of links: relative, so that this test may follow them."""
OWNERS = ("", "0", "7")

declarations = st.fixed_dictionaries(
    {"path": st.sampled_from(PATHS), "ensure": st.sampled_from(("file", "directory", "symlink", "absent"))},
    optional={
        "content": st.sampled_from(TEXTS),
        "owner": st.sampled_from(OWNERS),
        "group": st.sampled_from(OWNERS),
        "mode": st.sampled_from(("", "0600", "0755", "04711", "01777")),
        "target": st.sampled_from(TARGETS),
        "create_only": st.booleans(),
        "purge": st.booleans(),
    },
)
things = st.one_of(
    st.sampled_from(TEXTS).map(lambda text: ("file", text)),
    st.just(("directory", "")),
    st.sampled_from(TARGETS).map(lambda target: ("link", target)),
    st.just(("pipe", "")),
)
trees = st.dictionaries(st.sampled_from(PATHS), st.tuples(things, st.sampled_from((0, 1000))), max_size=6)


def _above(host: RootTree, place: Path) -> list[Path]:
    return [one for one in place.parents if one.is_relative_to(host.path)]


def target_of(path: str, target: str) -> str:
    """Return a target that no other link has: with two ways to one path, two declarations could fight."""
    return target + path.replace("/", "-")


def plant(host: RootTree, tree: dict[str, tuple[tuple[str, str], int]]) -> None:
    """Make what can be made of a random tree."""
    for path, ((kind, value), owner) in sorted(tree.items()):
        place = host.at(path)
        if any(above.is_symlink() or not above.is_dir() for above in _above(host, place)):
            continue
        if kind == "file":
            place.write_text(value)
        elif kind == "directory":
            place.mkdir()
        elif kind == "link":
            place.symlink_to(target_of(path, value))
        else:
            os.mkfifo(place)
        os.lchown(place, owner, owner)
    for path in STRANGERS:
        host.at(path).parent.mkdir(exist_ok=True)
        host.at(path).write_text("untouched")


def spec(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make declarations such as the API would accept."""
    unique = {one["path"]: dict(one) for one in drawn}
    for one in unique.values():
        if one["ensure"] == "symlink":
            one["target"] = target_of(one["path"], one.get("target", "x"))
            one.pop("create_only", None)
    return list(unique.values())


def picture(root: Path) -> dict[str, tuple[object, ...]]:
    """Return everything below a root but what is ours."""
    found: dict[str, tuple[object, ...]] = {}
    for path in root.rglob("*"):
        if path.relative_to(root).parts[0] == "var":
            continue
        state = path.lstat()
        what = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        found[f"/{path.relative_to(root)}"] = (state.st_mode, state.st_uid, state.st_gid, what)
    return found


def holds(host: RootTree, one: dict[str, Any]) -> bool:
    """Tell whether a declaration is true now, by looking with nothing of ours."""
    place, ensure = host.at(one["path"]), one["ensure"]
    if ensure == "absent":
        return not os.path.lexists(place)
    state = place.lstat()
    owner, group = one.get("owner", ""), one.get("group", "")
    files = ensure == "file"
    right = (not owner and not files) or state.st_uid == int(owner or 0)
    right = right and ((not group and not files) or state.st_gid == int(group or 0))
    if ensure == "symlink":
        return right and place.is_symlink() and str(place.readlink()) == one["target"]
    if one.get("mode"):
        right = right and stat.S_IMODE(state.st_mode) == int(one["mode"], 8)
    if ensure == "directory":
        return right and stat.S_ISDIR(state.st_mode)
    return right and stat.S_ISREG(state.st_mode) and place.read_text() == one.get("content", "")


@settings(max_examples=examples.some(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(trees, st.lists(declarations, min_size=1, max_size=6))
def test_one_pass_makes_it_so_and_the_next_changes_nothing(
    tree: dict[str, tuple[tuple[str, str], int]], drawn: list[dict[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        host = RootTree(Path(folder).resolve())
        plant(host, tree)
        before, files = picture(host.path), spec(drawn)
        declared = config_set("a", files=files)
        results = outcomes(asyncio.run(host.converge(declared)))
        after = picture(host.path)
        for one in files:
            done = results[f"file:{one['path']}"] in ("changed", "unchanged")
            if done and not (one.get("create_only") and one["path"] in before):
                assert holds(host, one), one
        again = host.plan(declared)
        failed = {name for name, outcome in results.items() if outcome in ("failed", "blocked")}
        assert [one for one in changes(again) if str(one.id) not in failed] == []
        asyncio.run(host.converge(declared))
        assert failed or picture(host.path) == after
        for path in STRANGERS:
            assert after[path] == before[path]
        assert host.leftovers() == []
        host.tree.close()
