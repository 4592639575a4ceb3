"""A set that prunes is gone when its hosts have taken back what they have of it, or were waited for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from nodemanager.api.common.configset import CONFIG_SETS, FINALIZER, ConfigSet
from nodemanager.api.common.managednode import MANAGED_NODES, TAKE_BACK, ManagedNode
from nodemanager.client.calls import Selection
from nodemanager.controllers import assembly, pruning
from nodemanager.controllers.assembly import Dependencies
from nodemanager.host.process import runner
from nodemanager.host.state import ownership_ledger
from nodemanager.kube import errors
from nodemanager.kube.core import EVENTS
from nodemanager.runtime.metrics import Registry
from support import cli
from support.accounts import operating
from support.agent_process import Api, Starts, owned
from support.either import Place
from support.joined_host import ask, guard
from support.scripted_server import until
from support.stamps import unstamped

PATIENCE = 60.0
AT_ONCE = ("--configset.prune-grace", "0s")


async def true(holds: Callable[[], Awaitable[object]]) -> None:
    """Wait for what others make true."""
    async with asyncio.timeout(PATIENCE):
        while not await holds():  # noqa: ASYNC110 - in other processes
            await asyncio.sleep(0.03)


async def found(api: Api, name: str) -> ConfigSet | None:
    try:
        return await api.client.get(CONFIG_SETS, name, api.namespace)
    except errors.NotFound:
        return None


async def declared(api: Api, name: str, **more: str) -> None:
    """Make a set that prunes, and wait until it is kept for its hosts."""
    spec: dict[str, Any] = {"prune": True, "files": [owned(f"/etc/{name}", content="ours")], **more}
    await api.config_set(name, **spec)

    async def kept() -> bool:
        one = await found(api, name)
        return one is not None and one.metadata.finalizers == [FINALIZER]

    await true(kept)


async def deleted(api: Api, name: str) -> None:
    """Delete a set, and wait until it is gone."""
    await api.client.delete(CONFIG_SETS, name, api.namespace)

    async def gone() -> bool:
        return await found(api, name) is None

    await true(gone)


@contextlib.asynccontextmanager
async def operator(place: Place) -> AsyncIterator[None]:
    async with operating(place) as client:
        given = Dependencies(client, place.namespace, Registry(), runner.companion, leader_elect=False)
        manager = assembly.assemble(given, (pruning.REGISTRATION,)).manager
        running = asyncio.create_task(manager.run())
        try:
            await until(lambda: running.done() or manager.not_ready() is None)
            yield
        finally:
            manager.stop("the test is over")
            await asyncio.wait({running})
            running.result()


async def messages(api: Api, reason: str) -> list[str]:
    """Return what Events of a reason say."""
    events = (await api.client.list(EVENTS, Selection(api.namespace))).items
    return [one.message for one in events if one.reason == reason]


async def test_hosts_take_back_a_set_that_they_see_being_deleted_and_doubt_what_they_did_not_see(
    place: Place, api: Api, start: Starts
) -> None:
    agent = start(flags=AT_ONCE)
    etc = agent.root / "etc"
    await api.config_set("keep", files=[owned("/etc/keep", content="ours")])
    async with operator(place):
        await declared(api, "web")
        await api.ready("keep", "web")
        assert (etc / "web").read_text() == "ours"
        await deleted(api, "web")
        assert not (etc / "web").exists()  # not before the host has said so
        node = await api.ready("keep")
        assert node.status.orphans is None
        await true(lambda: messages(api, "Pruned"))
        (said,) = await messages(api, "Pruned")
        why = "ConfigSet web is being deleted, and it was not there before"
        assert said == f"file:/etc/web removed for ConfigSet web ({why})"
        await declared(api, "late", pruneTimeout="1s")
        await api.ready("keep", "late")
        assert agent.stop() == 0
        await deleted(api, "late")
        assert (etc / "late").exists()

        async def told() -> bool:
            return any("web1" in one for one in await messages(api, "PruneTimedOut"))

        await true(told)
    agent.start()
    node = await api.until(lambda node: node.status.orphans)
    assert node.status.orphans is not None
    (left,) = node.status.orphans.resources
    assert left.message.startswith(
        "waits: ConfigSet late is gone, and this host has not seen it being deleted"
    )
    assert (etc / "late").exists()
    assert agent.stop() == 0
    agent.flags = (*AT_ONCE, "--configset.prune-confirm", "0s")
    agent.start()  # it lasts long enough now, and a new list says the same
    await api.until(lambda node: node.status.orphans is None)
    assert not (etc / "late").exists()
    assert (etc / "keep").exists()


async def test_a_brake_holds_on_sets_that_are_being_deleted_and_on_those_for_others(
    place: Place, api: Api, start: Starts
) -> None:
    agent = start()
    await api.config_set("keep", files=[owned("/etc/keep", content="ours")])

    async def says(name: str, words: str) -> None:
        def is_told(node: ManagedNode) -> bool:
            left = node.status.orphans.resources if node.status.orphans else []
            return any(one.resource == f"file:/etc/{name}" and one.message.startswith(words) for one in left)

        await api.until(is_told)

    async with operator(place):
        await declared(api, "web")
        await declared(api, "far")
        await api.ready("keep", "web", "far")
        await api.respec("far", nodeSelector={"matchLabels": {"role": "typo"}})
        await says("far", "waits: ConfigSet far is not for this host any more")
        await api.respec("far", prune=False)
        await says("far", "spec.prune of ConfigSet far is not set")  # long before the next pass is due
        await api.client.delete(CONFIG_SETS, "web", api.namespace)
        await says("web", "waits: ConfigSet web is being deleted")
        await api.respec("web", prune=False)

        async def gone() -> bool:
            return await found(api, "web") is None

        await true(gone)
        await deleted(api, "far")
    for name in ("web", "far"):
        await says(name, f"spec.prune of ConfigSet {name} is not set")
        assert (agent.root / "etc" / name).exists()


async def test_what_moves_to_a_set_that_nobody_has_decided_about_stays(api: Api, start: Starts) -> None:
    agent = start(flags=AT_ONCE)
    stays, moves = (owned(f"/etc/{name}", content="ours") for name in ("stays", "moves"))
    await api.config_set("web", prune=True, files=[stays, moves])
    await api.config_set("keep", files=[owned("/etc/keep", content="ours")])
    await api.ready("keep", "web")
    await api.config_set("next", rollout={"strategy": "Staged"}, files=[moves])  # there is no operator
    await api.respec("web", files=[stays])

    def is_told(node: ManagedNode) -> bool:
        left = node.status.orphans.resources if node.status.orphans else []
        return [one.message for one in left] == [
            "waits: ConfigSet next declares it, in a revision that this host does not have yet"
        ]

    await api.until(is_told)
    assert (agent.root / "etc" / "moves").read_text() == "ours"


async def test_a_set_can_be_deleted_where_the_operator_is_gone(place: Place, api: Api) -> None:
    async with operator(place):
        await declared(api, "web")
        await api.config_set("quick", prune=True, pruneTimeout="0")
    await api.client.delete(CONFIG_SETS, "web", api.namespace)
    reach = ("--kubeconfig", str(place.kubeconfig), "--namespace", place.namespace)
    assert await found(api, "web") is not None
    done = await asyncio.to_thread(cli.run, "abandon", "--all", *reach)
    assert (done.code, done.stdout) == (0, "configset web waits for no host any more\n")
    assert await found(api, "web") is None
    await deleted(api, "quick")  # it waits for nobody, so it never had the finalizer


async def test_a_person_says_that_a_new_managednode_is_meant(place: Place, api: Api) -> None:
    await api.client.create(MANAGED_NODES, {"metadata": {"name": "web1"}}, api.namespace)
    reach = ("--kubeconfig", str(place.kubeconfig), "--namespace", place.namespace)
    done = await asyncio.to_thread(cli.run, "orphans", "web1", "--take-back", *reach)
    assert done.code == 0, done.stderr
    node = await api.node()
    assert unstamped(node) == {TAKE_BACK: node.metadata.uid}


async def test_what_is_left_behind_is_told_here_and_over_the_fleet(
    place: Place, api: Api, start: Starts
) -> None:
    agent = start(flags=AT_ONCE)
    one, two = owned("/etc/one", content="ours"), owned("/etc/two", content="ours")
    await api.config_set("web", files=[one, two])
    await api.ready("web")
    await api.respec("web", files=[two])
    node = await api.until(lambda node: node.status.orphans)
    assert node.status.orphans is not None
    assert (node.status.orphans.count, node.status.orphans.pruning) == (1, [])
    said = "file:/etc/one web spec.prune of ConfigSet web is not set"
    here = await asyncio.to_thread(cli.run, "orphans", "--root", str(agent.root))
    assert said in " ".join(here.stdout.split())
    reach = ("--kubeconfig", str(place.kubeconfig), "--namespace", place.namespace)
    fleet = await asyncio.to_thread(cli.run, "orphans", "--fleet", *reach)
    assert f"web1 {said}" in " ".join(fleet.stdout.split())
    assert agent.stop() == 0
    await api.respec("web", prune=True)
    plan = await asyncio.to_thread(cli.run, "plan", "--root", str(agent.root), "--hostname", "web1", *reach)
    assert plan.code == 2
    assert "/etc/one" in plan.stdout
    assert "ConfigSet web declares it no longer, and it was not there before" in plan.stdout
    assert "/etc/two" not in plan.stdout
    record = agent.root / "var/lib/nodemanager" / ownership_ledger.NAME
    whole = record.read_bytes()
    record.write_bytes(whole[:-9])
    plan = await asyncio.to_thread(cli.run, "plan", "--root", str(agent.root), "--hostname", "web1", *reach)
    assert (plan.code, "cannot tell what would be taken back" in plan.stderr) == (0, True)
    assert record.read_bytes() == whole[:-9]  # a plan changes nothing
    record.write_bytes(whole)
    agent.start()
    await api.until(lambda node: node.status.orphans is None)
    assert not (agent.root / "etc/one").exists()
    assert (agent.root / "etc/two").exists()


async def test_the_operator_may_put_its_finalizer_on_a_set_and_change_nothing_else(
    place: Place, api: Api, tmp_path: Path
) -> None:
    await guard(place, tmp_path)
    await api.config_set("web", files=[owned("/etc/one", content="ours")])
    one = f"{CONFIG_SETS.path(place.namespace)}/web"
    async with operating(place) as client:
        assert (await ask(client, "PATCH", one, {"metadata": {"finalizers": [FINALIZER]}})).code == 200
        for change in (
            {"metadata": {"finalizers": [FINALIZER, "other.example/x"]}},
            {"metadata": {"labels": {"role": "web"}}},
            {"metadata": {"annotations": {"a": "b"}}},
            {"spec": {"prune": True}},
        ):
            assert (await ask(client, "PATCH", one, change)).code == 403, change
        assert (await ask(client, "PATCH", one, {"metadata": {"finalizers": []}})).code == 200
        assert (await ask(client, "DELETE", one)).code == 403
