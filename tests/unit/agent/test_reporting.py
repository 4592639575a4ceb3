"""What is told about a pass: metrics under the Go project's names, and each failure once."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from nodemanager.agent.report.reporting import Reporter
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.host.results import ResourceOutcome, Result, result
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import ChangeService, InstallPackage, RestartService, Step
from nodemanager.runtime.metrics import Registry
from support.root_tree import config_set

UNIT = ResourceId("service", "nginx")
NODE = ManagedNode()
ABOUT: dict[str, Any] = {"id": UNIT, "sources": ("a",), "reason": "", "name": "nginx"}


class Told:
    """A reporter, and what it published."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.reporter = Reporter("web1", self.registry, None, lambda: 12.0)

    def passed(self, *results: Result, sets: tuple[str, ...] = ("a",), **conflicts: tuple[str, ...]) -> None:
        self.reporter.passed(NODE, [config_set(name) for name in sets], Desired(conflicts=conflicts), results)

    def series(self, family: str) -> dict[str, float]:
        """Return the series of a family by what is in their braces."""
        found = {}
        for line in self.registry.render().splitlines():
            if line.startswith(f"nodemanager_{family}{{"):
                labels, _, value = line.partition("{")[2].rpartition("} ")
                found[labels] = float(value)
        return found


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (ChangeService(**ABOUT, run=True, enable=True), "enabled, started"),
        (ChangeService(**ABOUT, run=False, arguments="-v"), "stopped, given its arguments"),
        (ChangeService(**ABOUT, refresh=True), "read again"),
        (RestartService(**ABOUT), "restarted"),
        (RestartService(**ABOUT, reload=True), "reloaded"),
    ],
)  # fmt: skip
def test_what_was_done_and_for_whom(step: Step, said: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    Told().passed(
        result(msgspec.structs.replace(step, sources=("a", "b"), reason="why"), ResourceOutcome.CHANGED)
    )
    assert f"service:nginx {said} for ConfigSets a, b (why)" in caplog.text


@pytest.mark.parametrize(
    ("step", "operations"),
    [
        (ChangeService(**ABOUT, run=True, enable=True), ["enable", "start"]),
        (ChangeService(**ABOUT, run=False, enable=False), ["disable", "stop"]),
        (ChangeService(**ABOUT, refresh=True), []),
        (RestartService(**ABOUT), ["restart"]),
    ],
)  # fmt: skip
def test_services_are_counted_by_what_was_done(step: Step, operations: list[str]) -> None:
    told = Told()
    told.passed(result(step, ResourceOutcome.CHANGED), result(step, ResourceOutcome.UNCHANGED))
    assert told.series("service_operations_total") == {
        f'node="web1",operation="{one}",result="success"': 1.0 for one in operations
    }


def test_packages_and_conflicts_are_counted() -> None:
    told = Told()
    step = InstallPackage(id=ResourceId("package", "jq"), sources=("a",), reason="", name="jq")
    told.passed(result(step, ResourceOutcome.FAILED, "no"), a=('file:/x (also in configset "b")',))
    assert told.series("package_operations_total") == {'node="web1",operation="install",result="error"': 1.0}
    assert told.series("configset_conflicts_total") == {'node="web1",configset="a"': 1.0}
    assert told.series("configset_apply_total") == {'node="web1",configset="a",result="error"': 1.0}
    assert told.series("last_configset_apply_timestamp_seconds") == {}


def test_series_end_with_their_set() -> None:
    told = Told()
    told.passed(Result(ResourceId("file", "/x"), ("a",), ResourceOutcome.CHANGED, repairs=True))
    assert told.series("file_changes_total") == {'node="web1",configset="a",result="success"': 1.0}
    told.passed(sets=())
    for family in ("file_changes_total", "configset_apply_total", "configset_applied_resource_version"):
        assert told.series(family) == {}


def test_a_failure_that_lasts_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    told = Told()
    bad = Result(
        ResourceId("file", "/x"), ("a",), ResourceOutcome.FAILED, "cannot change /x: full", repairs=True
    )
    for _ in range(3):
        told.passed(bad)
    assert caplog.text.count("cannot change /x: full") == 1
    told.passed(Result(bad.id, ("a",), ResourceOutcome.UNCHANGED))
    told.passed(bad)
    assert caplog.text.count("cannot change /x: full") == 2
