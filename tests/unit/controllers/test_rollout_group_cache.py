"""Sets that move together are not decided about while the cache has only some of what was written."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from nodemanager.api.common import configsetrevision
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec, ConfigSetStatus
from nodemanager.api.common.configsetrevision import ConfigSetRevision, ConfigSetRevisionSpec
from nodemanager.api.common.managednode import ManagedNode, ManagedNodeStatus
from nodemanager.api.common.rollout import STAGED, Rollout
from nodemanager.client.patches import MergePatch
from nodemanager.controllers.rollouts.following import Defaults
from nodemanager.controllers.rollouts.reconciling import Rollouts
from nodemanager.fleet.rollout.gates import RolloutGates
from nodemanager.kube.objects import ObjectKey, ObjectMeta, key_of
from nodemanager.runtime.controller import Retry

LABELS = {"role": "web"}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Site:
    """Two sets and a host, a server, and a cache that hears of what is written when it is told to."""

    def __init__(self, group: str) -> None:
        spec = ConfigSetSpec(rollout=Rollout(strategy=STAGED, group=group))
        metas = [
            ObjectMeta(
                name=name, namespace="x", uid=name, labels=LABELS, generation=1, resource_version=f"{name}1"
            )
            for name in "ab"
        ]
        self.stored = {key_of(one): one for one in (ConfigSet(meta, spec) for meta in metas)}
        self.cached, self.writes = dict(self.stored), list[str]()
        host = ManagedNode(
            ObjectMeta(name="h", namespace="x", uid="h", labels=LABELS),
            status=ManagedNodeStatus(release="6.1"),
        )
        still: dict[str, Any] = {"interrupted": False, "steady_since": 0.0}
        self.rollouts = Rollouts(
            client=cast("Any", SimpleNamespace(patch=self.patch)),
            config_sets=cast("Any", SimpleNamespace(get=self.cached.get, values=self.cached.values, **still)),
            nodes=cast("Any", SimpleNamespace(values=lambda: [host], **still)),
            revisions=cast("Any", SimpleNamespace(find=self.revisions)),
            defaults=Defaults(cast("Any", None), cast("Any", SimpleNamespace(get=lambda _key: None))),
            gates=cast("Any", SimpleNamespace(read=self.gates, ask=lambda *args: args[-1])),
            now=lambda: NOW,
            wake=lambda _key: None,
        )

    def revisions(self, _index: str, uid: str) -> list[ConfigSetRevision]:
        one = self.stored[ObjectKey("x", uid)]
        content = configsetrevision.content_of(one.spec)
        spec = ConfigSetRevisionSpec(
            config_set=uid, revision=1, generation=1, labels=LABELS, content=content,
            digest=configsetrevision.digest_of(LABELS, content),
        )  # fmt: skip
        name = configsetrevision.name_of(one.metadata, 1)
        return [ConfigSetRevision(ObjectMeta(name=name, namespace="x"), spec)]

    async def gates(self, *_args: object) -> RolloutGates:
        return RolloutGates()

    async def patch(self, _resource: object, name: str, space: str, body: MergePatch, **_: Any) -> ConfigSet:
        old = self.stored[ObjectKey(space, name)]
        found = msgspec.convert({"rollout": body.body["status"]["rollout"]}, ConfigSetStatus)
        version = f"{name}{int(old.metadata.resource_version[1:]) + 1}"
        meta = msgspec.structs.replace(old.metadata, resource_version=version)
        self.stored[ObjectKey(space, name)] = new = ConfigSet(meta, old.spec, found)
        self.writes.append(name)
        return new

    def hear(self, name: str) -> None:
        self.cached[ObjectKey("x", name)] = self.stored[ObjectKey("x", name)]


async def test_a_group_waits_until_the_cache_has_all_that_was_written() -> None:
    site, key = Site("site"), ObjectKey("x", "a")
    await site.rollouts.reconcile(key)
    assert site.writes == ["a", "b"]
    site.hear("a")  # so b looks as if it had never been written
    with pytest.raises(Retry, match="cache does not have yet"):
        await site.rollouts.reconcile(key)
    assert site.writes == ["a", "b"]
    site.hear("b")
    await site.rollouts.reconcile(key)  # no Retry: it goes on


async def test_a_set_that_moves_alone_goes_on_as_ever() -> None:
    site, key = Site(""), ObjectKey("x", "a")
    await site.rollouts.reconcile(key)
    await site.rollouts.reconcile(key)  # with the old cache: a server says that this is a conflict
    assert site.writes == ["a", "a"]
