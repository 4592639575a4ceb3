"""The systemd adapter against a scripted peer on a real socket; real machines are in tests/hosts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nodemanager.host.base import NotSupported, ServiceKey, ToolFailed
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import runner
from nodemanager.host.services import systemd, systemd_bus
from nodemanager.host.services.dbus import BusUnreachable
from nodemanager.host.services.systemd import Systemd
from support.bus_peer import SystemdPeer, Unit

KEY = ServiceKey("x")


@dataclass
class World:
    """A root with a scripted systemd in it."""

    root: Path
    peer: SystemdPeer
    commands: list[Sequence[str]]
    manager: Systemd

    @property
    def bus(self) -> Path:
        return self.root / systemd_bus.SYSTEM_BUS.lstrip("/")

    @property
    def private(self) -> Path:
        return self.root / systemd_bus.SYSTEM_PRIVATE.lstrip("/")


@pytest.fixture
def world() -> Iterator[World]:
    commands: list[Sequence[str]] = []

    async def run(argv: Sequence[str], **_: Any) -> runner.Completed:
        commands.append(argv)
        return runner.Completed(tuple(argv), 0, b"the last words\n", b"")

    with tempfile.TemporaryDirectory(prefix="nm-") as folder:  # short: a socket's path has 107 bytes
        tree = Tree(folder)
        yield World(Path(folder), SystemdPeer(), commands, Systemd(tree, run, 0.0))
        tree.close()


@pytest.fixture(params=["bus", "private"])
async def live(world: World, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """The same over the bus, and straight to systemd where there is no bus."""
    async with world.peer.listen(getattr(world, request.param)):
        yield world


async def test_many_units_in_one_look(live: World) -> None:
    live.peer.units = {f"n{number}.service": Unit(active="active", sub="running") for number in range(700)}
    live.peer.units["n7.service"].file = "enabled"
    keys = [ServiceKey(f"n{number}") for number in range(700)]
    facts = await live.manager.observe([*keys, ServiceKey("none"), ServiceKey("no name")])
    assert all(facts[key].running for key in keys)
    assert facts[keys[7]].enabled is True
    assert facts[ServiceKey("none")].known is False
    assert "no name for a unit" in facts[ServiceKey("no name")].error


async def test_start_follows_its_own_job_to_the_end(live: World) -> None:
    live.peer.units["x.service"] = Unit()
    await live.manager.start(KEY)
    assert live.peer.asked == ["StartUnit x.service"]


async def test_a_failed_unit_is_reset_before_it_is_started(live: World) -> None:
    live.peer.units["x.service"] = Unit(active="failed", sub="failed")
    await live.manager.start(KEY)
    assert live.peer.asked == ["ResetFailedUnit x.service", "StartUnit x.service"]


async def test_a_failure_says_how_and_what_to_do(live: World) -> None:
    ended = {"ExecMainCode": ("i", 1), "ExecMainStatus": ("i", 7), "Result": ("s", "exit-code")}
    live.peer.units["x.service"] = Unit(properties=ended)

    def fail(method: str, unit: Unit) -> str:
        unit.active = unit.sub = "failed"
        return "failed"

    live.peer.on_job = fail
    with pytest.raises(ToolFailed) as caught:
        await live.manager.restart(KEY)
    assert str(caught.value) == (
        "cannot restart x.service: it failed (exit status 7), and is failed now; run systemctl status"
        " x.service; it said last:\nthe last words"
    )
    assert live.commands[0][:2] == ["journalctl", "--no-pager"]


@pytest.mark.parametrize(
    ("result", "said"),
    [("timeout", "longer than its unit file allows"), ("dependency", "a unit that it requires failed")],
)
async def test_jobs_that_end_otherwise(live: World, result: str, said: str) -> None:
    live.peer.units["x.service"] = Unit()
    live.peer.on_job = lambda method, unit: result
    with pytest.raises(ToolFailed, match=said):
        await live.manager.start(KEY)


async def test_a_job_that_never_ends_is_not_waited_for_forever(
    live: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "JOB_SECONDS", 0.1)
    live.peer.units["x.service"] = Unit()
    live.peer.on_job = lambda method, unit: ""
    with pytest.raises(ToolFailed, match=r"it was not done after 0\.1 s"):
        await live.manager.start(KEY)


async def test_it_exited_right_after_its_job_was_done(live: World) -> None:
    live.peer.units["x.service"] = Unit(properties={"Type": ("s", "simple"), "Result": ("s", "success")})
    live.peer.on_job = lambda method, unit: "done"
    with pytest.raises(ToolFailed, match="it started and exited, and is inactive"):
        await live.manager.start(KEY)


async def test_a_oneshot_may_exit(live: World) -> None:
    live.peer.units["x.service"] = Unit(properties={"Type": ("s", "oneshot"), "Result": ("s", "success")})
    live.peer.on_job = lambda method, unit: "done"
    await live.manager.start(KEY)


async def test_the_connection_breaks_while_a_job_runs(live: World, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = systemd_bus.ManagerSession.outcome

    async def break_and_wait(self: systemd_bus.ManagerSession, job: str, seconds: float) -> str:
        await self.connection.close()
        return await wait(self, job, seconds)

    monkeypatch.setattr(systemd_bus.ManagerSession, "outcome", break_and_wait)
    live.peer.units["x.service"] = Unit()
    await live.manager.restart(KEY)
    assert live.peer.asked == ["RestartUnit x.service"]


async def test_unknown_units_are_refused_by_systemd_itself(live: World) -> None:
    with pytest.raises(ToolFailed, match=r"cannot start x\.service: Unit x.service not found"):
        await live.manager.start(KEY)


async def test_enable_says_whether_systemd_has_yet_to_see_it(live: World) -> None:
    live.peer.units["x.service"] = Unit()
    assert await live.manager.enable(KEY, enabled=True) is True
    assert await live.manager.enable(KEY, enabled=True) is False
    assert live.peer.asked == ["EnableUnitFiles ['x.service']"] * 2  # it is for others to have it reload
    assert await live.manager.enable(KEY, enabled=False) is True
    assert live.peer.units["x.service"].file == "disabled"


@pytest.mark.parametrize(
    ("remembered", "on_disk", "linked"), [("enabled", "disabled", False), ("disabled", "enabled", True)]
)
async def test_what_systemd_remembers_of_boot_is_held_against_the_links(
    live: World, remembered: str, on_disk: str, *, linked: bool
) -> None:
    live.peer.units["x.service"] = Unit(active="active", sub="running", file=remembered, file_on_disk=on_disk)
    folder = live.root / "etc/systemd/system/multi-user.target.wants"
    folder.mkdir(parents=True)
    if linked:
        (folder / "x.service").symlink_to("/usr/lib/systemd/system/x.service")
    fact = (await live.manager.observe([KEY]))[KEY]
    assert (fact.enabled, fact.stale) == (linked, True)
    await live.manager.refresh()
    fact = (await live.manager.observe([KEY]))[KEY]
    assert (fact.enabled, fact.stale) == (linked, False)  # it does not help, so it is not done again
    live.peer.units["x.service"].file = on_disk
    fact = (await live.manager.observe([KEY]))[KEY]
    assert (fact.enabled, fact.stale) == (linked, False)


@pytest.mark.parametrize(("remembered", "on_disk"), [("enabled", "disabled"), ("disabled", "enabled")])
async def test_what_the_manager_of_a_user_remembers_of_boot_is_asked_anew(
    world: World, remembered: str, on_disk: str
) -> None:
    (world.root / "etc").mkdir()
    (world.root / "etc/passwd").write_text(f"me:x:{os.getuid()}:0::/:\n")
    world.peer.units["x.service"] = Unit(file=remembered, file_on_disk=on_disk)
    mine = ServiceKey("x", "me")
    async with world.peer.listen(world.root / systemd_bus.USER_PRIVATE.format(os.getuid()).lstrip("/")):
        fact = (await world.manager.observe([mine]))[mine]
    assert (fact.enabled, fact.stale) == (on_disk == "enabled", True)


async def test_a_file_that_systemd_will_not_read_is_reported_once(live: World) -> None:
    live.peer.units["x.service"] = Unit(active="active", sub="running")
    folder = live.root / "etc/systemd/system/x.service.d"
    folder.mkdir(parents=True)
    (folder / "a.conf").touch()
    assert (await live.manager.observe([KEY]))[KEY].stale is True
    await live.manager.refresh()
    assert (await live.manager.observe([KEY]))[KEY].stale is False
    (folder / "b.conf").touch()
    assert (await live.manager.observe([KEY]))[KEY].stale is True


async def test_looking_at_another_unit_forgets_nothing(live: World) -> None:
    live.peer.units.update(
        {name: Unit(active="active", sub="running") for name in ("x.service", "y.service")}
    )
    folder = live.root / "etc/systemd/system/x.service.d"
    folder.mkdir(parents=True)
    (folder / "a.conf").touch()
    await live.manager.observe([KEY])
    await live.manager.refresh()
    await live.manager.observe([ServiceKey("y")])
    assert (await live.manager.observe([KEY]))[KEY].stale is False


async def test_what_a_manager_remembers_wrongly_has_to_be_told(live: World) -> None:
    live.peer.units["x.service"] = Unit(file="enabled")
    live.peer.forgets = True
    assert await live.manager.enable(KEY, enabled=False) is True
    assert await live.manager.enable(KEY, enabled=False) is True  # nothing changes, and it does not know yet


async def test_nobody_is_there(world: World) -> None:
    fact = (await world.manager.observe([KEY]))[KEY]
    assert fact.error.startswith("cannot reach systemd: ")
    with pytest.raises(BusUnreachable, match=r"cannot start x\.service: cannot reach systemd: "):
        await world.manager.start(KEY)


async def test_a_bus_that_is_broken_is_gone_around(world: World) -> None:
    broken = SystemdPeer()
    broken.hang_up_on = "Hello"
    world.peer.units["x.service"] = Unit(active="active", sub="running")
    async with broken.listen(world.bus), world.peer.listen(world.private):
        assert (await world.manager.observe([KEY]))[KEY].running is True


async def test_the_peer_hangs_up(live: World) -> None:
    live.peer.hang_up_on = "ListUnitsByNames"
    fact = (await live.manager.observe([KEY]))[KEY]
    assert fact.error.startswith("cannot look at the services: the connection broke")


@pytest.mark.parametrize(
    "raw", [b"HTTP/1.1 400 Bad Request\r\n\r\n" + b"x" * 100, b"\0" * 64, b"l\2\0\1" + b"\xff" * 60]
)
async def test_the_peer_speaks_something_else(live: World, raw: bytes) -> None:
    live.peer.raw = raw
    fact = (await live.manager.observe([KEY]))[KEY]
    assert fact.error.startswith("cannot ")


async def test_users_without_a_manager_and_users_that_are_none(world: World) -> None:
    (world.root / "etc").mkdir()
    (world.root / "etc/passwd").write_text("bob:x:1000:1000::/home/bob:/bin/sh\n")
    bob, eve = ServiceKey("x", "bob"), ServiceKey("x", "eve")
    facts = await world.manager.observe([bob, eve])
    assert facts[bob].error == "cannot reach bob's services: no user manager runs; loginctl enable-linger bob"
    assert facts[eve].error.startswith("cannot reach the services of eve: there is no such user")


async def test_the_manager_of_a_user_must_be_theirs(world: World) -> None:
    (world.root / "etc").mkdir()
    ours, other = os.getuid(), os.getuid() + 1
    (world.root / "etc/passwd").write_text(f"me:x:{ours}:0::/:\nbob:x:{other}:0::/:\n")
    world.peer.units["x.service"] = Unit(active="active", sub="running")
    mine, bobs = ServiceKey("x", "me"), ServiceKey("x", "bob")
    paths = [world.root / systemd_bus.USER_PRIVATE.format(number).lstrip("/") for number in (ours, other)]
    async with world.peer.listen(paths[0]), world.peer.listen(paths[1]):
        facts = await world.manager.observe([mine, bobs])
    assert facts[mine].running is True
    assert f"belongs to user number {ours}, not to {other}" in facts[bobs].error


async def test_arguments_are_refused_with_the_way_out(world: World) -> None:
    with pytest.raises(NotSupported, match=r"declare a file /etc/systemd/system/x.service.d/arguments.conf"):
        await world.manager.set_arguments(KEY, "-v")


async def test_no_more_is_asked_at_once_than_a_system_bus_allows(live: World) -> None:
    """dbus-daemon refuses what goes beyond 128 calls of a connection that wait for their answers."""
    keys = [ServiceKey(f"x{number}") for number in range(400)]
    live.peer.units.update({f"{key.name}.service": Unit() for key in keys})
    found = await live.manager.observe(keys)
    assert all(found[key].known for key in keys)
    assert 1 < live.peer.most <= 128
