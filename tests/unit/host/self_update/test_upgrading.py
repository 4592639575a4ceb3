"""What is checked before a new program takes the place of the old one, and what is left when it does not."""

from __future__ import annotations

import base64
import dataclasses
import errno
import http.client
import http.server
import io
import os
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.base import Busy, HostError, NotSupported, ServiceKey
from nodemanager.host.files.tree import Tree
from nodemanager.host.process.runner import Completed
from nodemanager.host.self_update import guard, program_file, sources, trust
from nodemanager.host.self_update.records import Intent
from nodemanager.host.state import state_files
from nodemanager.plan.facts import ServiceFact
from support.program_world import CRASH, GOOD, HANG, OLD, FileInit, ProgramWorld
from support.root_tree import needs_root


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> ProgramWorld:
    world = ProgramWorld(tmp_path)
    world.make()
    return world


def wanted(world: ProgramWorld, **changes: Any) -> Any:
    order = world.order(GOOD)
    return dataclasses.replace(order, wanted=dataclasses.replace(order.wanted, **changes))


async def test_up_to_the_guard_nothing_but_files_beside_it_has_changed(world: ProgramWorld) -> None:
    intent = await world.upgrader().upgrade(world.order(GOOD))
    assert (world.kind(), intent.before, intent.after, intent.seconds) == (OLD, "0.1.0", "0.2.0", 20)
    assert world.previous.samefile(world.program)
    staged = world.new
    assert (staged.read_text(), oct(staged.stat().st_mode)) == ((world.world / GOOD).read_text(), "0o100755")
    assert world.upgrader().records.pending() == intent
    with pytest.raises(Busy, match=r"the upgrade from 0\.1\.0 to 0\.2\.0 is under way"):
        await world.upgrader().upgrade(world.order(GOOD))
    assert staged.exists()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        pytest.param({"sha256": "0" * 64}, "and not 0000", id="digest"),
        pytest.param({"version": "0.3.0"}, "it is version 0.2.0, and not 0.3.0", id="version"),
        pytest.param({"source": "/nowhere"}, "cannot read /nowhere: No such file", id="missing"),
        pytest.param({"source": "relative"}, "give a whole path", id="relative"),
        pytest.param({"source": "/dev/zero"}, "it is not a file", id="device"),
        pytest.param({"source": "ftp://example.org/x"}, "give a whole path, or an address", id="scheme"),
    ],
)
async def test_what_is_not_wanted_leaves_nothing(world: ProgramWorld, changes: Any, why: str) -> None:
    with pytest.raises(HostError, match=why):
        await world.upgrader().upgrade(wanted(world, **changes))
    assert sorted(path.name for path in world.program.parent.iterdir()) == ["nodemanager"]
    assert world.upgrader().records.pending() is None


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV])
async def test_the_old_program_is_copied_where_there_are_no_second_names(
    world: ProgramWorld, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def link(*_: Any, **_how: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", link)
    await world.upgrader().upgrade(world.order(GOOD))
    assert world.previous.read_bytes() == world.program.read_bytes()
    assert (world.previous.samefile(world.program), oct(world.previous.stat().st_mode)) == (False, "0o100755")


async def test_a_disk_that_does_not_work_is_no_reason_to_copy(
    world: ProgramWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: Any, **_how: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(HostError, match=r"cannot keep .*nodemanager: Input/output error"):
        await world.upgrader().upgrade(world.order(GOOD))
    assert (world.previous.exists(), world.upgrader().records.pending()) == (False, None)


async def test_an_older_program_and_the_same_one_are_refused(world: ProgramWorld) -> None:
    order = dataclasses.replace(world.order(GOOD), running="0.10.0")
    with pytest.raises(HostError, match=r"version 0\.2\.0 is older than 0\.10\.0"):
        await world.upgrader().upgrade(order)
    with pytest.raises(HostError, match=r"version 0\.2\.0 is older than 0\.2\.1rc1"):
        await world.upgrader().upgrade(dataclasses.replace(order, running="0.2.1rc1"))
    candidate = world.world / GOOD
    candidate.write_text("#!/bin/sh\n# nodemanager candidate\n")
    with pytest.raises(HostError, match=r"version 0\.2\.0rc1 is older than 0\.2\.0, which runs"):
        await world.upgrader().upgrade(dataclasses.replace(order, running="0.2.0"))
    with pytest.raises(HostError, match="is the program that is there"):
        await world.upgrader().upgrade(wanted(world, source=str(world.program)))


async def test_an_agent_that_is_no_service_is_left_alone(
    world: ProgramWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stopped(_self: FileInit, keys: Any) -> Any:
        return {key: ServiceFact(state="dead") for key in keys}

    monkeypatch.setattr(FileInit, "observe", stopped)
    with pytest.raises(HostError, match="does not run"):
        await world.upgrader().upgrade(world.order(GOOD))


async def test_a_program_of_a_package_is_the_business_of_its_package_manager() -> None:
    async def run(argv: Any, **_how: Any) -> Completed:
        return Completed(tuple(argv), 0, b"nodemanager: /usr/bin/nodemanager\n", b"")

    with pytest.raises(NotSupported, match=r"part of a package .*upgrade that package"):
        await program_file.check_owner("/usr/bin/nodemanager", run)


@pytest.mark.parametrize(
    ("head", "arch", "why"),
    [
        pytest.param(b"\x7fELF\2\1" + bytes(12) + b"\x3e\0", "amd64", "", id="for this processor"),
        pytest.param(b"\x7fELF\2\1" + bytes(12) + b"\xb7\0", "amd64", "another kind of processor", id="arm"),
        pytest.param(b"\x7fELF\2\1" + bytes(12) + b"\xb7\0", "arm64", "", id="arm on arm"),
        pytest.param(b"#!/bin/sh\n# nodemanager", "amd64", "", id="bin/manager"),
        pytest.param(b"#!/opt/venv/bin/python\n", "amd64", "neither an executable", id="a script of pip"),
        pytest.param(b"<!DOCTYPE html>", "amd64", "neither an executable", id="a page"),
    ],
)
def test_the_form_of_a_program(head: bytes, arch: str, why: str) -> None:
    if why:
        with pytest.raises(HostError, match=why):
            program_file.check_head(head, arch)
    else:
        program_file.check_head(head, arch)


def test_values_that_a_shell_would_read_otherwise_are_never_written() -> None:
    intent = Intent("1", "/bin/x", 20, "0.1.0", "0.2.0; rm -rf /", "0", "0", report=True)
    with pytest.raises(HostError, match=r"after '0\.2\.0; rm -rf /' has characters"):
        intent.text()


async def test_the_guard_goes_with_the_agent(world: ProgramWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrader = world.upgrader()
    await upgrader.upgrade(world.order(GOOD))
    service = upgrader.guard.service
    monkeypatch.setitem(guard.SERVICES, "systemd", service)
    assert await guard.remove(upgrader.records.tree, "systemd", upgrader.guard.manager)
    assert (world.root / "etc/enabled").read_text() == "guard False\n"
    assert not (world.root / "etc/guard.service").exists()
    assert not await guard.remove(upgrader.records.tree, "systemd", upgrader.guard.manager)


async def test_an_upgrade_that_was_under_way_ends_with_the_agent_and_its_guard(
    world: ProgramWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed again, the agent is upgraded to what is asked then: not to what was asked before."""
    upgrader = world.upgrader()
    await upgrader.upgrade(world.order(GOOD))
    records, manager = upgrader.records, upgrader.guard.manager
    monkeypatch.setitem(guard.SERVICES, "systemd", upgrader.guard.service)
    await guard.remove(records.tree, "systemd", manager, state=str(world.root / "state"))
    assert (world.root / "etc/stopped").read_text() == "guard\n"
    assert records.pending() is None
    await upgrader.upgrade(dataclasses.replace(world.order(HANG), id="2e"))
    found = records.pending()
    assert found is not None
    assert found.id == "2e"


async def test_a_guard_that_somebody_removed_is_put_back_for_an_upgrade_that_is_under_way(
    world: ProgramWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.upgrader().upgrade(world.order(GOOD))
    for name in ("guard.service", "enabled"):
        (world.root / "etc" / name).unlink()

    async def ended(_self: FileInit, keys: Any) -> Any:
        return {key: ServiceFact(running=key.name != "guard", state="inactive") for key in keys}

    monkeypatch.setattr(FileInit, "observe", ended)
    with pytest.raises(Busy, match="is under way"):
        await world.upgrader().upgrade(dataclasses.replace(world.order(GOOD), id="2e"))
    world.guard()
    assert (world.kind(), world.outcome()) == (GOOD, "proven")
    again = dataclasses.replace(world.order(HANG), id="2e", running="0.2.0")
    assert (await world.upgrader().upgrade(again)).id == "2e"


@pytest.mark.parametrize(("there", "error", "why"), [
    (True, Busy, "is under way"), (False, HostError, "cannot put back the guard .*No space left on device"),
])  # fmt: skip
async def test_a_guard_that_is_there_is_woken_also_on_a_full_disk(
    world: ProgramWorld, monkeypatch: pytest.MonkeyPatch, there: bool, error: type[Exception], why: str
) -> None:
    await world.upgrader().upgrade(world.order(GOOD))
    if not there:
        (world.root / "etc/guard.service").unlink()
    started: list[str] = []

    async def ended(_self: FileInit, keys: Any) -> Any:
        return {key: ServiceFact(running=key.name != "guard", state="inactive") for key in keys}

    async def restart(_self: FileInit, key: ServiceKey) -> None:
        started.append(key.name)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FileInit, "observe", ended)
    monkeypatch.setattr(FileInit, "restart", restart)
    monkeypatch.setattr(state_files, "write", full)
    with pytest.raises(error, match=why):
        await world.upgrader().upgrade(dataclasses.replace(world.order(GOOD), id="2e"))
    assert started == (["guard"] if there else [])


async def test_an_upgrade_that_cannot_be_ended_is_said_where_the_guard_is_removed(
    world: ProgramWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.state / "intent").mkdir(parents=True)
    upgrader = world.upgrader()
    monkeypatch.setitem(guard.SERVICES, "systemd", upgrader.guard.service)
    with pytest.raises(HostError, match=r"cannot end the upgrade that is under way: .*-upgrade: Is a d"):
        await guard.remove(upgrader.records.tree, "systemd", None, state=str(world.root / "state"))


@needs_root
def test_keys_that_others_may_write_are_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "release.pub"
    assert trust.trusted(str(path)) == []
    path.write_text("untrusted comment: none yet\n")
    with pytest.raises(HostError, match="there is no key in"):
        trust.trusted(str(path))
    path.chmod(0o666)
    with pytest.raises(HostError, match="others than its owner may use it"):
        trust.trusted(str(path))


@needs_root
def test_all_keys_of_a_long_file_are_trusted_and_one_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "release.pub"
    first, last = keys_of(1), keys_of(2)
    path.write_text(f"{first}\n" + "# about the keys\n" * 500 + f"{last}\n")
    assert [key.id for key in trust.trusted(str(path))] == [b"\1" * 8, b"\2" * 8]
    path.write_text(f"{first}\n" + "#\n" * 40_000 + f"{last}\n")
    with pytest.raises(HostError, match=r"cannot use the key .*release\.pub: it has more than 64 KiB"):
        trust.trusted(str(path))


def keys_of(number: int) -> str:
    """Return a public key as minisign writes it."""
    return base64.b64encode(b"Ed" + bytes([number]) * 8 + bytes(32)).decode()


@needs_root
def test_keys_that_are_out_of_reach_are_not_the_same_as_none(tmp_path: Path) -> None:
    """A host without keys takes what nobody signed, if a task says so."""
    path = tmp_path / "release.pub"
    path.symlink_to(tmp_path / "not-there-yet")
    with pytest.raises(HostError, match="it is a symbolic link"):
        trust.trusted(str(path))
    folder = tmp_path / "folder"
    folder.symlink_to(folder)
    with pytest.raises(HostError, match=r"cannot tell whom to trust: .*: Too many levels"):
        trust.trusted(str(folder / "release.pub"))


class Served(http.server.BaseHTTPRequestHandler):
    """Has a file, one that leads elsewhere, and one that is gone."""

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "ftp://example.org/program")
        elif self.path == "/gone":
            self.send_response(404)
        else:
            self.send_response(200)
        if self.path == "/cut":
            self.send_header("Content-Length", "10")
        self.end_headers()
        if self.path == "/program":
            self.wfile.write(b"x" * 3000)
        if self.path == "/cut":
            self.wfile.write(b"xxx")
        if self.path == "/drop":  # one byte, and nothing more for as long as somebody listens
            self.wfile.write(b"x")
            self.rfile.read(1)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(name="address")
def _address() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Served) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_address_is_read_within_bounds(address: str) -> None:
    assert b"".join(sources.pieces(f"{address}/program", 10)) == b"x" * 3000
    with pytest.raises(HostError, match="it has more than 2 KiB"):
        list(sources.pieces(f"{address}/program", 10, 2048))
    with pytest.raises(HostError, match="takes longer than"):
        list(sources.pieces(f"{address}/program", -1))
    with pytest.raises(HostError, match="the server answers 404"):
        list(sources.pieces(f"{address}/gone", 10))
    with pytest.raises(HostError, match="it ended 7 bytes too early"):
        list(sources.pieces(f"{address}/cut", 10))
    with pytest.raises(HostError, match=r"it leads to ftp://example\.org/program, which is not followed"):
        list(sources.pieces(f"{address}/moved", 10))


@pytest.mark.parametrize(
    ("source", "signature"),
    [
        ("/tmp/nodemanager", "/tmp/nodemanager.minisig"),
        ("/tmp/what?", "/tmp/what?.minisig"),
        ("https://example.org/nodemanager", "https://example.org/nodemanager.minisig"),
        ("https://example.org/a/b?token=x/y&z#top", "https://example.org/a/b.minisig?token=x/y&z#top"),
    ],
)
def test_a_signature_is_beside_its_file(source: str, signature: str) -> None:
    assert sources.signature_of(source) == signature


async def test_the_signature_of_an_address_with_a_token_is_asked_for_with_it(
    world: ProgramWorld,
) -> None:
    asked = []

    class Store(Served):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.path == "/nodemanager?token=x" else 403)
            self.end_headers()
            self.wfile.write((world.world / GOOD).read_bytes())

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        source = f"http://127.0.0.1:{server.server_port}/nodemanager?token=x"
        with pytest.raises(HostError, match="the server answers 403"):
            await world.upgrader().upgrade(wanted(world, source=source, keys=("a key",)))
        server.shutdown()
    assert asked == ["/nodemanager?token=x", "/nodemanager.minisig?token=x"]


def test_a_server_that_sends_drop_by_drop_is_not_waited_for_until_a_piece_is_whole(address: str) -> None:
    found = sources.pieces(f"{address}/drop", 10)
    assert next(found) == b"x"
    found.close()  # type: ignore[attr-defined]


def test_an_encrypted_address_leads_to_encrypted_ones_however_it_is_written() -> None:
    asked = urllib.request.Request("HTTPS://example.org/program")
    with pytest.raises(HostError, match=r"it leads to http://example\.org/program, which is not followed"):
        sources.WebOnly().redirect_request(
            asked, io.BytesIO(), 302, "", http.client.HTTPMessage(), "http://example.org/program"
        )


async def test_a_file_that_is_a_link_is_not_followed(world: ProgramWorld) -> None:
    link = world.world / "link"
    link.symlink_to(world.world / GOOD)
    with pytest.raises(HostError, match="it is a link"):
        await world.upgrader().upgrade(wanted(world, source=str(link)))


async def test_what_a_killed_upgrade_left_beside_it_is_not_followed_either(world: ProgramWorld) -> None:
    victim = world.root / "victim"
    victim.write_text("mine\n")
    world.new.symlink_to(victim)
    await world.upgrader().upgrade(world.order(GOOD))
    assert victim.read_text() == "mine\n"
    assert not world.new.is_symlink()


@pytest.mark.parametrize(("kind", "result"), [(GOOD, "proven"), (CRASH, "returned")])
async def test_how_it_ended_is_told(world: ProgramWorld, kind: str, result: str) -> None:
    upgrader = world.upgrader()
    await upgrader.upgrade(world.order(kind))
    world.guard()
    ended = await upgrader.ended("1d", 0)
    assert ended is not None
    assert ended.result == result
    assert await upgrader.ended("another", 0) is None
    assert (world.kind() == kind) == (result == "proven")
    assert world.previous.exists() == (result == "proven")


async def test_without_a_lock_nobody_upgrades(world: ProgramWorld) -> None:
    world.state.mkdir(parents=True)
    (world.state / "lock").symlink_to(world.root / "elsewhere")
    with pytest.raises(HostError, match="cannot be locked"):
        await world.upgrader().upgrade(world.order(GOOD))
    assert not world.new.exists()


async def test_an_intent_that_cannot_be_read_may_be_one_under_way(world: ProgramWorld) -> None:
    (world.state / "intent").mkdir(parents=True)
    with pytest.raises(HostError, match="cannot tell whether an upgrade is under way"):
        await world.upgrader().upgrade(world.order(GOOD))
    assert not world.previous.exists()


async def test_a_guard_that_works_is_not_disturbed_by_the_next_upgrade(
    world: ProgramWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    async def restart(_self: FileInit, key: ServiceKey) -> None:
        started.append(key.name)

    monkeypatch.setattr(FileInit, "restart", restart)
    await world.upgrader().upgrade(world.order(GOOD))
    with pytest.raises(Busy):
        await world.upgrader().upgrade(world.order(GOOD))
    assert started == ["guard"]


async def test_a_guard_that_cannot_be_started_leaves_no_upgrade_for_the_next_boot(
    world: ProgramWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def restart(_self: FileInit, _key: ServiceKey) -> None:
        raise HostError("cannot restart guard: systemd does not answer")

    monkeypatch.setattr(FileInit, "restart", restart)
    upgrader = world.upgrader()
    with pytest.raises(HostError, match="systemd does not answer"):
        await upgrader.upgrade(world.order(GOOD))
    assert (upgrader.records.pending(), world.new.exists(), world.kind()) == (None, False, OLD)


async def test_a_guard_that_has_begun_all_the_same_goes_on(
    world: ProgramWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def restart(_self: FileInit, _key: ServiceKey) -> None:
        world.new.rename(world.program)
        raise HostError("cannot restart guard: nothing was heard in time")

    monkeypatch.setattr(FileInit, "restart", restart)
    upgrader = world.upgrader()
    with pytest.raises(HostError, match="nothing was heard"):
        await upgrader.upgrade(world.order(GOOD))
    assert upgrader.records.pending() is not None


@pytest.mark.parametrize("name", ["intent", "guard.sh"])
async def test_a_full_disk_is_said_and_leaves_nothing(
    world: ProgramWorld, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write = state_files.write

    def full(tree: Tree, path: str, *what: Any) -> None:
        if path.endswith(f"/{name}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(tree, path, *what)

    monkeypatch.setattr(state_files, "write", full)
    with pytest.raises(HostError, match=r"cannot upgrade: .*agent-upgrade: No space left on device"):
        await world.upgrader().upgrade(world.order(GOOD))
    assert (world.new.exists(), world.kind()) == (False, OLD)


@pytest.mark.parametrize(("seconds", "why"), [(29, "30 s is the least"), (3601, "3600 s is the most")])
async def test_how_long_a_host_may_be_without_an_agent_has_bounds(
    world: ProgramWorld, seconds: float, why: str
) -> None:
    with pytest.raises(HostError, match=why):
        await world.upgrader().upgrade(dataclasses.replace(world.order(GOOD), deadline=seconds))


async def test_a_version_has_an_end() -> None:
    async def run(argv: Any, **_how: Any) -> Completed:
        return Completed(tuple(argv), 0, b"nodemanager " + b"9" * 5000 + b" x", b"")

    with pytest.raises(HostError, match="asked for its version"):
        await program_file.version_of("/bin/x", run)
