"""Evictions, asked of the embedded server and of kube-apiserver: the same answers and the same traces.

Neither has a disruption controller here, so the status of budgets is written by hand.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from nodemanager.client.calls import Call
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import PODS
from nodemanager.kube.objects import Resource, Untyped
from support.both_servers import BOTH, client_of

NAMESPACES: Resource[Untyped] = Resource("", "v1", "Namespace", "namespaces", dict, namespaced=False)
RAW_PODS: Resource[Untyped] = Resource("", "v1", "Pod", "pods", dict)
BUDGETS: Resource[Untyped] = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", dict)
VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
KEPT = {"observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}


@dataclass
class World:
    """One of the two servers, with a namespace of our own."""

    client: Client
    namespace: str

    async def pod(self, name: str, phase: str = "Running", *, ready: bool = True) -> None:
        """Store a pod that runs on a node, so that it gets its grace period."""
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "automountServiceAccountToken": False,
            "nodeName": "n",
        }
        meta = {"name": name, "labels": {"app": "web"}}
        await self.client.create(RAW_PODS, {"metadata": meta, "spec": spec}, self.namespace)
        state = [{"type": "Ready", "status": "True" if ready else "False"}]
        patch = MergePatch({"status": {"phase": phase, "conditions": state}})
        await self.client.patch(RAW_PODS, name, self.namespace, patch, subresource="status")

    async def budget(self, name: str, status: Untyped | None = None, **spec: Any) -> None:
        """Store a budget, and its status."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}, **spec}
        await self.client.create(BUDGETS, {"metadata": {"name": name}, "spec": spec}, self.namespace)
        if status is not None:
            await self.set_status(name, status)

    async def set_status(self, name: str, status: Untyped) -> None:
        await self.client.patch(
            BUDGETS, name, self.namespace, MergePatch({"status": status}), subresource="status"
        )

    async def status(self, name: str) -> Untyped:
        found: Untyped = (await self.client.get(BUDGETS, name, self.namespace))["status"]
        return found

    async def evict(self, name: str, query: dict[str, str] | None = None, **fields: Any) -> Untyped:
        """Send an eviction of exactly these fields."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **fields}
        path = RAW_PODS.path(self.namespace, name, "eviction")
        raw = msgspec.json.encode(body)
        answer = await self.client.send(Call("POST", path, "evict", query or {}, raw, retry=False))
        decoded: Untyped = msgspec.json.decode(answer)
        return decoded

    async def refused(self, name: str, query: dict[str, str] | None = None, **fields: Any) -> errors.Status:
        """Send an eviction that must be refused."""
        with pytest.raises(errors.StatusError) as caught:
            await self.evict(name, query, **fields)
        return caught.value.status

    async def there(self, name: str) -> Untyped | None:
        try:
            found: Untyped = await self.client.get(RAW_PODS, name, self.namespace)
        except errors.NotFound:
            return None
        return found


@pytest.fixture(params=BOTH)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async with client_of(request) as client:
        namespace = f"evict-{uuid.uuid4().hex[:8]}"
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield World(client, namespace)


def cause(status: errors.Status) -> str:
    """Return why a budget says no, having checked the rest of the refusal."""
    assert (status.code, status.reason, status.message) == (429, "TooManyRequests", VIOLATES)
    assert status.details is not None
    (only,) = status.details.causes
    assert only.reason == "DisruptionBudget"
    return only.message


async def test_an_eviction_without_budget_deletes_with_grace(world: World) -> None:
    await world.pod("a")
    success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    assert await world.evict("a") == success
    pod = await world.there("a")
    assert pod is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    target = {name: value for name, value in pod["status"]["conditions"][-1].items() if value}
    assert target.pop("lastTransitionTime")
    assert target == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    assert "DisruptionTarget" not in str(pod["metadata"]["managedFields"])
    assert (await world.evict("a"))["status"] == "Success"
    again = await world.there("a")
    assert again is not None
    assert again["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]
    await world.evict("a", deleteOptions={"gracePeriodSeconds": 0})
    assert await world.there("a") is None


async def test_the_old_version_of_an_eviction_is_read(world: World) -> None:
    await world.pod("a")
    answer = await world.evict("a", apiVersion="policy/v1beta1", deleteOptions={"gracePeriodSeconds": 0})
    assert answer["status"] == "Success"
    assert await world.there("a") is None


async def test_evictions_that_make_no_sense(world: World) -> None:
    await world.pod("a")
    missing = await world.refused("nope")
    assert (missing.code, missing.message) == (404, 'pods "nope" not found')
    for metadata in ({"name": "b"}, {}):
        named = await world.refused("a", metadata=metadata)
        assert (named.code, named.message) == (400, "name in URL does not match name in Eviction object")
    elsewhere = await world.refused("a", metadata={"name": "a", "namespace": "kube-system"})
    assert elsewhere.message == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )
    strange = await world.refused("a", apiVersion="v1", kind="Pod")
    assert (strange.code, strange.reason) == (400, "BadRequest")
    unknown = await world.refused("a", {"fieldValidation": "Strict"}, deleteOptions={"bar": 1})
    assert unknown.message == (
        'Eviction in version "v1" cannot be handled as a Eviction: strict decoding error: '
        'unknown field "deleteOptions.bar"'
    )
    mistyped = await world.refused("a", deleteOptions={"gracePeriodSeconds": "x"})
    assert mistyped.code == 400
    path = RAW_PODS.path(world.namespace, "a", "eviction")
    with pytest.raises(errors.NotAllowed):
        await world.client.send(Call("GET", path, "get", {}, retry=False))
    pod = await world.there("a")
    assert pod is not None
    assert "deletionTimestamp" not in pod["metadata"]


async def test_dry_runs_change_nothing(world: World) -> None:
    await world.pod("a")
    await world.budget("b", {**KEPT, "disruptionsAllowed": 1})
    before = await world.there("a"), await world.status("b")
    await world.evict("a", {"dryRun": "All"})
    await world.evict("a", deleteOptions={"dryRun": ["All"]})
    await world.evict("a", {"dryRun": "All"}, deleteOptions={"dryRun": ["All"]})
    assert (await world.there("a"), await world.status("b")) == before
    text = 'dryRun: Unsupported value: ["foo"]: supported values: "All"'
    for query, options, kind in (
        ({"dryRun": "foo"}, {}, "CreateOptions"),
        ({}, {"dryRun": ["foo"]}, "DeleteOptions"),
    ):
        refused = await world.refused("a", query, deleteOptions=options)
        assert (refused.code, refused.message) == (422, f'{kind}.meta.k8s.io "" is invalid: {text}')
    both = await world.refused("a", {"dryRun": "All"}, deleteOptions={"dryRun": ["foo"]})
    assert (both.code, both.reason) == (500, "")
    assert both.message == "Non-matching dry-run options in request and content: [All] and [foo]"


async def test_preconditions(world: World) -> None:
    await world.pod("a")
    await world.pod("p", "Pending", ready=False)
    for name in ("a", "p"):
        pod = await world.there(name)
        assert pod is not None
        old = await world.refused(name, deleteOptions={"preconditions": {"resourceVersion": "1"}})
        assert old.code == 409
        assert old.message == (
            f'Operation cannot be fulfilled on Pod "{name}": the ResourceVersion in the precondition (1) '
            f"does not match the ResourceVersion in record ({pod['metadata']['resourceVersion']}). "
            "The object might have been modified"
        )
    other = await world.refused("a", deleteOptions={"preconditions": {"uid": "x"}})
    assert (other.code, "does not match the UID in record" in other.message) == (409, True)
    pod = await world.there("a")
    assert pod is not None
    exact = {name: pod["metadata"][name] for name in ("uid", "resourceVersion")}
    await world.evict("a", deleteOptions={"preconditions": exact, "gracePeriodSeconds": 0})
    assert await world.there("a") is None


async def test_a_budget_that_nobody_has_looked_at(world: World) -> None:
    await world.pod("a")
    await world.budget("b")
    refused = await world.refused("a")
    assert cause(refused) == "The disruption budget b is still being processed by the server."
    assert refused.details is not None
    assert refused.details.retry_after_seconds == 10


@pytest.mark.parametrize(
    ("status", "why"),
    [
        pytest.param({"currentHealthy": 1}, "needs 1 healthy pods and has 1 currently", id="too few"),
        pytest.param({}, "does not allow evicting pods currently", id="enough"),
        pytest.param(
            {"reason": "SyncFailed"},
            "does not allow evicting pods currently because it failed sync: text",
            id="failed",
        ),
        pytest.param(
            {"reason": "Other"}, "does not allow evicting pods currently (Other): text", id="another reason"
        ),
    ],
)
async def test_a_budget_that_allows_nothing(world: World, status: Untyped, why: str) -> None:
    status = dict(status)
    reason = status.pop("reason", "")
    if reason:
        said = {"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": "text"}
        status["conditions"] = [{**said, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    await world.pod("a")
    await world.budget("b", {**KEPT, "disruptionsAllowed": 0, **status})
    refused = await world.refused("a")
    assert cause(refused) == f"The disruption budget b {why}"
    assert refused.details is not None
    assert refused.details.retry_after_seconds == 0


async def test_too_many_evictions_that_nobody_took_note_of(world: World) -> None:
    await world.pod("a")
    disrupted = {f"p{number}": "2026-01-01T00:00:00Z" for number in range(2001)}
    await world.budget("b", {**KEPT, "disruptionsAllowed": 1, "disruptedPods": disrupted})
    refused = await world.refused("a")
    assert refused.code == 403
    assert refused.message == (
        'poddisruptionbudget.policy "b" is forbidden: DisruptedPods map too big - too many evictions not '
        "confirmed by PDB controller"
    )


async def test_an_eviction_spends_the_budget(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.pod(name)
    await world.budget("budget", {**KEPT, "disruptionsAllowed": 2})
    await world.evict("a")
    status = await world.status("budget")
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (1, ["a"])
    assert "conditions" not in status
    await world.evict("b")
    status = await world.status("budget")
    assert (status["disruptionsAllowed"], sorted(status["disruptedPods"])) == (0, ["a", "b"])
    (said,) = status["conditions"]
    assert said.pop("lastTransitionTime")
    assert said == {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": 1,
        "reason": "InsufficientPods",
        "message": "",
    }
    assert "does not allow evicting pods currently" in cause(await world.refused("c"))


async def test_two_budgets_are_one_too_many(world: World) -> None:
    await world.pod("a")
    for name in ("b", "c"):
        await world.budget(name, {**KEPT, "disruptionsAllowed": 1})
    refused = await world.refused("a")
    assert (refused.code, refused.reason) == (500, "")
    assert refused.message == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )


async def test_an_empty_selector_covers_everything_and_another_one_nothing(world: World) -> None:
    await world.pod("a")
    await world.budget("other", selector={"matchLabels": {"app": "db"}})
    await world.evict("a", {"dryRun": "All"})
    await world.budget("all", selector={})
    assert cause(await world.refused("a")).startswith("The disruption budget all is still")


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_pods_that_cannot_be_disturbed_need_no_budget(world: World, phase: str) -> None:
    await world.pod("a", phase)
    await world.budget("b")
    await world.evict("a")
    pod = await world.there("a")
    assert (pod is None) == (phase != "Pending")
    await world.evict("a", deleteOptions={"gracePeriodSeconds": 0}) if pod else None
    assert await world.there("a") is None


@pytest.mark.parametrize(
    ("policy", "healthy", "goes"),
    [
        ("IfHealthyBudget", 0, False),
        ("IfHealthyBudget", 1, True),
        (None, 0, False),
        (None, 1, True),
        ("AlwaysAllow", 0, True),
    ],
)
async def test_pods_that_are_not_ready(world: World, policy: str | None, healthy: int, goes: bool) -> None:
    await world.pod("a", ready=False)
    spec = {"unhealthyPodEvictionPolicy": policy} if policy else {}
    status = {**KEPT, "currentHealthy": healthy, "disruptionsAllowed": 0}
    await world.budget("b", status, **spec)
    if goes:
        # A revision that the client names is replaced by the one that was judged.
        old = {"preconditions": {"resourceVersion": "1"}, "gracePeriodSeconds": -5}
        await world.evict("a", deleteOptions=old)
        pod = await world.there("a")
        assert pod is not None
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 1
    else:
        assert "needs 1 healthy pods and has 0" in cause(await world.refused("a"))
    assert "disruptedPods" not in await world.status("b")


async def test_discovery_knows_the_kind_of_an_eviction(world: World) -> None:
    answer = await world.client.send(Call("GET", "/api/v1", "discover", {}))
    resources = {one["name"]: one for one in msgspec.json.decode(answer)["resources"]}
    assert resources["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert resources["pods/status"]["kind"] == PODS.kind
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    answer = await world.client.send(Call("GET", "/api", "discover", {}, accept=accept))
    (group,) = msgspec.json.decode(answer)["items"]
    pods = next(one for one in group["versions"][0]["resources"] if one["resource"] == "pods")
    kinds = {one["subresource"]: one["responseKind"] for one in pods["subresources"]}
    assert kinds["eviction"] == {"group": "policy", "version": "v1", "kind": "Eviction"}
