"""Virtual machines of a site, moved by a fake KubeVirt and CDI before both servers, and what is said of them.

At every step both are asked: the backend, with the rights of the operator, and the status of the EdgeCluster.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from nodemanager.api.edge.edgecluster import EdgeClusterStatus
from nodemanager.backends.virtualisation.kubevirt import KubeVirt
from nodemanager.fleet.edge.machines import MachineFacts
from support import edge_site, foreign_kinds
from support.agent_process import Api
from support.edge_site import EdgeSite
from support.either import Place
from support.virt import asking, running
from support.virt.cluster import VirtCluster
from support.virt.kinds import DATA_VOLUMES, DEFINED, MACHINES, MIGRATIONS, data_volume, machine, phase_of
from support.virt.volumes import WAITS

pytestmark = [pytest.mark.usefixtures("place"), pytest.mark.timeout(180)]
Told = tuple[str, str, str]
"""Phase of the site, state of the part, and what is said of it."""


@dataclass
class Watched:
    """A site whose virtual machines are moved, and looked at."""

    site: EdgeSite
    cluster: VirtCluster
    alive: tuple[str, ...] = ("a", "b")

    async def step(self) -> tuple[MachineFacts, EdgeClusterStatus]:
        """Have every object move by one phase, and look."""
        await running.step(self.cluster)
        return await self.look()

    async def look(self, seconds: float = 10) -> tuple[MachineFacts, EdgeClusterStatus]:
        """Ask the backend, and the operator."""
        facts = await KubeVirt(self.site.context.client, [self.cluster.namespace]).observe()
        await self.site.daemon_set.live(*self.alive)
        return facts, await self.site.look(seconds)

    async def settled(self) -> Told:
        """Have all be done that is to be done, and look."""
        await running.settle(self.cluster)
        return told((await self.look())[1])

    @property
    def where(self) -> str:
        """What names of machines begin with."""
        return self.cluster.namespace


def told(status: EdgeClusterStatus) -> Told:
    assert status.virtualisation is not None
    return status.phase, status.virtualisation.state, status.virtualisation.said


def runs(count: int, movable: int, more: str = "") -> Told:
    return "MultiNode", "Healthy", f"{count} run, {movable} of them can be migrated live{more}"


@pytest.fixture(name="known")
def _known(place: Place) -> Iterator[None]:
    with foreign_kinds.defined(place, DEFINED):
        yield


@pytest.fixture(name="watched")
async def _watched(place: Place, api: Api, known: None) -> AsyncIterator[Watched]:
    async with edge_site.standing(place, api, more={"kubevirt": {"namespaces": [place.namespace]}}) as site:
        found = Watched(site, VirtCluster(api.client, place.namespace))
        await site.daemon_set.deploy()
        await site.daemon_set.begin("a", "b")
        await site.look()
        assert told((await found.look())[1]) == runs(0, 0)
        yield found
        await found.cluster.clear()


async def test_a_machine_is_seen_through_all_its_phases(watched: Watched) -> None:
    await watched.cluster.create(MACHINES, machine("db"))
    seen: dict[str, Told] = {}
    for _ in range(8):
        facts, status = await watched.step()
        for one in facts.machines:
            assert one.name == f"{watched.where}/db"
            assert (one.node, one.migrating) == ("a" if one.phase in ("Scheduled", "Running") else "", False)
            assert one.ready is {"": None, "Running": True}.get(one.phase, False)
        seen.setdefault(facts.machines[0].phase if facts.machines else "-", told(status))
    assert seen == {
        "": ("Unknown", "Unknown", f"{watched.where}/db: nobody knows how it is"),
        **dict.fromkeys(("Pending", "Scheduling", "Scheduled"), runs(0, 0)),
        "Running": runs(1, 1),
    }
    watched.cluster.paused.add("db")
    assert await watched.settled() == ("Degraded", "Unhealthy", f"{watched.where}/db is paused")
    watched.cluster.paused.clear()
    assert await watched.settled() == runs(1, 1)
    await asking.stop(watched.cluster, "db")
    seen.clear()
    for _ in range(4):
        facts, status = await watched.step()
        seen.setdefault(facts.machines[0].phase if facts.machines else "-", told(status))
    assert seen == {"Running": runs(1, 1), "Succeeded": runs(0, 0), "-": runs(0, 0)}


async def test_a_migration_is_seen_through_all_its_phases(watched: Watched) -> None:
    await watched.cluster.create(MACHINES, machine("db"))
    assert await watched.settled() == runs(1, 1)
    await asking.migrate(watched.cluster, "db")
    seen: dict[str, tuple[str, bool, tuple[str, ...], Told]] = {}
    for _ in range(9):
        facts, status = await watched.step()
        (one,) = facts.machines
        phase = phase_of(await watched.cluster.get(MIGRATIONS, "move-db"))
        seen[phase] = one.node, one.migrating, facts.migrations, told(status)
    way, moving = (f"{watched.where}/move-db",), runs(1, 1, ", 1 migration under way")
    before = ("Pending", "Scheduling", "Scheduled", "PreparingTarget", "TargetReady")
    assert seen == {
        **dict.fromkeys(before, ("a", False, way, moving)),
        "Running": ("a", True, way, moving),
        "Succeeded": ("b", False, (), runs(1, 1)),
    }


async def test_migrations_that_hang_or_fail(watched: Watched) -> None:
    await watched.cluster.create(MACHINES, machine("db"))
    await watched.settled()
    watched.cluster.faults.migrations_hang = True
    await asking.migrate(watched.cluster, "db", "first")
    for _ in range(2):
        assert await watched.settled() == runs(1, 1, ", 1 migration under way")
    facts, _ = await watched.look()
    assert [(one.node, one.migrating) for one in facts.machines] == [("a", True)]
    watched.cluster.faults.migrations_hang, watched.cluster.faults.migrations_fail = False, "no link"
    assert await watched.settled() == runs(1, 1), "it has ended, and the machine runs where it was"
    facts, _ = await watched.look()
    assert [(one.node, one.migrating) for one in facts.machines] == [("a", False)]
    assert facts.migrations == ()


async def test_a_drain_moves_what_can_be_moved(watched: Watched) -> None:
    for name, access in (("shared", "ReadWriteMany"), ("alone", "ReadWriteOnce")):
        await watched.cluster.create(DATA_VOLUMES, data_volume(name, access))
        await watched.cluster.create(MACHINES, machine(name, eviction="LiveMigrate", volumes=[name]))
    assert await watched.settled() == runs(2, 1)
    answers = await asking.drain(watched.cluster, "a")
    assert answers == {"shared": "evacuates", "alone": "refused"}
    _, status = await watched.step()
    assert told(status) == runs(2, 1, ", 1 migration under way"), "nobody asked for it but the drain"
    assert await watched.settled() == runs(2, 1)
    facts, _ = await watched.look()
    assert {one.name.rpartition("/")[2]: one.node for one in facts.machines} == {"shared": "b", "alone": "a"}


async def test_a_machine_of_a_lost_node_is_not_shown_as_running_for_longer_than_the_node(
    watched: Watched,
) -> None:
    await watched.cluster.create(MACHINES, machine("db", "RerunOnFailure"))
    assert await watched.settled() == runs(1, 1)
    watched.cluster.nodes["a"].lost, watched.alive = True, ("b",)
    name = f"{watched.where}/db"
    for _ in range(9):
        _, status = await watched.step()
    facts, status = await watched.look()
    assert [(one.phase, one.ready) for one in facts.machines] == [("Running", True)], "KubeVirt says so"
    assert told(status) == ("Degraded", "Unknown", f"{name}: its node a gives no signs of life")
    assert status.reason == "HeartbeatStale"
    await asking.not_ready(watched.cluster, "a")
    silent = f"{name} is not ready; {name}: its node a gives no signs of life"
    assert await watched.settled() == ("Degraded", "Unhealthy", silent)
    await asking.give_up(watched.cluster, "a")
    _, status = await watched.step()
    assert told(status) == ("Degraded", "Unhealthy", f"{name} is Failed")
    assert await watched.settled() == ("Degraded", *runs(1, 1)[1:]), "it runs on b, and a is still lost"


async def test_controllers_that_are_down_leave_what_was_and_its_age_is_shown(watched: Watched) -> None:
    """Objects do not say that nobody looks after them: only how long nothing has changed can be seen."""
    await watched.cluster.create(MACHINES, machine("db"))
    assert await watched.settled() == runs(1, 1)
    watched.cluster.faults.down = True
    await asking.stop(watched.cluster, "db")
    _, first = await watched.look()
    for _ in range(3):
        assert await watched.settled() == runs(1, 1)
    _, last = await watched.look()
    name = f"KubeVirt in {watched.where}"
    ages = [next(one.changed_at for one in each.inputs if one.name == name) for each in (first, last)]
    assert ages[0] == ages[1] != last.observed_at
    watched.cluster.faults.down = False
    assert await watched.settled() == runs(0, 0)


async def test_volumes_that_are_filled_and_one_that_is_not(watched: Watched) -> None:
    watched.cluster.binding = WAITS
    await watched.cluster.create(MACHINES, machine("db", templates=[data_volume("disk")]))
    seen: dict[str, set[str]] = {}
    for _ in range(14):
        facts, status = await watched.step()
        found = await watched.cluster.all_of(DATA_VOLUMES)
        phases = {one.phase for one in facts.machines}
        seen.setdefault(phase_of(found[0]) if found else "-", set()).update(phases)
        count = int("Running" in phases)
        assert "" in phases or told(status) == runs(count, count)
    assert list(seen) == ["", "Pending", WAITS, "ImportScheduled", "ImportInProgress", "Succeeded"]
    assert seen["ImportInProgress"] == {"Pending"}, "an instance that waits for its disk is no fault"
    assert "Running" in seen["Succeeded"]
    watched.cluster.binding, watched.cluster.faults.imports_fail = "Immediate", True
    await watched.cluster.create(MACHINES, machine("web", templates=[data_volume("broken")]))
    assert await watched.settled() == runs(1, 1), "a machine without an instance is not looked at"
    word = (await watched.cluster.get(MACHINES, "web"))["status"]["printableStatus"]
    assert word == "DataVolumeError"
