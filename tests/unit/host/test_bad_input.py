"""What cannot be done says so, with what to do about it; everything else is done."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.root_tree import RootTree, config_set, failure, needs_root, outcomes

pytestmark = needs_root
File = dict[str, Any]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RootTree]:
    root = tmp_path / "root"
    root.mkdir()
    found = RootTree(root)
    yield found
    assert found.leftovers() == []
    found.tree.close()


def _below_a_file(host: RootTree) -> None:
    host.at("/f").write_text("untouched")


def _pipe(host: RootTree) -> None:
    os.mkfifo(host.at("/f"))


def _device(host: RootTree) -> None:
    os.mknod(host.at("/f"), stat.S_IFCHR | 0o600, os.makedev(1, 3))


def _socket(host: RootTree) -> None:
    with contextlib.chdir(host.path), socket.socket(socket.AF_UNIX) as made:
        made.bind("f")


def _loop(host: RootTree) -> None:
    host.at("/f").symlink_to("g")
    host.at("/g").symlink_to("f")


def _full_directory(host: RootTree) -> None:
    host.at("/f").mkdir()
    host.at("/f/x").write_text("untouched")


@pytest.mark.parametrize(
    ("prepare", "file", "said"),
    [
        (None, {"owner": "nix"}, "this host has no user 'nix'; create it, or correct owner"),
        (None, {"group": "nix"}, "this host has no group 'nix'; create it, or correct group"),
        (_below_a_file, {"path": "/f/x"}, "f is not a directory"),
        (_below_a_file, {"path": "/f/x", "ensure": "directory"}, "f is not a directory"),
        (_below_a_file, {"ensure": "directory"}, "move it out of the way"),
        (_pipe, {}, "it is a device, socket or pipe; move it out of the way"),
        (_pipe, {"path": "/f/x"}, "f is not a directory"),
        (_device, {}, "it is a device, socket or pipe; move it out of the way"),
        (_socket, {}, "it is a device, socket or pipe; move it out of the way"),
        (_loop, {"path": "/f/x"}, "too many links lead to each other"),
        (_full_directory, {}, "it is a directory; move it out of the way"),
        (_full_directory, {"ensure": "absent"}, "the directory is not empty: remove its content first"),
        (_full_directory, {"ensure": "symlink", "target": "x"}, "it is a directory; move it out of the way"),
        (None, {"path": "/" + "n" * 256}, "File name too long"),
        (None, {"path": "/" + "n" * 256 + "/x"}, "File name too long"),
        (None, {"validate": {"command": "/none"}}, "/none (or the interpreter its first line names)"),
    ],
)
async def test_one_path_that_cannot_be_does_not_hide_the_others(
    host: RootTree, prepare: Callable[[RootTree], None] | None, file: File, said: str
) -> None:
    if prepare:
        prepare(host)
    before = {str(path): path.lstat()[:7] for path in host.path.rglob("*")}
    declared = {"path": "/f", "content": "x", **file}
    results = await host.converge(config_set("a", files=[declared, {"path": "/ok", "content": "x"}]))
    assert said in failure(results, f"file:{declared['path']}")
    assert outcomes(results)["file:/ok"] == "changed"
    after = {str(path): path.lstat()[:7] for path in host.path.rglob("*") if path.name != "ok"}
    assert after == before


async def test_a_huge_file_is_replaced_without_being_read(host: RootTree) -> None:
    with host.at("/f").open("wb") as file:
        file.truncate(1 << 40)
    results = await host.converge(config_set("a", files=[{"path": "/f", "content": "x"}]))
    assert outcomes(results) == {"file:/f": "changed"}
    assert host.at("/f").read_text() == "x"


async def test_a_pipe_in_place_of_the_user_list_of_a_root(host: RootTree) -> None:
    host.at("/etc").mkdir()
    os.mkfifo(host.at("/etc/passwd"))
    results = await host.converge(config_set("a", files=[{"path": "/x", "owner": "app"}, {"path": "/y"}]))
    assert outcomes(results) == {"file:/x": "blocked", "file:/y": "changed"}


async def test_a_link_and_what_is_below_of_it_in_one_pass(host: RootTree) -> None:
    files = [
        {"path": "/l", "ensure": "symlink", "target": "/real"},
        {"path": "/l/x", "content": "x"},
        {"path": "/l/d", "ensure": "directory"},
    ]
    results = await host.converge(config_set("a", files=files))
    assert set(outcomes(results).values()) == {"changed"}
    assert (host.at("/l").readlink(), host.at("/real/x").read_text()) == (Path("/real"), "x")


def run(*argv: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, capture_output=True, timeout=30, check=False)


@contextlib.contextmanager
def mounted(where: Path, *options: str) -> Iterator[None]:
    where.mkdir(parents=True, exist_ok=True)
    mounting = run("mount", *options, str(where))
    if mounting.returncode:
        pytest.skip(f"cannot mount here: {mounting.stderr.decode().strip()}")
    try:
        yield
    finally:
        assert run("umount", str(where)).returncode == 0


async def test_a_full_disk(host: RootTree) -> None:
    with mounted(host.at("/small"), "-t", "tmpfs", "-o", "size=64k,nosuid", "tmpfs"):
        host.at("/small/old").write_text("old")
        files = [
            {"path": "/small/old", "content": "x" * 100_000},
            {"path": "/small/d/new", "content": "y" * 100_000},
            {"path": "/small/fits", "content": "z"},
            {"path": "/ok", "content": "x"},
        ]
        results = await host.converge(config_set("a", files=files))
        assert outcomes(results) == {
            "file:/small/old": "failed",
            "file:/small/d/new": "failed",
            "file:/small/fits": "changed",
            "file:/ok": "changed",
        }
        assert failure(results, "file:/small/old") == (
            "cannot change /small/old: No space left on device; free some space on that filesystem"
        )
        assert host.at("/small/old").read_text() == "old"
        assert host.leftovers() == []


async def test_a_mount_that_is_read_only(host: RootTree) -> None:
    with mounted(host.at("/ro"), "-t", "tmpfs", "-o", "size=64k", "tmpfs"):
        host.at("/ro/old").write_text("old")
        assert run("mount", "-o", "remount,ro", str(host.at("/ro"))).returncode == 0
        files = [
            {"path": "/ro/old", "content": "x"},
            {"path": "/ro/d/new", "content": "y"},
            {"path": "/ro/dir", "ensure": "directory"},
            {"path": "/ro/link", "ensure": "symlink", "target": "x"},
            {"path": "/ro", "ensure": "directory", "mode": "0700"},
            {"path": "/ok", "content": "x"},
        ]
        results = await host.converge(config_set("a", files=files))
        for name in ("old", "d/new", "dir", "link"):
            assert "mounted read-only: mount it writable" in failure(results, f"file:/ro/{name}"), name
        assert outcomes(results)["file:/ok"] == "changed"
        assert host.at("/ro/old").read_text() == "old"


async def test_an_immutable_file(host: RootTree) -> None:
    path = host.at("/f")
    path.write_text("old")
    if not shutil.which("chattr") or run("chattr", "+i", str(path)).returncode:
        pytest.skip("the filesystem of the temporary folder knows no immutable files, or there is no chattr")
    try:
        files = [{"path": "/f", "content": "new"}, {"path": "/ok"}]
        services = [{"name": "app", "ensure": "running", "subscribe_files": ["/f", "/ok"]}]
        results = await host.converge(config_set("a", files=files, services=services))
    finally:
        assert run("chattr", "-i", str(path)).returncode == 0
    assert "it may be immutable: see lsattr, and chattr -i" in failure(results, "file:/f")
    assert outcomes(results)["file:/ok"] == "changed"
    assert path.read_text() == "old"
    assert next(iter(host.journal.pending().values())).causes == ("/ok",), "nothing happened to /f"


@pytest.mark.parametrize(("ensure", "said"), [("absent", "absent"), ("file", "a file")])
async def test_nothing_can_be_below_what_is_declared_to_be_no_directory(
    host: RootTree, ensure: str, said: str
) -> None:
    files = [{"path": "/d", "ensure": ensure}, {"path": "/d/x"}, {"path": "/d/y", "ensure": "absent"}]
    for _ in range(2):
        results = await host.converge(config_set("a", files=files))
        assert failure(results, "file:/d/x") == (
            f"cannot be below /d, which is declared to be {said}; correct one of the two"
        )
        assert outcomes(results)["file:/d"] in ("changed", "unchanged")
    assert host.at("/d").exists() == (ensure == "file")
