"""One host cannot fill the server: Events go after an hour, and of each host so much is kept and no more."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp.test_utils import make_mocked_request

from nodemanager.api.rights import host_rights
from nodemanager.api.rights.host_rights import HostAccess
from nodemanager.cli.embedded import host_quotas
from nodemanager.cli.embedded.host_quotas import EVENTS, LIMITS, OBJECTS, host_of, owner
from nodemanager.cli.embedded.server_metrics import ApiMetrics
from nodemanager.client.auth.credentials import BearerToken
from nodemanager.client.subresources import request_token
from nodemanager.kube import errors
from nodemanager.kube.core import EVENTS as EVENT_RESOURCE
from nodemanager.kube.objects import Resource
from nodemanager.kube.rbac.identity import Attributes, User, service_account_user
from nodemanager.runtime.metrics import Registry
from nodemanager.server.access.authn import Peer
from nodemanager.server.access.quotas import QuotaLimits, QuotaOwner, Quotas
from nodemanager.server.collection.expiry import Expiry
from nodemanager.server.http import private_files
from nodemanager.server.kinds.builtin_kinds import EVENTS as SERVED
from nodemanager.store.sqlite import SqliteStore
from support import whole_server
from support.clients import connected
from support.embedded import Embedded, OpenGate, serving
from support.memory_store import MemoryStore

START = datetime(2026, 1, 1, tzinfo=UTC)
FEW = {
    EVENTS: LIMITS[EVENTS]._replace(objects=10, size=100_000, one=4_000),
    OBJECTS: QuotaLimits(3, 10_000, 8_000),
}
FOLDER = "/api/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


class As(OpenGate):
    """Takes everybody for the host that a header names."""

    def admit(self, peer: Peer, headers: Iterable[tuple[str, str]], asked: Attributes) -> User:
        name = dict(headers).get("X-Host", "")
        if not name:
            return super().admit(peer, headers, asked)
        return User(service_account_user("default", f"nodemanager-{name}"))


def event(name: str, message: str = "m", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, **more}, "message": message,
        "involvedObject": {"kind": "ManagedNode", "name": "web1", "namespace": "default"},
    }  # fmt: skip


def ask(server: Embedded, host: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(server.server, headers={"X-Host": host} if host else {})


async def posted(http: aiohttp.ClientSession, folder: str, *bodies: dict[str, Any]) -> list[int]:
    codes = []
    for body in bodies:
        async with http.post(folder, json=body) as response:
            codes.append(response.status)
    return codes


async def test_a_host_has_so_many_events_and_no_more_and_others_have_theirs() -> None:
    async with serving(gate=As()) as server:
        server.hub.quota = quotas = Quotas(server.store, host_quotas.rule(FEW))
        async with ask(server, "web1") as web1, ask(server, "web2") as web2, ask(server, "") as admin:
            codes = await posted(web1, FOLDER, *(event(f"web1.{number}") for number in range(12)))
            assert codes == [201] * 10 + [429] * 2
            async with web1.post(FOLDER, json=event("web1.x")) as response:
                told = await response.json()
                assert response.headers["Retry-After"] == "60"
            assert (
                "exceeded the quota of host default/web1: there are 10 of at most 10 Events"
                in told["message"]
            )
            assert "they go an hour after they were written" in told["message"]
            assert await posted(web2, FOLDER, event("web2.1")) == [201]
            assert await posted(web1, LEASES, {"metadata": {"name": "nodemanager-web1"}}) == [201]
            assert await posted(admin, FOLDER, event("web1.admin")) == [201]
            async with admin.delete(FOLDER) as response:
                assert response.status == 200
            assert await posted(web1, FOLDER, event("web1.again")) == [201]
        assert quotas.used(QuotaOwner("default", "web1", EVENTS)).objects == 1
        answer = ApiMetrics(server.hub, registry := Registry()).page(make_mocked_request("GET", "/metrics"))
        assert answer is not None
        assert quotas.fullest(EVENTS) == pytest.approx(0.1)
        text = registry.render()
        assert 'nodemanager_host_quota_used_ratio{quota="events"} 0.1' in text
        refused = 'nodemanager_host_quota_refusals_total{namespace="default",node="web1",quota="events"} 3'
        assert refused in text


async def test_bytes_count_also_when_they_come_by_an_update() -> None:
    async with serving(gate=As()) as server:
        server.hub.quota = quotas = Quotas(server.store, host_quotas.rule(FEW))
        async with ask(server, "web1") as web1:
            large = {"metadata": {"name": "nodemanager-web1", "annotations": {"a": "x" * 9_000}}}
            async with web1.post(LEASES, json=large) as response:
                assert (response.status, "8000 are the most" in await response.text()) == (403, True)
            small = {"metadata": {"name": "nodemanager-web1"}}
            key = {"metadata": {"name": "wg-wg0-web1"}, "data": {"a": "QUFB" * 1500}}
            assert await posted(web1, LEASES, small) == [201]
            assert await posted(web1, "/api/v1/namespaces/default/secrets", key) == [201]
            grown = {"metadata": {"annotations": {"a": "x" * 6_000}}}
            merge = {"Content-Type": "application/merge-patch+json"}
            path = f"{LEASES}/nodemanager-web1"
            async with web1.patch(path, data=msgspec.json.encode(grown), headers=merge) as response:
                assert response.status == 429
            renewed = {"spec": {"holderIdentity": "web1"}}
            async with web1.patch(path, data=msgspec.json.encode(renewed), headers=merge) as response:
                assert response.status == 200
        used = quotas.used(QuotaOwner("default", "web1", OBJECTS))
        records = [one for one in server.store.list("/").records if "web1" in one.key]
        assert (used.objects, used.size) == (2, sum(len(one.value) for one in records))


async def test_what_there_is_survives_a_restart() -> None:
    async with serving(store := MemoryStore(), gate=As()) as server, ask(server, "web1") as web1:
        assert await posted(web1, FOLDER, *(event(f"web1.{number}") for number in range(10))) == [201] * 10
    again = Quotas(store, host_quotas.rule(FEW))
    assert again.used(QuotaOwner("default", "web1", EVENTS)).objects == 10


@pytest.mark.parametrize(
    ("kind", "name", "whose"),
    [
        (("", "events"), "web1.17f0a", "web1"),
        (("", "events"), "a.b.17f0a", "a.b"),
        (("", "events"), "plain", None),
        (("", "secrets"), "wg-wg0-a-b", "a-b"),
        (("", "secrets"), "password", None),
        (("coordination.k8s.io", "leases"), "nodemanager-web1", "web1"),
        (("coordination.k8s.io", "leases"), "db", None),
        (("common.nodemanager", "managednodes"), "web1", "web1"),
        (("", "configmaps"), "web1", None),
        (("", "events"), "x" * 227 + ".1", "x" * 220),
    ],
)
def test_whose_an_object_is_can_be_told_by_its_name(
    kind: tuple[str, str], name: str, whose: str | None
) -> None:
    found = owner(*kind, "ns", name)
    assert (found and found.host) == whose


def test_who_is_a_host() -> None:
    names = ("nodemanager-web1", "nodemanager-operator", "nodemanager-daemonset", "argocd", "nodemanager-")
    found = [host_of(User(service_account_user("ns", name))) for name in names]
    assert found == [("ns", "web1"), None, None, None, None]
    assert host_of(User("admin")) is None


async def test_an_event_goes_an_hour_after_it_was_last_written_and_watchers_are_told() -> None:
    moment = START
    async with serving(store := MemoryStore()) as server:
        server.hub.now = lambda: moment
        async with ask(server, "") as http:
            assert await posted(http, FOLDER, event("a.old"), event("a.renewed")) == [201, 201]
            moment += timedelta(minutes=40)
            merge = {"Content-Type": "application/merge-patch+json"}
            body = b'{"count": 2}'
            async with http.patch(f"{FOLDER}/a.renewed", data=body, headers=merge) as response:
                assert response.status == 200
            forged = {
                "manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2999-01-01T00:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:count": {}},
            }  # fmt: skip
            assert await posted(http, FOLDER, event("a.forged", managedFields=[forged])) == [201]
            moment += timedelta(minutes=19)
            await Expiry(server.hub).sweep()
            assert len(store.list(SERVED.prefix()).records) == 3
            moment += timedelta(minutes=2)
            async with http.get(
                FOLDER, params={"watch": "1", "resourceVersion": str(store.revision)}
            ) as watch:
                await Expiry(server.hub).sweep()  # a new one: what it knows, it knows from the store
                line = msgspec.json.decode(await watch.content.readline())
        assert (line["type"], line["object"]["metadata"]["name"]) == ("DELETED", "a.old")
        moment += timedelta(minutes=61)
        await Expiry(server.hub).sweep()
        assert store.list(SERVED.prefix()).records == []


async def test_the_whole_server_counts_and_removes_what_was_there_before_it_started(tmp_path: Path) -> None:
    """A host with its own token and rights, after it was as busy as it may be."""
    limit, over = LIMITS[EVENTS].objects, 3
    await fill(tmp_path / "data", limit, over)
    async with whole_server.serving(tmp_path) as (config, _), connected(config) as admin:
        for one in host_rights.manifests(HostAccess("web1", "nodemanager")):
            group, _, version = one["apiVersion"].rpartition("/")
            space = one["metadata"].get("namespace", "")
            resource = Resource(group, version, one["kind"], f"{one['kind'].lower()}s", dict, bool(space))
            with contextlib.suppress(errors.AlreadyExists):  # the namespace is there already
                await admin.create(resource, one, space)
        issued = await request_token(admin, "nodemanager-web1", "nodemanager", seconds=600)
        async with asyncio.timeout(90):
            while len((await admin.list(EVENT_RESOURCE)).items) != limit - over:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        mine = dataclasses.replace(config, credentials=BearerToken(issued.token))
        async with connected(mine) as web1:
            for number in range(over):
                await web1.create(EVENT_RESOURCE, told(f"web1.new{number}"), "nodemanager")
            with pytest.raises(errors.TooManyRequests, match="exceeded the quota of host nodemanager/web1"):
                await web1.create(EVENT_RESOURCE, told("web1.more"), "nodemanager")


def told(name: str) -> dict[str, Any]:
    about = {
        "kind": "ManagedNode",
        "apiVersion": "common.nodemanager/v1",
        "name": "web1",
        "namespace": "nodemanager",
    }
    return {"metadata": {"name": name}, "involvedObject": about, "message": "m", "type": "Normal"}


async def fill(folder: Path, count: int, over: int) -> None:
    """Leave a store with so many Events of web1, of which some are too old."""
    private_files.prepare_folder(folder)
    store = await SqliteStore.open(folder / "state.db")
    recent = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    changes = []
    for number in range(count):
        meta = {"name": f"web1.{number}", "namespace": "nodemanager", "uid": str(number),
                "creationTimestamp": "2020-01-01T00:00:00Z" if number < over else recent}  # fmt: skip
        body = {"apiVersion": "v1", "kind": "Event", "metadata": meta, "involvedObject": {}}
        changes.append(store.create(f"/core/events/nodemanager/web1.{number}", msgspec.json.encode(body)))
    await asyncio.gather(*changes)
    await store.close()
