"""Whatever parts have to say ends up in the status: through conflicts, refusals, outages and crashes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import tempfile
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nodemanager.agent.declared.desired_state import DesiredState
from nodemanager.agent.report import status
from nodemanager.agent.report.status import Collection, Pass
from nodemanager.agent.report.status_writer import CONFLICTS
from nodemanager.api.common.managednode import Drift, ManagedNodeStatus
from nodemanager.client.http.transport import Request
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube import conditions, errors, times
from nodemanager.kube.conditions import Condition
from nodemanager.kube.patching import merge_patch
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import file_id
from nodemanager.runtime import controller, tasks
from support import examples, virtual_time
from support.model_api import Answer, status_body
from support.reporting_host import START, WHO, ReportingHost
from support.root_tree import config_set
from support.scripted_server import until


class NodeApi:
    """One ManagedNode that several write, and Events; it fails as it is told."""

    def __init__(self) -> None:
        meta = {"name": "web1", "namespace": "n", "uid": "0123456789", "labels": WHO.labels()}
        self.node: dict[str, Any] = {"metadata": {**meta, "resourceVersion": "1", "generation": 1}}
        self.events: list[str] = []
        self.writes = self.attempts = self.strangers = 0
        self.conflicts = self.refusals = self.lost_answers = 0
        """How many of the next writes meet a stranger, are refused, or take effect without an answer."""
        self.forbidden = 0
        self.away = self.sending = False
        self.seconds = 0.01

    async def send(self, request: Request) -> Answer:
        patch = request.method == "PATCH"
        assert not (patch and self.sending), "two parts write at once"
        self.sending = self.sending or patch
        try:
            await asyncio.sleep(self.seconds)
            return self._handle(request)
        finally:
            self.sending = self.sending and not patch

    def _handle(self, request: Request) -> Answer:
        if self.away:
            raise errors.Unreachable("nobody is there")
        if self.refusals and request.method != "GET":
            self.refusals -= 1
            return Answer(500, status_body(500, "InternalError"))
        if self.forbidden and request.method == "PATCH":
            self.forbidden -= 1
            return Answer(403, status_body(403, "Forbidden"))
        body = json.loads(request.body or b"{}")
        if request.method == "POST":
            name = body["metadata"]["name"]
            if name in self.events:
                return Answer(409, status_body(409, "AlreadyExists"))
            self.events.append(name)
            return Answer(201, request.body)
        return self._patch(body) if request.method == "PATCH" else self._answer()

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        """Hold nothing open."""

    def _patch(self, body: dict[str, Any]) -> Answer:
        self.attempts += 1
        if self.conflicts:
            self.conflicts -= 1
            self.stranger()
        if body["metadata"]["resourceVersion"] != self.node["metadata"]["resourceVersion"]:
            return Answer(409, status_body(409, "Conflict"))
        self.writes += 1
        self._store(merge_patch.apply_merge_patch(self.node.get("status", {}), body["status"]))
        if self.lost_answers:
            self.lost_answers -= 1
            raise errors.Unreachable("the answer was lost")
        return self._answer()

    def stranger(self) -> None:
        """Write a condition of one's own, as the operator does."""
        self.strangers += 1
        own = [one for one in self.node.get("status", {}).get("conditions", []) if one["type"] != "Strange"]
        said = {"type": "Strange", "status": "True", "reason": "Counted", "message": str(self.strangers)}
        self._store({**self.node.get("status", {}), "conditions": [*own, said]})

    def _store(self, found: dict[str, Any]) -> None:
        version = int(self.node["metadata"]["resourceVersion"]) + 1
        self.node = {"metadata": {**self.node["metadata"], "resourceVersion": str(version)}, "status": found}

    def _answer(self) -> Answer:
        return Answer(200, json.dumps(self.node).encode())

    @property
    def status(self) -> ManagedNodeStatus:
        return msgspec.convert(self.node.get("status", {}), ManagedNodeStatus)

    def said(self, kind: str) -> str:
        found = conditions.get(self.status.conditions, kind)
        return f"{found.status} {found.message}" if found else ""


class World:
    """A host that has much to say, and may be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.api = folder, NodeApi()
        self.drifts = self.backups = self.tokens = self.asked = 0
        self.twin = False
        self.lost: set[str] = set()
        self.boot()

    def boot(self) -> None:
        self.host = ReportingHost(self.folder, self.api, [self._token, self._duplicate])
        self.host.inspector.address = f"10.0.0.{self.asked}"
        self.running = [
            asyncio.create_task(one.run()) for one in (self.host.log, self.host.delivery, self.host.loop())
        ]
        self.running.append(asyncio.create_task(self._beat()))
        self.host.requests.pass_now()
        self.asked += 1

    async def _beat(self) -> None:
        while True:
            with contextlib.suppress(errors.KubeError):
                await self.host.node.ensure()
            await asyncio.sleep(20)

    def _token(self, found: ManagedNodeStatus, now: datetime, generation: int) -> ManagedNodeStatus:
        said = Condition(type="Token", status="True", reason="Good", message=str(self.tokens))
        return status.of_condition(found, said, now, generation)

    def _duplicate(self, found: ManagedNodeStatus, now: datetime, generation: int) -> ManagedNodeStatus:
        return status.of_duplication(found, self.twin, now, generation)

    # What may happen

    def happens(self, what: str) -> None:
        self.asked += 1
        getattr(self, f"on_{what}")()

    def on_drift(self) -> None:
        self.drifts += 1
        self.host.drift()
        self.host.log.flush()  # what is not on disk may be lost in a crash, and nobody has heard of it
        one = Result(file_id(f"/{self.drifts}"), ("a",), ResourceOutcome.CHANGED, "put back", drifted=True)
        self.host.host_state.results[one.id] = one
        self.host.writer.request()

    def on_backup(self) -> None:
        self.backups += 1
        self.host.machine.converger.records.replaced[f"/backup{self.backups}"] = f"{self.backups:064x}"
        self.host.writer.request()

    def on_address(self) -> None:
        self.host.inspector.address = f"10.0.0.{self.asked}"
        self.host.writer.request(look=True)

    def on_token(self) -> None:
        self.tokens += 1
        self.host.requests.pass_soon()

    def on_twin(self) -> None:
        self.twin = not self.twin
        self.host.requests.pass_soon()

    def on_shortfall(self) -> None:
        self.host.host_state.shortfalls = (f"cannot watch {self.asked}",)
        self.host.writer.request()

    def on_pass(self) -> None:
        self.host.requests.pass_now()

    def on_conflict(self) -> None:
        self.api.conflicts += 3

    def on_refusal(self) -> None:
        self.api.refusals += 2

    def on_lost_answer(self) -> None:
        self.api.lost_answers += 1

    def on_outage(self) -> None:
        self.api.away = not self.api.away

    async def crash(self) -> None:
        await tasks.end(self.running)
        told = self.api.status.file_backups
        kept = self.host.memory.owed
        replaced = self.host.machine.converger.records.replaced
        self.lost |= {one for one in replaced if one not in {**told, **kept}}
        await self.host.close()
        self.boot()


PARTS = ("drift", "backup", "address", "token", "twin", "shortfall", "pass")
FAULTS = ("conflict", "refusal", "lost_answer", "outage", "crash")
STEPS = st.lists(
    st.tuples(st.sampled_from(PARTS * 2 + FAULTS), st.sampled_from([0.0, 0.005, 0.02, 0.3, 0.7, 3.0, 30.0])),
    max_size=25,
)


@settings(max_examples=examples.some(60), deadline=None)
@example(steps=[("drift", 0.0), ("crash", 0.0)])
@given(steps=STEPS)
def test_every_contribution_arrives_whatever_happens(steps: list[tuple[str, float]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        virtual_time.run(scenario(Path(folder), steps))


async def scenario(folder: Path, steps: list[tuple[str, float]]) -> None:
    world = World(folder)
    api = world.api
    for what, pause in steps:
        if what == "crash":
            await world.crash()
        else:
            world.happens(what)
        await asyncio.sleep(pause)
    api.away, api.conflicts, api.refusals, api.lost_answers = False, 0, 0, 0
    await asyncio.sleep(200)
    host, found = world.host, api.status
    assert [int(one.rpartition("-")[2], 16) for one in api.events] == list(range(1, world.drifts + 1))
    drift = found.drift
    assert (drift.repaired, drift.sequence) == (world.drifts, world.drifts) if drift else not world.drifts
    wanted = {f"/backup{number + 1}" for number in range(world.backups)} - world.lost
    assert wanted <= found.file_backups.keys()
    assert found.interfaces["eth0"].ipv4 == [host.inspector.address]
    assert api.said("Token") == f"True {world.tokens}"
    assert api.said("Duplicated").startswith("True") is world.twin
    assert api.said(conditions.READY).startswith("True")
    assert api.said("Strange") == (f"True {api.strangers}" if api.strangers else "")
    assert all(text in api.said("Watching") for text in host.host_state.shortfalls or ())
    assert not [one for one in host.host_state.results.values() if one.outcome is ResourceOutcome.CHANGED]
    assert not host.memory.owed
    assert not host.machine.converger.records.replaced
    # A drift is told twice: when it is repaired, and when its Event is there.
    assert api.writes <= 2 * world.asked + world.drifts + 1
    before = api.writes
    world.host.requests.pass_now()
    await asyncio.sleep(200)
    assert api.writes == before, "nothing is new"
    await tasks.end(world.running)
    await host.close()


@virtual_time.test
async def test_a_repair_and_its_event_are_one_write_half_a_second_later(tmp_path: Path) -> None:
    world = World(tmp_path)
    await asyncio.sleep(100)
    before = world.api.writes
    world.on_drift()
    await asyncio.sleep(0.45)
    assert (len(world.api.events), world.api.writes) == (1, before)  # the Event first
    await asyncio.sleep(0.15)
    assert (world.api.status.drift or Drift()).sequence == 1
    await asyncio.sleep(100)
    assert world.api.writes == before + 1
    await tasks.end(world.running)
    await world.host.close()


@pytest.fixture(name="world")
async def _world(tmp_path: Path) -> AsyncIterator[World]:
    found = World(tmp_path)
    await tasks.end(found.running)  # the test asks for everything itself
    await found.host.host_pass()
    yield found
    await found.host.close()


async def test_who_meets_others_without_end_tries_again_later_and_forgets_nothing(world: World) -> None:
    world.api.conflicts, before = CONFLICTS + 1, world.api.attempts
    world.on_address()
    world.on_backup()
    with pytest.raises(controller.Retry):
        await world.host.writer.answer()
    assert world.api.attempts == before + CONFLICTS + 1
    await world.host.writer.answer()
    assert world.api.status.interfaces["eth0"].ipv4 == [world.host.inspector.address]
    assert list(world.api.status.file_backups) == ["/backup1"]


async def test_what_happens_while_a_status_is_written_is_told_by_the_next(world: World) -> None:
    world.on_backup()
    world.on_drift()
    world.api.seconds = 0.5
    writing = asyncio.create_task(world.host.writer.answer())
    await until(lambda: world.api.sending)
    world.on_drift()
    world.on_backup()
    await writing
    assert list(world.api.status.file_backups) == ["/backup1"]
    assert [str(one) for one in world.host.host_state.results] == ["file:/2"]
    await world.host.writer.answer()
    assert sorted(world.api.status.file_backups) == ["/backup1", "/backup2"]
    assert not world.host.host_state.results


async def test_a_drift_that_is_left_alone_is_neither_lost_nor_told_twice_by_a_kill(tmp_path: Path) -> None:
    """Also within the second in which the log of drifts does not write by itself."""
    file = file_id("/etc/watched")
    wanted = DesiredState(Desired(), {}, {file: "declared"})
    fine = Result(file, (), ResourceOutcome.UNCHANGED)
    left = Result(file, (), ResourceOutcome.OBSERVED, "content differs", repairs=True, mark="other")
    logged = []
    for found in (fine, left, left):
        host = ReportingHost(tmp_path, NodeApi())
        logged.append([one.outcome for one in host.log.newest(9)])
        host.host_state.begin(wanted)
        host.host_state.passed([found])
        await host.writer.answer()
        await host.close()  # nothing more is written: it is killed as soon as its status is there
    assert logged == [[], [], ["observed"]]
    assert [one.outcome for one in host.log.newest(9)] == ["observed"]


async def test_a_pass_that_ends_waits_for_a_status_that_is_being_written(world: World) -> None:
    world.on_backup()
    world.api.seconds, before = 0.1, world.api.attempts
    await asyncio.gather(world.host.writer.answer(), world.host.writer.write(look=True))
    assert world.api.attempts == before + 1


async def test_where_backups_are_survives_an_outage_and_the_process(world: World) -> None:
    world.api.away = True
    world.on_backup()
    await world.host.writer.answer()
    world.on_backup()  # the next one, when it is known already that nobody is there
    await world.host.writer.answer()
    await world.crash()
    await tasks.end(world.running)
    world.api.away = False
    await world.host.host_pass()
    assert sorted(world.api.status.file_backups) == ["/backup1", "/backup2"]


async def test_that_backups_were_removed_is_said_although_the_first_write_fails(world: World) -> None:
    world.on_backup()
    await world.host.writer.answer()
    gone = Pass([config_set("a")], {}, (), None, collection=Collection(1, frozenset()))
    world.host.report.passed(gone, 1)
    world.api.away = True
    assert not await world.host.writer.write()
    world.api.away = False
    world.host.reachability.reached()
    world.host.report.passed(Pass([config_set("a")], {}, (), None), 1)  # a pass that removes none
    assert await world.host.writer.write()
    assert world.api.status.file_backups == {}


async def test_before_the_first_pass_nothing_but_drifts_is_told(tmp_path: Path) -> None:
    api = NodeApi()
    host = ReportingHost(tmp_path, api)
    host.writer.request(look=True)
    await host.writer.answer()
    assert api.attempts == 0
    host.log.adopt(None)
    host.drift()
    await host.writer.answer()
    assert set(api.node["status"]) == {"drift"}
    host.report.broke_off("no space", 1)
    await host.writer.answer()
    assert api.said(conditions.READY) == "False the last pass was broken off: no space"
    assert host.inspector.looks == 0
    await host.close()


async def test_what_the_api_has_not_heard_of_gets_older_all_the_same(world: World) -> None:
    world.host.report.passed(Pass([config_set("b")], {}, (), None), 1)
    first, later = (world.host.report.local(None, START + timedelta(minutes=at)) for at in (0, 5))
    assert [one.last_applied for one in first.configsets] == [times.rfc3339(START)]
    assert later == first


async def test_a_status_is_about_the_generation_that_its_pass_began_with(world: World) -> None:
    world.api.node["metadata"]["generation"] = 2  # somebody changed the spec since, and a pass is on its way
    world.on_address()
    await world.host.writer.answer()
    assert world.api.status.observed_generation == 1
    assert {one.observed_generation for one in world.api.status.conditions} == {1}


@pytest.mark.parametrize(("fault", "warned"), [("conflicts", False), ("forbidden", True)])
async def test_that_others_write_the_status_as_well_is_no_news(
    world: World, caplog: pytest.LogCaptureFixture, fault: str, warned: bool
) -> None:
    caplog.set_level(logging.INFO, "nodemanager.agent")
    setattr(world.api, fault, CONFLICTS + 1)
    world.on_address()
    running = asyncio.create_task(world.host.loop().run())
    await until(lambda: bool(caplog.records) and world.host.inspector.address in str(world.api.node))
    assert (max(one.levelno for one in caplog.records) > logging.INFO) is warned
    await tasks.end([running])
