"""A ConfigSet with a window: made so while that is open, looked at and told of while it is shut."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodemanager.api.common import enforcement
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import AppliedConfigSet, ManagedNode
from nodemanager.controllers.configsets.rollup import summarise
from nodemanager.kube import conditions, errors, times
from support.agent_process import Api, Starts, owned

PATH = "/etc/motd"
BUCKET = "/var/lib/nodemanager/filebucket"
DAY = timedelta(days=1)


def during(*openings: tuple[timedelta, timedelta | None]) -> dict[str, Any]:
    """Return spans that begin and end so long from now."""
    now = datetime.now(UTC)
    found = [
        {"start": times.rfc3339(now + start), **({"end": times.rfc3339(now + end)} if end else {})}
        for start, end in openings
    ]
    return {"openings": found, "window": "MaintenanceWindow nights"}


def is_at(generation: int) -> Callable[[ManagedNode], bool]:
    """Return what tells whether a host reports a generation of its one set."""
    return lambda node: [one.observed_generation for one in node.status.configsets] == [generation]


def waits(node: ManagedNode) -> bool:
    return all(map(_waits, node.status.configsets)) and bool(node.status.configsets)


def _waits(one: AppliedConfigSet) -> bool:
    return one.waiting == enforcement.WAITS


async def ready(api: Api, name: str) -> tuple[str, str, str]:
    """Return what the operator says of a set."""
    found = await api.client.get(CONFIG_SETS, name, api.namespace)
    status = summarise(found, [await api.node()], times.rfc3339(datetime.now(UTC)))
    condition = conditions.get(status.conditions, "Ready")
    assert condition is not None
    return condition.status, condition.reason, condition.message


async def test_nothing_is_done_before_it_opens_and_nobody_is_fooled(api: Api, start: Starts) -> None:
    agent = start()
    await api.config_set("motd", files=[owned(PATH, content="one\n")], enforcement=during((DAY, None)))
    node = await api.until(waits)
    assert not agent.at(PATH).exists()
    assert conditions.is_true(node.status.conditions, "Ready"), "the host does all that it may"
    assert not conditions.is_true(node.status.conditions, "Drifted"), "what is new is no drift"
    assert [one.held for one in node.status.configsets] == [1]
    said = ("False", "WindowClosed", "waits for its window to open on web1")
    assert await ready(api, "motd") == said
    await api.respec("motd", enforcement=during((-DAY, DAY)))
    await agent.reads(PATH, "one\n")
    await api.until(is_at(2))
    assert (await ready(api, "motd"))[:2] == ("True", "Applied")


async def test_claim_7_a_drift_is_seen_at_once_and_each_path_has_its_policy(api: Api, start: Starts) -> None:
    """One file is put back now, one is left to people, one waits for its window; what they were is kept."""
    agent = start()
    now, people, window = "/etc/now", "/etc/people", PATH
    files = [owned(now, content="one\n"), owned(people, content="one\n", drift="observe")]
    await api.config_set("both", files=files)
    await api.config_set("motd", files=[owned(window, content="one\n")], enforcement=during((-DAY, DAY)))
    await api.ready("both", "motd")
    await api.respec("motd", enforcement=during((DAY, None)))
    await api.until(lambda node: {one.observed_generation for one in node.status.configsets} == {1, 2})
    began = datetime.now(UTC)
    for path in (now, people, window):
        agent.at(path).write_text("mine\n")
    await agent.reads(now, "one\n")
    node = await api.until(lambda one: one.status.drift and len(one.status.drift.recent) == 3)
    drift = node.status.drift
    assert drift is not None
    assert (drift.repaired, drift.observed) == (1, 2)
    found = {one.resource.removeprefix("file:"): one for one in drift.recent}
    assert {path: one.outcome for path, one in found.items()} == {
        now: "repaired", people: "observed", window: "observed",
    }  # fmt: skip
    for one in drift.recent:
        assert datetime.fromisoformat(one.time) - began < timedelta(seconds=2), one
    for path in (people, window):
        assert found[path].message.endswith("-one\n+mine"), "the difference is kept"
        assert agent.at(path).read_text() == "mine\n"
    kept = [one.read_bytes() for one in agent.at(BUCKET).rglob("*") if one.is_file()]
    assert b"mine\n" in kept, "of what is put back, the whole file is kept, on the host"
    assert conditions.is_true(node.status.conditions, "Drifted")
    await api.until(lambda one: any(map(_waits, one.status.configsets)))
    await api.respec("motd", enforcement=during((-DAY, None)))
    await agent.reads(window, "one\n")
    assert agent.at(people).read_text() == "mine\n"


async def test_it_opens_by_itself_and_no_earlier(api: Api, start: Starts) -> None:
    agent = start()
    window = during((timedelta(seconds=3), DAY))
    opens = datetime.fromisoformat(window["openings"][0]["start"])
    await api.config_set("motd", files=[owned(PATH, content="one\n")], enforcement=window)
    await agent.reads(PATH, "one\n")
    assert agent.at(PATH).stat().st_mtime >= opens.timestamp()


async def test_others_that_want_the_same_are_not_kept_from_it(api: Api, start: Starts) -> None:
    agent = start()
    file = owned(PATH, content="one\n")
    await api.config_set("shut", files=[file], enforcement=during())
    await api.config_set("plain", files=[file])
    await agent.reads(PATH, "one\n")


@pytest.mark.parametrize(
    ("openings", "message"),
    [
        ([{"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}], "must be before end"),
        ([{"start": "monday"}], "openings[0].start"),
        ([{"end": "2026-01-01T00:00:00Z"}], "openings[0].start: Required value"),
    ],
)
async def test_openings_that_make_no_sense_are_refused(
    api: Api, openings: list[dict[str, str]], message: str
) -> None:
    with pytest.raises(errors.Invalid) as refused:
        await api.config_set("motd", enforcement={"openings": openings})
    assert message in str(refused.value)
