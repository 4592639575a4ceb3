"""`nodemanager audit verify`, `prove` and `export`: evidence that others can check."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from nodemanager.cli import audit_log
from nodemanager.cli.audit_log import CLUSTER, LogSource
from nodemanager.cli.settings import connect
from nodemanager.cli.views import forms, output
from nodemanager.fleet.audit import diagnosing, proving
from nodemanager.fleet.audit.chain_merging import Alarm
from nodemanager.fleet.audit.diagnosing import AuditFinding
from nodemanager.fleet.audit.told_chains import ToldChains
from nodemanager.fleet.audit.verifying import VerificationReport, Verifier
from nodemanager.kube import errors, times
from nodemanager.kube.wording import plural

BENT: Final = 1
"""How `verify` ends when something is not as it was signed."""


@click.command(
    epilog="""\b
Examples:
  nodemanager audit verify                              what is in the cluster
  nodemanager audit verify evidence.jsonl --key 'nodemanager/prod/1a2b3c4d+c74f20a3+ARpc2Q...'
  nodemanager audit verify /backup/audit --checkpoint noted.txt --witness witness.vkey
\b
It ends with 0 if all is as it was signed, with 1 if something was bent (or the chain of a host was), with 2
for a wrong command line.
"""
)
@click.argument("where", default=CLUSTER, metavar="[FILE|FOLDER|cluster]")
@click.option("--key", "trusted", multiple=True, metavar="KEY",
              help="The public key that you noted, or a file with it.")  # fmt: skip
@click.option("--checkpoint", "kept", multiple=True,
              type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="A checkpoint that you kept: the log must go on from it.")  # fmt: skip
@click.option("--witness", "witnesses", multiple=True, metavar="KEY",
              help="The key of a witness, whose cosignature must be there.")  # fmt: skip
@connect.options(namespaced=True)
@forms.option("text")
def verify(
    where: str,
    trusted: tuple[str, ...],
    kept: tuple[Path, ...],
    witnesses: tuple[str, ...],
    settings: connect.Settings,
    form: str,
) -> None:
    """Check that a log is what the operator signed, and name what is not.

    A log that was cut off at its end looks like a shorter one: give a checkpoint that you kept, too. Hosts
    whose own chains are not what they told before are named, until somebody accepts that.
    """
    source = audit_log.source(where, settings)
    kept_notes = [path.read_text(encoding="utf-8") for path in kept]
    known, forks = _expected([source.newest, *kept_notes])
    seen_by = audit_log.keys(witnesses)
    verifier = Verifier(audit_log.keys(trusted), seen_by, known)
    chains = ToldChains()
    verifier.feed(chains.passing(source.lines))
    report = verifier.finish()
    report.findings += forks
    for note in kept_notes:
        report.note_witnesses(note, seen_by)
    unseen = [f"a checkpoint of {size} records: those are gone" for size in known if size < report.first]
    if where == CLUSTER:
        unseen += _compare_hosts(chains, settings)
    missing = [key.name for key in seen_by if key.name not in report.witnessed]
    alarms = chains.alarms()
    if form != "text":
        click.echo(forms.dump(_plain(report, missing, alarms) | {"notCompared": unseen}, form), nl=False)
    else:
        _tell(source, report, missing, alarms)
        for said in unseen:
            click.echo(output.one_line(f"not compared: {said}"))
    if not report.intact or missing or alarms:
        sys.exit(BENT)


def _expected(kept: list[str]) -> tuple[dict[int, bytes], list[AuditFinding]]:
    """Return roots by size of checkpoints, and where two of these contradict each other."""
    known: dict[int, bytes] = {}
    forks = []
    for note in kept:
        for size, root in audit_log.expected(note).items():
            if known.setdefault(size, root) != root:
                said = f"two checkpoints of {size} records that were kept have different roots"
                forks.append(AuditFinding(diagnosing.FORKED, 0, size - 1, said))
    return known, forks


def _compare_hosts(chains: ToldChains, settings: connect.Settings) -> list[str]:
    """Judge what hosts tell now; return why that cannot be: whoever checks a log may have no right to it."""
    try:
        chains.compare(asyncio.run(audit_log.hosts(settings)), datetime.now(UTC))
    except errors.Forbidden as error:
        return [f"what hosts tell of their chains now: {error}"]
    return []


def _tell(
    source: LogSource, report: VerificationReport, missing: list[str], alarms: dict[str, Alarm]
) -> None:
    for host, alarm in sorted(alarms.items()):
        click.echo(output.one_line(f"the chain of host {host}: {alarm.verdict}: {alarm.message}"))
    for one in report.findings:
        click.echo(output.one_line(str(one)))
    for name in missing:
        click.echo(f"no witness: {name} has cosigned none of the checkpoints")
    count = report.size - report.first
    state = "intact" if report.intact and not missing else "NOT INTACT"
    click.echo(
        f"{state}: {plural(count, 'record')} from {report.first} on in {source.name},"
        f" {report.signed} of {report.size} signed, {plural(report.checkpoints, 'checkpoint')}"
    )
    for key in report.keys:
        click.echo(f"signed by {output.one_line(key)}")
    for name, seconds in report.witnessed.items():
        click.echo(f"witnessed by {name} at {times.rfc3339_unix(seconds)}")
    if report.assumed:
        click.echo(
            "the key is what the log itself says: compare it with the one that you noted, or give --key"
        )


def _plain(report: VerificationReport, missing: list[str], alarms: dict[str, Alarm]) -> dict[str, Any]:
    return {
        "intact": report.intact and not missing,
        "first": report.first,
        "size": report.size,
        "signed": report.signed,
        "checkpoints": report.checkpoints,
        "keys": report.keys,
        "keyAssumed": report.assumed,
        "witnessed": {name: times.rfc3339_unix(at) for name, at in report.witnessed.items()},
        "missingWitnesses": missing,
        "hosts": [
            {"host": host, "verdict": alarm.verdict, "message": alarm.message}
            for host, alarm in sorted(alarms.items())
        ],
        "findings": [
            {"kind": one.kind, "first": one.first, "last": one.last, "message": one.message}
            for one in report.findings
        ],
    }


@click.command(
    epilog="""\b
Examples:
  nodemanager audit prove 1234 > proof.json
  nodemanager audit prove 1234 --file evidence.jsonl
"""
)
@click.argument("number", type=click.IntRange(min=0), metavar="N")
@click.option(
    "--file", "where", default=CLUSTER, metavar="FILE", help="Read an export instead of the cluster."
)
@connect.options(namespaced=True)
def prove(number: int, where: str, settings: connect.Settings) -> None:
    """Print a proof that a record is in the log: the record, a signed checkpoint, and the path of hashes.

    Others check it with any tool for RFC 6962 trees and C2SP checkpoints. The whole log is needed to make it.
    """
    try:
        found = proving.prove(audit_log.source(where, settings).lines, number)
    except proving.NoProof as error:
        raise click.ClickException(str(error)) from None
    click.echo(forms.dump(found, "json"), nl=False)


@click.command(
    epilog="""\b
Examples:
  nodemanager audit export evidence.jsonl
  nodemanager audit export - | gzip > evidence.jsonl.gz
"""
)
@click.argument("target", type=click.File("wb", lazy=True, atomic=True), metavar="FILE")
@connect.options(namespaced=True)
def export(target: Any, settings: connect.Settings) -> None:
    """Write the whole log of a namespace as one file, which `verify` reads: JSON lines and checkpoints."""
    for line in asyncio.run(audit_log.of_cluster(settings)).lines:
        target.write(line + b"\n")
