"""What a long pass is at: told once, with what has failed so far; a short pass says nothing of the kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nodemanager.agent.passes.underway import Underway
from nodemanager.agent.report import status
from nodemanager.agent.report.status import Pass
from nodemanager.api.common import node_conditions
from nodemanager.api.common.managednode import ManagedNodeStatus
from nodemanager.client.http.transport import Request, Response
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube import conditions, errors
from nodemanager.plan.resources import ResourceId
from nodemanager.plan.steps import InstallPackage, Step
from support.realtime import Kept
from support.reporting_host import ReportingHost
from support.root_tree import config_set, needs_root

RUN = ResourceId("exec", "web/sh#1")
RUNNING = Result(RUN, ("web",), ResourceOutcome.WAITING, "is running")
BROKEN = Result(
    ResourceId("file", "/etc/x"), ("web",), ResourceOutcome.FAILED, "cannot write /etc/x: it is a directory"
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


@needs_root
async def test_a_repair_leaves_nothing_to_say_for_a_pass_that_only_looks(tmp_path: Path) -> None:
    told = Told(0)
    async with Kept(tmp_path) as kept:
        await kept.converge(config_set("web", files=[{"path": f"{tmp_path}/motd", "content": "one"}]))
        kept.host.converger.underway = told.underway
        (tmp_path / "motd").write_text("two")
        await kept.until(lambda: kept.told)
    with told.underway.passing():
        await asyncio.sleep(0.01)
        assert (told.times, told.underway.said) == (0, "")


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


class Nobody:
    """An API that is not asked for anything."""

    async def send(self, _: Request) -> Response:
        raise errors.Unreachable("nobody is there")

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        """Hold nothing open."""


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[ReportingHost]:
    found = ReportingHost(tmp_path, Nobody())
    found.machine.converger.underway.seconds = 0
    yield found
    await found.close()


def said(host: ReportingHost) -> dict[str, tuple[str, str]]:
    """Return status and message of what would be written now."""
    found = host.report.contribute(ManagedNodeStatus(), host.report.now(), datetime(2026, 1, 1, tzinfo=UTC))
    return {one.type: (one.status, one.message) for one in found.conditions}


@needs_root
async def test_the_first_pass_of_a_host_is_told_of_if_it_is_long(host: ReportingHost) -> None:
    underway = host.machine.converger.underway
    assert said(host) == {}
    with underway.passing():
        await asyncio.sleep(0.01)
        underway.doing(install("jq"))
        assert not host.report.empty, "or nothing would be written"
        assert said(host) == {
            "Ready": ("False", "install package:jq"),
            "Progressing": ("True", "install package:jq"),
        }
    assert said(host) == {}


@needs_root
async def test_what_failed_so_far_is_told_and_what_is_mended_is_not(host: ReportingHost) -> None:
    host.report.passed(Pass([config_set("web")], {}, (), None), 1)
    host.host_state.results[BROKEN.id] = BROKEN
    assert said(host)["Ready"] == ("False", f"{BROKEN.id}: {BROKEN.message}")
    underway = host.machine.converger.underway
    other = replace(BROKEN, id=ResourceId("package", "jq"), message="cannot install jq")
    with underway.passing():
        await asyncio.sleep(0.01)
        underway.doing(install("jq"))
        underway.done([replace(BROKEN, outcome=ResourceOutcome.UNCHANGED), other])
        assert said(host)["Ready"] == ("False", "package:jq: cannot install jq")
        assert said(host)["Progressing"][0] == "True"
