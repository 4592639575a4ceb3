"""The evil host: every verb on every kind that an API serves, with a host's own token, on both servers.

All that it may do is in the tables below. A kind that is added is tried from then on, and is refused or
has to be written down here. For the whole outcome as a table: pytest -rP tests/contract/test_evil_host.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support import evil_host
from support.accounts import operating
from support.agent_process import Api
from support.either import Place
from support.evil_host import ME, NOBODY, OTHER, Served, World
from support.host_attempts import HARMLESS, UNPRIVILEGED
from support.joined_host import ask, guard, join

Rows = dict[str, dict[str, str]]
"""By kind and verb, whom a host may do it to."""

IN_NAMESPACE = "own other nobody all"
READ = dict.fromkeys(("get",), "own other nobody") | dict.fromkeys(("list", "watch"), IN_NAMESPACE)
WRITE = dict.fromkeys(("create", "update", "patch", "apply"), "own")
ASK = {"create": "own other nobody"}  # whatever the question is called
PLAIN: Rows = {
    "configsets.common.nodemanager": READ,
    "configsetrevisions.common.nodemanager": {"get": "own other nobody"},
    "configsetpreviews.common.nodemanager": {"get": "own other nobody"},
    "managednodes.common.nodemanager": {**READ, **WRITE},
    "managednodes/status.common.nodemanager": dict.fromkeys(("get", "update", "patch", "apply"), "own"),
    "nodetasks.maintenance.nodemanager": READ,
    "nodetasks/status.maintenance.nodemanager": dict.fromkeys(("patch", "apply"), "own"),
    "leases.coordination.k8s.io": {**WRITE, "get": "own"},
    "events": dict.fromkeys(("create", "patch", "apply"), "own"),
    "serviceaccounts/token": {"create": "own"},
    "selfsubjectreviews.authentication.k8s.io": ASK,
    "selfsubjectaccessreviews.authorization.k8s.io": ASK,
    "selfsubjectrulesreviews.authorization.k8s.io": ASK,
}
"""What `nodemanager rbac --hostname HOST` gives, and what Kubernetes gives all: to ask about oneself."""
ALL_PODS = {"get": "own other nobody elsewhere", "list": "own other nobody elsewhere all everywhere"}
MIGHTY: Rows = {
    **PLAIN,
    "secrets": {**READ, "create": "own"},
    "configmaps": READ,
    "nodes": dict.fromkeys(("get", "patch", "apply"), "own"),
    "pods": ALL_PODS,
    "pods/eviction": {"create": "own other nobody elsewhere"},
}
"""With all flags. Pods and evictions cannot be kept to one Node: docs/joining.md."""
PROFILES = {"plain": ((), PLAIN), "mighty": (("--wide-secrets", "--kubernetes-node"), MIGHTY)}
OPEN = ("/", "/version", "/api", "/apis", "/openapi/v2", "/healthz", "/livez", "/readyz", "/openid/v1/jwks")
CLOSED = (
    "/metrics",
    "/logs",
    "/debug/pprof",
    "/configz",
    "/flagz",
    "/statusz",
    "/readyz/ping",
    "/livez/ping",
)


@pytest.fixture(name="world")
async def _world(place: Place, api: Api, tmp_path: Path) -> AsyncIterator[World]:
    """Objects of this host, of another and of nobody, wherever a host might be let in."""
    await guard(place, tmp_path)
    elsewhere = f"{place.namespace}-other"
    assert (
        await ask(api.client, "POST", "/api/v1/namespaces", {"metadata": {"name": elsewhere}})
    ).code == 200
    for space in (place.namespace, elsewhere):
        for host in (ME, OTHER, NOBODY):
            for served in BELONGINGS:
                body = evil_host.body_of(served, host, space)
                if served.plural == "pods":
                    body["spec"] = {"securityContext": UNPRIVILEGED, "containers": [HARMLESS]}
                reply = await ask(api.client, "POST", served.folder(space), body)
                assert reply.code in (200, 409), (served, reply)
            there = dataclasses.replace(place, namespace=space)
            async with operating(there) as operator:
                reply = await ask(
                    operator, "POST", TASKS.folder(space), evil_host.body_of(TASKS, host, space)
                )
                assert reply.code == 200, reply
    yield World(place.namespace, elsewhere)
    for host in (ME, OTHER, NOBODY):  # what is in no namespace of ours, other tests would find
        await ask(api.client, "DELETE", f"/api/v1/nodes/{host}")
    await ask(api.client, "DELETE", f"/api/v1/namespaces/{elsewhere}")


TASKS = Served("maintenance.nodemanager/v1alpha1", "NodeTask", "nodetasks", namespaced=True)
BELONGINGS = (
    Served("common.nodemanager/v1", "ManagedNode", "managednodes", namespaced=True),
    Served("common.nodemanager/v1", "ConfigSet", "configsets", namespaced=True),
    Served("coordination.k8s.io/v1", "Lease", "leases", namespaced=True),
    Served("v1", "Event", "events", namespaced=True),
    Served("v1", "Secret", "secrets", namespaced=True),
    Served("v1", "ConfigMap", "configmaps", namespaced=True),
    Served("v1", "ServiceAccount", "serviceaccounts", namespaced=True),
    Served("v1", "Pod", "pods", namespaced=True),
    Served("v1", "Node", "nodes", namespaced=False),
)


def granted(rows: Rows) -> set[tuple[str, str, str]]:
    return {
        (kind, verb, target)
        for kind, verbs in rows.items()
        for verb, targets in verbs.items()
        for target in targets.split()
    }


@pytest.mark.parametrize("profile", PROFILES)
async def test_every_verb_on_every_kind(
    place: Place, api: Api, world: World, tmp_path: Path, profile: str
) -> None:
    flags, rows = PROFILES[profile]
    served = await evil_host.kinds(api.client)
    async with (await join(place, tmp_path, ME, *flags)).client() as me:
        codes = await evil_host.tried(me, world, served)
        open_ = [path for path in (*OPEN, *CLOSED) if (await ask(me, "GET", path)).code != 403]
    print(f"{profile}: {len(codes)} attempts\n{evil_host.table(codes)}")  # noqa: T201 - for pytest -rP
    found, wanted = evil_host.allowed(codes), granted(rows)
    assert sorted(found - wanted) == []
    assert sorted(wanted - found) == []
    assert {what for what, _, _ in codes} == {one.title for one in served}
    assert len(codes) > 1000
    assert set(open_) <= set(OPEN)
