"""The screen of `nodemanager health`: what is well is counted, what is not is named. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from nodemanager.api.edge import edgecluster
from nodemanager.api.edge.edgecluster import EdgeCluster, PartHealth
from nodemanager.cli.views import output
from nodemanager.cli.views.describe import edgecluster as describe_edgecluster
from nodemanager.cli.views.edge import agent_tables, node_tables
from nodemanager.cli.views.output import Style
from nodemanager.fleet import health
from nodemanager.fleet.health import (
    EVERYTHING,
    OK,
    ORDER,
    ROLLOUT,
    UNDERWAY,
    UNTOLD,
    UNWELL,
    FleetHealth,
    ObjectHealth,
)

KINDS: Final = {
    "EdgeCluster": "edge sites",
    "ManagedNode": "hosts",
    "ConfigSet": "sets",
    ROLLOUT: "rollouts",
    "NodeMaintenance": "maintenances",
}
MOST: Final = 12
"""How many objects of a kind are named, because a screen has an end."""
_WHY: Final = 320
"""How much of a reason is shown: two faults of a site in full, as agents report them."""
WIDE: Final = 120
"""From so many columns on, names have more room."""
_COLOURS: Final = {OK: "green", UNDERWAY: "blue", UNTOLD: "yellow", UNWELL: "red"}


def render(
    found: FleetHealth,
    clusters: Sequence[EdgeCluster],
    namespace: str,
    now: datetime,
    style: Style,
    width: int,
) -> str:
    """Return the whole screen, in so many columns."""
    head = style.paint(found.state.upper(), _COLOURS[found.state])
    lines = [f"{output.one_line(namespace)}: {head}", ""]
    counts = [_counts(words, found.of(kind)) for kind, words in KINDS.items() if found.of(kind)]
    if counts:
        columns = ["WHAT", "ALL", *(state.upper() for state in ORDER)]
        lines += [*output.TableWriter(columns).lines(counts), ""]
    others = list(dict.fromkeys(one.kind for one in found.objects if one.kind not in KINDS))
    rows = [row for kind in (*others, *KINDS) for row in _named(found.of(kind), now, width)]
    if rows:
        lines += [*output.TableWriter(["STATE", "WHAT", "IS", "SINCE", "WHY"], style).lines(rows), ""]
    for one in clusters:
        lines += [*_site(one, now, [row[-1] for row in rows]), ""]
    if not found.objects:
        lines = [*lines[:1], "there is nothing yet: no host, no set, no maintenance and no edge site"]
    return output.wrapped("\n".join(line.rstrip() for line in lines).rstrip(), width) + "\n"


def _counts(words: str, objects: Sequence[ObjectHealth]) -> list[str]:
    known = [one for one in objects if one.name != EVERYTHING]
    states = Counter(one.state for one in known)
    return [
        words,
        str(len(known)) if len(known) == len(objects) else "?",
        *(str(states[state] or "-") for state in ORDER),
    ]


def _named(objects: Sequence[ObjectHealth], now: datetime, width: int) -> list[list[str]]:
    name_most, word_most = (60, 30) if width >= WIDE else (34, 18)
    bad = sorted((one for one in objects if one.state != OK), key=lambda one: -ORDER.index(one.state))
    rows = [
        [
            one.state,
            output.one_line(f"{one.kind.lower()}/{one.name}", name_most),
            output.one_line(one.word, word_most) or "-",
            output.age(one.since, now) if one.since else "-",
            output.one_line(one.message, _WHY),
        ]
        for one in bad[:MOST]
    ]
    if len(bad) > MOST:
        rows.append(["...", f"and {len(bad) - MOST} more", "", "", ""])
    return rows


def _site(cluster: EdgeCluster, now: datetime, told: Collection[str]) -> list[str]:
    """Return what is said of a site beside what was told: its parts, and its nodes, unless all is old."""
    status, name = cluster.status, output.one_line(cluster.metadata.name)
    if edgecluster.is_old(status, now):
        return [f"{name}: what was seen last is not shown, as it is old; nodemanager describe ecl {name}"]
    why = output.one_line(health.site(cluster, now).message, _WHY)
    words = partial(_part, why if why in told else "")
    state = f"{status.observed.state or '?'}" if status.observed else "-"
    said = (
        f"state {state}, storage {words(status.storage)}, network {words(status.network)},"
        f" virtualisation {words(status.virtualisation)}; looked at {output.age(status.observed_at, now)} ago"
    )
    head = f"{name} ({status.source}): {said}"
    table = output.TableWriter(["NODE", "ROLE", "HEARTBEAT", "LAST", "AGENT", "TASKS", "MESSAGE"])
    lines = [head, *table.lines([describe_edgecluster.node_row(one, now) for one in status.nodes])]
    if by_agents := agent_tables.rows(status.nodes):
        lines += ["", *output.TableWriter(agent_tables.COLUMNS).lines(by_agents)]
    if beside := node_tables.rows(status.nodes):
        lines += ["", *output.TableWriter(node_tables.COLUMNS).lines(beside)]
    return lines


def _part(told: str, part: PartHealth | None) -> str:
    """Return how a part is; why, unless that was told above."""
    if part is not None and part.said and part.said in told:
        return part.state
    return describe_edgecluster.part_words(part)
