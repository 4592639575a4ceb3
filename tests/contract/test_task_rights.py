"""Who may do what with NodeTasks, on both servers: the operator makes them, the host of each reports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.maintenance.nodetask import NODE_TASKS, UPGRADES, VISIT
from nodemanager.client.verbs import Client
from nodemanager.kube import manifests
from support import cases
from support.accounts import operating
from support.agent_process import Api
from support.either import Place
from support.host_attempts import APPLY, OURS, node, task
from support.joined_host import MERGE, Reply, ask

FORBIDDEN, NOT_FOUND, INVALID, OK = 403, 404, 422, 200


@pytest.fixture(name="operator")
async def _operator(place: Place, me: Client) -> AsyncIterator[Client]:
    """The operator, where the policies are in force, with a task for this host and one for another."""
    del me
    async with operating(place) as client:
        for host in ("b", "a"):
            body = task(f"of-{host}", place.namespace, host)
            assert (await ask(client, "POST", folder(place), body)).code == OK
        yield client


def folder(place: Place) -> str:
    return NODE_TASKS.path(place.namespace)


async def enforced(api: Api, place: Place) -> None:
    """Wait until the policy of tasks is in force, which a kube-apiserver takes a moment for."""
    async with asyncio.timeout(90):
        body = task("probe", place.namespace, "probe")
        while (await ask(api.client, "POST", f"{folder(place)}?dryRun=All", body)).code == OK:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_an_administrator_makes_changes_and_removes_none(
    place: Place, api: Api, operator: Client
) -> None:
    await enforced(api, place)
    who = "may not {} NodeTasks: only the operator of their namespace may; "
    one = f"{folder(place)}/of-b"
    created = await ask(api.client, "POST", folder(place), task("new", place.namespace, "b"))
    assert (created.code, who.format("create") + "declare what you want" in created.message) == (
        FORBIDDEN,
        True,
    )
    applied = task("applied", place.namespace, "b")
    target = f"{folder(place)}/applied?fieldManager=me"
    assert (await ask(api.client, "PATCH", target, applied, APPLY)).code == FORBIDDEN
    for change in ({"labels": {"a": "b"}}, {"annotations": {"a": "b"}}, {"finalizers": ["a.test/b"]}):
        changed = await ask(api.client, "PATCH", one, {"metadata": change})
        assert (changed.code, who.format("change") in changed.message) == (FORBIDDEN, True), changed
    assert await ask(api.client, "PATCH", one, {"metadata": {}}) == Reply(OK)  # nothing is changed
    for target in (one, folder(place)):
        deleted = await ask(api.client, "DELETE", target)
        assert (deleted.code, who.format("delete") + "it removes them" in deleted.message) == (
            FORBIDDEN,
            True,
        )
        assert "ValidatingAdmissionPolicyBinding nodemanager-tasks" in deleted.message
    assert (await ask(operator, "DELETE", one)).code == OK


async def test_an_operator_makes_them_in_its_own_namespace_only(
    place: Place, api: Api, operator: Client
) -> None:
    await enforced(api, place)
    elsewhere = NODE_TASKS.path("default")
    refused = await ask(operator, "POST", elsewhere, task("stray", "default", "b"))
    assert (refused.code, "only the operator of their namespace" in refused.message) == (FORBIDDEN, True)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"nodeName": "a"}, id="another host"),
        pytest.param({"steps": [{"name": "one", "execution": {"argv": ["false"]}}]}, id="another step"),
        pytest.param({"deadline": "2100-01-01T00:00:00Z"}, id="more time"),
        pytest.param({"fencingToken": 2}, id="another token"),
    ],
)
async def test_nobody_changes_what_a_task_says(
    place: Place, operator: Client, change: dict[str, Any]
) -> None:
    refused = await ask(operator, "PATCH", f"{folder(place)}/of-b", {"spec": change})
    assert (refused.code, "spec: Invalid value" in refused.message) == (INVALID, True)
    assert "cannot be changed: a task is done once, as it is" in refused.message


async def test_what_only_the_operator_makes_is_accepted_whole(place: Place, operator: Client) -> None:
    for parameter in cases.manifests("made_by_operator"):
        (path,) = parameter.values
        assert isinstance(path, Path)
        for obj in manifests.load_all(path.read_text(encoding="utf-8"), path.name):
            target = f"{folder(place)}?fieldValidation=Strict"
            assert await ask(operator, "POST", target, obj) == Reply(OK)


STEP = {"name": "one", "phase": "Running", "attempts": 1}
STATUS = {"phase": "Running", "step": "one", "steps": [{**STEP, "evidence": {"bootID": "1"}}]}


async def test_a_host_reports_on_its_own_tasks_and_changes_nothing_else(
    place: Place, me: Client, operator: Client
) -> None:
    mine, other = f"{folder(place)}/of-b", f"{folder(place)}/of-a"
    assert (await ask(me, "PATCH", f"{mine}/status", {"status": STATUS})).code == OK
    refused = await ask(me, "PATCH", f"{other}/status", {"status": STATUS})
    assert (refused.code, "whose spec.nodeName is its own" in refused.message) == (FORBIDDEN, True)
    for method, target, body in (
        ("POST", folder(place), task("mine", place.namespace, "b")),
        ("PATCH", mine, {"metadata": {"labels": {"a": "b"}}}),
        ("PUT", mine, task("of-b", place.namespace, "b")),
        ("PUT", f"{mine}/status", {**task("of-b", place.namespace, "b"), "status": STATUS}),
        ("DELETE", mine, None),
    ):
        assert (await ask(me, method, target, body)).code == FORBIDDEN, (method, target)
    sneaky = {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a.test/b"]},
              "spec": {"nodeName": "a"}, "status": {"message": "done"}}  # fmt: skip
    assert (await ask(me, "PATCH", f"{mine}/status", sneaky)).code == OK  # of which only the status counts
    found = await operator.get(NODE_TASKS, "of-b", place.namespace)
    assert found.metadata.labels == {"maintenance.nodemanager/node": "b"}
    assert (found.metadata.annotations, found.metadata.finalizers) == ({}, [])
    assert (found.spec.node_name, found.status.message, found.status.step) == ("b", "done", "one")
    for target in (folder(place), other):  # there are no secrets in them
        assert (await ask(me, "GET", target)).code == OK


def facts(count: int) -> dict[str, str]:
    return {f"f{fact}": "1" for fact in range(count)}


TOO_MUCH: dict[str, Any] = {
    "facts": [{**STEP, "evidence": facts(129)}],
    "name of a fact": [{**STEP, "evidence": {"x" * 257: "1"}}],
    "fact": [{**STEP, "evidence": {"x": "1" * 257}}],
    "output": [{**STEP, "output": "x" * 4097}],
    "message": [{**STEP, "message": "x" * 1025}],
    "control characters": [{**STEP, "output": "\x1b[31m"}],
    "steps": [{**STEP, "name": f"s{each}"} for each in range(65)],
}  # fmt: skip


async def test_a_task_that_ended_does_not_go_on(place: Place, me: Client, operator: Client) -> None:
    """While one goes on, its host may read the Secrets of it."""
    status = f"{folder(place)}/of-b/status"
    assert (await ask(me, "PATCH", status, {"status": STATUS})).code == OK
    assert (await ask(me, "PATCH", status, {"status": {"phase": "Failed"}})).code == OK
    refused = await ask(me, "PATCH", status, {"status": {"phase": "Running"}})
    assert (refused.code, "may not have a NodeTask go on that has ended" in refused.message) == (
        FORBIDDEN,
        True,
    )
    assert (await ask(me, "PATCH", status, {"status": {"phase": "Halted"}})).code == OK
    assert operator is not me


async def test_a_host_tells_no_more_than_people_can_read(place: Place, me: Client, operator: Client) -> None:
    del operator
    status = f"{folder(place)}/of-b/status"
    codes = {
        what: (await ask(me, "PATCH", status, {"status": {"steps": steps}}, MERGE)).code
        for what, steps in TOO_MUCH.items()
    }
    assert {what for what, code in codes.items() if code not in (FORBIDDEN, INVALID)} == set()
    most = [{**STEP, "name": f"s{each}", "evidence": facts(128)} for each in range(64)]
    assert (await ask(me, "PATCH", status, {"status": {"steps": most}})).code == OK


@pytest.mark.parametrize("key", [VISIT, UPGRADES])
async def test_a_host_cannot_touch_what_the_operator_writes_on_it(
    place: Place, api: Api, me: Client, key: str
) -> None:
    """With a claim of its own it would keep others waiting; without the operator's, be visited twice.

    Nor can it say who begins its upgrades.
    """
    nodes = f"{OURS}/{place.namespace}/managednodes"
    forged = node("b", place.namespace)
    forged["metadata"]["annotations"] = {key: "{}"}
    refused = await ask(me, "POST", nodes, forged)
    says = "may not write labels and annotations of maintenance.nodemanager"
    assert (refused.code, says in refused.message) == (FORBIDDEN, True)
    assert (await ask(me, "POST", nodes, node("b", place.namespace))).code == OK
    claim = {"metadata": {"annotations": {key: '{"run":"r1"}'}}}
    for target in (f"{nodes}/b", f"{nodes}/b/status"):
        wanted = FORBIDDEN if target.endswith("b") else OK  # the status has no annotations to write
        assert (await ask(me, "PATCH", target, claim)).code == wanted
    assert (await ask(api.client, "PATCH", f"{nodes}/b", claim)).code == OK  # as the operator may
    for value in (None, '{"run":"r2"}'):
        change = {"metadata": {"annotations": {key: value}}}
        refused = await ask(me, "PATCH", f"{nodes}/b", change)
        assert (refused.code, says in refused.message) == (FORBIDDEN, True)
    label = {"metadata": {"labels": {"maintenance.nodemanager/node": "b"}}}
    assert (await ask(me, "PATCH", f"{nodes}/b", label)).code == FORBIDDEN
    own = {"metadata": {"annotations": {"nodemanager.io/note": "x"}}}
    assert (await ask(me, "PATCH", f"{nodes}/b", own)).code == OK  # all else it may go on to write


async def test_a_namespace_goes_with_its_tasks(place: Place, api: Api, operator: Client) -> None:
    """No policy keeps Kubernetes, or the embedded API, from cleaning up."""
    await enforced(api, place)
    one = f"{folder(place)}/of-b"
    cleaner = "system:serviceaccount:kube-system:namespace-controller"
    place.kubectl("delete", "nodetask", "of-b", "--as", cleaner, "--as-group", "system:masters")
    made = "create", "--as", cleaner, "--as-group", "system:masters", "-f", "-"
    assert "may not create NodeTasks" in place.refused(
        *made, stdin=json.dumps(task("x", place.namespace, "b"))
    )
    assert (await ask(operator, "GET", one)).code == NOT_FOUND
    if "embedded" in str(place.cache):  # a kube-apiserver alone removes no namespaces
        place.kubectl("delete", "namespace", place.namespace, "--wait=false")
        async with asyncio.timeout(90):
            while (await ask(api.client, "GET", f"{folder(place)}/of-a")).code == OK:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
