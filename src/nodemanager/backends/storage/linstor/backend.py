"""LINSTOR as a storage backend: looked at as a whole, changed one resource at a time.

It leaves out on purpose what does more than its name says: raising the count of a group, which places all
of its resources at once (`default_copies` waits until there is nothing left to place); evacuating a node,
which deletes every replica that is not UpToDate; and `sync-status`, which says yes for a node that is
away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nodemanager.api.edge import capabilities
from nodemanager.backends.errors import Garbled, NoSuchThing, Premature, Refused
from nodemanager.backends.storage.linstor import codes, rest, views
from nodemanager.backends.storage.linstor.rest import LinstorRest, segment
from nodemanager.backends.storage.seam import (
    FAILED,
    READY,
    TAKING,
    Placeable,
    Sharing,
    StorageChange,
    VolumeSnapshot,
)
from nodemanager.fleet.edge.facts import MAX_LISTED
from nodemanager.fleet.edge.storage import facts, judging
from nodemanager.fleet.edge.storage.facts import StorageFacts
from nodemanager.kube.wording import plural

NAME: Final = "linstor"
AUTOPLACE: Final = "AutoplaceTarget"
AUTO_EVICT: Final = "DrbdOptions/AutoEvictAllowEviction"
"""Whether LINSTOR gives up a node that is away for an hour; the setting of a node overrides that of all."""
FROZEN: Final = {AUTOPLACE: "false", AUTO_EVICT: "false"}
_NONE: Final = StorageChange(changed=False)
_CLONE: Final = {"COMPLETE": READY, "FAILED": FAILED}
_SUCCESSFUL: Final = "SUCCESSFUL"
_WITHOUT_DATA: Final = (facts.CLIENT, facts.TIE_BREAKER)
_WORSE: Final = (facts.INCONSISTENT, facts.OUTDATED, facts.DISKLESS, "Failed")
"""Disk states without any data that an UpToDate disk lacks."""


def _never(_error: Refused) -> bool:
    return False


def _missing(error: Refused) -> bool:
    return isinstance(error, NoSuchThing)


def _exists(error: Refused) -> bool:
    return error.code in codes.EXISTS


class LinstorBackend:
    """A LINSTOR controller."""

    name = NAME
    capabilities = capabilities.STORAGE.choices[NAME]

    def __init__(self, controller: LinstorRest) -> None:
        self._rest = controller

    async def close(self) -> None:
        """Close all connections."""
        await self._rest.close()

    async def observe(self) -> StorageFacts:
        """Look at nodes, replicas, pools, and at what there may be no replica of."""
        nodes, replicas, pools, definitions, snapshots = await asyncio.gather(
            self._rest.read(list[views.NodeView], "/v1/nodes", "list storage nodes"),
            self._rest.read(list[views.ReplicaView], "/v1/view/resources", "list replicas"),
            self._rest.read(list[views.PoolView], "/v1/view/storage-pools", "list storage pools"),
            self._definitions(),
            self._snapshots(),
        )
        found: dict[str, Sequence[Any]] = {
            "node": nodes, "replica": replicas, "pool": pools, "definition": definitions,
            "snapshot": snapshots,
        }  # fmt: skip
        if max(len(one) for one in found.values()) > MAX_LISTED:
            told = ", ".join(plural(len(one), name) for name, one in found.items())
            raise Garbled(
                f"cannot look at the storage: {told} are not those of a site, which has {MAX_LISTED} of each"
                " at most"
            )
        return views.storage(nodes, replicas, pools, views.volumes(definitions, replicas, snapshots))

    async def _definitions(self) -> list[views.DefinitionView]:
        return await self._rest.read(
            list[views.DefinitionView], "/v1/resource-definitions", "list resource definitions"
        )

    async def _snapshots(self) -> list[views.SnapshotView]:
        return await self._rest.read(list[views.SnapshotView], "/v1/view/snapshots", "list snapshots")

    async def place(
        self, resource: str, copies: int, nodes: Sequence[str] = (), pool: str = ""
    ) -> StorageChange:
        """Have so many diskful replicas of one resource."""
        have = len((await self.observe()).diskful(resource))
        if have >= copies:
            return _NONE
        chosen: dict[str, Any] = {"place_count": copies}
        chosen |= {"node_name_list": list(nodes)} if nodes else {}
        chosen |= {"storage_pool": pool} if pool else {}
        path = f"/v1/resource-definitions/{segment(resource)}/autoplace"
        doing = f"place {copies} copies of {resource}"
        said = await self._rest.change("POST", path, {"select_filter": chosen}, doing)
        return StorageChange(True, rest.warnings(said))

    async def withdraw(self, resource: str, node: str) -> StorageChange:
        """Delete the replica of a node, if another one has all of the data and is known to."""
        seen = await self.observe()
        found = [one for one in seen.replicas if one.node == node and one.resource == resource]
        if not found or found[0].kind in _WITHOUT_DATA:
            return _NONE
        others = [one for one in seen.diskful(resource) if one.node != node and _replaces(one, found[0])]
        doing = f"delete the copy of {resource} on {node}"
        if not others:
            raise Premature(
                f"cannot {doing}: no other copy is known to be UpToDate and to have all that this one has;"
                " wait for one"
            )
        path = f"/v1/resource-definitions/{segment(resource)}/resources/{segment(node)}"
        return await self._change("DELETE", path, None, doing, done=_missing)

    async def default_copies(self, group: str, copies: int) -> StorageChange:
        """Set the count of a group, once no resource of it would be placed by that."""
        doing = f"have {copies} copies in the group {group}"
        found = await self._definitions()
        seen = await self.observe()
        names = sorted(one.name for one in found if one.resource_group_name.lower() == group.lower())
        few = [name for name in names if len(seen.diskful(name)) < copies]
        if few:
            raise Premature(
                f"cannot {doing}: that would place {len(few)} volumes at once, of which {few[0]} is one;"
                " place each of them first"
            )
        body = {"select_filter": {"place_count": copies}}
        return await self._change("PUT", f"/v1/resource-groups/{segment(group)}", body, doing)

    async def placeable(self, nodes: Sequence[str]) -> Placeable:
        """Read AutoplaceTarget, and whether nodes may be evicted, as it is set for each."""
        found = await self._rest.read(list[views.NodeView], "/v1/nodes", "list storage nodes")
        props = {one.name: one.props or {} for one in found if one.name in nodes}
        before = {name: {key: of_node.get(key) for key in FROZEN} for name, of_node in props.items()}
        if lacking := sorted(set(nodes) - set(before)):
            raise NoSuchThing("freeze nodes", f"LINSTOR knows no node {lacking[0]}", code=300)
        return before

    async def freeze(self, nodes: Sequence[str]) -> StorageChange:
        """Set both to false, so that a node is not given up while the caller waits for it."""
        open_ = [name for name, before in (await self.placeable(nodes)).items() if before != FROZEN]
        for name in open_:
            await self._properties(name, FROZEN, [])
        return StorageChange(bool(open_))

    async def thaw(self, before: Placeable) -> StorageChange:
        """Restore both; where there was none, there is none again."""
        for name, settings in before.items():
            there = {key: value for key, value in settings.items() if value is not None}
            await self._properties(name, there, [key for key in settings if key not in there])
        return StorageChange(bool(before))

    async def snapshot(self, name: str, resources: Sequence[str]) -> StorageChange:
        """Ask for all of them in one call, which suspends their IO once; but for those that are there."""
        there = {one.resource for one in await self.snapshots(resources) if one.name == name}
        wanted = [one for one in resources if one not in there]
        if not wanted:
            return _NONE
        body = {"snapshots": [{"resource_name": one, "name": name} for one in wanted]}
        said = await self._rest.change(
            "POST", "/v1/actions/snapshot/multi", body, f"take the snapshot {name}"
        )
        return StorageChange(True, rest.warnings(said))

    async def snapshots(self, resources: Sequence[str] = ()) -> list[VolumeSnapshot]:
        """List snapshots."""
        found = await self._snapshots()
        return [
            VolumeSnapshot(
                one.resource_name, one.name, _snapshot_state(one.flags or []), tuple(one.nodes or ())
            )
            for one in found
            if not resources or one.resource_name in resources
        ]

    async def drop_snapshot(self, resource: str, name: str) -> StorageChange:
        """Delete a snapshot."""
        path = f"/v1/resource-definitions/{segment(resource)}/snapshots/{segment(name)}"
        return await self._change("DELETE", path, None, f"delete the snapshot {name}", done=_missing)

    async def clone(self, resource: str, to: str) -> StorageChange:
        """Clone a resource."""
        path = f"/v1/resource-definitions/{segment(resource)}/clone"
        return await self._change("POST", path, {"name": to}, f"clone {resource} to {to}", done=_exists)

    async def clone_state(self, resource: str, to: str) -> str:
        """Say how far a clone is."""
        path = f"/v1/resource-definitions/{segment(resource)}/clone/{segment(to)}"
        found = await self._rest.read(views.CloneView, path, f"look at the clone {to}")
        return _CLONE.get(found.status, TAKING)

    async def sharing(self, resource: str) -> Sharing:
        """Two nodes may write to one volume only where DRBD is between them."""
        path = f"/v1/resource-definitions/{segment(resource)}"
        found = await self._rest.read(views.DefinitionView, path, f"look at {resource}")
        if any(one.type == "DRBD" for one in found.layer_data or ()):
            return Sharing(True)
        return Sharing(False, f"{resource} has no DRBD layer")

    async def _properties(self, node: str, override: Mapping[str, str], delete: Sequence[str]) -> None:
        body = {"override_props": dict(override), "delete_props": list(delete)}
        await self._rest.change("PUT", f"/v1/nodes/{segment(node)}", body, f"set properties of {node}")

    async def _change(
        self, method: str, path: str, body: Any, doing: str, done: Callable[[Refused], bool] = _never
    ) -> StorageChange:
        """Ask for a change; a refusal that says that it is so already is none."""
        try:
            return StorageChange(True, rest.warnings(await self._rest.change(method, path, body, doing)))
        except Refused as error:
            if done(error):
                return _NONE
            raise


def _is_good(one: facts.Replica) -> bool:
    return one.known and bool(one.volumes) and all(part.disk == facts.UP_TO_DATE for part in one.volumes)


def _replaces(one: facts.Replica, other: facts.Replica) -> bool:
    """Tell whether a copy has all data of another one: a node that was alone calls itself UpToDate."""
    if not _is_good(one) or not other.known:
        return False
    if other.volumes and all(part.disk in _WORSE for part in other.volumes):
        return True
    return not any(judging.pair_faults(one.resource, [one, other]))


def _snapshot_state(flags: Sequence[str]) -> str:
    if any(flag.startswith("FAILED") for flag in flags):
        return FAILED
    return READY if _SUCCESSFUL in flags and "DELETE" not in flags else TAKING
