"""Nodes that are held for work on their host: cordoned in our name, emptied, and given back.

Every step may be repeated at any time, by this process or the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_VISIT
from nodemanager.client import node_draining
from nodemanager.client.node_draining import CordonMark, Unanswered
from nodemanager.client.patches import StrategicPatch
from nodemanager.client.verbs import Client
from nodemanager.controllers.disruption.nodes import CORDONED, LIFECYCLE, NODES, REASON, Node
from nodemanager.fleet.maintenance import claims
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.protected_pods import protection
from nodemanager.kube import core, errors, pods, selectors
from nodemanager.kube.selectors import LabelSelector


class CordonHolder(msgspec.Struct, frozen=True, omit_defaults=True):
    """The work for which a Node is cordoned, as its annotation says in JSON."""

    namespace: str
    maintenance: str
    uid: str
    """The uid of the maintenance: another one of the same name is another holder."""
    generation: int = 0
    since: str = ""

    @classmethod
    def read(cls, text: str | None) -> CordonHolder | None:
        """Return the holder in an annotation; None if it is not one of ours."""
        try:
            return msgspec.json.decode(text, type=cls) if text else None
        except (msgspec.MsgspecError, UnicodeError):
            return None

    @property
    def mark(self) -> CordonMark:
        """The mark as it is written on a Node; recognised by uid, even if the maintenance was edited."""
        return CordonMark(CORDONED, msgspec.json.encode(self).decode(), self._is_ours)

    def _is_ours(self, text: str) -> bool:
        other = CordonHolder.read(text)
        return other is not None and (other.namespace, other.uid) == (self.namespace, self.uid)


@dataclass(frozen=True, slots=True)
class DrainRules:
    """Which pods leave, and how long each has to end."""

    selector: LabelSelector | None = None
    grace_period: int | None = None
    asked_at: datetime | None = None
    """The time at which pods may ask for time; None: they may not."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What is left on a Node after its pods were asked once to leave."""

    blocked: Mapping[str, str]
    """Why each pod that has to leave is still there; empty = the Node is drained."""
    pause: float = 0.0
    """For how long the server wants no other request."""
    unmanaged: tuple[str, ...] = ()
    """Pods that stay, and restart with the host, because no controller would start them elsewhere."""
    said: str = ""


@dataclass(frozen=True, slots=True)
class NodeHold:
    """One Node, held for one maintenance. A missing right raises Forbidden."""

    client: Client
    name: str
    holder: CordonHolder
    unanswered: Unanswered = field(default_factory=Unanswered)
    """Evictions without an answer, of all Nodes."""

    async def node(self) -> Node | None:
        """Return the Node as it is now, if there is one."""
        try:
            return await self.client.get(NODES, self.name)
        except errors.NotFound:
            return None

    async def cordon(self) -> bool:
        """Keep new pods away; tell whether we did that. False: there is no Node, or others cordoned it."""
        try:
            return await node_draining.cordon(self.client, self.name, self.holder.mark)
        except errors.NotFound:
            return False

    async def drain(self, rules: DrainRules) -> Drained:
        """Ask the pods of the Node to leave once, and return those that are still there."""
        found = await node_draining.pods_of(self.client, self.name)
        left = tuple(pods.full_name(pod) for pod in found if pods.stays_unmanaged(pod))
        leaving = [pod for pod in found if pods.has_to_leave(pod) and _is_meant(pod, rules.selector)]
        if not leaving:
            return Drained({}, unmanaged=left)
        staying = _asking(leaving, rules.asked_at)
        leaving = [pod for pod in leaving if pods.full_name(pod) not in staying]
        asked = await node_draining.evict(self.client, leaving, rules.grace_period, self.unanswered)
        asked = replace(asked, blocked={**asked.blocked, **staying})
        return Drained(asked.blocked, asked.pause, left, str(asked))

    async def release(self) -> bool:
        """Undo our cordon and our conditions, but no cordon of others; tell whether we had one."""
        await self.say({})
        return await node_draining.uncordon(self.client, self.name, self.holder.mark)

    async def say(self, holding: Mapping[str, str]) -> None:
        """Set the named KEP-5683 conditions to True, with their messages, and all others to False.

        A condition that was never True is not written. Without the right, no condition is written: none is
        essential.
        """
        node = await self.node()
        if node is None:
            return
        wanted = [kind for kind in LIFECYCLE if (kind in holding) != node.says(kind)]
        if not wanted:
            return
        said = [condition(kind, holding.get(kind), self.holder) for kind in wanted]
        try:
            patch = StrategicPatch({"status": {"conditions": said}})
            await self.client.patch(core.NODES, self.name, "", patch, subresource="status")
        except (errors.Forbidden, errors.NotFound):
            return


def visitor(host: ManagedNode) -> str:
    """Return the uid of the maintenance that keeps the Node of a host cordoned; empty = there is none.

    A visit that ended as Halted keeps it, because the state of the host is unknown.
    """
    claim = claims.decode(host.metadata.annotations.get(ANNOTATION_VISIT))
    if not isinstance(claim, Claim) or not (claim.holds or claim.state is State.HALTED):
        return ""
    return "" if claim.repairs else claim.uid  # a turn to repair drift cordons no Node


def _is_meant(pod: dict[str, Any], selector: LabelSelector | None) -> bool:
    return selector is None or selectors.matches(selector, pod["metadata"].get("labels") or {})


def _asking(leaving: Iterable[dict[str, Any]], now: datetime | None) -> dict[str, str]:
    """Return pods that began to ask for time after the visit of their host began."""
    asked = {pods.full_name(pod): protection(pod, now) for pod in leaving} if now is not None else {}
    return {name: f"it asks for time: {one.object}" for name, one in asked.items() if one is not None}


def condition(kind: str, message: str | None, holder: CordonHolder) -> dict[str, str]:
    """Return a condition as we write it; without a message it is False."""
    return {
        "type": kind,
        "status": "False" if message is None else "True",
        "reason": REASON,
        "message": f"{holder.namespace}/{holder.maintenance}" + (f": {message}" if message else ""),
    }
