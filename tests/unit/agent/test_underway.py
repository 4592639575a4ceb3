"""What a long pass is at: told once, with what has failed so far; a short pass says nothing of the kind."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from nodemanager.agent.passes.underway import Underway
from nodemanager.agent.report import status
from nodemanager.agent.report.status import Pass
from nodemanager.api.common import node_conditions
from nodemanager.api.common.managednode import ManagedNodeStatus
from nodemanager.host.results import Outcome, Result
from nodemanager.kube import conditions
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import InstallPackage, Step
from support.root_tree import config_set

RUN = ResourceId("exec", "web/sh#1")
RUNNING = Result(RUN, ("web",), Outcome.WAITING, "is running")
BROKEN = Result(
    ResourceId("file", "/etc/x"), ("web",), Outcome.FAILED, "cannot write /etc/x: it is a directory"
)


def install(*names: str) -> list[Step]:
    return [
        InstallPackage(id=ResourceId("package", one), sources=("web",), reason="is not installed", name=one)
        for one in names
    ]


class Told:
    """How often the status was asked for."""

    def __init__(self, seconds: float) -> None:
        self.times = 0
        self.underway = Underway(self._tell, seconds)

    def _tell(self) -> None:
        self.times += 1


async def test_a_short_pass_says_nothing() -> None:
    told = Told(60)
    with told.underway.passing():
        told.underway.doing(install("jq"))
        await asyncio.sleep(0)
        assert told.underway.said == ""
    assert told.times == 0


async def test_a_long_pass_that_changes_nothing_says_nothing() -> None:
    told = Told(0)
    with told.underway.passing():
        await asyncio.sleep(0.01)
        told.underway.done([])
    assert (told.times, told.underway.said) == (0, "")


async def test_a_long_pass_says_once_what_it_is_at() -> None:
    told = Told(0)
    with told.underway.passing():
        await asyncio.sleep(0.01)
        told.underway.doing(install("jq", "nginx"))
        assert told.underway.said == "install package:jq and 1 more"
        told.underway.done([BROKEN])
        assert told.underway.said == "looks at what else is declared"
        assert told.underway.results == {BROKEN.id: BROKEN}
        told.underway.doing(install("vim"))
        assert told.times == 1
    assert (told.underway.said, told.underway.results) == ("", {})


@pytest.mark.parametrize(
    ("results", "under_way", "ready", "progressing"),
    [
        pytest.param([], "", ("True", "Applied", ""), ("False", "Applied", ""), id="settled"),
        pytest.param(
            [RUNNING],
            "",
            ("False", "Applying", f"{RUN}: is running"),
            ("True", "Applying", f"{RUN}: is running"),
            id="an execution runs",
        ),
        pytest.param(
            [RUNNING, BROKEN],
            "",
            ("False", "ApplyFailed", f"file:/etc/x: {BROKEN.message}; {RUN}: is running"),
            ("True", "Applying", f"{RUN}: is running"),
            id="an execution runs, and something else failed",
        ),
        pytest.param(
            [],
            "install package:jq",
            ("False", "Applying", "install package:jq"),
            ("True", "Applying", "install package:jq"),
            id="a pass is under way",
        ),
        pytest.param(
            [BROKEN],
            "",
            ("False", "ApplyFailed", f"file:/etc/x: {BROKEN.message}"),
            ("False", "ApplyFailed", ""),
            id="failed",
        ),
    ],
)
def test_ready_is_never_true_of_something_that_is_not_over(
    results: list[Result], under_way: str, ready: tuple[str, ...], progressing: tuple[str, ...]
) -> None:
    done = Pass([config_set("web")], {}, results, None, under_way=under_way)
    found = status.of_pass(ManagedNodeStatus(), done, datetime(2026, 1, 1, tzinfo=UTC), 4)
    for type_, said in ((conditions.READY, ready), (node_conditions.PROGRESSING, progressing)):
        one = conditions.get(found.conditions, type_)
        assert one
        assert (one.status, one.reason, one.message, one.observed_generation) == (*said, 4)
