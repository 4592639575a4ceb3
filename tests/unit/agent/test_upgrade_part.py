"""The part that waits for slots: what wakes it, what it says, and what it keeps on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from nodemanager.agent.report import status
from nodemanager.agent.upgrades.upgrade_host import ToolsHost
from nodemanager.agent.upgrades.upgrade_record import (
    Phase,
    RecordError,
    RecordFile,
    UpgradeRecord,
    UpgradeResult,
)
from nodemanager.api.common.managednode import (
    ANNOTATION_HOLD,
    ANNOTATION_REBOOT,
    ManagedNode,
    ManagedNodeStatus,
    Upgrade,
)
from nodemanager.host.base import NotSupported, Wanted
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory.boot import Boot
from support import virtual_time
from support.fake_tools import MemoryPackages
from support.upgrade_world import Machine, World

HOUR = 3600.0


class Told(Machine):
    """A host whose ManagedNode a test writes."""

    node = ManagedNode()

    def managed_node(self) -> ManagedNode:
        return self.node


def told(world: World) -> Told:
    """Replace the only host of a world by one that is told what to do."""
    ordinary = world.machines[0].managed_node()
    host = Told("h0", world)
    host.node = ordinary
    world.machines = [host]
    return host


def annotated(node: ManagedNode, **annotations: str) -> ManagedNode:
    known = {"hold": ANNOTATION_HOLD, "reboot": ANNOTATION_REBOOT}
    said = {known[name]: value for name, value in annotations.items()}
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, annotations=said))


def scheduled(node: ManagedNode, **upgrade: str) -> ManagedNode:
    spec = msgspec.structs.replace(node.spec, upgrade=Upgrade(**upgrade))
    return msgspec.structs.replace(node, spec=spec)


@virtual_time.test
async def test_a_host_on_hold_does_nothing_until_the_hold_is_lifted() -> None:
    world = World()
    host = told(world)
    host.node = annotated(host.node, hold="")
    living = asyncio.create_task(world.run(2 * HOUR))
    await asyncio.sleep(HOUR)
    assert host.deeds == []
    host.node = annotated(host.node)
    assert host.part is not None
    host.part.changed()
    await living
    assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]  # its window is two hours long


@pytest.mark.parametrize("why", ["held", "busy"])
def test_no_upgrade_begins_on_a_host_that_may_not_act(why: str) -> None:
    """Because it is held, or because a task has its turn."""
    virtual_time.run(_late_upgrade(why))


async def _late_upgrade(why: str) -> None:
    world = World()
    host = told(world)
    setattr(host, why, True)
    living = asyncio.create_task(world.run(2 * HOUR))
    await asyncio.sleep(HOUR)
    assert host.deeds == []
    setattr(host, why, False)
    assert host.part is not None
    host.part.changed()
    await living
    assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]


@virtual_time.test
async def test_a_reboot_that_is_asked_for_is_done_without_need() -> None:
    world = World()
    host = told(world)
    host.needs_reboot = False
    host.node = annotated(host.node, reboot="always")
    await world.run(HOUR)
    world.assert_nothing_is_stranded()
    assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]


@virtual_time.test
async def test_the_next_slots_are_told_and_change_only_when_one_is_over() -> None:
    world = World()  # begins half a minute before three
    host = told(world)
    host.node = scheduled(host.node, schedule="0 */8 * * *", delay="20h")
    living = asyncio.create_task(world.run(24 * HOUR))
    seen: list[tuple[str, ...]] = []
    for _ in range(23 * 60):
        await asyncio.sleep(60)
        assert host.part is not None
        slots = host.part.status.next_slots
        seen += [] if slots in seen[-1:] else [slots]
    assert seen == [  # the delay leaves out two of three
        ("2026-06-01T08:00:00Z", "2026-06-02T08:00:00Z", "2026-06-03T08:00:00Z"),
        ("2026-06-02T08:00:00Z", "2026-06-03T08:00:00Z", "2026-06-04T08:00:00Z"),
    ]
    assert host.part is not None
    written = status.of_upgrades(ManagedNodeStatus(), host.part.status)
    assert written.upgrade is not None
    assert tuple(written.upgrade.next_slots) == seen[-1]
    host.node = annotated(host.node, hold="")
    assert host.part.status.next_slots == ()
    assert status.of_upgrades(written, host.part.status).upgrade is None
    await living


@virtual_time.test
async def test_a_schedule_that_cannot_be_read_is_told_and_can_be_mended() -> None:
    world = World()
    host = told(world)
    good = host.node
    host.node = scheduled(host.node, schedule="0 3 15W * *", delay="1h")
    living = asyncio.create_task(world.run(HOUR))
    await asyncio.sleep(60)
    assert host.status is not None
    assert "cannot read schedule '0 3 15W * *'" in host.status.problem
    host.node = good
    assert host.part is not None
    host.part.changed()
    await living
    assert host.status.problem == ""
    assert host.disk.result is UpgradeResult.SUCCESS


@virtual_time.test
async def test_what_another_agent_did_before_counts_for_the_delay() -> None:
    """A host that comes from the Go project has its last upgrade in its status, and no record."""
    world = World()
    host = told(world)
    host.node = msgspec.structs.replace(
        host.node, status=ManagedNodeStatus(last_upgrade="2026-05-31T23:00:00Z")
    )
    await world.run(2 * HOUR)
    assert host.deeds == []
    assert 'nodemanager_last_upgrade_timestamp_seconds{node="h0"} 1780268400' in host.registry.render()


@virtual_time.test
async def test_a_clock_that_is_set_past_the_slot_is_noticed() -> None:
    world = World()
    host = told(world)
    host.node = scheduled(host.node, schedule="0 12 * * *")
    living = asyncio.create_task(world.run(HOUR))
    await asyncio.sleep(60)
    world.offset += datetime(2026, 6, 1, 11, 59, 59, tzinfo=UTC) - world.now()
    await living
    assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]


def test_a_record_survives(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path))
    (tmp_path / "var/lib").mkdir(parents=True)
    assert RecordFile(tree).load() == UpgradeRecord()
    record = UpgradeRecord(
        phase=Phase.REBOOTING, slot=datetime(2026, 6, 1, 3, tzinfo=UTC), group="web", asked=12.5
    )
    RecordFile(tree).save(record)
    assert RecordFile(tree).load() == record
    file = tmp_path / "var/lib/nodemanager/upgrade.json"
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(b"{torn")
    torn = RecordFile(tree).load()
    assert (torn.phase, torn.result) == (Phase.RETURNING, UpgradeResult.ERROR)
    tree.close()


def test_a_record_that_cannot_be_written_says_what_that_means(tmp_path: Path) -> None:
    tree = Tree(str(tmp_path))
    (tmp_path / "var").write_text("in the way")
    with pytest.raises(RecordError, match="no upgrade is done until this is possible"):
        RecordFile(tree).save(UpgradeRecord())
    tree.close()


@virtual_time.test
async def test_a_disk_that_is_full_costs_a_slot_and_not_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def full(*_: object) -> None:
        raise RecordError("cannot record the upgrade: no space left on device")

    monkeypatch.setattr("support.upgrade_world.Process.save", full)
    await world.run(HOUR)
    [host] = world.machines
    assert host.deeds == []
    assert host.status is not None
    assert "no space left" in host.status.problem
    assert world.cluster.holder() is None


class _Boot(Boot):
    async def boot_id(self) -> str:
        return "b"

    async def reboot(self) -> None:
        raise NotImplementedError


async def test_pins_stay_and_the_base_system_asks_for_a_reboot() -> None:
    held: list[Wanted] = []

    class Packages(MemoryPackages):
        async def upgrade_all(self, hold: Sequence[Wanted] = ()) -> None:
            held.extend(hold)

    async def base() -> bool:
        return True

    pins = [Wanted("nginx", "1.2")]
    assert (
        await ToolsHost(Packages({}), _Boot(), lambda: pins, base).upgrade() == "the base system was upgraded"
    )
    assert held == pins
    assert await ToolsHost(Packages({}), _Boot()).upgrade() == ""
    with pytest.raises(NotSupported, match="no package manager"):
        await ToolsHost(None, _Boot()).upgrade()


async def test_what_an_upgrade_stops_for_a_moment_is_not_repaired_meanwhile() -> None:
    upgrading, found = asyncio.Lock(), []

    class Packages(MemoryPackages):
        async def upgrade_all(self, hold: Sequence[Wanted] = ()) -> None:
            del hold
            found.append(upgrading.locked())

    async def base() -> bool:
        found.append(upgrading.locked())
        return False

    await ToolsHost(Packages({}), _Boot(), upgrade_base=base, upgrading=upgrading).upgrade()
    assert (found, upgrading.locked()) == ([True, True], False)
