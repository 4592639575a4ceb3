"""Virtualisation: the contract of both, and what KubeVirt says of its instances."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from nodemanager.api.edge import capabilities
from nodemanager.api.edge.edgecluster import HEALTHY, NOT_OBSERVED, UNHEALTHY, UNKNOWN
from nodemanager.backends.errors import BackendError, Garbled
from nodemanager.backends.virtualisation.kubevirt import KubeVirt
from nodemanager.backends.virtualisation.nothing import NoVirtualisation
from nodemanager.backends.virtualisation.seam import Virtualisation
from nodemanager.fleet.edge import machines
from nodemanager.fleet.edge.machines import MachineFacts, RunningMachine
from support import objects_api
from support.objects_api import ObjectsApi

PATH = "/apis/kubevirt.io/v1/namespaces/vms"


def instance(name: str, phase: str = "Running", **conditions: str) -> dict[str, Any]:
    said = {"Ready": "True", "LiveMigratable": "True", **conditions}
    listed = [{"type": kind, "status": status} for kind, status in said.items() if status]
    return {"metadata": {"name": name, "namespace": "vms"},
            "status": {"phase": phase, "nodeName": "a", "conditions": listed}}  # fmt: skip


@contextlib.asynccontextmanager
async def kubevirt(*found: dict[str, Any]) -> AsyncIterator[tuple[KubeVirt, ObjectsApi]]:
    api = ObjectsApi({
        f"{PATH}/virtualmachineinstances": list(found),
        f"{PATH}/virtualmachineinstancemigrations": [],
    })  # fmt: skip
    async with objects_api.serve(api) as client:
        yield KubeVirt(client, ["vms"]), api


async def contract(system: Virtualisation, good: str) -> None:
    """What both have to do."""
    assert isinstance(system, Virtualisation)
    assert system.capabilities == capabilities.VIRTUALISATION.choices[system.name]
    first = await system.observe()
    assert first == await system.observe()
    assert first.sees_machines is (capabilities.VIRTUAL_MACHINES in system.capabilities)
    assert machines.judge(first).state == good
    assert machines.judge(first).text


async def test_contract_of_kubevirt() -> None:
    async with kubevirt(instance("db"), instance("web", LiveMigratable="False")) as (system, api):
        await contract(system, HEALTHY)
        assert {one.split()[0] for one in api.asked} == {"GET"}
        assert machines.judge(await system.observe()).text == "2 run, 1 of them can be migrated live"
        api.away = True
        with pytest.raises(BackendError):
            await system.observe()
        api.away, api.refuses = False, True
        with pytest.raises(BackendError, match="edge rbac"):
            await system.observe()


async def test_times_that_kubevirt_leaves_null_hide_nothing() -> None:
    found = instance("db")
    for one in found["status"]["conditions"]:
        one |= {"lastProbeTime": None, "lastTransitionTime": None}
    found["status"]["migrationState"] = {"startTimestamp": None, "endTimestamp": None}
    bare = {"metadata": {"name": "new", "namespace": "vms"}, "status": {"conditions": None}}
    async with kubevirt(found, bare) as (system, _):
        seen = (await system.observe()).machines
        assert (seen[0].ready, seen[0].migratable, seen[0].migrating) == (True, True, False)
        assert (seen[1].phase, seen[1].ready) == ("", None)


async def test_an_answer_that_is_none_is_unreadable_and_not_silence() -> None:
    async with kubevirt({"metadata": {"name": "db"}, "status": {"phase": 7}}) as (system, _):
        with pytest.raises(Garbled, match="cannot list virtual machines in vms: db cannot be read"):
            await system.observe()


async def test_contract_of_none() -> None:
    await contract(NoVirtualisation(), NOT_OBSERVED)


@pytest.mark.parametrize(
    ("found", "state", "words"),
    [
        (instance("db", "Failed"), UNHEALTHY, "vms/db is Failed"),
        (instance("db", "Unknown"), UNKNOWN, "vms/db: nobody knows how it is"),
        (instance("db", ""), UNKNOWN, "vms/db: nobody knows how it is"),
        (instance("db", Ready="False"), UNHEALTHY, "vms/db is not ready"),
        pytest.param(instance("db", Ready=""), UNKNOWN, "vms/db: nothing says whether it is ready",
                     id="no word of it is not ready"),
        (instance("db", Ready="Unknown"), UNKNOWN, "vms/db: nothing says whether it is ready"),
        (instance("db", Paused="True"), UNHEALTHY, "vms/db is paused"),
        (instance("db", "Scheduling", Ready="False"), HEALTHY, "0 run, 0 of them can be migrated live"),
    ],
)  # fmt: skip
async def test_instances(found: dict[str, Any], state: str, words: str) -> None:
    async with kubevirt(found) as (system, _):
        verdict = machines.judge(await system.observe())
        assert (verdict.state, verdict.text) == (state, words)


async def test_a_migration_without_a_phase_has_not_ended() -> None:
    async with kubevirt(instance("db")) as (system, api):
        moves = api.lists[f"{PATH}/virtualmachineinstancemigrations"]
        for name, phase in (("one", ""), ("two", "Running"), ("three", "Succeeded"), ("four", "Failed")):
            moves.append({"metadata": {"name": name}, "status": {"phase": phase}})
        seen = await system.observe()
        assert seen.migrations == ("vms/one", "vms/two")
        assert machines.judge(seen).text.endswith(", 2 migrations under way")
        del moves[0]
        assert machines.judge(await system.observe()).text.endswith(", 1 migration under way")


async def test_an_instance_that_is_being_moved() -> None:
    found = instance("db")
    found["status"]["migrationState"] = {"startTimestamp": "2026-03-01T04:00:00Z"}
    async with kubevirt(found) as (system, _):
        assert [one.migrating for one in (await system.observe()).machines] == [True]
    found["status"]["migrationState"]["endTimestamp"] = "2026-03-01T04:01:00Z"
    async with kubevirt(found) as (system, _):
        assert [one.migrating for one in (await system.observe()).machines] == [False]


@pytest.mark.parametrize(
    ("phase", "state", "words"),
    [
        ("Running", UNKNOWN, "vms/db: its node b gives no signs of life"),
        ("Scheduled", UNKNOWN, "vms/db: its node b gives no signs of life"),
        ("Succeeded", HEALTHY, "1 run, 0 of them can be migrated live"),
        ("Failed", UNHEALTHY, "vms/db is Failed"),
    ],
)
def test_what_runs_on_a_node_that_is_silent_is_not_known_to_run(phase: str, state: str, words: str) -> None:
    """KubeVirt says Running of it for as long as its pod is there, and the node has no say any more."""
    here = RunningMachine("vms/web", "Running", "a", ready=True)
    there = RunningMachine("vms/db", phase, "b", ready=True)
    verdict = machines.judge(MachineFacts((there, here)), {"b", "c"})
    assert (verdict.state, verdict.text) == (state, words)


def test_text_of_others_steers_no_terminal() -> None:
    verdict = machines.judge(MachineFacts((RunningMachine("x\x1b[31m", "Bad\x1b"),)))
    assert verdict.text.isprintable()
