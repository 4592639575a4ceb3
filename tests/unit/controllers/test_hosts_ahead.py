"""Hosts with what we wrote on them and the cache does not show yet."""

from __future__ import annotations

import random
from typing import cast

import pytest

from nodemanager.api.common.left_drifts import LeftDrift, LeftDrifts
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode, ManagedNodeStatus
from nodemanager.client.verbs import Client
from nodemanager.controllers.node_maintenances import ahead
from nodemanager.controllers.node_maintenances.ahead import REPAIRING, HostsAhead
from nodemanager.kube.objects import ObjectKey, ObjectMeta, key_of
from nodemanager.runtime.cache import Cache

KEYS = [ObjectKey(space, f"h{number}") for space in ("a", "b") for number in range(4)]


def host(key: ObjectKey, version: int, *, asks: bool) -> ManagedNode:
    left = LeftDrifts(asks=[LeftDrift(configset="sshd")]) if asks else None
    return ManagedNode(
        metadata=ObjectMeta(
            name=key.name, namespace=key.namespace, uid=str(key), resource_version=str(version)
        ),
        status=ManagedNodeStatus(left_drifts=left),
    )


@pytest.mark.parametrize("seed", range(20))
def test_who_is_visited_is_told_by_the_newest_that_is_known_of_each_host(seed: int) -> None:
    chance = random.Random(seed)
    cache = Cache(cast("Client", None), MANAGED_NODES)
    hosts, newest = HostsAhead(cache), dict[ObjectKey, ManagedNode]()
    for version in range(1, 120):
        key = chance.choice(KEYS)
        now, before = host(key, version, asks=chance.random() < 0.5), hosts.get(key)
        if before is not None and chance.random() < 0.5:
            hosts.wrote(before, now)  # and the cache does not have it yet
        elif chance.random() < 0.1:
            cache._remove(key)
            newest.pop(key, None)
            continue
        else:
            cache._put(key, now)
        newest[key] = now
        asking = sorted(one for one, found in newest.items() if REPAIRING in ahead._visitors(found))
        assert [key_of(one) for one in hosts.visited_by(REPAIRING)] == asking
        here = {key_of(one): one for one in hosts.everyone_newest("a")}
        assert here == {one: found for one, found in newest.items() if one.namespace == "a"}
