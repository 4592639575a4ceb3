"""A host whose upgrades the operator begins: it asks, waits, tells; and nothing is done twice in one slot."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from nodemanager.agent.report import status
from nodemanager.agent.tasks.ledger import Entry
from nodemanager.agent.upgrades.own_task import Stage, UpgradeResult
from nodemanager.agent.upgrades.upgrade import UpgradeSettings
from nodemanager.api.common.managednode import ANNOTATION_HOLD, ManagedNode, ManagedNodeStatus
from nodemanager.api.common.node_upgrades import UpcomingUpgrades
from nodemanager.api.maintenance.nodetask import UPGRADES, VISIT, NodeTask, NodeTaskSpec, TaskReason
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.upgrades import upgrade_tasks
from nodemanager.kube import times
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan.tasks import admission
from nodemanager.plan.tasks.admission import Ledger, RefusedTask, Situation, Taken
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase, TaskRecord
from support import virtual_time
from support.upgrade_world import LEASE, Machine, World

HOUR = 3600.0
SLOT = datetime(2026, 6, 1, 3, tzinfo=UTC)
WHAT = ("mark", "mark", "unmark", "hold", "free", "order", "order", "jump")
FOREVER = "2030-01-01T00:00:00Z"


class Asked(Machine):
    """A host on which the operator, and people, write annotations."""

    notes: dict[str, str] = {}
    drops = False
    """Whether the API has CustomResourceDefinitions of before: it drops what they do not know."""

    def managed_node(self) -> ManagedNode:
        node = super().managed_node()
        meta = msgspec.structs.replace(node.metadata, annotations=self.notes, uid="u")
        asks = self.status is not None and self.status.asks and not self.drops
        said = msgspec.structs.replace(node.status, upgrade=UpcomingUpgrades(asks=asks))
        return msgspec.structs.replace(node, metadata=meta, status=said)

    def note(self, **notes: str | None) -> None:
        keys = {"mark": UPGRADES, "visit": VISIT, "hold": ANNOTATION_HOLD}
        changed = {keys[name]: value for name, value in notes.items()}
        self.notes = {key: value for key, value in {**self.notes, **changed}.items() if value is not None}
        if self.part is not None:
            self.part.changed()

    def take(self, slot: datetime, phase: TaskPhase = TaskPhase.SUCCEEDED, *, at: datetime) -> Entry:
        """Do a task of the operator, as the part does that does tasks."""
        spec = task_of(slot).spec
        steps = (StepRecord(StepPhase.SUCCEEDED, 1, boot_id="b", started_at=at, finished_at=at),) * 3
        record = TaskRecord(f"t-{slot}", int(at.timestamp()), phase, steps, claimed_at=at, ended_at=at)
        entry = Entry("task", spec, record)
        self.tasks = [*self.tasks, entry]
        assert self.part is not None
        self.part.follow(entry)
        self.part.changed()
        return entry

    @property
    def due(self) -> str:
        found = self.part.status.due if self.part is not None else None
        return found.slot if found is not None else ""

    def count(self, result: str) -> int:
        lines = self.registry.render().splitlines()
        wanted = f'nodemanager_upgrade_total{{node="{self.name}",result="{result}"}}'
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines if line.startswith(wanted))


def task_of(slot: datetime) -> NodeTask:
    spec = NodeTaskSpec(
        node_name="h0", steps=upgrade_tasks.steps(reboots=False), deadline=FOREVER, fencing_token=1,
        not_before=times.rfc3339(slot), reason=TaskReason(kind="ManagedNode", name="h0", uid="u"),
    )  # fmt: skip
    return NodeTask(ObjectMeta(name="task", uid=f"t-{slot}"), spec)


def asked_host(world: World, **notes: str) -> Asked:
    host = Asked("h0", world)
    world.machines = [host]
    host.note(**notes)
    return host


def visit(state: State, run: str, reason: Reason | None = None) -> str:
    begun, expires = SLOT, SLOT + timedelta(hours=2)
    made = Claim("managednode/h0", "u", "u", run, 0, state, begun, begun, expires, reason=reason, group="web")
    return claims.encode(made if made.state not in claims.ENDS else msgspec.structs.replace(made, group=""))


@virtual_time.test
async def test_a_marked_host_asks_in_its_slot_and_touches_nothing() -> None:
    world = World()
    host = asked_host(world, mark=FOREVER)
    living = asyncio.create_task(world.run(3 * HOUR))
    await asyncio.sleep(10)
    assert host.status is not None
    assert host.status.asks
    assert host.due == ""
    await asyncio.sleep(60)
    written = status.of_upgrades(ManagedNodeStatus(), host.status).upgrade
    assert written is not None
    assert written.due is not None
    assert (written.due.slot, written.due.until, written.due.drain_timeout) == (
        "2026-06-01T03:00:00Z", "2026-06-01T05:00:00Z", "5m0s"
    )  # fmt: skip
    assert written.asks
    assert written.started_at is None
    await living
    assert host.due == ""
    assert (host.count("skipped"), host.disk.stage) == (1, Stage.OVER)
    assert "did not begin with it within its window" in host.disk.message
    assert host.deeds == []
    assert [path for method, path in world.cluster.asked if method != "GET"] == []


@virtual_time.test
async def test_a_task_of_the_slot_is_what_the_host_tells_of() -> None:
    world = World()
    host = asked_host(world, mark=FOREVER)
    living = asyncio.create_task(world.run(3 * HOUR))
    await asyncio.sleep(60)
    host.note(visit=visit(State.WORKING, upgrade_tasks.run_of(SLOT)))
    host.take(SLOT, at=SLOT + timedelta(minutes=10))
    await living
    assert host.status is not None
    assert host.status.last_upgrade == "2026-06-01T03:10:00Z"
    assert (host.due, host.count("success"), host.count("skipped")) == ("", 1, 0)
    assert host.deeds == []


@virtual_time.test
async def test_an_upgrade_that_the_operator_gave_up_has_failed() -> None:
    """While it drains, which may be beyond the window, the host asks on; then it waits for its next slot."""
    world = World()
    host = asked_host(world, mark=FOREVER)
    living = asyncio.create_task(world.run(4 * HOUR))
    await asyncio.sleep(60)
    run = upgrade_tasks.run_of(SLOT)
    host.note(visit=visit(State.DRAINING, run))
    await asyncio.sleep(HOUR)
    assert host.due != ""
    host.note(visit=visit(State.UNDONE, run, Reason.DRAIN_TIMED_OUT))
    await living
    assert host.disk.result is UpgradeResult.ERROR
    assert host.disk.message == "the operator gave it up: DrainTimedOut"
    assert host.status is not None
    assert "DrainTimedOut" in host.status.problem
    assert host.deeds == []


@virtual_time.test
async def test_a_host_whose_operator_goes_upgrades_itself_and_refuses_the_late_task() -> None:
    world = World()
    host = asked_host(world, mark=FOREVER)
    living = asyncio.create_task(world.run(2 * HOUR))
    await asyncio.sleep(60)
    assert host.due != ""
    host.note(mark=None)
    await asyncio.sleep(30)
    assert host.part is not None
    assert host.part.status.busy
    host.note(mark=FOREVER)  # it is back in the middle
    meanwhile = host.part.status.asks  # rights are not taken away from whoever needs them still
    await living
    assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]
    assert (meanwhile, host.part.status.asks) == (False, True)
    assert host.due == ""
    here = Situation("h0", "b", world.now(), used_slot=host.part.used_slot())
    answer = admission.admit(task_of(SLOT), Ledger(), here)
    assert isinstance(answer, RefusedTask)
    assert answer.reason == admission.STALE
    world.assert_nothing_is_stranded()


@virtual_time.test
async def test_a_mark_that_ran_out_is_none() -> None:
    world = World()
    host = asked_host(world, mark="2026-06-01T02:00:00Z")
    await world.run(HOUR)
    assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]


@virtual_time.test
async def test_a_slot_that_was_asked_for_is_told_of_by_the_next_process() -> None:
    world = World()
    host = asked_host(world, mark=FOREVER)
    await world.run(HOUR)
    assert (host.due, host.disk.stage) == ("2026-06-01T03:00:00Z", Stage.ASKING)
    world.offset += timedelta(hours=5)  # it was off
    await world.run(60)
    assert (host.count("skipped"), host.deeds) == (1, [])


@dataclass
class Fate:
    """What happens to one host: its operator comes and goes, clocks are set, people hold it, tasks come."""

    seed: int
    used: list[tuple[str, datetime]] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    async def run(self) -> None:
        chance = random.Random(self.seed)
        world = World()
        host = asked_host(world)
        for _ in range(6):  # processes
            living = asyncio.create_task(world.run(8 * HOUR))
            for _ in range(16):
                await asyncio.sleep(chance.choice((20, 90, 1800)))
                self._watch(host, world)
                getattr(
                    self, chance.choice(("mark", "mark", "unmark", "hold", "free", "order", "order", "jump"))
                )(host, world, chance)
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
            world.tomorrow()
        host.note(hold=None)
        await world.run(26 * HOUR)
        self._check(host)

    def _watch(self, host: Asked, world: World) -> None:
        if host.due:
            self.asked.add(host.due)
            slot = times.parse(host.due)
            assert slot is not None
            assert slot <= world.now() <= slot + timedelta(hours=2)

    def mark(self, host: Asked, world: World, _: random.Random) -> None:
        host.note(mark=times.rfc3339(world.now() + timedelta(days=7)))

    def unmark(self, host: Asked, _: World, __: random.Random) -> None:
        host.note(mark=None)

    def hold(self, host: Asked, _: World, __: random.Random) -> None:
        host.note(hold="")

    def free(self, host: Asked, _: World, __: random.Random) -> None:
        host.note(hold=None)

    def jump(self, _: Asked, world: World, chance: random.Random) -> None:
        world.offset += timedelta(minutes=chance.choice((-50, -1, 1, 50)))

    def order(self, host: Asked, world: World, chance: random.Random) -> None:
        """Have the operator order what was asked for, perhaps for a while ago, if the host takes it."""
        part, known = host.part, sorted(self.asked)
        if part is None or not known or part.status.busy:
            return
        slot = times.parse(chance.choice(known[-2:]))
        assert slot is not None
        taken = {one.record.uid: one.record for one in host.tasks}
        here = Situation("h0", "b", world.now(), used_slot=part.used_slot())
        if isinstance(admission.admit(task_of(slot), Ledger(taken), here), Taken):
            phase = chance.choice((TaskPhase.SUCCEEDED, TaskPhase.FAILED))
            host.take(slot, phase, at=world.now())
            self.used.append(("task", slot))

    def _check(self, host: Asked) -> None:
        own = {slot for what, slot in host.deeds if what == "upgrade" and slot is not None}
        upgrades = [slot for what, slot in host.deeds if what == "upgrade"]
        assert len(upgrades) == len(own), f"{self}: twice by itself: {host.deeds}"
        counted = Counter(slot for _, slot in self.used)
        assert all(number == 1 for number in counted.values()), f"{self}: ordered twice"
        assert not own & set(counted), f"{self}: by itself and by order"
        told = sum(host.count(one) for one in ("success", "error", "skipped"))
        slots = own | set(counted) | {times.parse(one) for one in self.asked}
        assert told >= len(slots), f"{self}: {slots} and only {told} were told of"


@pytest.mark.parametrize("seed", range(12))
def test_no_slot_is_used_twice_or_lost_whoever_comes_and_goes(seed: int) -> None:
    virtual_time.run(Fate(seed).run())


@virtual_time.test
async def test_what_was_asked_for_stays_while_other_slots_come() -> None:
    """A schedule may have a slot each second: the operator is asked for one, until it has answered."""
    world = World()
    host = asked_host(world, mark=FOREVER)
    host.schedule = "* * * * * * *"
    living = asyncio.create_task(world.run(HOUR))
    await asyncio.sleep(2)
    first = host.due
    assert first != ""
    await asyncio.sleep(600)
    assert (host.due, len(host.files)) == (first, 1)
    assert "2026-06-01T02:59:30Z" <= first <= "2026-06-01T02:59:32Z", "the newest: its window is the longest"
    await living


@virtual_time.test
async def test_other_slots_that_come_while_the_operator_drains_stop_nothing_else() -> None:
    world = World()
    world.settings = UpgradeSettings(forgiveness=timedelta(minutes=1))
    host = asked_host(world, mark=FOREVER)
    host.schedule = "* * * * *"
    living = asyncio.create_task(world.run(HOUR))
    await asyncio.sleep(40)
    host.note(visit=visit(State.DRAINING, upgrade_tasks.run_of(SLOT)))
    await asyncio.sleep(600)  # an agent that never waits would not let us come back from here
    assert host.due == times.rfc3339(SLOT)
    host.note(visit=visit(State.UNDONE, upgrade_tasks.run_of(SLOT), Reason.DRAIN_TIMED_OUT))
    await asyncio.sleep(1)
    assert (host.count("error"), host.due > times.rfc3339(SLOT)) == (1, True)
    await living


@pytest.mark.parametrize(
    ("mark", "deeds"),
    [
        pytest.param("2026-06-01T02:00:00Z drained", [], id="its Node was drained, and would not be now"),
        pytest.param("2026-06-01T02:00:00Z", ["upgrade", "reboot"], id="it had no Node"),
        pytest.param(None, ["upgrade", "reboot"], id="people say so: they removed the mark"),
    ],
)
@virtual_time.test
async def test_a_host_whose_operator_is_gone_does_not_reboot_undrained(
    mark: str | None, deeds: list[str]
) -> None:
    world = World()
    world.cluster.forbidden = "/api/v1/nodes"
    host = asked_host(world)
    host.note(mark=mark)
    await world.run(HOUR)
    assert [what for what, _ in host.deeds] == deeds
    if not deeds:
        assert world.cluster.holder() is None
        assert host.disk.result is UpgradeResult.ERROR
        assert "nodemanager rbac --kubernetes-node" in host.disk.message


@virtual_time.test
async def test_a_host_without_a_right_to_its_lease_says_what_to_do() -> None:
    world = World()
    world.cluster.forbidden = LEASE
    host = asked_host(world, mark="2026-06-01T02:00:00Z")
    await world.run(3 * HOUR)
    assert (host.deeds, host.count("skipped")) == ([], 1)
    assert "nodemanager rbac --lock-group web" in host.disk.message


@virtual_time.test
async def test_a_host_whose_operator_is_gone_drains_itself_if_it_may() -> None:
    world = World()
    host = asked_host(world, mark="2026-06-01T02:00:00Z drained")
    await world.run(HOUR)
    assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]
    world.assert_nothing_is_stranded()


@virtual_time.test
async def test_a_host_that_nobody_can_hear_ask_upgrades_itself() -> None:
    world = World()
    host = asked_host(world, mark=FOREVER)
    host.drops = True
    await world.run(HOUR)
    assert [what for what, _ in host.deeds] == ["upgrade", "reboot"]


@pytest.mark.parametrize(
    ("state", "after", "group"),
    [
        pytest.param(State.WORKING, timedelta(), "web", id="at work"),
        pytest.param(State.WORKING, timedelta(hours=3), "web", id="it takes longer than it may"),
        pytest.param(State.WORKING, timedelta(hours=5), "", id="nobody goes on, the Lease has run out"),
        pytest.param(State.UNDONE, timedelta(), "", id="the Lease is being given back"),
    ],
)
def test_a_lock_is_lent_for_as_long_as_the_operator_holds_it(
    state: State, after: timedelta, group: str
) -> None:
    run, expires = upgrade_tasks.run_of(SLOT), SLOT + timedelta(hours=2)
    made = Claim("managednode/h0", "u", "u", run, 0, state, SLOT, SLOT, expires, group="web")
    node = ManagedNode(ObjectMeta(name="h0", annotations={VISIT: claims.encode(made)}))
    assert upgrade_tasks.lent(node, SLOT + after) == group
