"""What templates make on given hosts, as their agents would render them, without any API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.desired_state import DesiredStateCache
from nodemanager.agent.report.host_inspector import PRIVATE, PUBLIC
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.plan.desired import Desired, Failure
from nodemanager.plan.lint.findings import Finding
from nodemanager.rendering.renderer import Rendering

_WHY: Final = re.compile(r"cannot render (?:\S+): (?:line (\d+)(?:, column (\d+))?: )?(.*)", re.DOTALL)
_OF_DATA: Final = re.compile(r"cannot use (?:\S+ \S+) as data|does not exist, .* is part of its data;")
_MISSING: Final = re.compile(r"(Secret|ConfigMap) (\S+) does not exist")


async def findings(
    inputs: DeclaredInputs,
    nodes: Sequence[ManagedNode],
    made_elsewhere: AbstractSet[str],
    renderer: Rendering,
) -> list[Finding]:
    """Return what cannot be rendered, each once, with the hosts where that is so."""
    given = replace(inputs, secrets={**_keys(inputs.nodes), **inputs.secrets})
    found: dict[Finding, list[str]] = {}
    for node in nodes:
        sets = given.matching(node)
        if not sets:
            continue
        state = await DesiredStateCache(Contenter(renderer)).make(sets, given, node)
        for path, made in state.contents.items():
            if isinstance(made, Failure):
                for one in _failed(given, state.desired, path, made.message, made_elsewhere):
                    found.setdefault(one, []).append(node.metadata.name)
    return [replace(one, message=f"{one.message} (on {_named(hosts)})") for one, hosts in found.items()]


def _failed(
    inputs: DeclaredInputs, desired: Desired, path: str, message: str, made_elsewhere: AbstractSet[str]
) -> Iterator[Finding]:
    said = _WHY.fullmatch(message)
    line, column, why = said.groups() if said else (None, None, message)
    missing = _MISSING.search(why)
    if missing and missing[1] == "Secret" and missing[2] in made_elsewhere:
        return
    if _OF_DATA.search(why):
        return  # it is told of the layer, or of who refers to it
    sources = next((item.sources for item in desired.files if item.declaration.path == path), ())
    for one in inputs.config_sets:
        if one.metadata.name not in sources:
            continue
        for place, file in enumerate(one.spec.files):
            if missing and missing[2] in (*file.secret_refs, *file.config_map_refs):
                continue  # that can be told without a host, and is
            if file.path == path:
                yield Finding(
                    "missing-reference" if missing else "template-render",
                    "warning" if missing else "error",
                    CONFIG_SETS.kind,
                    one.metadata.name,
                    ("spec", "files", place, "template"),
                    f"{path}: {missing[1]} {missing[2]} is not declared here"
                    if missing
                    else f"{path}: {why}",
                    int(line) if line and not missing else None,
                    int(column) if column and not missing else None,
                )


def _keys(nodes: Sequence[ManagedNode]) -> dict[str, dict[str, bytes]]:
    """Return the Secrets that agents make for WireGuard, with something in place of keys."""
    found = {}
    for node in nodes:
        if (guard := node.spec.wire_guard) is not None and guard.enabled:
            found[f"wg-{guard.interface}-{node.metadata.name}"] = {PRIVATE: b"KEY", PUBLIC: b"KEY"}
    return found


def _named(hosts: Sequence[str]) -> str:
    more = len(hosts) - 1
    return f"host {hosts[0]}" + (f" and {more} more" if more else "")
