"""Steps that replace the agent, and the proof of the one that comes after it; with the real guard."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.agent.tasks.agent_upgrades import AgentUpgrades, ProgramBefore
from nodemanager.agent.tasks.attempts import INTERRUPTED, Attempt, AttemptResult
from nodemanager.agent.upgrade_proof import UpgradeProof
from nodemanager.api.maintenance.agent_upgrade import AgentUpgradeAction
from nodemanager.host.base import HostError, ServiceKey
from nodemanager.host.self_update import minisign
from nodemanager.host.self_update.upgrading import Upgrader
from nodemanager.plan.facts import ServiceFact
from nodemanager.plan.tasks.record import StepRecord
from nodemanager.tlog.minisign import PublicKey
from support.program_world import CRASH, GOOD, OLD, FileInit, ProgramWorld

KEY = PublicKey(b"abcdefgh", bytes(32))


@contextlib.asynccontextmanager
async def alone() -> AsyncIterator[None]:
    yield


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> ProgramWorld:
    world = ProgramWorld(tmp_path)
    world.make()
    return world


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def steps(
    world: ProgramWorld, *, version: str = "0.1.0", keys: list[PublicKey] | None = None
) -> AgentUpgrades:
    """Return what does steps; the guard does its work whenever somebody waits for it."""

    async def sleep(_seconds: float) -> None:
        world.guard()

    def make() -> Upgrader:
        return dataclasses.replace(world.upgrader(), sleep=sleep)

    return AgentUpgrades(make, lambda: keys or [], "linux", lambda: True, alone, version)


def action(world: ProgramWorld, kind: str = GOOD, **changes: Any) -> AgentUpgradeAction:
    file = world.world / kind
    found = AgentUpgradeAction(
        version="0.2.0", url=str(world.world / "{version}-{target}"), unsigned=True,
        sha256={"linux-amd64": sha256(file)},
    )  # fmt: skip
    (world.world / "0.2.0-linux-amd64").write_bytes(file.read_bytes())
    return msgspec.structs.replace(found, **changes)


async def begun(doing: AgentUpgrades, wanted: AgentUpgradeAction, barred: str = "") -> Attempt:
    inverse = await doing.prepare(wanted)
    return Attempt("uid/upgrade/1", 5, StepRecord(inverse=inverse), barred)


async def test_a_good_one_is_proven_with_both_versions(world: ProgramWorld) -> None:
    old, wanted = steps(world), action(world)
    attempt = await begun(old, wanted)
    await old.perform(wanted, attempt)
    new = await steps(world, version="0.2.0").settle(wanted, attempt)
    assert new == AttemptResult(
        succeeded=True, changed=True, evidence={"versionBefore": "0.1.0", "versionAfter": "0.2.0"}
    )
    assert world.kind() == GOOD
    again = await steps(world, version="0.2.0").settle(wanted, attempt)
    assert again == new


async def test_the_program_that_is_fetched_is_of_the_kind_of_the_one_that_runs(world: ProgramWorld) -> None:
    """And not of that of the kernel: with one of 64 bits, programs may be for 32."""
    world.arch = "arm"
    wanted = action(world)
    attempt = await begun(steps(world), wanted)
    with pytest.raises(HostError, match="for linux-arm: sha256 has no entry for it"):
        await steps(world).perform(wanted, attempt)
    file = world.world / "0.2.0-linux-arm"
    (world.world / "0.2.0-linux-amd64").rename(file)
    wanted = action(world, sha256={"linux-arm": sha256(file)})
    assert (await steps(world).perform(wanted, attempt)).evidence["versionAfter"] == "0.1.0"
    assert world.kind() == GOOD


async def test_one_that_fails_says_so_and_there_is_nothing_to_take_back(world: ProgramWorld) -> None:
    old, wanted = steps(world), action(world, CRASH)
    attempt = await begun(old, wanted)
    result = await old.perform(wanted, attempt)
    assert (result.succeeded, result.message) == (False, "it ended several times; 0.1.0 is back")
    assert world.kind() == OLD
    assert (await old.take_back(wanted, attempt)).succeeded


async def test_an_old_program_that_somebody_deleted_is_not_said_to_be_back(world: ProgramWorld) -> None:
    naps = world.tools / "sleep"
    naps.write_text(naps.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n/bin/rm -f {world.previous}\n", 1))
    old, wanted = steps(world), action(world, CRASH)
    result = await old.perform(wanted, await begun(old, wanted))
    assert (result.succeeded, result.changed, world.kind()) == (False, True, CRASH)
    assert "so 0.1.0 cannot come back: 0.2.0 is in place" in result.message
    assert "is back" not in result.message


async def test_a_good_one_is_taken_back_by_the_same_way(world: ProgramWorld) -> None:
    wanted = action(world)
    attempt = await begun(steps(world), wanted)
    await steps(world).perform(wanted, attempt)
    undo = dataclasses.replace(attempt, key="uid/upgrade/undo")
    back = steps(world, version="0.2.0")
    await back.take_back(wanted, undo)
    assert world.kind() == OLD
    assert (await steps(world).take_back(wanted, undo)).succeeded


async def test_one_that_never_began_begins_unless_it_is_too_late(world: ProgramWorld) -> None:
    wanted = action(world)
    late = await begun(steps(world), wanted, "the task was deleted")
    assert await steps(world).settle(wanted, late) is INTERRUPTED
    assert world.kind() == OLD
    await steps(world).settle(wanted, dataclasses.replace(late, barred=""))
    assert world.kind() == GOOD


async def test_one_whose_guard_was_not_started_any_more_is_gone_on_with(
    world: ProgramWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent ended between the intent and the start of the guard."""
    started: list[str] = []

    async def end(_self: FileInit, _key: ServiceKey) -> None:
        raise asyncio.CancelledError

    async def start(_self: FileInit, key: ServiceKey) -> None:
        started.append(key.name)

    async def observe(_self: FileInit, keys: Iterable[ServiceKey]) -> dict[ServiceKey, ServiceFact]:
        running = {"nodemanager", *started}
        return {key: ServiceFact(known=True, running=key.name in running) for key in keys}

    async def sleep(_seconds: float) -> None:
        if started:
            world.guard()

    monkeypatch.setattr(FileInit, "restart", end)
    doing, wanted = steps(world), action(world)
    attempt = await begun(doing, wanted)
    with pytest.raises(asyncio.CancelledError):
        await doing.perform(wanted, attempt)
    assert (world.kind(), world.new.exists()) == (OLD, True)
    monkeypatch.setattr(FileInit, "restart", start)
    monkeypatch.setattr(FileInit, "observe", observe)
    following = dataclasses.replace(doing, make=lambda: dataclasses.replace(world.upgrader(), sleep=sleep))
    assert (await following.settle(wanted, attempt)).succeeded
    assert (world.kind(), started) == (GOOD, ["guard"])


async def test_no_pass_waits_for_a_program_that_is_being_fetched(world: ProgramWorld) -> None:
    seen: list[bool] = []

    @contextlib.asynccontextmanager
    async def exclusive() -> AsyncIterator[None]:
        seen.append(world.new.exists())
        yield
        seen.append(world.new.exists())

    doing, wanted = dataclasses.replace(steps(world), exclusive=exclusive), action(world)
    await doing.perform(wanted, await begun(doing, wanted))
    assert (seen, world.kind()) == ([True, False], GOOD)


async def test_what_is_there_already_is_left_alone(world: ProgramWorld) -> None:
    wanted = action(world, sha256={"linux-amd64": sha256(world.program)}, version="0.1.0")
    result = await steps(world).perform(wanted, await begun(steps(world), wanted))
    assert (result.succeeded, result.changed, world.new.exists()) == (True, False, False)


@pytest.mark.parametrize(
    ("keys", "changes", "why"),
    [
        pytest.param([], {"unsigned": False}, "this host has no release.pub", id="no keys"),
        pytest.param([KEY], {}, "this host accepts signed ones only", id="unsigned where keys are"),
        pytest.param([], {"sha256": {"linux-arm": "0" * 64}}, "no entry for it", id="no digest"),
        pytest.param([KEY], {"unsigned": False}, "cannot read .*minisig", id="no signature"),
    ],
)
async def test_what_is_not_to_be_trusted(
    world: ProgramWorld, keys: list[PublicKey], changes: dict[str, Any], why: str
) -> None:
    doing, wanted = steps(world, keys=keys), action(world, **changes)
    attempt = await begun(doing, wanted)
    with pytest.raises(HostError, match=why):
        await doing.perform(wanted, attempt)
    assert minisign.parse_keys("") == []
    assert not world.new.exists()


def test_what_was_there_is_written_down_in_words_of_its_own() -> None:
    assert msgspec.json.encode(ProgramBefore("0.1.0", "ab")) == b'{"version":"0.1.0","sha256":"ab"}'


async def in_place(world: ProgramWorld, kind: str, *, report: bool) -> Upgrader:
    """Return an upgrade that waits for its proof, with another program in place than the old one."""
    upgrader = world.upgrader()
    await upgrader.upgrade(dataclasses.replace(world.order(GOOD), report=report))
    world.program.write_bytes(
        (world.world / kind).read_bytes() if kind != OLD else world.program.read_bytes()
    )
    return upgrader


@pytest.mark.parametrize(
    ("kind", "runs", "report", "told", "proven"),
    [
        pytest.param(GOOD, True, True, True, True, id="told"),
        pytest.param(GOOD, True, True, False, False, id="alone, and the old one was not"),
        pytest.param(GOOD, True, False, False, True, id="alone as the old one was"),
        pytest.param(GOOD, False, True, True, False, id="an older process"),
        pytest.param(OLD, True, True, True, False, id="the old program"),
        pytest.param(CRASH, True, True, True, True, id="a third one that somebody put there"),
    ],
)
async def test_who_proves_what(
    world: ProgramWorld, kind: str, runs: bool, report: bool, told: bool, proven: bool
) -> None:
    upgrader = await in_place(world, kind, report=report)
    proof = UpgradeProof(upgrader.records, lambda _path: runs)
    proof.look()
    await proof.passed(told)
    assert (world.state / "proof").exists() == proven


async def test_a_disk_that_is_full_is_no_proof_and_no_end(
    world: ProgramWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrader = await in_place(world, GOOD, report=True)
    proof = UpgradeProof(upgrader.records, lambda _path: True)
    proof.look()

    def full(_intent: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(upgrader.records, "prove", full)
        await proof.passed(True)
    assert not (world.state / "proof").exists()
    await proof.passed(True)
    assert (world.state / "proof").exists()
