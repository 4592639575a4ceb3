"""Reads the Kubernetes Nodes of a site, each by its name, and only for what keeps pods away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from nodemanager.api.edge.edgecluster import UNREADABLE
from nodemanager.api.edge.edgeprofile import EdgeProfileSpec
from nodemanager.api.edge.node_reports import MAX_TAINT
from nodemanager.api.rights.operator_rights import Right
from nodemanager.client.verbs import Client
from nodemanager.controllers.edge_clusters import reading
from nodemanager.fleet.edge.decoding import printable
from nodemanager.fleet.edge.facts import Read
from nodemanager.fleet.edge.node_details import SeenNode
from nodemanager.kube import object_names
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

AT_ONCE: Final = 8
"""How many Nodes are asked for at once, as a site may be large."""


class Taint(Struct):
    """A taint: it keeps away pods that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeTaints(Struct):
    """The taints of a Node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class TaintedNode(Struct):
    """`v1` Node, with the fields that we use."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeTaints = NodeTaints()


NODES: Final = Resource("", "v1", "Node", "nodes", TaintedNode, namespaced=False)


def rights(spec: EdgeProfileSpec) -> list[Right]:
    """Return the rights for that: a profile does not know the names of its sites' nodes."""
    return [Right(NODES, ("get",))] if spec.topology.observe_nodes else []


async def read(client: Client, names: Iterable[str]) -> dict[str, SeenNode]:
    """Read these Nodes; an unreadable one does not affect the others."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> SeenNode:
        # A name comes from a ConfigMap of others: it must not lead to another object.
        if not object_names.is_object_name(name):
            return SeenNode(Read(UNREADABLE, message="it cannot be the name of a Node"))
        async with turns:
            return await _one(client, name)

    wanted = list(names)
    return dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))


async def _one(client: Client, name: str) -> SeenNode:
    seen: list[TaintedNode] = []

    async def ask() -> Read:
        seen.append(await client.get(NODES, name))
        return Read()

    answer = await reading.answer(ask)
    if not seen:
        return SeenNode(answer)
    spec = seen[0].spec
    return SeenNode(answer, [_words(one) for one in spec.taints or ()], spec.unschedulable)


def _words(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return printable(f"{taint.key}{value}:{taint.effect}", MAX_TAINT)
