"""Steps of edge sites through the engine of tasks: done once, taken back, and refused on plain hosts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Unpack

import pytest
from msgspec.structs import replace

from nodemanager.agent.assembly import HostSetup, NoLocks, assemble
from nodemanager.agent.edge import steps
from nodemanager.agent.edge.bond_steps import BondArms, BondCommits, BondFlips, BondReverts, BondStages
from nodemanager.agent.edge.drbd_steps import DrbdPauses, DrbdVerifies
from nodemanager.agent.edge.link_probes import LinkProbes
from nodemanager.agent.tasks.attempts import NOT_AT_EDGE, Attempt, Performer
from nodemanager.agent.tasks.engine import TaskEngine
from nodemanager.agent.tasks.ledger import Entry, LedgerFolder
from nodemanager.agent.tasks.programs import Programs
from nodemanager.api.maintenance.edge_steps import (
    EDGE_ACTIONS,
    BondArmAction,
    BondCommitAction,
    BondFlipAction,
    BondRevertAction,
    BondStageAction,
    DrbdPauseAction,
    DrbdVerifyAction,
    LinkProbeAction,
    LossProbe,
    PathProbe,
)
from nodemanager.api.maintenance.nodetask import NodeTaskSpec
from nodemanager.api.maintenance.task_steps import ACTIONS, UNDO, TaskStep
from nodemanager.host.base import HostError, How
from nodemanager.host.edge import bond_changes
from nodemanager.host.edge.drbd_control import DrbdControl
from nodemanager.host.files.tree import Tree
from nodemanager.host.process.runner import CommandTimedOut, Completed
from nodemanager.host.process.runs import Runs
from nodemanager.plan.tasks.record import StepPhase, StepRecord, TaskPhase, TaskRecord
from support.edge_host import AFTER, BEFORE, BOND, NETDEV, NOW, STATE, EdgeHost

STAGE = TaskStep(name="stage", bond_stage=BondStageAction(bond=BOND, mode=AFTER, from_mode=BEFORE))
ARM = TaskStep(name="arm", bond_arm=BondArmAction(bond=BOND, mode=AFTER, deadline="10m"))
FLIP = TaskStep(name="flip", bond_flip=BondFlipAction(bond=BOND, mode=AFTER))
COMMIT = TaskStep(name="commit", bond_commit=BondCommitAction(bond=BOND, mode=AFTER))
REVERT = TaskStep(name="revert", bond_revert=BondRevertAction(bond=BOND))


@contextlib.asynccontextmanager
async def alone() -> AsyncIterator[None]:
    yield


def nobody(*_: object) -> None:
    """Hear nothing."""


@pytest.fixture(name="host")
def _host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EdgeHost:
    monkeypatch.setattr(bond_changes, "SETTLE", 0.0)
    host = EdgeHost(tmp_path)
    host.make()
    return host


class Killed(BaseException):
    """The agent is gone."""


class Agent:
    """The agents of a host, one after the other; one may be killed after so many records were written."""

    def __init__(self, host: EdgeHost, uid: str = "uid") -> None:
        self.host, self.uid = host, uid
        self.plain = False
        """Whether it runs without --edge."""

    async def run(self, *steps: TaskStep, saves: int = 0) -> TaskRecord:
        ledger = LedgerFolder(Tree(str(self.host.root)), f"{STATE}/tasks")
        left = [saves]

        def changed(_entry: Entry) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Killed

        engine = TaskEngine(ledger, self._performers(), self.host.boot, lambda: NOW, changed)
        if self.uid not in ledger.entries:
            spec = NodeTaskSpec(node_name="a", steps=list(steps), deadline="2100-01-01T00:00:00Z",
                                fencing_token=1)  # fmt: skip
            record = TaskRecord(self.uid, 1, TaskPhase.RUNNING, tuple(StepRecord() for _ in steps))
            ledger.claim(Entry("task", spec, record))
        return (await engine.run(ledger.entries[self.uid])).record

    def _performers(self) -> dict[str, Performer]:
        if self.plain:
            return dict.fromkeys(EDGE_ACTIONS, NOT_AT_EDGE)
        made = self.host.changes(), alone, nobody
        return {
            "bond_stage": BondStages(*made), "bond_arm": BondArms(*made), "bond_flip": BondFlips(*made),
            "bond_commit": BondCommits(*made), "bond_revert": BondReverts(*made),
            "drbd_pause": NOT_AT_EDGE,
        }  # fmt: skip


async def test_a_bond_is_changed_for_good(host: EdgeHost) -> None:
    record = await Agent(host).run(STAGE, ARM, FLIP, COMMIT)
    assert record.phase is TaskPhase.SUCCEEDED, record.message
    assert (host.mode(), host.timers()) == (AFTER, [])
    assert record.steps[1].evidence["deadline"] == "2026-11-17T12:10:00Z"
    assert record.steps[2].evidence["modeAfter"] == AFTER
    assert f"Mode={AFTER}" in host.files()["10-bond.netdev"]


@pytest.mark.parametrize("saves", range(1, 10))
async def test_an_agent_killed_anywhere_goes_on_and_does_nothing_twice(host: EdgeHost, saves: int) -> None:
    with contextlib.suppress(Killed):
        await Agent(host).run(STAGE, ARM, FLIP, COMMIT, saves=saves)
    record = await Agent(host).run(STAGE, ARM, FLIP, COMMIT)
    assert record.phase is TaskPhase.SUCCEEDED, record.message
    assert (host.mode(), host.timers()) == (AFTER, [])
    assert len(host.calls("systemd-run")) == 1
    assert sum(one[-2:-1] == ["mode"] for one in host.calls("ip")) == 1, "the bond was in pieces once"


@pytest.mark.parametrize("saves", range(3, 9))
async def test_an_agent_that_never_comes_back_leaves_it_to_the_dead_man(host: EdgeHost, saves: int) -> None:
    with pytest.raises(Killed):
        await Agent(host).run(STAGE, ARM, FLIP, COMMIT, saves=saves)
    host.fire()
    committed = host.changes().record(BOND).phase() == "Committed"
    assert host.mode() == (AFTER if committed else BEFORE)
    assert (f"Mode={AFTER}" in host.files()["10-bond.netdev"]) == committed


async def test_what_fails_is_taken_back_step_by_step(host: EdgeHost) -> None:
    broken = TaskStep(name="broken", drbd_pause=DrbdPauseAction(resource="r0"), on_failure=UNDO)
    record = await Agent(host).run(STAGE, ARM, FLIP, broken)
    assert record.phase is TaskPhase.UNDONE, record.message
    assert [one.phase for one in record.steps[:3]] == [StepPhase.UNDONE] * 3
    assert "runs without --edge" in record.message
    assert (host.mode(), host.files()["10-bond.netdev"], host.timers()) == (BEFORE, NETDEV, [])
    assert host.changes().observe() == []


async def test_a_commit_is_taken_back_too(host: EdgeHost) -> None:
    broken = TaskStep(name="broken", drbd_pause=DrbdPauseAction(resource="r0"), on_failure=UNDO)
    record = await Agent(host).run(STAGE, ARM, FLIP, COMMIT, broken)
    assert record.phase is TaskPhase.UNDONE, record.message
    assert (host.mode(), host.files()["10-bond.netdev"]) == (BEFORE, NETDEV)


OTHER = "balance-alb"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        pytest.param(FLIP, "its change is committed; stage another one", id="flip"),
        pytest.param(ARM, "its change is committed; stage another one", id="arm"),
        pytest.param(TaskStep(name="commit", bond_commit=BondCommitAction(bond=BOND, mode=OTHER)),
                     "balance-rr is staged, and not balance-alb", id="commit"),
        pytest.param(replace(STAGE, bond_stage=BondStageAction(bond=BOND, mode=OTHER, from_mode=BEFORE)),
                     "its mode is balance-rr, and not active-backup", id="stage"),
    ],
)  # fmt: skip
async def test_a_step_that_is_refused_takes_nothing_back_that_another_task_did(
    host: EdgeHost, step: TaskStep, said: str
) -> None:
    """Else one end of a cable would have the mode of before, and the other one that which is committed."""
    assert (await Agent(host, "first").run(STAGE, ARM, FLIP, COMMIT)).phase is TaskPhase.SUCCEEDED
    record = await Agent(host, "second").run(replace(step, on_failure=UNDO))
    assert said in record.message
    assert (record.phase, host.mode()) == (TaskPhase.UNDONE, AFTER)
    assert f"Mode={AFTER}" in host.files()["10-bond.netdev"]
    assert [one.phase for one in host.changes().observe()] == ["Committed"]


async def test_a_stage_that_is_refused_leaves_what_is_armed(host: EdgeHost) -> None:
    await Agent(host, "first").run(STAGE, ARM)
    record = await Agent(host, "second").run(replace(STAGE, on_failure=UNDO))
    assert (record.phase, len(host.timers())) == (TaskPhase.UNDONE, 1), record.message
    assert "one is armed; commit or revert it first" in record.message


async def test_a_revert_by_order(host: EdgeHost) -> None:
    record = await Agent(host).run(STAGE, ARM, FLIP, REVERT)
    assert record.phase is TaskPhase.SUCCEEDED
    assert (host.mode(), host.timers()) == (BEFORE, [])


def test_every_step_of_edge_sites_has_somebody_who_carries_it_out(tmp_path: Path) -> None:
    managed = assemble(HostSetup(root=str(tmp_path), hostname="a"), NoLocks("alone"))
    runs = Runs(Tree("/"), None, managed.converger.observer.run, str(tmp_path / "runs"))
    changes = bond_changes.BondChanges(Tree(str(tmp_path)), STATE, managed.converger.observer.run)
    found = steps.performers(managed, changes, Programs(runs, "1"), alone, nobody)
    managed.close()
    assert set(found) == set(EDGE_ACTIONS)
    assert all(isinstance(one, Performer) for one in found.values())


async def test_every_step_of_edge_sites_is_refused_on_a_plain_host() -> None:
    assert set(EDGE_ACTIONS) < set(ACTIONS)
    with pytest.raises(HostError, match="cannot do BondFlip: the agent of this host runs without --edge"):
        await NOT_AT_EDGE.prepare(FLIP.bond_flip)


async def test_an_agent_restarted_without_edge_says_so_of_what_was_under_way(host: EdgeHost) -> None:
    agent = Agent(host)
    with pytest.raises(Killed):
        await agent.run(STAGE, ARM, FLIP, saves=5)
    agent.plain = True
    record = await agent.run(STAGE, ARM, FLIP)
    assert record.phase is TaskPhase.FAILED
    assert record.steps[2].message == "cannot do BondFlip: the agent of this host runs without --edge"
    host.fire()
    assert host.mode() == BEFORE


def attempt(inverse: bytes = b"", timeout: float = 5) -> Attempt:
    return Attempt("uid/a/1", timeout, StepRecord(boot_id="1", inverse=inverse))


class Status:
    """DRBD 9 with one peer, whose flags and differences a test sets."""

    def __init__(self, root: Path) -> None:
        (root / "proc").mkdir(parents=True, exist_ok=True)
        (root / "proc/drbd").write_text("version: 9.1.7 (api:2)\n")
        self.control = DrbdControl(root, self.run, self.follow, poll=0)
        self.flag, self.oos, self.verifying = "no", 0, 0
        self.ran: list[str] = []
        self.tell: Callable[[bytes], None] = nobody

    async def follow(self, argv: Sequence[str], heard: Callable[[bytes], None]) -> int:
        assert argv[1] == "events2"
        self.tell = heard
        heard(b"exists -")
        return await asyncio.Future()

    def _verifies(self, state: str) -> None:
        self.tell(f"change peer-device name:r0 peer-node-id:1 volume:0 replication:{state}".encode())

    async def run(self, argv: Sequence[str], **_how: Unpack[How]) -> Completed:
        if argv[1] == "status":
            self.verifying = max(0, self.verifying - 1)
            if self.verifying == 1:
                self._verifies("Established")
            state = "VerifyS" if self.verifying else "Established"
            there = {"volume": 0, "replication-state": state, "peer-disk-state": "UpToDate",
                     "resync-suspended": self.flag, "out-of-sync": self.oos}  # fmt: skip
            peer = {"peer-node-id": 1, "name": "b", "connection-state": "Connected", "peer_devices": [there]}
            found = [{"name": "r0", "devices": [{"volume": 0}], "connections": [peer]}]
            return Completed(tuple(argv), 0, json.dumps(found).encode(), b"")
        self.ran.append(argv[1])
        self.flag = {"pause-sync": "user", "resume-sync": "no"}.get(argv[1], self.flag)
        if argv[1] == "verify":
            self.verifying = 5
            self._verifies("VerifyS")
        return Completed(tuple(argv), 0, b"", b"")


async def test_a_pause_is_taken_back_only_if_it_was_ours(tmp_path: Path) -> None:
    status, action = Status(tmp_path), DrbdPauseAction(resource="r0")
    pauses = DrbdPauses(status.control, nobody)
    inverse = await pauses.prepare(action)
    done = await pauses.perform(action, attempt(inverse))
    assert (done.succeeded, done.changed, status.flag) == (True, True, "user")
    assert (await pauses.settle(action, attempt(inverse))).succeeded
    assert status.ran == ["pause-sync"]
    assert (await pauses.take_back(action, attempt(inverse))).succeeded
    assert status.flag == "no"
    status.flag = "user"  # somebody else paused it before
    assert await pauses.prepare(action) == b"", "so there is nothing to take back"


async def test_resumed_and_paused_again(tmp_path: Path) -> None:
    status, action = Status(tmp_path), DrbdPauseAction(resource="r0")
    status.flag = "user"
    resumes = DrbdPauses(status.control, nobody, paused=False)
    inverse = await resumes.prepare(action)
    assert (await resumes.perform(action, attempt(inverse))).evidence == {"resumed": "1"}
    await resumes.take_back(action, attempt(inverse))
    assert status.flag == "user"


async def test_a_verify_that_finds_something_fails_and_says_what_to_do(tmp_path: Path) -> None:
    status, action = Status(tmp_path), DrbdVerifyAction(resource="r0")
    verifies = DrbdVerifies(status.control, nobody)
    assert (await verifies.perform(action, attempt())).evidence == {"outOfSyncKiB": "0"}
    status.oos = 16
    done = await verifies.perform(action, attempt())
    assert not done.succeeded
    assert done.message.startswith("16 KiB of r0 differ")
    status.verifying = 1 << 40
    late = await verifies.perform(action, attempt(timeout=0.05))
    assert late.message == "not within 0.05 s; the verify goes on in the kernel"


async def test_loss_is_asked_for_until_there_is_none(tmp_path: Path) -> None:
    answers = [b"50 packets transmitted, 25 received", b"50 packets transmitted, 50 received"]

    async def run(argv: Sequence[str], **_how: Unpack[How]) -> Completed:
        return Completed(tuple(argv), 0, answers.pop(0) if len(answers) > 1 else answers[0], b"")

    probes = LinkProbes(str(tmp_path), "a", run)
    action = LinkProbeAction(loss=LossProbe(address="10.0.0.2"))
    done = await probes.perform(action, attempt(timeout=60))
    assert (done.succeeded, done.evidence) == (True, {"loss": "50 of 50 pings"})
    answers[:] = [b"50 packets transmitted, 25 received"]
    done = await probes.perform(action, attempt(timeout=0))
    assert not done.succeeded
    assert done.message == "not within 0 s: 25 of 50 pings to 10.0.0.2 came back"


async def test_a_bond_that_lost_a_card_is_not_proven_by_the_others(tmp_path: Path) -> None:
    bonding = tmp_path / "sys/class/net/bond0/bonding"
    bonding.mkdir(parents=True)
    (bonding / "slaves").write_text("eth1")
    (bonding / "mode").write_text("balance-rr 0")

    async def run(argv: Sequence[str], **_how: Unpack[How]) -> Completed:
        raise AssertionError(argv)

    action = LinkProbeAction(paths=PathProbe(bond="bond0", session="s", cards=2))
    with pytest.raises(HostError, match="it has eth1, and shall have 2"):
        await LinkProbes(str(tmp_path), "a", run).perform(action, attempt(timeout=0))


async def test_pings_end_with_the_time_of_their_step(tmp_path: Path) -> None:
    given: list[float] = []

    async def run(argv: Sequence[str], **how: Unpack[How]) -> Completed:
        given.append(how["timeout"])
        raise CommandTimedOut(f"cannot run {argv[0]}: it did not finish")

    probes = LinkProbes(str(tmp_path), "a", run)
    action = LinkProbeAction(loss=LossProbe(address="10.0.0.2", count=10000))
    with pytest.raises(CommandTimedOut):
        await probes.perform(action, attempt(timeout=20))
    assert given == [pytest.approx(20, abs=1)]


async def test_what_was_lost_is_told_though_there_was_no_time_for_another_round(tmp_path: Path) -> None:
    """As of a half-flipped bond in the lab, of which only that ping was killed was told."""
    rounds = [b"50 packets transmitted, 25 received"]

    async def run(argv: Sequence[str], **_how: Unpack[How]) -> Completed:
        if not rounds:
            raise CommandTimedOut(f"cannot run {argv[0]}: it did not finish")
        return Completed(tuple(argv), 1, rounds.pop(), b"")

    probes = LinkProbes(str(tmp_path), "a", run)
    done = await probes.perform(LinkProbeAction(loss=LossProbe(address="10.0.0.2")), attempt(timeout=20))
    assert (done.succeeded, done.evidence) == (False, {"loss": "25 of 50 pings"})
    assert done.message == "not within 20 s: 25 of 50 pings to 10.0.0.2 came back"


async def test_a_link_that_has_no_route_yet_is_asked_again(tmp_path: Path) -> None:
    """After a flip systemd-networkd takes cards down for a moment, and addresses may go with them."""
    answers = [
        (2, b"", b"ping: connect: Network is unreachable"),
        (0, b"50 packets transmitted, 50 received", b""),
    ]

    async def run(argv: Sequence[str], **_how: Unpack[How]) -> Completed:
        return Completed(tuple(argv), *(answers.pop(0) if len(answers) > 1 else answers[0]))

    probes, action = LinkProbes(str(tmp_path), "a", run), LinkProbeAction(loss=LossProbe(address="10.0.0.2"))
    assert (await probes.perform(action, attempt(timeout=60))).succeeded
    answers[:] = [(2, b"", b"ping: connect: Network is unreachable")]
    with pytest.raises(HostError, match="Network is unreachable"):
        await probes.perform(action, attempt(timeout=0))
