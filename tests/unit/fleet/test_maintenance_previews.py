"""Who is asked what an upgrade would do, and what they are asked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nodemanager.api.maintenance.task_steps import ExecutionAction, PackagesAction, TaskPackage, TaskStep
from nodemanager.fleet.maintenance import previews
from nodemanager.fleet.maintenance.claims import Unreadable
from nodemanager.fleet.maintenance.facts import HostFacts, HostHealth
from nodemanager.fleet.maintenance.previews import PreviewRequest
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.fleet.maintenance.steps import RunWork
from nodemanager.fleet.series import HostGroup

THEN = datetime(2026, 1, 1, tzinfo=UTC)


def host(name: str, claim: Any = None, **health: Any) -> HostFacts:
    return HostFacts(name, f"uid-{name}", THEN, health=HostHealth(**health), claim=claim)


def upgrade(what: str) -> TaskStep:
    return TaskStep(name=f"up-{what}", packages=PackagesAction(upgrade=what))


INSTALL = TaskStep(name="in", packages=PackagesAction(install=[TaskPackage(name="curl")]))
RUN = TaskStep(name="run", execution=ExecutionAction(argv=["true"]))


@pytest.mark.parametrize(
    ("steps", "asks"),
    [
        ([RUN, upgrade("all")], "all"),
        ([upgrade("security"), RUN], "security"),
        ([upgrade("security"), upgrade("all")], "all"),
        ([INSTALL, RUN], ""),
    ],
)
def test_only_upgrades_can_be_told_beforehand(steps: list[TaskStep], asks: str) -> None:
    found = previews.steps(RunWork(tuple(steps), ""))
    assert [one.preview.packages for one in found if one.preview is not None] == ([asks] if asks else [])


def test_who_cannot_answer_is_not_asked_and_named() -> None:
    hosts = {
        one.name: one
        for one in (
            host("good"), host("silent", alive=False), host("bare", alive=None), host("held", held=True),
            host("busy", Unreadable("x")), host("upgrading", upgrading=True),
        )
    }  # fmt: skip
    found = previews.asked([HostGroup("canaries", ("silent", "good")), HostGroup("", tuple(hosts))], hosts)
    assert set(found.hosts) == {"good"}
    assert found.unfit == {
        "silent": Reason.HOST_SILENT, "bare": Reason.HOST_WITHOUT_AGENT, "held": Reason.HOST_HELD,
        "busy": Reason.CLAIM_UNREADABLE, "upgrading": Reason.HOST_UPGRADING,
    }  # fmt: skip


def test_of_very_many_hosts_the_first_are_asked() -> None:
    names = tuple(f"h{number:03}" for number in range(150))
    found = previews.asked([HostGroup("", names)], {name: host(name) for name in names})
    assert (found.hosts, found.beyond) == (names[:100], names[100:])


def test_a_request_is_a_hash_and_an_id() -> None:
    request = PreviewRequest("ab" * 32, "0f1e")
    assert previews.request_of(request.text()) == request
    for text in ("", "ab" * 32, f"{'ab' * 32} ", f"{'ab' * 32} A", f"{'ab' * 32} a b", "zz x"):
        assert previews.request_of(text) is None, text
