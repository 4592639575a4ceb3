"""The paths of the REST interface, as data: method, pattern, who answers, and the status of success."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support.linstor import codes, placing, protecting, showing
from support.linstor.codes import (
    CREATE,
    DELETE,
    KVS,
    MODIFY,
    NET_IF,
    NODE,
    RSC_DFN,
    RSC_GRP,
    SUCCESS,
    Line,
    Refusal,
)
from support.linstor.world import Definition, Group, LinstorWorld

Body = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A request that was understood."""

    world: LinstorWorld
    parts: tuple[str, ...]
    body: Body
    query: dict[str, str]

    @property
    def first(self) -> str:
        return self.parts[0]

    @property
    def second(self) -> str:
        return self.parts[1]


@dataclass(frozen=True)
class Route:
    method: str
    pattern: re.Pattern[str]
    answer: Callable[[Call], Any]
    success: int = 200


def _route(method: str, path: str, answer: Callable[[Call], Any], success: int = 200) -> Route:
    return Route(method, re.compile(re.sub(r"\{\w+\}", "([^/]+)", path)), answer, success)


def find(method: str, path: str) -> tuple[Route, tuple[str, ...]] | None:
    for route in ROUTES:
        if route.method == method and (found := route.pattern.fullmatch(path)):
            return route, found.groups()
    return None


def _group(call: Call) -> Group:
    name = call.first
    if name not in call.world.groups:
        raise Refusal(MODIFY, RSC_GRP, codes.NO_RSC_GRP, f"Resource group '{name}' not found.")
    return call.world.groups[name]


def _spawn(call: Call) -> list[Line]:
    group, name = _group(call), call.body["resource_definition_name"]
    if name in call.world.definitions:
        raise Refusal(CREATE, RSC_DFN, codes.EXISTS_RSC_DFN, f"'{name}' already exists.")
    made = Definition(name, group.name, int(call.body["volume_sizes"][0]))
    call.world.definitions[name] = made  # and there it stays, also if there is no place for it
    chosen = {"place_count": group.place_count, "storage_pool": group.storage_pool}
    return placing.autoplace(call.world, made, chosen)


def _create_group(call: Call) -> list[Line]:
    chosen = call.body.get("select_filter", {})
    made = Group(call.body["name"], int(chosen.get("place_count", 2)), chosen.get("storage_pool", ""))
    call.world.groups[made.name] = made
    return [codes.line(SUCCESS, CREATE, RSC_GRP, 1, f"New resource group '{made.name}' created.")]


def _modify_node(call: Call) -> list[Line]:
    node, wanted = call.world.node(call.first), call.body.get("override_props", {})
    nic = wanted.get("PrefNic")
    if nic is not None and (not re.fullmatch(r"[A-Za-z0-9_-]{3,48}", nic) or nic not in node.interfaces):
        raise Refusal(MODIFY, NODE, codes.OTHER, f"'{nic}' is no valid value for PrefNic")
    return _set(node.props, call.body, NODE)


def _set(props: dict[str, str], body: Body, subject: int) -> list[Line]:
    props |= body.get("override_props", {})
    for key in body.get("delete_props", []):
        props.pop(key, None)
    return [codes.line(SUCCESS, MODIFY, subject, 3, "Properties modified")]


def _add_interface(call: Call) -> list[Line]:
    node, name = call.world.node(call.first), call.body["name"]
    if name in node.interfaces:
        raise Refusal(CREATE, NET_IF, codes.EXISTS_NET_IF, f"Net interface '{name}' already exists.")
    node.interfaces[name] = call.body["address"]
    return [codes.line(SUCCESS, CREATE, NET_IF, 1, f"New net interface '{name}' created")]


def _connect_nodes(call: Call) -> list[Line]:
    one, other = (call.world.node(name) for name in call.parts)
    for key, interface in call.body.get("override_props", {}).items():
        if key.startswith("Paths/"):
            node = call.world.node(key.rpartition("/")[2])
            if interface not in node.interfaces:
                raise Refusal(MODIFY, NODE, codes.OTHER, f"'{node.name}' has no interface '{interface}'")
    props = call.world.connections.setdefault(frozenset((one.name, other.name)), {})
    return _set(props, call.body, NODE)


def _lose(call: Call) -> list[Line]:
    name = call.world.node(call.first).name
    del call.world.nodes[name]
    call.world.pools = [one for one in call.world.pools if one.node != name]
    for what in call.world.definitions.values():
        what.replicas.pop(name, None)
        placing.settle_quorum(call.world, what)
    return [codes.line(SUCCESS, DELETE, NODE, 2, f"Node '{name}' is lost")]


def _make_available(call: Call) -> list[Line]:
    what = call.world.definition(call.first)
    there = what.replicas.get(call.second)
    if there is not None and (there.diskful or not call.body.get("diskful")):
        return [codes.line(SUCCESS, CREATE, codes.RSC, 1, "It is available already")]
    flags = [] if call.body.get("diskful") else ["DISKLESS", "DRBD_DISKLESS"]
    return placing.create_named(call.world, call.first, call.second, {"resource": {"flags": flags}})


def _adjust_all(call: Call) -> list[Line]:
    found = [said for one in call.world.groups.values() for said in placing.adjust(call.world, one)]
    return found or [codes.line(SUCCESS, MODIFY, RSC_GRP, 3, "Nothing to adjust")]


def _store(call: Call) -> list[Line]:
    return _set(call.world.values.setdefault(call.first, {}), call.body, KVS)


_NODE, _DFN, _GRP = "/v1/nodes/{n}", "/v1/resource-definitions/{r}", "/v1/resource-groups/{g}"
_RSC = f"{_DFN}/resources/{{n}}"
ROUTES: tuple[Route, ...] = (
    _route("GET", "/v1/controller/version", lambda _: {"version": "1.28.0", "rest_api_version": "1.23.0"}),
    _route("POST", "/v1/controller/properties", lambda one: _set(one.world.props, one.body, 4), 201),
    _route("GET", "/v1/nodes", lambda one: showing.nodes(one.world)),
    _route("GET", _NODE, lambda one: showing.node(one.world.node(one.first))),
    _route("PUT", _NODE, _modify_node),
    _route("POST", f"{_NODE}/net-interfaces", _add_interface, 201),
    _route("PUT", f"{_NODE}/evacuate", lambda one: protecting.evacuate(one.world, one.first, one.body)),
    _route("PUT", f"{_NODE}/restore", lambda one: protecting.restore_node(one.world, one.first, one.body)),
    _route("PUT", f"{_NODE}/reconnect", lambda one: _set(one.world.node(one.first).props, {}, NODE)),
    _route("DELETE", f"{_NODE}/lost", _lose),
    _route("PUT", "/v1/node-connections/{a}/{b}", _connect_nodes),
    _route("GET", "/v1/view/resources", lambda one: showing.resources(one.world, one.query)),
    _route("GET", "/v1/view/storage-pools", lambda one: showing.pools(one.world)),
    _route("GET", "/v1/view/snapshots", lambda one: showing.snapshots(one.world)),
    _route("GET", "/v1/resource-definitions",
           lambda one: [showing.definition(what) for what in one.world.definitions.values()]),
    _route("GET", _DFN, lambda one: showing.definition(one.world.definition(one.first))),
    _route("GET", f"{_DFN}/sync-status",
           lambda one: showing.sync_status(one.world, one.world.definition(one.first))),
    _route("POST", f"{_DFN}/autoplace", lambda one: placing.autoplace(
        one.world, one.world.definition(one.first), one.body.get("select_filter", {})), 201),
    _route("POST", _RSC, lambda one: placing.create_named(one.world, one.first, one.second, one.body), 201),
    _route("DELETE", _RSC, lambda one: placing.delete(one.world, one.first, one.second)),
    _route("POST", f"{_RSC}/make-available", _make_available),
    _route("PUT", f"{_RSC}/toggle-disk",
           lambda one: placing.toggle(one.world, one.first, one.second, one.body.get("storage_pool", ""))),
    _route("GET", f"{_DFN}/snapshots", lambda one: showing.snapshots(one.world, one.first)),
    _route("POST", f"{_DFN}/snapshots", lambda one: protecting.snapshot(
        one.world, one.first, one.body["name"], one.body.get("nodes") or []), 201),
    _route("DELETE", f"{_DFN}/snapshots/{{s}}",
           lambda one: protecting.drop_snapshot(one.world, one.first, one.second)),
    _route("POST", "/v1/actions/snapshot/multi",
           lambda one: protecting.snapshot_many(one.world, one.body), 201),
    _route("POST", f"{_DFN}/snapshot-rollback/{{s}}",
           lambda one: protecting.roll_back(one.world, one.first, one.second)),
    _route("POST", f"{_DFN}/snapshot-restore-volume-definition/{{s}}",
           lambda one: protecting.restore_definition(
               one.world, one.first, one.second, one.body["to_resource"])),
    _route("POST", f"{_DFN}/snapshot-restore-resource/{{s}}",
           lambda one: protecting.restore_resource(one.world, one.first, one.second, one.body)),
    _route("POST", f"{_DFN}/clone",
           lambda one: protecting.clone(one.world, one.first, one.body["name"]), 201),
    _route("GET", f"{_DFN}/clone/{{c}}",
           lambda one: protecting.clone_status(one.world, one.first, one.second)),
    _route("POST", "/v1/resource-groups", _create_group, 201),
    _route("POST", "/v1/resource-groups/adjustall", _adjust_all),
    _route("PUT", _GRP, lambda one: placing.modify_group(one.world, _group(one), one.body)),
    _route("POST", f"{_GRP}/spawn", _spawn, 201),
    _route("POST", f"{_GRP}/adjust",
           lambda one: placing.adjust(one.world, _group(one)) or _set({}, {}, RSC_GRP)),
    _route("GET", "/v1/key-value-store/{i}",
           lambda one: [{"name": one.first, "props": one.world.values.get(one.first, {})}]),
    _route("PUT", "/v1/key-value-store/{i}", _store),
)  # fmt: skip
