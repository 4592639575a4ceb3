"""The part that waits for slots: what wakes it, what it says, and what it keeps on disk."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from nodemanager.agent.report import status
from nodemanager.agent.tasks.attempts import REBOOT_NEEDED, Attempt
from nodemanager.agent.tasks.ledger import LedgerError, LedgerFolder
from nodemanager.agent.tasks.packages import Packages
from nodemanager.agent.tasks.probes import Probes
from nodemanager.agent.tasks.reboots import Reboots
from nodemanager.agent.upgrades import own_task, upgrading
from nodemanager.agent.upgrades.own_task import (
    NOTHING,
    Order,
    Stage,
    UpgradeEntry,
    UpgradeResult,
    Upgrades,
    UpgradeTools,
)
from nodemanager.api.common.managednode import (
    ANNOTATION_HOLD,
    ANNOTATION_REBOOT,
    ManagedNode,
    ManagedNodeStatus,
    upgrading_since,
)
from nodemanager.api.common.node_upgrades import Upgrade
from nodemanager.api.maintenance.nodetask import VISIT
from nodemanager.api.maintenance.task_steps import PackagesAction
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.host.base import NotSupported, WantedPackage
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory.boot import Boot
from nodemanager.host.state.journal import STATE
from nodemanager.plan.tasks.record import StepRecord
from support import virtual_time
from support.fake_tools import MemoryPackages
from support.upgrade_ledger import no_program
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
    known = {"hold": ANNOTATION_HOLD, "reboot": ANNOTATION_REBOOT, "visit": VISIT}
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


def visit(state: State, expires: datetime) -> str:
    """Return the operator's claim on the host."""
    since = datetime(2026, 6, 1, 2, tzinfo=UTC)
    return claims.encode(Claim("monday", "m", "h", "r", 0, state, since=since, begun=since, expires=expires))


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(visit(State.DONE, datetime(2026, 6, 2, tzinfo=UTC)), id="over"),
        pytest.param(visit(State.WORKING, datetime(2026, 6, 1, 3, 30, tzinfo=UTC)), id="given up since"),
    ],
)
def test_a_visit_that_is_over_keeps_nobody_from_upgrading(said: str) -> None:
    async def scenario() -> None:
        world = World()
        host = told(world)
        host.node = annotated(host.node, visit=said)
        await world.run(2 * HOUR)
        assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]

    virtual_time.run(scenario())


@pytest.mark.parametrize("why", ["held", "busy", "visited", "unreadable"])
def test_no_upgrade_begins_on_a_host_that_may_not_act(why: str) -> None:
    """Because it is held, because a task has its turn, or because the operator has begun to work on it."""
    virtual_time.run(_late_upgrade(why))


async def _late_upgrade(why: str) -> None:
    world = World()
    host = told(world)
    node = host.node
    setattr(host, why, True)
    said = {"visited": visit(State.DRAINING, datetime(2026, 6, 2, tzinfo=UTC)), "unreadable": "{}"}
    host.node = annotated(node, visit=said[why]) if why in said else node
    living = asyncio.create_task(world.run(2 * HOUR))
    await asyncio.sleep(HOUR)
    assert host.deeds == []
    setattr(host, why, False)
    host.node = node
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
async def test_an_upgrade_is_told_while_it_is_under_way() -> None:
    """Also where there is no Kubernetes Node that would be cordoned: who plans for others counts it."""
    world = World()
    world.cluster.forbidden = "/api/v1/nodes"
    [host] = world.machines
    living = asyncio.create_task(world.run(HOUR))
    await asyncio.sleep(60)
    assert host.status is not None
    written = status.of_upgrades(ManagedNodeStatus(), host.status)
    assert upgrading_since(written) == "2026-06-01T03:00:00Z"
    await living
    assert upgrading_since(status.of_upgrades(written, host.status)) is None


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


SLOT = datetime(2026, 6, 1, 3, tzinfo=UTC)


def ledger_in(folder: Path) -> LedgerFolder:
    return LedgerFolder(Tree(str(folder)), f"{STATE}/upgrades", UpgradeEntry)


def test_an_upgrade_on_disk_is_a_task_and_what_is_around_it(tmp_path: Path) -> None:
    (tmp_path / "var/lib").mkdir(parents=True)
    entry = own_task.write(Order(SLOT, "web", reboot=True), "web1", 3, SLOT)
    ledger_in(tmp_path).save(entry)
    again = ledger_in(tmp_path)
    assert own_task.latest(again.entries.values()) == entry
    assert again.unfinished() == [entry]
    assert [step.name for step in entry.spec.steps] == ["upgrade", "reboot", "prove"]
    file = tmp_path / "var/lib/nodemanager/upgrades/upgrade-3.json"
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(b"{torn")
    torn = own_task.latest(ledger_in(tmp_path).entries.values())
    assert (torn.stage, torn.result) == (Stage.RETURNING, UpgradeResult.ERROR)


@pytest.mark.parametrize(
    ("left", "group"),
    [('{"phase":"Upgraded","slot":"2026-06-01T03:00:00Z","group":"web"}', "web"), ("{torn", "")],
)
def test_what_an_older_agent_left_is_ended_once(tmp_path: Path, left: str, group: str) -> None:
    file = tmp_path / STATE.lstrip("/") / "upgrade.json"
    file.parent.mkdir(parents=True)
    file.write_text(left)
    for stage in (Stage.RETURNING, Stage.OVER):
        ledger = ledger_in(tmp_path)
        upgrading.adopt(Tree(str(tmp_path)), STATE, ledger)
        entry = own_task.latest(ledger.entries.values())
        assert (entry.slot, entry.group) == ((SLOT, group) if group else (None, ""))
        assert (entry.stage, entry.result, file.exists()) == (stage, UpgradeResult.SKIPPED, False)
        assert entry.cordoned is not None  # so that the Node is looked at
        ledger.save(msgspec.structs.replace(entry, stage=Stage.OVER))


def test_a_host_that_was_never_upgraded_has_nothing_to_take_over(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    upgrading.adopt(Tree(str(tmp_path)), STATE, ledger)
    assert own_task.latest(ledger.entries.values()) == NOTHING


@virtual_time.test
async def test_a_disk_that_is_full_costs_a_slot_and_not_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def full(*_: object) -> None:
        raise LedgerError("cannot write down the task: no space left on device")

    monkeypatch.setattr("support.upgrade_ledger.MemoryLedger._write", full)
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


async def upgraded(
    manager: MemoryPackages | None, *, base: bool, pins: Sequence[WantedPackage] = (), upgrading: asyncio.Lock
) -> str:
    """Upgrade such a host; return why it has to reboot."""

    async def upgrade_base() -> bool:
        assert upgrading.locked()
        return base

    async def needed() -> str:
        return "" if manager is None else await manager.reboot_needed()

    @contextlib.asynccontextmanager
    async def exclusive() -> AsyncIterator[None]:
        async with upgrading:
            yield

    packages = Packages(manager, lambda: pins, exclusive)
    probes = Probes(no_program, None, needed)  # type: ignore[arg-type] # not asked
    tools = UpgradeTools(packages, Reboots(_Boot(), needed, exclusive), probes, upgrade_base)
    attempt = Attempt("upgrade-1/upgrade/1", 600, StepRecord())
    found = await Upgrades(tools, lambda: None).perform(PackagesAction(upgrade="all"), attempt)
    assert found.succeeded
    return found.evidence.get(REBOOT_NEEDED, "")


async def test_pins_stay_and_what_is_upgraded_is_not_repaired_meanwhile() -> None:
    held: list[WantedPackage] = []
    upgrading = asyncio.Lock()

    class Pinned(MemoryPackages):
        async def upgrade_all(self, hold: Sequence[WantedPackage] = ()) -> None:
            assert upgrading.locked()
            held.extend(hold)

    pins = [WantedPackage("nginx", "1.2")]
    why = await upgraded(Pinned({}), base=True, pins=pins, upgrading=upgrading)
    assert (why, held, upgrading.locked()) == ("the base system was upgraded", pins, False)
    assert await upgraded(Pinned({}), base=False, upgrading=upgrading) == ""
    with pytest.raises(NotSupported, match="no package manager"):
        await upgraded(None, base=False, upgrading=upgrading)
