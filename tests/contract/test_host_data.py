"""Data of hosts: who may read which layer, how a change reaches a host, and that no Secret gets out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.configset import CONFIG_SETS, FINALIZER
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.core import CONFIG_MAPS, EVENTS
from nodemanager.kube.objects import Resource
from support import cli, operator_process
from support.accounts import account, acting, rule
from support.agent_process import Api, Starts, owned
from support.either import Place
from support.joined_host import Joined, ask, guard, join

SECRET = "geheim-und-mehr"
SECONDS = 90.0
LAYERS = (("configmaps", "all"), ("configmaps", "web"), ("secrets", "of-web"), ("secrets", "of-db"))
WEB = {"matchLabels": {"role": "web"}}
DB = {"matchLabels": {"role": "db"}}
CONF = owned("/etc/conf", template="{{ .Data.app.name }}:{{ .Data.app.port }}:{{ .Data.db.password }}\n")
PLAIN = owned("/etc/plain", template="{{ .Data.app.port }}\n")


async def config_map(api: Api, name: str, text: str) -> None:
    body = {"metadata": {"name": name, "namespace": api.namespace}, "data": {"data.yaml": text}}
    try:
        await api.client.create(CONFIG_MAPS, body, api.namespace)
    except errors.AlreadyExists:
        await api.client.patch(CONFIG_MAPS, name, api.namespace, MergePatch(body))


@pytest.fixture(name="operator")
async def _operator(place: Place, api: Api, tmp_path: Path) -> AsyncIterator[Path]:
    async with operator_process.operator(place, api, tmp_path) as log:
        yield log


async def declare(api: Api) -> None:
    """Data of a site: for everybody, for web hosts, and a Secret each for web and db hosts."""
    await config_map(api, "all", "app: {name: shop, port: 80}\n")
    await config_map(api, "web", "app: {port: 8080}\n")
    await api.secret("of-web", **{"data.yaml": f"db: {{password: {SECRET}}}\n"})
    await api.secret("of-db", **{"data.yaml": "db: {password: other}\n"})
    await api.config_set(
        "site",
        dataFrom=[
            {"configMapRef": {"name": "all"}},
            {"configMapRef": {"name": "web"}, "nodeSelector": WEB},
            {"secretRef": {"name": "of-web"}, "nodeSelector": WEB},
            {"secretRef": {"name": "of-db"}, "nodeSelector": DB},
        ],
    )


async def host(api: Api, place: Place, folder: Path, name: str, **labels: str) -> Joined:
    meta = {"name": name, "namespace": place.namespace, "labels": labels}
    await api.client.create(MANAGED_NODES, {"metadata": meta}, place.namespace)
    return await join(place, folder, name)


async def readable(client: Client, api: Api) -> set[str]:
    found = set()
    for kind, name in (
        ("configmaps", "all"),
        ("configmaps", "web"),
        ("secrets", "of-web"),
        ("secrets", "of-db"),
    ):
        folder = f"/api/v1/namespaces/{api.namespace}/{kind}"
        assert (await ask(client, "GET", folder)).code == 403
        if (await ask(client, "GET", f"{folder}/{name}")).code == 200:
            found.add(name)
    return found


async def becomes(client: Client, api: Api, wanted: set[str]) -> None:
    found: set[str] = set()
    try:
        async with asyncio.timeout(SECONDS):
            while (found := await readable(client, api)) != wanted:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"after {SECONDS:g} s it is {found}, not {wanted}") from None


@pytest.mark.usefixtures("operator")
async def test_a_host_reads_its_own_layers_and_no_others(api: Api, place: Place, tmp_path: Path) -> None:
    web, db = (
        await host(api, place, tmp_path, "web1", role="web"),
        await host(api, place, tmp_path, "db1", role="db"),
    )
    async with web.client() as web1, db.client() as db1:
        assert (await readable(web1, api), await readable(db1, api)) == (set(), set())
        await declare(api)
        await becomes(web1, api, {"all", "web", "of-web"})
        await becomes(db1, api, {"all", "of-db"})
        await api.patch_node({"metadata": {"labels": {"role": "db"}}}, "web1")
        await becomes(web1, api, {"all", "of-db"})
        await api.client.delete(CONFIG_SETS, "site", api.namespace)
        await becomes(web1, api, set())
        await becomes(db1, api, set())


async def test_a_host_does_not_write_its_own_data(api: Api, place: Place, tmp_path: Path) -> None:
    await guard(place, tmp_path)
    target, other = f"{MANAGED_NODES.path(place.namespace)}/web1", {"spec": {"data": {"a": {"b": 2}}}}
    async with (await host(api, place, tmp_path, "web1", role="web")).client() as web1:
        for old in ({"a": {"b": 1}}, None):
            await api.patch_node({"spec": {"data": old}})
            reply = await ask(web1, "PATCH", target, other)
            assert reply.code in (403, 422), reply
    assert (await api.node()).spec.data == {}


async def everything(api: Api) -> str:
    """Return all that hosts and the operator wrote, as text."""
    kinds: tuple[Resource[Any], ...] = (CONFIG_SETS, CONFIG_SET_REVISIONS, MANAGED_NODES, EVENTS)
    found = [(await api.client.list(kind, Selection(api.namespace))).items for kind in kinds]
    return msgspec.json.encode(found).decode()


@pytest.mark.usefixtures("operator")
async def test_a_change_of_a_layer_reaches_its_hosts(
    api: Api, place: Place, tmp_path: Path, start: Starts
) -> None:
    await declare(api)
    kept = (await host(api, place, tmp_path, "web1", role="web")).kubeconfig
    await api.config_set("conf", files=[CONF, PLAIN])
    agent = start("web1", kubeconfig=kept)
    await agent.reads("/etc/conf", f"shop:8080:{SECRET}\n")
    await agent.reads("/etc/plain", "8080\n")
    await config_map(api, "web", "app: {port: 8443}\n")
    await agent.reads("/etc/conf", f"shop:8443:{SECRET}\n")
    await api.patch_node({"spec": {"data": {"app": {"name": "mine"}}}})
    await agent.reads("/etc/conf", f"mine:8443:{SECRET}\n")
    await api.secret("of-web", **{"data.yaml": f"db: {{password: {SECRET}-2}}\n"})
    await agent.reads("/etc/conf", f"mine:8443:{SECRET}-2\n")
    await api.ready("conf", "site")
    # What cannot be read changes nothing, and is named.
    await api.secret("of-web", **{"data.yaml": f"db: {SECRET}-3: x\n"})
    said = "cannot use Secret of-web as data: cannot read data.yaml: line 1 is no YAML"
    await api.until(lambda one: any(said in each.error for each in one.status.configsets))
    assert agent.at("/etc/conf").read_text() == f"mine:8443:{SECRET}-2\n"
    await api.secret("of-web", **{"data.yaml": "db: {}\n"})
    said = "cannot render /etc/conf: line 1: there is no password in Data.db"
    await api.until(lambda one: any(said in each.error for each in one.status.configsets))
    assert agent.at("/etc/conf").read_text() == f"mine:8443:{SECRET}-2\n"
    told = await everything(api)
    assert "there is no password in Data.db" in told
    assert SECRET not in told
    assert SECRET not in agent.log.read_text()
    assert agent.stop() == 0


async def test_people_see_what_they_may_read(api: Api, place: Place, tmp_path: Path) -> None:
    await host(api, place, tmp_path, "web1", role="web")
    await declare(api)
    rights = [rule("common.nodemanager", ["*"], "get", "list"), rule("", ["configmaps"], "get")]
    place.kubectl("apply", "-f", "-", stdin=account("reader", place.namespace, rights))

    async def data(kubeconfig: str, *more: str) -> cli.Ran:
        flags = ("--kubeconfig", kubeconfig, "-n", place.namespace)
        return await asyncio.to_thread(cli.run, "data", "web1", *more, *flags)

    ran = await data(str(place.kubeconfig), "--explain", "db.password")
    said = "wins Secret of-web dataFrom of ConfigSet site <secret>"
    assert " ".join(ran.stdout.splitlines()[1].split()) == said
    async with acting(place, api, "reader"):
        ran = await data(f"{place.kubeconfig}.{place.namespace}.reader")
    assert ran.stderr.startswith("warning: Secret of-web is left out, and what it says is missing here: ")
    assert [line.split()[0] for line in ran.stdout.splitlines()] == ["KEY", "app.name", "app.port"]
    assert SECRET not in ran.stdout + ran.stderr
    kept = {"metadata": {"finalizers": [FINALIZER]}, "spec": {"prune": True}}
    await api.client.patch(CONFIG_SETS, "site", api.namespace, MergePatch(kept))
    await api.client.delete(CONFIG_SETS, "site", api.namespace)
    ran = await data(str(place.kubeconfig))  # hosts have nothing of a set any more that they take back
    assert "app.name" not in ran.stdout
    gone = {"metadata": {"finalizers": None}}
    await api.client.patch(CONFIG_SETS, "site", api.namespace, MergePatch(gone))
