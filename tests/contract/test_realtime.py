"""Operations of type realtime: the operator makes ConfigSets of them, and of no others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.client.patches import MergePatch
from nodemanager.kube import conditions, errors
from nodemanager.kube.selectors import matches
from support.clients import connected
from support.either import Place
from support.joined_host import guard
from support.maintenance_site import TOUCH, Site

SSHD = {
    "name": "sshd", "type": "realtime",
    "configSet": {"files": [{"path": "/etc/ssh/x.conf", "mode": "0600", "content": "PermitRootLogin no\n"}]},
}  # fmt: skip


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what another process makes true."""
    async with asyncio.timeout(90):
        while not await holds():  # noqa: ASYNC110 - in another task
            await asyncio.sleep(0.06)


def kept(status: str) -> Any:
    def holds(found: NodeMaintenance) -> bool:
        said = conditions.get(found.status.conditions, "RealtimeKept")
        return said is not None and said.status == status

    return holds


async def made(site: Site, name: str = "monday-sshd") -> ConfigSet:
    return await site.client.get(CONFIG_SETS, name, site.namespace)


async def becomes(site: Site, holds: Any, name: str = "monday-sshd") -> ConfigSet:
    """Wait until a set is as it shall be."""
    found: list[ConfigSet] = []

    async def looks() -> bool:
        found[:] = [await made(site, name)]
        return bool(holds(found[0]))

    await until(looks)
    return found[0]


async def test_it_becomes_a_set_for_the_hosts_with_the_openings_of_the_window(site: Site) -> None:
    web = await site.host("web", role="web")
    await site.host("db", role="db")
    window = {"schedules": [{"weekdays": ["Mon"], "start": "06:00", "duration": "3h"}]}
    series = {"selector": {"matchLabels": {"role": "web"}}}
    note = {"name": "note", "type": "one-shot", "steps": TOUCH}
    await site.maintenance(window=window, series=series, operations=[SSHD, note])
    async with site.operator():
        await site.until(kept("True"))
        found = await made(site)
        assert [one.path for one in found.spec.files] == ["/etc/ssh/x.conf"]
        assert found.spec.enforcement is not None
        assert len(found.spec.enforcement.openings) == 32
        selector = found.spec.node_selector
        assert selector is not None
        host = await site.managed(web)
        assert matches(selector, host.metadata.labels)
        # What somebody changes in it is put back; a change of the maintenance reaches it.
        patch = MergePatch({"spec": {"priority": 99}})
        await site.client.patch(CONFIG_SETS, "monday-sshd", site.namespace, patch)
        await becomes(site, lambda one: one.spec.priority == 0)
        await site.change(paused=True)
        await becomes(site, lambda one: one.spec.enforcement and one.spec.enforcement.openings == [])
        await site.change(paused=False, operations=[note])

        async def gone() -> bool:
            try:
                await made(site)
            except errors.NotFound:
                return True
            return False

        await until(gone)


async def test_the_sets_go_with_the_maintenance(site: Site) -> None:
    await site.host("a")
    await site.maintenance(operations=[SSHD])
    async with site.operator():
        await site.until(kept("True"))
        owner = await site.status()
        found = await made(site)
        assert [one.uid for one in found.metadata.owner_references] == [owner.metadata.uid]
        assert found.spec.enforcement is not None
        assert [one.end for one in found.spec.enforcement.openings] == [None]
        await site.client.delete(NODE_MAINTENANCES, "monday", site.namespace)

        async def gone() -> bool:
            try:
                await site.status()
            except errors.NotFound:
                return True
            return False

        await until(gone)


async def test_a_set_of_somebody_else_is_left_alone(site: Site) -> None:
    await site.host("a")
    body = {"metadata": {"name": "monday-sshd"}, "spec": {"priority": 5}}
    await site.client.create(CONFIG_SETS, body, site.namespace)
    await site.maintenance(operations=[SSHD])
    async with site.operator():
        said = await site.until(kept("False"))
        condition = conditions.get(said.status.conditions, "RealtimeKept")
        assert condition is not None
        assert condition.message.startswith("ConfigSet monday-sshd is there already, and is not of this")
        assert (await made(site)).spec.priority == 5
        await site.change(operations=[{"name": "note", "type": "one-shot", "steps": TOUCH}])
        found = await site.until_phase("Succeeded")
        assert conditions.get(found.status.conditions, "RealtimeKept") is None, "nothing is to be kept"


async def test_the_operator_itself_can_write_no_set_of_somebody_else(
    place: Place, site: Site, tmp_path: Path
) -> None:
    await guard(place, tmp_path)
    body = {"metadata": {"name": "people"}, "spec": {"priority": 5}}
    await site.client.create(CONFIG_SETS, body, site.namespace)
    async with connected(site.own) as operator:
        acts: list[Callable[[], Awaitable[object]]] = [
            lambda: operator.create(CONFIG_SETS, {"metadata": {"name": "mine"}, "spec": {}}, site.namespace),
            lambda: operator.patch(
                CONFIG_SETS, "people", site.namespace, MergePatch({"spec": {"priority": 6}})
            ),
            lambda: operator.delete(CONFIG_SETS, "people", site.namespace),
        ]
        for act in acts:
            with pytest.raises(errors.Forbidden, match="may only write the ConfigSets that it makes"):
                await act()
    assert (await made(site, "people")).spec.priority == 5


async def test_a_template_that_is_missing_is_named(site: Site) -> None:
    await site.host("a")
    await site.maintenance(operations=[{"name": "t", "type": "realtime", "templateRef": {"name": "gone"}}])
    async with site.operator():
        said = await site.until(kept("False"))
        condition = conditions.get(said.status.conditions, "RealtimeKept")
        assert condition is not None
        assert condition.message == "operation t: there is no NodeOperationTemplate gone"
