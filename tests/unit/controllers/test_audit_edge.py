"""Changes of edge kinds in the audit log: recorded where sites are looked at, and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.audit.record import Record
from nodemanager.api.edge.edgecluster import EDGE_CLUSTERS
from nodemanager.api.edge.edgeprofile import EDGE_PROFILES
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly, audit
from nodemanager.fleet.audit import observed
from support import audit_site, edge_profiles, whole_server
from support.accounts import operator_of
from support.audit_site import Site
from support.clients import connected

NAMESPACE = "default"
PROFILE = EDGE_PROFILES.untyped()


@pytest.fixture(name="both")
async def _both(tmp_path: Path) -> AsyncIterator[tuple[Client, Client]]:
    """The operator, to the policies, and an administrator."""
    async with (
        whole_server.serving(tmp_path) as (config, _),
        connected(operator_of(config, NAMESPACE)) as own,
        connected(whole_server.load(tmp_path / "data" / "admin.kubeconfig")) as admin,
    ):
        yield own, admin


async def news(site: Site, before: int) -> list[tuple[str, str, str, bool]]:
    """Write, and return what was added."""
    await site.write()
    found: list[Record] = (await site.records())[before:]
    return [(one.verb, one.object.kind, one.object.name, one.late) for one in found]


async def test_created_changed_and_deleted(both: tuple[Client, Client]) -> None:
    own, admin = both
    async with audit_site.writing(own, NAMESPACE, edge=True) as site:
        await site.write()
        begun = len(await site.records())
        profile = edge_profiles.shipped("vx-rail")
        await admin.create(PROFILE, profile)
        cluster: dict[str, Any] = {"metadata": {"name": "store"}, "spec": {"profile": "vx-rail"}}
        await admin.create(EDGE_CLUSTERS, cluster, NAMESPACE)
        made = await news(site, begun)
        assert sorted(made) == [
            ("create", "EdgeCluster", "store", False),
            ("create", "EdgeProfile", "vx-rail", False),
        ]
        seen = MergePatch({"status": {"phase": "Unknown", "observedAt": "2026-03-01T00:00:00Z"}})
        await admin.patch(EDGE_CLUSTERS, "store", NAMESPACE, seen, subresource="status")
        assert await news(site, begun + 2) == [], "how a site is seen is no change of what is wanted"
        await admin.patch(EDGE_CLUSTERS, "store", NAMESPACE, MergePatch({"spec": {"nodes": ["a"]}}))
        edit = MergePatch({"spec": {"version": "1.1.0", "description": "another"}})
        await admin.patch(PROFILE, "vx-rail", "", edit)
        assert sorted(await news(site, begun + 2)) == [
            ("update", "EdgeCluster", "store", False), ("update", "EdgeProfile", "vx-rail", False),
        ]  # fmt: skip
        await admin.delete(EDGE_CLUSTERS, "store", NAMESPACE)
        assert await news(site, begun + 4) == [("delete", "EdgeCluster", "store", False)]
        record = (await site.records())[begun + 1]
        assert record.actor.name
        assert (await site.verified()).findings == []


async def test_an_operator_that_does_not_look_at_sites_records_no_deletion_of_them(
    both: tuple[Client, Client],
) -> None:
    own, admin = both
    async with audit_site.writing(own, NAMESPACE, edge=True) as site:
        await admin.create(PROFILE, edge_profiles.shipped("vx-rail"))
        await admin.create(PROFILE, edge_profiles.shipped("k3s-linstor"))
        await site.write()
        begun = len(await site.records())
    async with audit_site.writing(own, NAMESPACE) as site:
        assert await news(site, begun) == []
        await admin.delete(PROFILE, "vx-rail", "")
        assert await news(site, begun) == []
    async with audit_site.writing(own, NAMESPACE, edge=True) as site:
        assert await news(site, begun) == [("delete", "EdgeProfile", "vx-rail", True)]


def test_it_costs_nothing_where_nobody_looks_at_sites() -> None:
    plain, edge = observed.kinds_seen(), observed.kinds_seen(edge=True)
    assert {one.kind for one in edge} - {one.kind for one in plain} == {"EdgeCluster", "EdgeProfile"}
    assert not [one for one in audit.REGISTRATION.watches if one.resource.group == EDGE_PROFILES.group]
    assert audit.REGISTRATION in assembly.entries_for(edge=False)
    assert audit.WITH_EDGE in assembly.entries_for(edge=True)
    assert audit.REGISTRATION not in assembly.entries_for(edge=True)
    assert {one.name for one in assembly.entries_for(edge=True)} == {
        *(one.name for one in assembly.ENTRIES), "edgecluster",
    }  # fmt: skip
    assert audit.WITH_EDGE.rights == audit.REGISTRATION.rights, "who looks at sites may read them anyway"
