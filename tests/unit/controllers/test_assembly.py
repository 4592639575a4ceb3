"""The operator as it is built from its list: health, caches, mapping, concurrency, leadership, rights."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.common import configsetpreview, node_conditions
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configsetpreview import CONFIG_SET_PREVIEWS
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.api.maintenance.nodeseries import NODE_SERIES
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.client.subresources import request_token
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly, configsets, registration
from nodemanager.controllers.assembly import Dependencies, Operator
from nodemanager.controllers.registration import (
    THE_ONE,
    Caches,
    ControllerContext,
    Entry,
    PartRegistration,
    Periodic,
    Registration,
    Wake,
    WatchedKind,
)
from nodemanager.host.process import runner
from nodemanager.kube import conditions, errors
from nodemanager.kube.core import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    LEASES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Secret,
)
from nodemanager.kube.objects import ObjectKey, Resource
from nodemanager.runtime import parts, probes, tasks
from nodemanager.runtime.cache import Cache, Change
from nodemanager.runtime.controller import Reconcile
from nodemanager.runtime.metrics import Registry
from support import embedded, whole_server
from support.accounts import operator_of
from support.clients import Tokens, connected
from support.either import NAMESPACES
from support.host_attempts import task
from support.scripted_server import until

NAMESPACE = "default"
EVERYTHING = assembly.entries_for(edge=True)
CONTROLLERS = [pytest.param(entry, id=entry.name) for entry in EVERYTHING if isinstance(entry, Registration)]


@contextlib.asynccontextmanager
async def running(
    client: Client, entries: Iterable[Entry], *, leader_elect: bool = False, registry: Registry | None = None
) -> AsyncIterator[tuple[Operator, probes.ProbeServer]]:
    """The operator of these entries, with its health served on a port of its own."""
    given = Dependencies(client, NAMESPACE, registry or Registry(), runner.companion, leader_elect)
    operator = assembly.assemble(given, entries)
    address = probes.ListenAddress("127.0.0.1", 0)
    server = probes.ProbeServer("health probes", address, probes.Routes(health=operator.health))
    operator.manager.add_server(server)
    task = asyncio.create_task(operator.manager.run())
    try:
        await until(lambda: task.done() or operator.manager.not_ready() is None)
        yield operator, server
    finally:
        operator.manager.stop("the test is over")
        await task


async def ask(server: probes.ProbeServer, path: str) -> str:
    """Return the answer to a GET over HTTP, head and all."""
    reader, writer = await asyncio.open_connection(*server.bound[0])
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.decode()


async def declare(client: Client) -> None:
    """Create one of each kind, so that every controller has something to do."""
    files = [{"path": "/x", "template": "x", "secretRefs": ["one"]}]
    meta = {"name": "web1", "labels": {"role": "web"}}
    await client.create(MANAGED_NODES, {"metadata": meta}, NAMESPACE)
    await client.create(
        CONFIG_SETS,
        {"metadata": {"name": "base", "labels": {"role": "web"}}, "spec": {"files": files}},
        NAMESPACE,
    )
    await client.create(
        MAINTENANCE_WINDOWS, {"metadata": {"name": "ever"}, "spec": {"always": True}}, NAMESPACE
    )
    await client.create(NODE_SERIES, {"metadata": {"name": "all"}}, NAMESPACE)
    touch = {"name": "touch", "execution": {"argv": ["touch", "/x"]}}
    spec = {
        "windowRef": {"name": "ever"},
        "operations": [{"name": "note", "type": "one-shot", "steps": [touch]}],
    }
    await client.create(NODE_MAINTENANCES, {"metadata": {"name": "once"}, "spec": spec}, NAMESPACE)
    asked = {"hosts": ["web1"], "removed": ["base"], "digest": configsetpreview.digest_of([], ["base"])}
    await client.create(CONFIG_SET_PREVIEWS, {"metadata": {"name": "what-if"}, "spec": asked}, NAMESPACE)


@pytest.mark.parametrize("entry", CONTROLLERS)
async def test_a_stuck_controller_fails_healthz_which_names_it(entry: Registration, tmp_path: Path) -> None:
    released = asyncio.Event()

    async def hang(_key: ObjectKey) -> None:
        await released.wait()

    any_name = Periodic(ObjectKey(NAMESPACE, "any"), 3600.0)
    stuck = replace(entry, build=lambda _context: hang, timeout=None, stuck_after=0.0, periodic=(any_name,))
    entries = [stuck if one is entry else one for one in EVERYTHING]
    async with (
        whole_server.serving(tmp_path) as (config, _),
        connected(config) as client,
        running(client, entries) as (operator, server),
    ):
        await until(lambda: operator.health[entry.name]() is not None)
        answer = await ask(server, "/healthz")
        assert answer.startswith("HTTP/1.1 500 ")
        assert f"[-]{entry.name} failed: the reconcile of {NAMESPACE}/any in" in answer
        others = [one for one in operator.health if one != entry.name]
        assert all(f"[+]{name} ok" in answer for name in others)
        released.set()
        await until(lambda: operator.health[entry.name]() is None)
        assert (await ask(server, "/healthz")).startswith("HTTP/1.1 200 ")


async def test_who_watches_the_same_shares_one_cache() -> None:
    """Two controllers of the same kinds cost one list and one watch of each kind."""
    async with embedded.serving() as api:
        seen: list[Caches] = []

        def build(context: ControllerContext) -> Reconcile:
            seen.append(context.caches)
            return nothing

        watches = WatchedKind(CONFIG_MAPS, registration.itself), WatchedKind(SECRETS, registration.nobody)
        first = Registration(name="first", kind=CONFIG_MAPS, watches=watches, build=build)
        second = replace(first, name="second")
        some = replace(first, name="some", watches=(WatchedKind(CONFIG_MAPS, registration.itself, "a=b"),))
        given = Dependencies(api.client, NAMESPACE, Registry(), runner.companion)
        assembly.assemble(given, [first, second, some])
        assert seen[0].of(CONFIG_MAPS) is seen[1].of(CONFIG_MAPS) is not seen[2].of(CONFIG_MAPS)
        with pytest.raises(LookupError, match="some cannot read secrets: it does not watch that"):
            seen[2].of(SECRETS)


async def test_of_leases_a_cache_keeps_the_signs_of_life() -> None:
    """There is one for each host, and nobody asks the cache who holds it."""
    seen: list[Caches] = []

    def build(context: ControllerContext) -> Reconcile:
        seen.append(context.caches)
        return nothing

    watches = (WatchedKind(LEASES, registration.nobody),)
    async with embedded.serving() as api:
        spec = {"holderIdentity": "web1", "leaseDurationSeconds": 60}
        await api.client.create(LEASES, {"metadata": {"name": "nodemanager-web1"}, "spec": spec}, NAMESPACE)
        async with running(api.client, [Registration(name="one", kind=LEASES, watches=watches, build=build)]):
            lease = seen[0].of(LEASES).get(ObjectKey(NAMESPACE, "nodemanager-web1"))
    assert lease is not None
    assert (lease.spec.lease_duration_seconds, lease.spec.holder_identity) == (60, None)


async def nothing(_key: ObjectKey) -> None:
    """Be content."""


def owner(change: Change[Secret], caches: Caches) -> Iterable[Wake]:
    """Wake the ConfigMaps that are called like the beginning of a Secret's name."""
    return [
        Wake(ObjectKey(NAMESPACE, one.metadata.name))
        for one in caches.of(CONFIG_MAPS).values()
        if change.key.name.startswith(f"{one.metadata.name}-")
    ]


@dataclass
class Pairs:
    """A controller that exists in this test only: it holds what it works on until it is told to go on."""

    free: asyncio.Event = field(default_factory=asyncio.Event)
    running: set[str] = field(default_factory=set)
    most: int = 0
    done: list[str] = field(default_factory=list)

    def entry(self, name: str = "pairs", *, leader_only: bool = True) -> Registration:
        return Registration(
            name=name,
            kind=CONFIG_MAPS,
            watches=(WatchedKind(CONFIG_MAPS, registration.itself), WatchedKind(SECRETS, owner)),
            build=lambda _context: self.reconcile,
            concurrency=2,
            leader_only=leader_only,
        )

    async def reconcile(self, key: ObjectKey) -> None:
        self.running.add(key.name)
        self.most = max(self.most, len(self.running))
        await self.free.wait()
        self.running.remove(key.name)
        self.done.append(key.name)


async def put(client: Client, *names: str) -> None:
    for name in names:
        resource: Resource[Any] = SECRETS if "-" in name else CONFIG_MAPS
        await client.create(resource, {"metadata": {"name": name}}, NAMESPACE)


async def namespaced(client: Client) -> None:
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})


async def test_changes_of_two_kinds_wake_the_names_they_map_to_two_at_a_time() -> None:
    pairs = Pairs()
    async with embedded.serving() as api:
        await namespaced(api.client)
        await put(api.client, "a", "b", "c")
        async with running(api.client, [pairs.entry()]):
            await until(lambda: len(pairs.running) == 2)
            assert pairs.done == []
            pairs.free.set()
            await until(lambda: sorted(pairs.done) == ["a", "b", "c"])
            assert pairs.most == 2
            pairs.done.clear()
            await put(api.client, "d", "x-secret", "b-secret")  # the Secret of nobody is heard of before b's
            await until(lambda: {"b", "d"} <= set(pairs.done))
            assert sorted(pairs.done) == ["b", "d"]


async def test_only_the_leader_works_but_for_entries_that_need_no_leader() -> None:
    leading, everywhere = [Pairs(), Pairs()], [Pairs(), Pairs()]
    for one in (*leading, *everywhere):
        one.free.set()
    async with embedded.serving() as api, contextlib.AsyncExitStack() as stack:
        await namespaced(api.client)
        for number in (0, 1):
            entries = leading[number].entry("led"), everywhere[number].entry("any", leader_only=False)
            await stack.enter_async_context(running(api.client, entries, leader_elect=True))
            await put(api.client, f"made{number}")
            await until(lambda: f"made{number}" in leading[0].done)  # noqa: B023 - it is awaited here
        await until(lambda: all(one.done == ["made0", "made1"] for one in everywhere))
        assert leading[1].done == []


async def test_a_writer_that_needs_leadership_writes_only_while_it_leads() -> None:
    contexts: dict[str, ControllerContext] = {}

    def entry(name: str, *, leader_only: bool) -> Registration:
        def build(context: ControllerContext) -> Reconcile:
            contexts[name] = context
            return nothing

        return Registration(name=name, kind=None, watches=(), build=build, leader_only=leader_only)

    async with embedded.serving() as api:
        await namespaced(api.client)
        given = Dependencies(api.client, NAMESPACE, Registry(), runner.companion)
        assembly.assemble(given, [entry("led", leader_only=True), entry("any", leader_only=False)])
        await put(contexts["any"].client, "allowed")
        with pytest.raises(parts.LeadershipLost):
            await put(contexts["led"].client, "refused")


class Listener:
    """A part that is no controller: it hears of every single change, in order."""

    name = "listener"

    def __init__(self, context: registration.PartContext) -> None:
        self.heard: list[str] = []
        self._cache = context.caches.of(CONFIG_MAPS)

    async def run(self) -> None:
        self._cache.subscribe(lambda change: self.heard.append(change.key.name))
        await asyncio.get_running_loop().create_future()


async def test_a_part_without_a_queue_a_single_name_and_one_that_is_due_again_and_again() -> None:
    listeners: list[Listener] = []
    single, ticking = asyncio.Queue[ObjectKey](), asyncio.Queue[ObjectKey]()

    def listen(context: registration.PartContext) -> Listener:
        listeners.append(Listener(context))
        return listeners[0]

    watches = (WatchedKind(CONFIG_MAPS, lambda _change, _caches: (Wake(THE_ONE),)),)
    entries: list[Entry] = [
        PartRegistration(name="listener", watches=watches, build=listen),
        Registration(name="single", kind=None, watches=watches, build=lambda _context: single.put),
        Registration(
            name="ticking",
            kind=None,
            watches=(),
            build=lambda _context: ticking.put,
            periodic=(Periodic(THE_ONE, 0.01),),
        ),
    ]
    async with embedded.serving() as api:
        await namespaced(api.client)
        async with running(api.client, entries):
            await put(api.client, "a", "b")
            await until(lambda: listeners[0].heard == ["a", "b"])
            assert await single.get() == THE_ONE
            assert [await ticking.get() for _ in range(3)] == [THE_ONE] * 3


async def test_an_entry_must_watch_what_it_reconciles_and_nothing_twice() -> None:
    with pytest.raises(ValueError, match=r"it is for configsets.common.nodemanager, which it does not watch"):
        replace(configsets.REGISTRATION, watches=())
    twice = replace(configsets.REGISTRATION, watches=configsets.REGISTRATION.watches * 2)
    async with embedded.serving() as api:
        given = Dependencies(api.client, NAMESPACE, Registry(), runner.companion)
        with pytest.raises(ValueError, match=r"cannot build configset: it watches configsets\S+ twice"):
            assembly.assemble(given, [twice])


async def test_with_exactly_its_own_rights_the_operator_does_its_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What each entry asks for is enough for it, and for leading."""
    async with whole_server.serving(tmp_path) as (config, _), connected(config) as admin:
        resources: list[Resource[Any]] = [
            NAMESPACES, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS,
        ]  # fmt: skip
        for resource, obj in zip(resources, assembly.manifests(NAMESPACE), strict=True):
            with contextlib.suppress(errors.AlreadyExists):
                await admin.create(resource.untyped(), obj, obj["metadata"].get("namespace", ""))
        issued = await request_token(admin, "nodemanager-operator", NAMESPACE, seconds=600)
        own = ClientConfig(config.server, ca=config.ca, credentials=Tokens(issued.token))
        registry = Registry()
        async with (
            connected(own) as client,
            running(client, assembly.ENTRIES, leader_elect=True, registry=registry),
        ):
            await declare(admin)
            async with connected(operator_of(config, NAMESPACE)) as maker:
                late = task("late", NAMESPACE, "web1")
                late["spec"] |= {"deadline": "2020-01-01T00:00:00Z", "ttlSecondsAfterFinished": 0}
                await maker.create(NODE_TASKS, late, NAMESPACE)
            await show_life(admin)
            await until_there(admin)
            controllers = [entry for entry in assembly.ENTRIES if isinstance(entry, Registration)]
            for entry in controllers:
                try:
                    await until(partial(has_worked, registry, entry.name))
                except TimeoutError:
                    pytest.fail(f"{entry.name} did nothing: have `declare` create something for it to do")
        for entry in controllers:
            done = f'reconcile_total{{controller="{entry.name}",result='
            assert f'{done}"error"}} 0\n' in registry.render(), caplog.text
        assert (await admin.get(LEASES, "nodemanager-operator", NAMESPACE)).metadata.name
    assert not [line for line in caplog.messages if "orbidden" in line]


async def show_life(client: Client) -> None:
    """Renew the Lease of the host as its agent does, so that the operator sees it change."""
    lease = {"metadata": {"name": "nodemanager-web1"}, "spec": {"holderIdentity": "web1"}}
    await client.create(LEASES, lease, NAMESPACE)
    for second in range(1000):
        renewal = {"spec": {"renewTime": f"2026-01-01T00:{second // 60:02}:{second % 60:02}.000000Z"}}
        await client.patch(LEASES, "nodemanager-web1", NAMESPACE, MergePatch(renewal))
        node = await client.get(MANAGED_NODES, "web1", NAMESPACE)
        if conditions.is_true(node.status.conditions, node_conditions.ALIVE):
            return
        await asyncio.sleep(0.05)


def has_worked(registry: Registry, controller: str) -> bool:
    """Tell whether a controller has come to the end of something that it had to do."""
    done = f'reconcile_total{{controller="{controller}",result='
    return not all(f'{done}"{result}"}} 0\n' in registry.render() for result in ("success", "requeue_after"))


async def until_there(client: Client) -> None:
    """Wait for what every entry is to bring about."""
    here = Selection(NAMESPACE)
    sets, roles, nodes, late = (
        Cache(client, CONFIG_SETS, here), Cache(client, ROLES, here), Cache(client, MANAGED_NODES, here),
        Cache(client, NODE_TASKS, here),
    )  # fmt: skip
    following = [asyncio.create_task(cache.run()) for cache in (sets, roles, nodes, late)]
    alive = node_conditions.ALIVE
    try:
        await until(lambda: any(conditions.is_true(one.status.conditions, alive) for one in nodes.values()))
        await until(lambda: any(one.status.nodes for one in sets.values()))
        await until(lambda: roles.get(ObjectKey(NAMESPACE, "nodemanager-web1-references")) is not None)
        await until(lambda: late.has_synced and not late.values())  # ended, and removed
    finally:
        await tasks.end(following)


@pytest.mark.parametrize("made", [assembly.manifests, assembly.disruption_manifests, assembly.edge_manifests])
def test_operators_of_two_namespaces_do_not_take_each_others_rights(made: Any) -> None:
    """What both apply under one name would be bound to the account of whoever came last."""
    here, there = (
        {(one["kind"], one["metadata"]["name"]): one for one in made(namespace) if "subjects" in one}
        for namespace in ("nodemanager", "another")
    )
    shared = {key for key in here.keys() & there.keys() if key[0] == "ClusterRoleBinding"}
    assert not shared
    assert any(kind == "ClusterRoleBinding" for kind, _ in here)
