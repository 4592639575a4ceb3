"""What a user of the host can gain who may write beside a managed file: in its worst form, one test each."""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import stat
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.files import staging
from nodemanager.host.files.file_batch import FileBatch, FileTools
from nodemanager.host.process import runner
from nodemanager.host.results import Result
from nodemanager.plan.steps import SetAttributes
from support.root_tree import RootTree, config_set, failure, needs_root, outcomes

pytestmark = needs_root
EVE = 1000
ACL = "system.posix_acl_access"
DEFAULT_ACL = "system.posix_acl_default"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RootTree]:
    root = tmp_path / "root"
    (root / "home/eve").mkdir(parents=True)
    os.chown(root / "home/eve", EVE, EVE)
    found = RootTree(root)
    yield found
    assert found.leftovers() == []
    found.tree.close()


def of_eve(path: Path, text: str, mode: int = 0o644) -> Path:
    """Write a file that belongs to eve."""
    path.write_text(text)
    os.chown(path, EVE, EVE)
    path.chmod(mode)
    return path


def acl(user: int, rights: int, mask: int = 7) -> bytes:
    """Return an access control list that grants a user rights, as the kernel takes it."""
    everybody = 0xFFFFFFFF
    entries = [
        (1, 6, everybody),
        (2, rights, user),
        (4, 0, everybody),
        (16, mask, everybody),
        (32, 0, everybody),
    ]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def declared(path: str = "/home/eve/x", **fields: Any) -> Any:
    return config_set("a", files=[{"path": path, "content": "ours", **fields}])


@pytest.mark.parametrize("content", ["hers", "ours"])
async def test_an_omitted_mode_makes_no_program_of_root_s_that_a_user_can_write(
    host: RootTree, content: str
) -> None:
    """The whole way to root: her file is setuid for all, mapped; ours must be neither."""
    path = of_eve(host.at("/home/eve/x"), content, 0o6777)
    with path.open("r+b") as opened, mmap.mmap(opened.fileno(), 4) as mapped:
        await host.converge(declared())
        mapped[:4] = b"evil"
        mapped.flush()
        opened.write(b"evil")
    assert path.read_text() == "ours"
    assert (path.stat().st_uid, mode_of(path)) == (0, 0o644)


@pytest.mark.parametrize(
    ("owner", "mode", "folder", "fields", "expected"),
    [
        pytest.param(0, 0o640, 0, {}, 0o640, id="of-root-in-a-directory-of-root"),
        pytest.param(0, 0o4755, 0, {}, 0o755, id="setuid-is-never-inherited"),
        pytest.param(EVE, 0o640, EVE, {}, 0o644, id="of-a-stranger"),
        pytest.param(0, 0o600, EVE, {}, 0o600, id="of-root-where-somebody-else-can-write"),
        pytest.param(0, 0o6777, EVE, {}, 0o755, id="of-root-where-somebody-else-can-write-without-powers"),
        pytest.param(EVE, 0o600, EVE, {"owner": str(EVE)}, 0o600, id="of-the-declared-owner"),
        pytest.param(EVE, 0o666, EVE, {"owner": str(EVE)}, 0o644, id="of-the-declared-owner-without-022"),
        pytest.param(EVE, 0o600, 1001, {"owner": str(EVE)}, 0o644, id="where-somebody-else-can-write"),
        pytest.param(EVE, 0o600, 0, {}, 0o644, id="of-a-stranger-in-a-directory-of-root"),
    ],
)
async def test_a_mode_is_inherited_from_those_we_trust(
    host: RootTree, owner: int, mode: int, folder: int, fields: dict[str, str], expected: int
) -> None:
    path = host.at("/home/eve/x")
    os.chown(path.parent, folder, folder)
    path.write_text("before")
    os.chown(path, owner, owner)
    path.chmod(mode)
    await host.converge(declared(**fields))
    assert (path.read_text(), mode_of(path)) == ("ours", expected)


async def test_what_an_older_agent_left_open_where_others_write_is_closed(host: RootTree) -> None:
    path = host.at("/home/eve/x")
    path.write_text("ours")
    path.chmod(0o4777)
    await host.converge(declared())
    assert mode_of(path) == 0o755
    assert outcomes(await host.converge(declared())) == {"file:/home/eve/x": "unchanged"}


async def test_a_foreign_inode_is_not_adopted(host: RootTree) -> None:
    """She puts the declared content there herself, and keeps it mapped: dirty pages change no time."""
    path = of_eve(host.at("/home/eve/x"), "ours")
    with path.open("r+b") as opened, mmap.mmap(opened.fileno(), 4) as mapped:
        mapped[:4] = b"ours"
        await host.converge(declared(mode="0644"))
        mapped[:4] = b"evil"
        assert path.read_text() == "ours"
    assert path.stat().st_uid == 0


@pytest.mark.parametrize(
    ("mode", "group"), [pytest.param(0o666, 0, id="everybody"), pytest.param(0o660, EVE, id="a-group")]
)
async def test_a_file_that_others_could_write_to_is_not_only_locked(
    host: RootTree, mode: int, group: int
) -> None:
    """Who opened it before has it open still."""
    path = host.at("/x")
    path.write_text("ours")
    os.chown(path, 0, group)
    path.chmod(mode)
    with path.open("r+b") as opened:
        await host.converge(declared("/x", mode="0600"))
        opened.write(b"evil")
        opened.flush()
        assert path.read_text() == "ours"
    assert (path.stat().st_gid, mode_of(path)) == (0, 0o600)


async def test_nothing_is_remembered_of_a_file_that_its_user_may_map(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 10**10)  # long after the file was written
    path = host.at("/home/eve/x")
    await host.converge(declared(owner=str(EVE), group=str(EVE)))
    with path.open("r+b") as opened, mmap.mmap(opened.fileno(), 4) as mapped:
        mapped[:4] = b"ours"
        host.plan(declared(owner=str(EVE), group=str(EVE)))
        mapped[:4] = b"evil"
        results = await host.converge(declared(owner=str(EVE), group=str(EVE)))
    assert outcomes(results) == {"file:/home/eve/x": "changed"}
    assert path.read_text() == "ours"


async def test_lists_of_a_foreign_directory_or_file_open_no_secret(host: RootTree) -> None:
    folder, path = host.at("/home/eve"), of_eve(host.at("/home/eve/x"), "hers")
    os.setxattr(folder, DEFAULT_ACL, acl(EVE, 7))
    os.setxattr(path, ACL, acl(EVE, 7))
    os.setxattr(path, "user.hers", b"1")
    await host.converge(declared(mode="0640"), config_set("b", files=[
        {"path": "/home/eve/d/deep/y", "content": "ours", "mode": "0640"},
        {"path": "/home/eve/d", "ensure": "directory", "mode": "0750"},
    ]))  # fmt: skip
    for made in ("x", "d", "d/deep", "d/deep/y"):
        assert {*os.listxattr(folder / made)} <= {"trusted.nodemanager.path"}, made
    assert mode_of(folder / "d") == 0o750


async def test_lists_that_others_can_have_made_are_drift(host: RootTree) -> None:
    path, folder = host.at("/home/eve/x"), host.at("/home/eve/d")
    folder.mkdir()
    path.write_text("ours")
    for one in (path, folder):
        os.setxattr(one, ACL, acl(EVE, 4, 4))
    sets = (
        declared(mode="0640"),
        config_set("b", files=[{"path": "/home/eve/d", "ensure": "directory", "mode": "0640"}]),
    )
    assert set(outcomes(await host.converge(*sets)).values()) == {"changed"}
    assert os.listxattr(path) == os.listxattr(folder) == []
    assert set(outcomes(await host.converge(*sets)).values()) == {"unchanged"}


async def test_lists_of_root_s_are_kept(host: RootTree) -> None:
    path = host.at("/x")
    path.write_text("old")
    os.setxattr(path, ACL, acl(EVE, 4))
    kept = os.getxattr(path, ACL)
    await host.converge(declared("/x"))
    assert path.read_text() == "ours"
    assert os.getxattr(path, ACL) == kept


async def converge_with_programs(host: RootTree, declaration: Any) -> list[Result]:
    """Converge, with programs that find the paths of the host below its root, without a chroot."""

    async def run(argv: Sequence[str], **how: Any) -> runner.Completed:
        inside = (str(host.path) + one if one.startswith(("/home/", "/var/")) else one for one in argv)
        return await runner.run(list(inside), **how)

    return await FileBatch(FileTools(host.tree, host.bucket, host.journal, run)).apply(host.plan(declaration))


def swapping(folder: Path, swap: Callable[[Path], object]) -> Callable[..., Any]:
    """Return `stage_file` with somebody beside it who exchanges what it stages, as on inotify."""
    stage = staging.stage_file

    def staged(*args: Any) -> staging.Staged:
        made = stage(*args)
        for found in [one for one in folder.rglob("*") if one.name.startswith(".nodemanager-")]:
            if os.access(found, os.F_OK):
                swap(found)
        return made

    return staged


async def test_a_validator_reads_what_we_staged_and_nothing_else(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """She exchanges what is staged for a program of hers, and for a link to a file that only root reads."""
    home, proof = host.at("/home/eve"), host.path / "proof"
    evil = of_eve(home / "evil", f"touch {proof}; exit 1\n", 0o755)
    monkeypatch.setattr(staging, "stage_file", swapping(home, lambda found: _replace(found, evil)))
    check = {"command": "/bin/sh", "args": ["${STAGED}"], "timeout": "10s"}
    await converge_with_programs(host, declared(content="true\n", validate=check))
    assert not proof.exists()
    assert (home / "x").read_text() == "true\n"
    _forget(home)


async def test_a_validator_quotes_nothing_that_it_should_not_read(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, shadow = host.at("/home/eve"), host.path / "shadow"
    shadow.write_text("root:hash")
    monkeypatch.setattr(staging, "stage_file", swapping(home, lambda found: _link(found, shadow)))
    check = {"command": "/bin/sh", "args": ["-c", 'cat "$0" >&2; exit 1', "${STAGED}"], "timeout": "10s"}
    results = await converge_with_programs(host, declared(validate=check))
    assert "exit status 1: ours" in failure(results, "file:/home/eve/x")
    assert "root:hash" not in failure(results, "file:/home/eve/x")
    _forget(home)


async def test_what_was_exchanged_is_not_given_the_name(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, shadow = host.at("/home/eve"), host.path / "shadow"
    shadow.write_text("root:hash")
    monkeypatch.setattr(staging, "stage_file", swapping(home, lambda found: _link(found, shadow)))
    await host.converge(declared())
    assert not (home / "x").is_symlink()
    _forget(home)


async def test_also_where_only_root_writes_the_inode_is_looked_at(
    host: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second look, should the first (who may write there) be wrong or too old."""
    host.at("/d").mkdir()
    monkeypatch.setattr(
        staging, "stage_file", swapping(host.at("/d"), lambda found: _link(found, Path("/nowhere")))
    )
    results = await host.converge(declared("/d/x"))
    assert "somebody exchanges files" in failure(results, "file:/d/x")
    assert not host.at("/d/x").is_symlink()
    _forget(host.at("/d"))


async def test_a_directory_of_root_s_that_was_moved_there_is_not_given_away(host: RootTree) -> None:
    """She cannot enter it, but move it: its content must not become hers."""
    moved = host.at("/home/eve/mine")
    moved.mkdir(mode=0o700)
    (moved / "secret").write_text("root's")
    folder = {"path": "/home/eve/mine", "ensure": "directory", "owner": str(EVE), "mode": "0755"}
    results = await host.converge(config_set("a", files=[folder]))
    assert "others than root can have put there" in failure(results, "file:/home/eve/mine")
    assert (moved.stat().st_uid, mode_of(moved)) == (0, 0o700)
    (moved / "secret").unlink()  # an empty one is replaced, by a new one
    before = moved.stat().st_ino
    assert outcomes(await host.converge(config_set("a", files=[folder]))) == {
        "file:/home/eve/mine": "changed"
    }
    assert (moved.stat().st_uid, mode_of(moved)) == (EVE, 0o755)
    assert moved.stat().st_ino != before


async def test_a_link_of_ours_is_made_anew_where_others_write(host: RootTree) -> None:
    link = host.at("/home/eve/l")
    link.symlink_to("/target")
    os.chown(link, EVE, EVE, follow_symlinks=False)
    declaration = {
        "path": "/home/eve/l",
        "ensure": "symlink",
        "target": "/target",
        "owner": "0",
        "group": "0",
    }
    steps = host.plan(config_set("a", files=[declaration]))
    assert not any(isinstance(step, SetAttributes) for step in steps)
    await host.apply(steps)
    assert (link.lstat().st_uid, str(link.readlink())) == (0, "/target")


async def test_a_mode_that_nobody_declared_is_not_given_back_after_chown(host: RootTree) -> None:
    """Setuid of one owner is not setuid of the next."""
    path = host.at("/x")
    path.write_text("ours")
    path.chmod(0o4755)
    await host.converge(declared("/x", owner=str(EVE)))
    assert (path.stat().st_uid, mode_of(path)) == (EVE, 0o755)


async def test_a_private_folder_that_a_killed_agent_left_is_swept(host: RootTree) -> None:
    home = host.at("/home/eve")
    (home / ".nodemanager-1").mkdir(mode=0o700)
    (home / ".nodemanager-1/.nodemanager-2").write_text("staged")
    (home / ".nodemanager-3").mkdir(mode=0o700)  # something of root's that she has renamed
    (home / ".nodemanager-3/precious").write_text("root's")
    staging.sweep(host.tree, "/home/eve")
    host.tree.forget()
    assert sorted(str(one.relative_to(home)) for one in home.rglob("*")) == [
        ".nodemanager-3", ".nodemanager-3/precious",
    ]  # fmt: skip
    (home / ".nodemanager-3/precious").unlink()
    (home / ".nodemanager-3").rmdir()


def _replace(found: Path, evil: Path) -> None:
    """Do what she can do: rename what is in her directory, whatever it is."""
    found.rename(found.with_name("taken"))
    found.write_bytes(evil.read_bytes())
    found.chmod(0o755)


def _link(found: Path, target: Path) -> None:
    found.rename(found.with_name("taken"))
    found.symlink_to(target)


def _forget(folder: Path) -> None:
    for left in [one for one in folder.iterdir() if one.name.startswith((".nodemanager-", "taken"))]:
        if left.is_dir() and not left.is_symlink():
            left.rmdir()
        else:
            left.unlink()


async def test_a_lease_on_a_file_of_hers_does_not_keep_it_there(host: RootTree) -> None:
    """Whoever opens it has to wait for her, 45 s by default: nobody does, and it is replaced."""
    path = of_eve(host.at("/home/eve/x"), "hers")
    with path.open("rb") as opened:
        fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        signals = signal.signal(signal.SIGIO, signal.SIG_IGN)  # which tells her that somebody wants it
        try:
            assert outcomes(await host.converge(declared())) == {"file:/home/eve/x": "changed"}
            assert path.read_text() == "ours"
        finally:
            signal.signal(signal.SIGIO, signals)


async def test_a_directory_of_root_s_that_was_moved_there_is_not_emptied(host: RootTree) -> None:
    """She moves root's vault to where a directory is purged: before the plan, and between plan and deed."""
    home, vault = host.at("/home/eve"), host.at("/home/eve/vault")
    purged = config_set("a", files=[{"path": "/home/eve/p", "ensure": "directory", "purge": True}])
    vault.mkdir(mode=0o755)
    (vault / "x").write_text("root's")
    vault.rename(home / "p")
    results = await host.converge(purged)
    assert "cannot purge /home/eve/p: others than root" in failure(results, "file:/home/eve/p")
    (home / "p").rename(vault)
    await host.converge(purged)
    (home / "p/x").write_text("to be purged")
    steps = host.plan(purged)
    (home / "p").rename(home / "q")
    vault.rename(home / "p")
    results = await host.apply(steps)
    assert "somebody moved another directory" in failure(results, "file:/home/eve/p/x")
    assert (home / "p/x").read_text() == "root's"


@pytest.mark.parametrize("owner", [0, EVE])
async def test_a_directory_where_others_write_is_purged_if_ours_or_hers(host: RootTree, owner: int) -> None:
    purged = {"path": "/home/eve/p", "ensure": "directory", "purge": True, "owner": str(owner)}
    folder = host.at("/home/eve/p")
    folder.mkdir()  # an empty one of somebody else's is replaced
    for _ in range(2):
        await host.converge(config_set("a", files=[purged]))
        (folder / "x").write_text("to be purged")
    assert outcomes(await host.converge(config_set("a", files=[purged])))["file:/home/eve/p/x"] == "changed"
    assert list(folder.iterdir()) == []
