"""`nodemanager audit log` and `show`: what is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import Record
from nodemanager.cli import audit_log
from nodemanager.cli.settings import connect
from nodemanager.cli.settings.durations import Duration
from nodemanager.cli.views import forms, output
from nodemanager.fleet.audit import evidence, searching
from nodemanager.fleet.audit.searching import RecordQuery

FILE: Final = click.option(
    "--file", "path", type=click.Path(path_type=Path, exists=True),
    help="Read an export, a file or a folder, instead of the cluster.",
)  # fmt: skip
_MARKS: Final = (evidence.KEY, evidence.SEGMENT, evidence.CHECKPOINT)


@click.command(
    epilog="""\b
Examples:
  nodemanager audit log
  nodemanager audit log --host web1 --since 24h
  nodemanager audit log --object nodemaintenance/kernel --reason WindowClosed
  nodemanager audit log --actor ada -o json
"""
)
@click.option("--host", default="", metavar="NAME", help="Only what is about this host.")
@click.option("--actor", default="", metavar="NAME", help="Only what this user, program or host did.")
@click.option("--object", "about", default="", metavar="[KIND/]NAME", help="Only what is about this object.")
@click.option("--reason", default="", metavar="CODE", help="Only records with this reason code.")
@click.option("--verb", default="", metavar="VERB", help="Only records of this verb, such as start.")
@click.option("--since", type=Duration(0), help="Only what is not older, such as 24h.")
@FILE
@connect.options(namespaced=True)
@forms.option("table")
def log(
    host: str,
    actor: str,
    about: str,
    reason: str,
    verb: str,
    since: float | None,
    path: Path | None,
    settings: connect.Settings,
    form: str,
) -> None:
    """List records, the oldest first.

    Whether they are as they were written, `nodemanager audit verify` tells.
    """
    begin = datetime.now(UTC) - timedelta(seconds=since) if since is not None else None
    question = RecordQuery(host, actor, about, reason, verb, begin)
    found = searching.found(_records(_source(path, settings)), question)
    if form == "table":
        rows = [_row(one) for one in found]
        output.TableWriter(["SEQ", "TIME", "WHO", "VERB", "OBJECT", "HOST", "WHAT"]).write(rows)
    else:
        click.echo(forms.dump([_plain(one) for one in found], form), nl=False)


@click.command(
    epilog="""\b
Examples:
  nodemanager audit show 1234
  nodemanager audit show 1234 --file evidence.jsonl -o json
"""
)
@click.argument("number", type=click.IntRange(min=0), metavar="N")
@FILE
@connect.options(namespaced=True)
@forms.option("text")
def show(number: int, path: Path | None, settings: connect.Settings, form: str) -> None:
    """Tell all about one record."""
    one = next((each for each in _records(_source(path, settings)) if each.sequence == number), None)
    if one is None:
        raise click.ClickException(
            f"cannot show record {number}: it is not there; `nodemanager audit log` lists those that are"
        )
    plain = _plain(one)
    if form != "text":
        click.echo(forms.dump(plain, form), nl=False)
        return
    report = output.Report()
    for name, value in plain.items():
        told = value if isinstance(value, str) else records.canonical(value).decode()
        report.field(name, output.one_line(told))
    click.echo(report.text())


def _source(path: Path | None, settings: connect.Settings) -> audit_log.LogSource:
    return audit_log.of_path(path) if path is not None else asyncio.run(audit_log.of_cluster(settings))


def _records(source: audit_log.LogSource) -> Iterator[Record]:
    for line in source.lines:
        if not line.startswith(_MARKS):
            try:
                yield records.decode(line)
            except records.BadRecord as error:
                raise click.ClickException(
                    f"{error}; {source.name} is damaged: see what `nodemanager audit verify` says"
                ) from None


def _row(one: Record) -> list[str]:
    about = f"{one.object.kind}/{one.object.name}" if one.object.name else "-"
    what = " ".join(part for part in (one.aspect, one.reason, one.to) if part)
    who = one.actor.name or "<unknown>"
    known = "" if one.actor.known in (records.ADMISSION, records.UNKNOWN) else f" ({one.actor.known})"
    return [str(one.sequence), one.time[:19], f"{who}{known}", one.verb, about, one.host or "-", what]


def _plain(one: Record) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(one)
    return found
