"""What proposed ConfigSets would do to hosts, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from nodemanager.api.maintenance.task_previews import PreviewedChange
from nodemanager.cli.fleet_preview import PreviewOutcome
from nodemanager.cli.views import output
from nodemanager.cli.views.output import Style
from nodemanager.fleet.previews.grouping import Group, Silence
from nodemanager.kube.wording import listed, plural

HOSTS: Final = 5
"""Hosts that are named of each group."""
MAX_REASON: Final = 400
_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


def lines(outcome: PreviewOutcome, style: Style) -> Iterator[str]:
    """Yield the outcome line by line."""
    if not outcome.proposal.fates:
        yield "No ConfigSet differs from what the API has; rollout and enforcement do not count."
        return
    fates = (f"{name} ({fate})" for name, fate in outcome.proposal.fates.items())
    yield output.one_line(f"ConfigSets: {', '.join(fates)}")
    result = outcome.result
    if not outcome.concerned:
        yield "No host has one of them, or would have one."
    told: set[tuple[str, str]] = set()
    for group in result.groups:
        yield from _group(group, style, told)
    if result.unchanged:
        yield from _named(result.unchanged, "nothing would change")
    yield from _silent(result.silent, "did not say")
    yield from _silent(outcome.left_out, "could not be chosen")
    if result.asked < outcome.concerned:
        hosts = plural(outcome.concerned, "host")
        yield f"It is about {hosts}, of which {result.asked} were asked; --all asks all of them."


def _group(group: Group, style: Style, told: set[tuple[str, str]]) -> Iterator[str]:
    preview = group.preview
    said = [f"{preview.blocked} that cannot be"] if preview.blocked else []
    if preview.changed or not said:
        said.insert(0, f"{plural(preview.changed, 'resource')} to change")
    yield from _named(group.hosts, ", ".join(said))
    for change in preview.changes:
        yield from (f"    {line}" for line in _change(change, style, told))
    if group.more:
        yield f"    ... and {plural(group.more, 'resource')} more"


def _named(hosts: tuple[str, ...], said: str) -> Iterator[str]:
    if len(hosts) == 1:
        yield output.one_line(f"{hosts[0]}: {said}")
        return
    yield output.one_line(f"{plural(len(hosts), 'host')}: {said}")
    yield f"  ({output.one_line(listed(hosts, HOSTS))})"


def _change(change: PreviewedChange, style: Style, told: set[tuple[str, str]]) -> Iterator[str]:
    """Yield what would become of a resource; a diff that was `told` of other hosts is not told again."""
    verb = "cannot" if change.blocked else change.verb
    name = style.paint(output.one_line(change.resource), "yellow" if change.blocked else "green")
    yield f"{name}  {output.one_line(verb)}: {output.one_line(change.reason, MAX_REASON)}"
    if not change.details:
        return
    if (change.resource, change.details) in told:
        yield "    (as above)"
        return
    told.add((change.resource, change.details))
    for line in change.details.split("\n"):
        yield "    " + style.paint(output.printable(line), _COLOURS.get(line[:1], ""))


def _silent(silent: Mapping[str, Silence], said: str) -> Iterator[str]:
    alike: dict[Silence, list[str]] = {}
    for host, why in silent.items():
        alike.setdefault(why, []).append(host)
    for why, hosts in alike.items():
        reason = f"{why.state}{f': {why.message}' if why.message else ''}"
        yield from _named(tuple(hosts), f"{said}, {reason}")


def plain(outcome: PreviewOutcome) -> dict[str, Any]:
    """Return the outcome for programs; every field is there, whatever its value."""
    result = outcome.result
    return {
        "configSets": [{"name": name, "fate": fate.value} for name, fate in outcome.proposal.fates.items()],
        "hosts": outcome.concerned,
        "asked": result.asked,
        "changed": result.changed,
        "exitCode": result.code,
        "groups": [_plain_group(group) for group in result.groups],
        "unchanged": list(result.unchanged),
        "silent": _plain(result.silent),
        "leftOut": _plain(outcome.left_out),
        "warnings": list(outcome.warnings),
    }


def _plain_group(group: Group) -> dict[str, Any]:
    said = group.preview
    return {
        "hosts": list(group.hosts),
        "digest": said.digest,
        "changed": said.changed,
        "blocked": said.blocked,
        "more": group.more,
        "changes": [msgspec.structs.asdict(one) for one in said.changes],
    }


def _plain(silent: Mapping[str, Silence]) -> list[dict[str, str]]:
    return [{"host": host, "state": why.state, "message": why.message} for host, why in silent.items()]
