"""ConfigSets that move together: agents and hosts that only report have the changes of all, or of none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.api.common import choosing
from nodemanager.api.common.choosing import ContentSource
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import MANAGED_NODES, AppliedConfigSet, ManagedNode
from nodemanager.api.common.rollout import STABLE, UNDONE, RolloutStatus
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.rollouts import reconciling, waking
from nodemanager.fleet.rollout import grouping
from nodemanager.kube import errors
from support.either import Place
from support.rollout_site import LABELS, NAMESPACE, PATIENCE, RolloutSite, rollout_site, rollout_site_at
from support.root_tree import needs_root

HOSTS = ("a", "b", "c")
ROLLOUT = {"strategy": "Staged", "stages": ["1"], "soak": "0", "group": "site"}
IMPOSSIBLE = {"path": "/app/below", "content": "a file has nothing below it"}
MOST_WRITES = 40


@pytest.fixture(name="quick", autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(reconciling, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(grouping, "SETTLE_SECONDS", 0.5)


async def declare(site: RolloutSite, name: str, content: str, *more: dict[str, Any], **rollout: Any) -> None:
    """Make a set of the group, or change what it declares."""
    spec = {"files": [{"path": f"/{name}", "content": content}, *more], "rollout": {**ROLLOUT, **rollout}}
    try:
        patch = MergePatch({"spec": spec})
        await site.client.patch(CONFIG_SETS, name, site.namespace, patch)
    except errors.NotFound:
        body = {"metadata": {"name": name, "labels": LABELS}, "spec": spec}
        await site.client.create(CONFIG_SETS, body, site.namespace)


class Looks:
    """Waits, and sees to it that no host ever says that it has a part of a change."""

    def __init__(self, site: RolloutSite, *names: str) -> None:
        self.site, self.names = site, names
        self.had: set[tuple[str, tuple[int, ...]]] = set()
        """Which revisions of all sets a host ever had."""

    def check(self, node: ManagedNode) -> None:
        said = {one.name: one.revision for one in node.status.configsets}
        have = tuple(said.get(name, 0) for name in self.names)
        assert len(set(have)) == 1, (node.metadata.name, said)
        self.had.add((node.metadata.name, have))

    async def until(self, phase: str, revision: int) -> dict[str, RolloutStatus]:
        """Wait until the change to this revision has ended so for all sets."""
        async with asyncio.timeout(PATIENCE):
            while True:
                sets = [await self.site.config_set(name) for name in self.names]
                for node in (
                    await self.site.client.list(MANAGED_NODES, Selection(self.site.namespace))
                ).items:
                    self.check(node)
                found = {one.metadata.name: one.status.rollout or RolloutStatus() for one in sets}
                wanted = [one.stable if phase == STABLE else one.refused for one in found.values()]
                numbers = {one.revision if one is not None else 0 for one in wanted}
                if {one.phase for one in found.values()} == {phase} and numbers == {revision}:
                    return found
                await report(self.site)
                await asyncio.sleep(0.02)


async def report(site: RolloutSite) -> None:
    """Have every host without an agent take what is its own of all sets, in one pass, and say so."""
    sets = (await site.client.list(CONFIG_SETS, Selection(site.namespace))).items
    peers = choosing.by_name(sets)
    for node in (await site.client.list(MANAGED_NODES, Selection(site.namespace))).items:
        if node.metadata.name not in site.seen:
            continue
        last = {one.name: one for one in node.status.configsets}
        said = []
        for one in sets:
            name, choice = one.metadata.name, choosing.chosen(one, node.metadata, peers)
            if choice.content is ContentSource.HELD and name in last:
                said.append(last[name])
            elif choice.content is ContentSource.REVISION and (ref := choice.revision) is not None:
                fails = ref.revision in site.broken and name.startswith("app")
                said.append(
                    AppliedConfigSet(
                        name=name, observed_generation=one.metadata.generation, revision=ref.revision,
                        digest=ref.digest, error="it failed" if fails else "",
                    )
                )  # fmt: skip
        if said != list(last.values()):
            patch = MergePatch({"status": {"release": "6.1", "configsets": msgspec.to_builtins(said)}})
            await site.client.patch(
                MANAGED_NODES, node.metadata.name, site.namespace, patch, subresource="status"
            )


@contextlib.asynccontextmanager
async def agents(site: RolloutSite, folder: Path) -> AsyncIterator[dict[str, Path]]:
    """Run agents of folders."""
    roots = {host: folder / host for host in HOSTS}
    async with contextlib.AsyncExitStack() as stack:
        for host, root in roots.items():
            root.mkdir()
            await site.client.create(MANAGED_NODES, {"metadata": {"name": host, "labels": LABELS}}, NAMESPACE)
            await stack.enter_async_context(site.agent(root, host))
        yield roots


def on_disk(roots: dict[str, Path]) -> list[tuple[str, str]]:
    return [((root / "app").read_text(), (root / "web").read_text()) for root in roots.values()]


@needs_root
async def test_agents_take_two_sets_together_and_return_from_both_when_one_fails(tmp_path: Path) -> None:
    async with rollout_site(tmp_path) as site, agents(site, tmp_path) as roots, site.operator():
        looks = Looks(site, "app", "web")
        await declare(site, "web", "one")
        await declare(site, "app", "one")
        await looks.until(STABLE, 1)
        assert on_disk(roots) == [("one", "one")] * 3
        await declare(site, "app", "two")
        await declare(site, "web", "two")
        found = await looks.until(STABLE, 2)
        assert on_disk(roots) == [("two", "two")] * 3
        assert found["app"].group == found["web"].group
        await declare(site, "web", "three")
        await declare(site, "app", "three", IMPOSSIBLE)
        found = await looks.until(UNDONE, 3)
        assert on_disk(roots) == [("two", "two")] * 3
        assert len({host for host, have in looks.had if have == (3, 3)}) == 1
        assert all("the change of group site failed on" in one.message for one in found.values())


async def story(site: RolloutSite, names: tuple[str, str], looks: Looks) -> None:
    """A group reaches its hosts; then a change fails on the first. It goes on from wherever it is."""
    group = f"g-{names[0]}"
    for name in names:
        with contextlib.suppress(errors.AlreadyExists):
            body = {"metadata": {"name": name, "labels": LABELS},
                    "spec": {"priority": 1, "rollout": {**ROLLOUT, "group": group}}}  # fmt: skip
            await site.client.create(CONFIG_SETS, body, site.namespace)
    for name in names:
        if (await site.config_set(name)).metadata.generation == 1:
            if name == names[0]:
                await looks.until(STABLE, 1)
            patch = MergePatch({"spec": {"priority": 2}})
            await site.client.patch(CONFIG_SETS, name, site.namespace, patch)
    found = await looks.until(UNDONE, 2)
    assert {(one.next, one.threshold) for one in found.values()} == {(None, 0)}


async def test_killed_at_writes_it_ends_the_same_and_no_host_has_a_part(place: Place) -> None:
    async with rollout_site_at(place) as site:
        await site.join(*HOSTS)
        for host in HOSTS:  # else it has no agent, and goes along with the first host that is there
            said = MergePatch({"status": {"release": "6.1"}})
            await site.client.patch(MANAGED_NODES, host, site.namespace, said, subresource="status")
        site.broken, deaths = {2}, 0
        for at in range(3, MOST_WRITES, 4):
            names = (f"app{at}", f"web{at}")
            looks = Looks(site, *names)
            async with site.operator(at) as mortal:
                done = asyncio.create_task(story(site, names, looks))
                dead = asyncio.create_task(mortal.dead.wait())
                await asyncio.wait({done, dead}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
                if not mortal.dead.is_set():
                    await done
                    break
                deaths += 1
                done.cancel()
                await asyncio.gather(done, return_exceptions=True)
            async with site.operator():
                await story(site, names, looks)
            assert len({host for host, have in looks.had if have == (2, 2)}) == 1, (at, sorted(looks.had))
            for name in names:
                await site.client.delete(CONFIG_SETS, name, site.namespace)
        assert deaths >= 2
