"""`nodemanager rollout history`, `diff` and `status`: what a ConfigSet said, and how far a change is."""

from __future__ import annotations

import asyncio
import difflib
from datetime import UTC, datetime
from typing import Any, Final

import click

from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import ConfigSetRevision
from nodemanager.api.common.rollout import PAUSED, STABLE, UNDONE, RolloutStatus
from nodemanager.cli import rollout_objects
from nodemanager.cli.rollout_objects import KnownSet
from nodemanager.cli.settings import connect
from nodemanager.cli.settings.durations import Duration
from nodemanager.cli.views import forms, output, rollout_view
from nodemanager.fleet.rollout.reasons import RolloutReason
from nodemanager.kube import manifests

LOOK_SECONDS: Final = 1.0


@click.command(
    epilog="""\b
Examples:
  nodemanager rollout history web
  nodemanager rollout history web --revision 3    what that one said
  nodemanager rollout history web -o json
"""
)
@rollout_objects.NAME
@click.option("--revision", "number", type=click.IntRange(min=1), help="Show what this revision said.")
@connect.options(namespaced=True)
@forms.option("table")
def history(name: str, number: int | None, settings: connect.Settings, form: str) -> None:
    """List the revisions of a ConfigSet, or show one.

    As many are kept as spec.revisionHistoryLimit says, and those that some host has.
    """
    asyncio.run(_history(name, number, settings, form))


async def _history(name: str, number: int | None, settings: connect.Settings, form: str) -> None:
    async with connect.connect(settings) as client:
        found = await rollout_objects.known(client, settings, name, "tell the history of")
    if number is not None:
        one = found.numbered(number, "show")
        shown = {"labels": one.spec.labels, "spec": one.spec.content}
        click.echo(forms.dump(shown, "yaml" if form == "table" else form), nl=False)
    elif form != "table":
        click.echo(forms.dump([_plain(found, one) for one in found.revisions], form), nl=False)
    else:
        now = datetime.now(UTC)
        rows = [_row(found, one, now) for one in found.revisions]
        output.TableWriter(["REVISION", "AGE", "BY", "STATE", "CHANGE"]).write(rows)


def _plain(found: KnownSet, one: ConfigSetRevision) -> dict[str, Any]:
    by, spec = one.spec.changed_by, one.spec
    return {
        "revision": spec.revision, "name": one.metadata.name, "digest": spec.digest,
        "state": _state(found, one), "created": one.metadata.creation_timestamp,
        "changedBy": (by.name or by.manager) if by else "", "changedByKnown": by.known if by else "",
        "changedAt": by.time if by else None, "change": spec.change,
    }  # fmt: skip


def _row(found: KnownSet, one: ConfigSetRevision, now: datetime) -> list[str]:
    by = str(one.spec.changed_by) if one.spec.changed_by else ""
    age = output.age(one.metadata.creation_timestamp, now)
    return [str(one.spec.revision), age, by or "<unknown>", _state(found, one), one.spec.change or "<none>"]


def _state(found: KnownSet, one: ConfigSetRevision) -> str:
    status = found.config_set.status.rollout
    named = (("stable", status.stable), ("next", status.next), ("undone", status.refused)) if status else ()
    return ",".join(word for word, ref in named if ref and ref.name == one.metadata.name) or "-"


@click.command(
    epilog="""\b
Examples:
  nodemanager rollout diff web                    what the newest revision changes
  nodemanager rollout diff web --revision 3       what revision 3 changed
  nodemanager rollout diff web --from 1 --revision 3
"""
)
@rollout_objects.NAME
@click.option("--revision", "number", type=click.IntRange(min=1), help="The newer one. Default: the newest.")
@click.option("--from", "old", type=click.IntRange(min=1), help="The older one. Default: what was stable.")
@connect.options(namespaced=True)
def diff(name: str, number: int | None, old: int | None, settings: connect.Settings) -> None:
    """Show what one revision of a ConfigSet says otherwise than another."""
    asyncio.run(_diff(name, number, old, settings))


async def _diff(name: str, number: int | None, old: int | None, settings: connect.Settings) -> None:
    async with connect.connect(settings) as client:
        found = await rollout_objects.known(client, settings, name, "compare revisions of")
    newest = found.newest
    if newest is None:
        raise click.ClickException(
            f"cannot compare revisions of {name}: it has none yet; see whether an operator runs"
        )
    new = found.numbered(number, "compare revisions of") if number is not None else newest
    base = found.numbered(old, "compare revisions of") if old is not None else found.before(new.spec.revision)
    show_diff(name, base, new)


def show_diff(name: str, base: ConfigSetRevision | None, new: ConfigSetRevision) -> None:
    """Show what a revision says otherwise than another one."""
    for line in difflib.unified_diff(
        _lines(base), _lines(new), _title(name, base), _title(name, new), lineterm=""
    ):
        click.echo(output.printable(line))


def _lines(one: ConfigSetRevision | None) -> list[str]:
    if one is None:
        return []
    return manifests.dump([{"labels": one.spec.labels, "spec": one.spec.content}]).splitlines()


def _title(name: str, one: ConfigSetRevision | None) -> str:
    return f"{name} revision {one.spec.revision}" if one else "nothing"


@click.command(
    epilog="""\b
Examples:
  nodemanager rollout status web                  wait for its end
  nodemanager rollout status web --timeout 10m    at most so long
  nodemanager rollout status web --no-watch       only how far it is now
"""
)
@rollout_objects.NAME
@click.option("--watch/--no-watch", default=True, show_default=True, help="Wait for the end.")
@click.option("--timeout", type=Duration(least=0), default="0", help="Give up after so long; 0 = never.")
@connect.options(namespaced=True)
def status(name: str, watch: bool, timeout: float, settings: connect.Settings) -> None:
    """Tell how far the newest change is; ends with 1 if it stopped or was undone."""
    raise click.exceptions.Exit(asyncio.run(_status(name, watch, timeout, settings)))


async def _status(name: str, watch: bool, timeout: float, settings: connect.Settings) -> int:
    said = ""
    try:
        async with asyncio.timeout(timeout or None), connect.connect(settings) as client:
            while True:
                found = await rollout_objects.get(client, settings, name, "tell the rollout of")
                if (news := rollout_view.words(found)) != said:
                    click.echo(output.one_line(news))
                    said = news
                if not watch or is_over(found):
                    return int(failed(found.status.rollout))
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise click.ClickException(
            f"cannot wait any longer for the rollout of {name}: it is not over after {timeout:g} s; {said}"
        ) from None


def failed(status: RolloutStatus | None) -> bool:
    """Tell whether a rollout ended otherwise than it should."""
    if status is None:
        return False
    ended = status.phase == UNDONE or (status.phase == PAUSED and status.reason == RolloutReason.STOPPED)
    return ended or status.reason == RolloutReason.HOSTS_NOT_RETURNED


def is_over(config_set: ConfigSet) -> bool:
    """Tell whether nothing more happens by itself."""
    status = config_set.status.rollout
    if status is None or status.observed_generation < config_set.metadata.generation:
        return False
    refs = (status.stable, status.next, status.refused)
    current = next((one for one in refs if one is not None and one.name == status.current), None)
    if current is not None and current.labels != config_set.metadata.labels:
        return False  # other labels are a change, too, and make no generation
    return status.phase == STABLE or failed(status)
