"""What is said of virtual machines, and of which nobody knows how they are."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.api.edge.edgecluster import HEALTHY, NOT_OBSERVED, UNHEALTHY, UNKNOWN
from nodemanager.fleet.edge import machines
from nodemanager.fleet.edge.machines import MachineFacts, RunningMachine

NONE = "0 run, 0 of them can be migrated live"


def machine(phase: str = "Running", **fields: Any) -> RunningMachine:
    return RunningMachine(**{"name": "vm", "node": "a", "phase": phase, "ready": True, **fields})


@pytest.mark.parametrize(
    ("one", "state", "text"),
    [
        (machine(), HEALTHY, "1 run, 0 of them can be migrated live"),
        (machine(migratable=True), HEALTHY, "1 run, 1 of them can be migrated live"),
        (machine(migratable=False), HEALTHY, "1 run, 0 of them can be migrated live"),
        (machine("Failed"), UNHEALTHY, "vm is Failed"),
        (machine("x" * 70), UNHEALTHY, f"vm is {'x' * 63}"),
        (machine(paused=True, ready=False), UNHEALTHY, "vm is paused"),
        (machine(ready=False), UNHEALTHY, "vm is not ready"),
        (machine(ready=None), UNKNOWN, "vm: nothing says whether it is ready"),
        (machine(""), UNKNOWN, "vm: nobody knows how it is"),
        (machine("Unknown", node="b"), UNKNOWN, "vm: nobody knows how it is"),
        (machine(node="b"), UNKNOWN, "vm: its node b gives no signs of life"),
        (machine(node="b", ready=None), UNKNOWN, "vm: its node b gives no signs of life"),
        (machine(node="b", paused=True), UNHEALTHY, "vm is paused; vm: its node b gives no signs of life"),
        # One that does not run yet, or no more, needs neither to be ready nor can be paused.
        *(
            (machine(phase, ready=ready, paused=True, migratable=True), HEALTHY, NONE)
            for phase in ("Pending", "Scheduling", "Scheduled", "Succeeded")
            for ready in (False, None)
        ),
        (machine("Scheduling", node="b"), UNKNOWN, "vm: its node b gives no signs of life"),
        (machine("Succeeded", node="b"), HEALTHY, NONE),
        (machine(name="v\x1bm", phase="Fa\niled"), UNHEALTHY, "v?m is Fa?iled"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_machine(one: RunningMachine, state: str, text: str) -> None:
    found = machines.judge(MachineFacts((one,)), silent={"b"})
    assert (found.state, found.text) == (state, text)


def test_what_is_wrong_is_said_before_what_is_not_known() -> None:
    found = machines.judge(MachineFacts((machine(""), machine(ready=False, name="w"), machine())))
    assert (found.state, found.text) == (UNHEALTHY, "w is not ready; vm: nobody knows how it is")


def test_migrations_that_are_under_way_are_counted() -> None:
    seen = MachineFacts((machine(migratable=True), machine(name="w")), migrations=("m",))
    assert machines.judge(seen).text == "2 run, 1 of them can be migrated live, 1 migration under way"
    assert machines.judge(MachineFacts()).text == NONE


def test_where_nothing_runs_machines_nothing_is_observed() -> None:
    found = machines.judge(MachineFacts((machine("Failed"),), sees_machines=False))
    assert (found.state, found.text) == (NOT_OBSERVED, "there is nothing that runs virtual machines")
