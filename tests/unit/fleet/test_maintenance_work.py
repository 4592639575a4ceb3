"""What several operations do to a host together: one reboot, at most one kind of disruption, one order."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.api.maintenance.operations import Operation
from nodemanager.fleet.maintenance import steps

BOOT = {"name": "boot", "reboot": {"when": "ifNeeded"}}


def operation(name: str, *found: dict[str, Any], **fields: Any) -> Operation:
    return msgspec.convert({"name": name, "type": "one-shot", "steps": list(found), **fields}, Operation)


def run(*argv: str) -> dict[str, Any]:
    return {"name": "run", "execution": {"argv": list(argv)}}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({}, {}, ("ifNeeded", "", 0, "")),
        ({"timeout": "1m"}, {}, ("ifNeeded", "", 0, "")),
        ({"timeout": "1m"}, {"timeout": "90s"}, ("ifNeeded", "90s", 0, "")),
        ({}, {"timeout": "1h"}, ("ifNeeded", "1h", 0, "")),
        ({"retries": 2}, {"retries": 1}, ("ifNeeded", "", 2, "")),
        ({"onFailure": "continue"}, {}, ("ifNeeded", "", 0, "")),
        ({"onFailure": "continue"}, {"onFailure": "continue"}, ("ifNeeded", "", 0, "continue")),
        ({"onFailure": "undo"}, {"onFailure": "stop"}, ("ifNeeded", "", 0, "undo")),
        ({}, {"reboot": {"when": "always"}}, ("always", "", 0, "")),
    ],
)
def test_one_reboot_for_several_is_as_careful_as_the_most_careful_of_them(
    one: dict[str, Any], other: dict[str, Any], expected: tuple[str, str, int, str]
) -> None:
    """What a step does not say is its default: 10m, and to stop."""
    found = steps.work([operation("a", {**BOOT, **one}), operation("b", {**BOOT, **other})], {})
    (boot,) = found.steps
    assert boot.reboot is not None
    assert (boot.reboot.when, boot.timeout, boot.retries, boot.on_failure) == expected


@pytest.mark.parametrize(
    ("step", "disruption"),
    [
        (run("a"), "none"),
        (BOOT, "reboot"),
        ({"name": "s", "packages": {"upgrade": "all"}}, "restart"),
        ({"name": "s", "service": {"name": "x", "action": "restart"}}, "restart"),
    ],
)
def test_what_work_does_to_a_host_at_most(step: dict[str, Any], disruption: str) -> None:
    found = steps.work([operation("a", step)], {})
    assert found.disruption == disruption
    assert found.may_reboot == (disruption == "reboot")


def test_without_a_reboot_the_order_is_that_of_the_operations_and_realtime_is_no_work() -> None:
    live = operation("live", run("x"), type="realtime")
    names = [
        one.name for one in steps.work([operation("a", run("x")), live, operation("b", run("y"))], {}).steps
    ]
    assert names == ["a-run", "b-run"]
    assert steps.config_set_of(operation("live", type="realtime"), {}).files == []
    declared = operation("live", type="realtime", configSet={"priority": 7})
    assert steps.config_set_of(declared, {}).priority == 7
