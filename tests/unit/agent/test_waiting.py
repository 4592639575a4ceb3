"""What waits for a Secret: nothing begins that needs it, nobody is warned for a minute, then somebody is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nodemanager.agent.passes.patience import SECONDS, Patience
from nodemanager.agent.report import status
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import ManagedNodeStatus
from nodemanager.api.common.node_conditions import APPLY_FAILED, WAITING
from nodemanager.host.base import ServiceKey
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.kube import conditions
from nodemanager.plan import merge
from nodemanager.plan.desired import Contents, Failure
from nodemanager.plan.resources import ResourceId
from support.memory_host import Host
from support.root_tree import config_set, literal_contents, needs_root, outcomes

pytestmark = needs_root
REMEDY = "cannot render it: Secret db does not exist, or this host may not read it; create it"
MISSING = Failure(REMEDY, awaits="Secret db")
WRONG = Failure("cannot render it: line 1: unexpected end")
FILE = ResourceId("file", "/etc/db")
APP = ServiceKey("app")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    found = Host(tmp_path)
    yield found
    found.tree.close()


def app(host: Host, name: str = "app", **service: Any) -> ConfigSet:
    """A file that is made of a Secret, a service that is down, and a program."""
    return config_set(
        name,
        files=[{"path": f"{host.folder}/{name}.conf", "content": "with the secret"}],
        services=[{"name": "app", "ensure": "running", "enable": True, **service}],
        executions=[{"command": "touch", "args": [f"{host.folder}/ran"], "creates": f"{host.folder}/ran"}],
    )


async def converge(
    host: Host, failure: Failure | None, *sets: ConfigSet, held: bool = False
) -> dict[str, str]:
    """Do a pass in which the first file of the first set cannot be made; return how each kind of it went."""
    desired = merge.merge(sets)
    contents: Contents = dict(literal_contents(desired))
    if failure is not None:
        contents = {**contents, desired.files[0].declaration.path: failure}
    results = await host.converger.run(desired, contents, held=lambda _: held)
    return {one.partition(":")[0]: outcome for one, outcome in outcomes(results).items()}


async def test_nothing_of_a_set_begins_before_its_file(host: Host) -> None:
    waits = dict.fromkeys(("file", "service", "exec"), "waiting")
    assert await converge(host, MISSING, app(host)) == waits
    assert host.services.calls == []
    assert not (host.folder / "ran").exists()
    assert set((await converge(host, None, app(host))).values()) == {"changed"}
    assert "start app" in host.services.calls


async def test_a_mistake_in_a_template_holds_back_as_much_but_is_a_failure(host: Host) -> None:
    assert set((await converge(host, WRONG, app(host))).values()) == {"blocked"}
    assert host.services.calls == []


async def test_another_set_goes_on_unless_it_subscribes_to_the_file(host: Host) -> None:
    secret = config_set("a", files=[{"path": f"{host.folder}/a.conf", "content": "x"}])
    assert (await converge(host, MISSING, secret, app(host)))["service"] == "changed"
    host.services.facts[APP] = replace(host.services.facts[APP], running=False)
    subscribed = app(host, subscribe_files=[f"{host.folder}/a.conf"])
    assert (await converge(host, MISSING, secret, subscribed))["service"] == "waiting"


async def test_what_held_before_is_put_back_with_the_file_that_is_there(host: Host) -> None:
    """A Secret that was taken away, or a mistake in a template, must not keep a service down that crashed."""
    found = await converge(host, MISSING, app(host), held=True)
    assert (found["file"], found["service"]) == ("waiting", "changed")


async def test_what_shall_be_stopped_is_stopped(host: Host) -> None:
    host.services.facts[APP] = replace(host.services.facts[APP], running=True)
    found = await converge(host, MISSING, app(host, ensure="stopped", enable=False))
    assert (found["service"], host.services.calls) == ("changed", ["stop app"])


def waiting(resource: ResourceId = FILE) -> Result:
    return Result(resource, ("a",), ResourceOutcome.WAITING, REMEDY, awaits="Secret db")


def test_a_wait_becomes_a_failure_after_a_minute() -> None:
    patience = Patience()
    assert patience.due_in(1000.0) is None
    (first,) = patience.judged([waiting()], 1000.0, whole=True)
    assert (first.outcome, patience.due_in(1010.0)) == (ResourceOutcome.WAITING, SECONDS - 10)
    (still,) = patience.judged([waiting()], 1000.0 + SECONDS - 1, whole=True)
    assert still.outcome is ResourceOutcome.WAITING
    (late,) = patience.judged([waiting()], 1000.0 + SECONDS, whole=True)
    assert (late.outcome, late.message) == (ResourceOutcome.BLOCKED, REMEDY)
    assert patience.due_in(1000.0 + SECONDS) is None


def test_who_got_what_it_waited_for_may_wait_again() -> None:
    patience = Patience()
    patience.judged([waiting()], 0.0, whole=True)
    patience.judged([], 50.0, whole=True)
    (again,) = patience.judged([waiting()], 100.0, whole=True)
    assert again.outcome is ResourceOutcome.WAITING


def test_a_repair_of_something_else_ends_no_wait() -> None:
    patience = Patience()
    patience.judged([waiting()], 0.0, whole=True)
    patience.judged([Result(ResourceId("file", "/other"), ("a",), ResourceOutcome.CHANGED)], 1.0)
    (late,) = patience.judged([waiting()], SECONDS)
    assert late.outcome is ResourceOutcome.BLOCKED


def reported(one: Result) -> tuple[str, str, str, str]:
    done = status.Pass([config_set("a")], {}, [one], None)
    found = status.of_pass(ManagedNodeStatus(), done, datetime(2026, 1, 1, tzinfo=UTC), 3)
    ready = conditions.get(found.conditions, conditions.READY)
    assert ready
    assert (ready.status, ready.observed_generation) == (conditions.FALSE, 3)
    return ready.reason, ready.message, found.configsets[0].error, found.configsets[0].waiting


def test_the_status_names_what_is_waited_for_and_later_the_remedy() -> None:
    said = "file:/etc/db: waits for Secret db"
    assert reported(waiting()) == (WAITING, said, "", said)
    late = replace(waiting(), outcome=ResourceOutcome.BLOCKED)
    assert reported(late) == (APPLY_FAILED, f"file:/etc/db: {REMEDY}", f"file:/etc/db: {REMEDY}", "")
