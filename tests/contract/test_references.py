"""A host reads what its ConfigSets refer to and nothing else; the operator has its documented rights only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import CONFIG_MAPS, EVENTS, ROLE_BINDINGS, ROLES
from nodemanager.kube.objects import Resource
from support import operator_process
from support.accounts import operating
from support.agent_process import Api, Starts, owned
from support.either import Place
from support.host_attempts import OURS, custom, task
from support.joined_host import ask, join

FORBIDDEN = 403
SECONDS = 90.0
SOON = 20.0
"""Seconds on a busy machine; far less than until somebody looks without having been told."""
"""What a host may read follows what is declared within this time, where the machine has the time."""
ROLE = "nodemanager-web1-references"


@pytest.fixture(name="operator", autouse=True)
async def _operator(place: Place, api: Api, tmp_path: Path) -> AsyncIterator[Path]:
    async with operator_process.operator(place, api, tmp_path) as log:
        yield log


@pytest.fixture(name="me")
async def _me(place: Place, tmp_path: Path, api: Api) -> AsyncIterator[Client]:
    """The API as host web1 sees it, which is labelled role=web."""
    meta = {"name": "web1", "namespace": place.namespace, "labels": {"role": "web"}}
    await api.client.create(MANAGED_NODES, {"metadata": meta}, place.namespace)
    for name in ("one", "two", "other"):
        await api.secret(name, key="value")
        body = {"metadata": {"name": name, "namespace": place.namespace}, "data": {"key": "value"}}
        await api.client.create(CONFIG_MAPS, body, place.namespace)
    async with (await join(place, tmp_path, "web1")).client() as client:
        yield client


def reads(*secrets: str, maps: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    return [owned("/etc/x", template="x", secretRefs=list(secrets), configMapRefs=list(maps))]


async def readable(client: Client, api: Api) -> set[str]:
    """Return what a host can read of all that there is."""
    found = set()
    for kind in ("secrets", "configmaps"):
        folder = f"/api/v1/namespaces/{api.namespace}/{kind}"
        assert (await ask(client, "GET", folder)).code == FORBIDDEN
        for name in ("one", "two", "other"):
            codes = {
                (await ask(client, "GET", target)).code
                for target in (f"{folder}/{name}", f"{folder}?fieldSelector=metadata.name%3D{name}")
            }
            if 200 in codes:  # whichever way
                found.add(f"{kind}/{name}")
    return found


async def becomes(probe: Callable[[], Awaitable[Any]], wanted: Any) -> float:
    """Wait until something is so; return how long it took."""
    started, found = time.monotonic(), None
    while time.monotonic() < started + SECONDS:
        if (found := await probe()) == wanted:
            return time.monotonic() - started
        await asyncio.sleep(0.02)
    raise AssertionError(f"after {SECONDS:g} s it is {found}, not {wanted}")


async def test_what_a_host_reads_follows_what_is_declared(api: Api, me: Client) -> None:
    async def can() -> set[str]:
        return await readable(me, api)

    assert await can() == set()
    await api.config_set("web", {"role": "web"}, files=reads("one", maps=("one",)))
    await api.config_set("db", {"role": "db"}, files=reads("other"))
    await becomes(can, {"secrets/one", "configmaps/one"})
    took = []  # from here on: the operator may still have been starting
    await api.respec("web", files=reads("{{ if eq .Node.Labels.role `web` }}two{{ end }}"))
    took.append(await becomes(can, {"secrets/two"}))
    await api.patch_node({"metadata": {"labels": {"role": "db"}}})
    took.append(await becomes(can, {"secrets/other"}))
    await api.client.delete(CONFIG_SETS, "db", api.namespace)
    took.append(await becomes(can, set()))
    await api.patch_node({"metadata": {"labels": {"role": "web"}}})
    took.append(await becomes(can, {"secrets/two"}))
    assert min(took) < SOON


async def test_a_host_reads_what_its_task_names_until_it_ends(place: Place, api: Api, me: Client) -> None:
    async def can() -> set[str]:
        return await readable(me, api)

    def program(secret: str) -> dict[str, Any]:
        names = [{"name": "TOKEN", "secret": secret, "key": "key"}]
        return {"execution": {"argv": ["true"], "secretEnv": names}}

    assert await can() == set()
    async with operating(place) as maker:
        for host in ("web1", "web2"):  # the second one is nobody's
            made = task(f"of-{host}", place.namespace, host)
            made["spec"]["steps"] = [{"name": "one", **program("one" if host == "web1" else "other")}]
            made["spec"]["steps"][0]["undo"] = program("two" if host == "web1" else "other")
            await maker.create(NODE_TASKS, made, place.namespace)
    await becomes(can, {"secrets/one", "secrets/two"})
    status = f"{NODE_TASKS.path(place.namespace)}/of-web1/status"
    for phase in ("Running", "Succeeded"):
        assert (await ask(me, "PATCH", status, {"status": {"phase": phase}})).code == 200
    await becomes(can, set())


POISON = (
    '{{ yamlArray (strings.Repeat 50000 "- ") }}',
    '{{ yamlArray (strings.Repeat 100000 "[") }}',
    '{{ toml (print "a" (strings.Repeat 50000 ".a") " = 1") }}',
    "{{ range seq 1 100000 }}" + "{{ if 1 }}" * 60 + "{{ end }}" * 60 + "{{ end }}",
)
"""Names of Secrets that ended the operator with a signal, took all memory or minutes of its only thread."""


async def test_a_set_that_kills_whoever_renders_it_keeps_no_right_alive(
    api: Api, me: Client, operator: Path
) -> None:
    async def can() -> set[str]:
        return await readable(me, api)

    await api.config_set("web", {"role": "web"}, files=reads("one", "two"))
    await becomes(can, {"secrets/one", "secrets/two"})
    await api.config_set("evil", {"role": "web"}, files=reads(*POISON, "other"))
    await becomes(can, {"secrets/one", "secrets/two", "secrets/other"})  # what it names clearly is no harm
    await api.respec("web", files=reads("two"))
    await becomes(can, {"secrets/two", "secrets/other"})
    await api.client.delete(CONFIG_SETS, "web", api.namespace)
    await becomes(can, {"secrets/other"})
    said = operator.read_text()  # noqa: ASYNC240 - a few lines
    assert "cannot render secretRefs[3] of /etc/x: it " in said  # needs too much, or took too long
    assert "simplify it, it is tried again every" in said


async def test_lock_groups_and_the_own_key(api: Api, me: Client) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases"
    secrets = f"/api/v1/namespaces/{api.namespace}/secrets"

    async def may_lock() -> int:
        return (await ask(me, "PATCH", f"{leases}/proxies", {"spec": {"holderIdentity": "web1"}})).code

    async def may_make_key() -> int:
        return (await ask(me, "POST", secrets, {"metadata": {"name": "wg-wg0-web1"}})).code

    assert (await may_lock(), await may_make_key()) == (FORBIDDEN, FORBIDDEN)
    await api.config_set("web", {"role": "web"}, services=[{"name": "nginx", "lock_group": "proxies"}])
    await becomes(may_lock, 404)
    await api.patch_node({"spec": {"wireGuard": {"enabled": True, "interface": "wg0"}}})
    await becomes(may_make_key, 200)
    assert (await ask(me, "GET", f"{secrets}/wg-wg0-web1")).code == 200
    await api.patch_node({"spec": {"wireGuard": None, "upgrade": {"group": "tier", "schedule": "0 3 * * *"}}})
    await becomes(may_make_key, FORBIDDEN)
    assert (await ask(me, "PATCH", f"{leases}/tier", {"spec": {"holderIdentity": "web1"}})).code == 404
    await api.client.delete(CONFIG_SETS, "web", api.namespace)
    await becomes(may_lock, FORBIDDEN)


async def test_what_people_break_is_put_back_and_goes_with_the_host(
    api: Api, me: Client, request: pytest.FixtureRequest
) -> None:
    async def can() -> set[str]:
        return await readable(me, api)

    await api.config_set("web", {"role": "web"}, files=reads("one"))
    await becomes(can, {"secrets/one"})
    kinds: tuple[Resource[Any], ...] = (ROLES, ROLE_BINDINGS)
    for resource in kinds:
        old = await api.client.get(resource, ROLE, api.namespace)
        assert [one.uid for one in old.metadata.owner_references] == [(await api.node()).metadata.uid]
        await api.client.delete(resource, ROLE, api.namespace)

        async def is_new(resource: Any = resource, old: Any = old) -> bool:
            try:
                new = await api.client.get(resource, ROLE, api.namespace)
            except errors.NotFound:
                return False
            return bool(new.metadata.uid != old.metadata.uid)

        await becomes(is_new, True)
        await becomes(can, {"secrets/one"})
    wider = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["one", "two"]}
    await api.client.patch(ROLES, ROLE, api.namespace, MergePatch({"rules": [wider]}))
    await becomes(can, {"secrets/one"})
    stranger = {"kind": "ServiceAccount", "name": "default", "namespace": api.namespace}
    await api.client.patch(ROLE_BINDINGS, ROLE, api.namespace, MergePatch({"subjects": [stranger]}))
    await becomes(can, {"secrets/one"})
    await api.client.delete(MANAGED_NODES, "web1", api.namespace)
    if request.node.callspec.params["place"] == "embedded":  # kube-apiserver alone collects no garbage
        await becomes(can, set())


async def test_an_agent_with_nothing_but_its_rights_gets_its_secrets(
    api: Api, me: Client, start: Starts, tmp_path: Path
) -> None:
    del me  # it is let in; from here on the agent is
    agent = start("web1", kubeconfig=tmp_path / "web1" / "kubeconfig")

    def file(secret: str) -> dict[str, Any]:
        template = "{{ .Node.Secrets.key | base64.Decode }}"
        return owned("/etc/x", template=template, secretRefs=[secret])

    await api.config_set("web", {"role": "web"}, files=[file("one")])
    await agent.reads("/etc/x", "value")
    told = (await api.client.list(EVENTS, Selection(api.namespace))).items
    assert [one.message for one in told if one.type == "Warning"] == []  # it waited, and did not fail
    await api.secret("one", key="changed")
    await agent.reads("/etc/x", "changed")
    await api.respec("web", files=[file("two")])
    await agent.reads("/etc/x", "value")
    await api.ready("web")
    assert agent.stop() == 0


async def test_a_host_may_read_what_its_files_take_their_content_from(
    api: Api, me: Client, start: Starts, tmp_path: Path
) -> None:
    async def can() -> set[str]:
        return await readable(me, api)

    agent = start("web1", kubeconfig=tmp_path / "web1" / "kubeconfig")
    name = "{{ if eq .Node.Name `web1` }}one{{ else }}other{{ end }}"
    secret = owned("/etc/x", contentFrom={"secretKeyRef": {"name": name, "key": "key"}})
    logo = owned("/etc/y", contentFrom={"configMapKeyRef": {"name": "two", "key": "key"}})
    await api.config_set("web", {"role": "web"}, files=[secret, logo])
    await becomes(can, {"secrets/one", "configmaps/two"})
    await agent.reads("/etc/x", "value")
    await api.respec("web", files=[logo])
    await becomes(can, {"configmaps/two"})
    assert agent.stop() == 0


async def test_what_is_no_name_of_a_config_map_opens_none(api: Api, me: Client) -> None:
    """In a Role, the empty name would mean every ConfigMap of the namespace: listed and watched."""
    folder = f"{OURS}/{api.namespace}/configsets"
    admitted = []
    for number, name in enumerate(("", "*", "One", "a/b", "one,metadata.namespace=kube-system", "one\n")):
        for field in ("configMapRefs", "secretRefs"):
            file = {"path": "/etc/x", "template": "x", field: ["one", name]}
            body = custom("ConfigSet", f"{field.lower()}{number}", api.namespace, labels={"role": "web"})
            reply = await ask(api.client, "POST", folder, {**body, "spec": {"files": [file]}})
            if (reply.code, f"{field}[1]" in reply.message) != (422, True):
                admitted.append((field, name, reply.code))
        for source in ("secretKeyRef", "configMapKeyRef"):
            taken = {"path": "/etc/x", "contentFrom": {source: {"name": name, "key": "key"}}}
            body = custom("ConfigSet", f"{source.lower()}{number}", api.namespace, labels={"role": "web"})
            reply = await ask(api.client, "POST", folder, {**body, "spec": {"files": [taken]}})
            if (reply.code, f"contentFrom.{source}.name" in reply.message) != (422, True):
                admitted.append((source, name, reply.code))
    await api.config_set("web", {"role": "web"}, files=reads("one", maps=("one",)))

    async def can() -> set[str]:
        return await readable(me, api)  # which asserts that nothing can be listed as a whole

    await becomes(can, {"secrets/one", "configmaps/one"})
    assert admitted == []
