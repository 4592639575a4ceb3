"""`nodemanager audit host`: what was done on this very host, by its own chain, without any API."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import msgspec

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import Record
from nodemanager.api.common.audit_chain import AuditChain
from nodemanager.cli import audit_log
from nodemanager.cli.settings.command_group import CommandGroup
from nodemanager.cli.settings.host_options import ROOT
from nodemanager.cli.views import forms, output
from nodemanager.fleet.audit import host_chains
from nodemanager.fleet.audit.told_chains import ToldChains
from nodemanager.host.state.host_chain import HostChain
from nodemanager.kube.wording import plural


@click.group(
    "host",
    cls=CommandGroup,
    epilog="""\b
Examples:
  sudo nodemanager audit host log                  what was done on this host, and by whom
  sudo nodemanager audit host verify               is all as it was written?
  sudo nodemanager audit host verify --anchor 120:9f2c...   and as the API was told?
""",
)
def host() -> None:
    """See what was done on this host, by its own chain; it needs no API."""


@host.command(
    epilog="""\b
Examples:
  sudo nodemanager audit host log              the last 50 records
  sudo nodemanager audit host log -n 0 -o json    all of them, whole
""",
)
@click.option("-n", "count", type=click.IntRange(0), default=50, show_default=True, metavar="NUMBER",
              help="How many of the newest; 0 = all.")  # fmt: skip
@forms.option("table")
@ROOT
def log(count: int, form: str, root: str) -> None:
    """List what was done on this host, oldest first."""
    lines = [line for part in _read(root) for line in part][-count:]
    found = [one for line in lines if (one := records.decoded(line)) is not None]
    if form != "table":
        click.echo(forms.dump([_plain(one) for one in found], form), nl=False)
        return
    if not found:
        click.echo("nothing was recorded on this host", err=True)
        return
    rows = [
        [str(one.sequence), one.time, output.one_line(_who(one)), one.verb, output.one_line(_what(one), 80)]
        for one in found
    ]
    output.TableWriter(["RECORD", "TIME", "BY", "VERB", "WHAT"]).write(rows)


@host.command(
    epilog="""\b
Examples:
  sudo nodemanager audit host verify
  kubectl get managednode web1 -o jsonpath='{.status.auditChain.size}:{.status.auditChain.head}'
  sudo nodemanager audit host verify --anchor 120:9f2c...
  sudo nodemanager audit host verify --log evidence.jsonl    and as the log of the fleet has it?
""",
)
@click.option("--log", "kept", type=click.Path(path_type=Path, exists=True), metavar="FILE",
              help="An export of the audit log: compare with all that it has of this host.")  # fmt: skip
@click.option("--node", default="", metavar="NAME",
              help="The ManagedNode of this host in that log, if its chain does not say.")  # fmt: skip
@click.option("--anchor", default="", metavar="SIZE:HEAD",
              help="How far the chain was as the status of the ManagedNode tells, or told.")  # fmt: skip
@ROOT
def verify(kept: Path | None, node: str, anchor: str, root: str) -> None:
    """Check that the records of this host follow on each other, and name those that do not.

    Exit code 0: all is as it was written. 1: something was altered, dropped or put elsewhere.
    """
    old, new = _read(root)
    found = host_chains.check(old, new, _anchor(anchor, [*old, *new]))
    compared = ""
    if not found and kept is not None:
        ends = _told_in(kept, node or _name([*new, *old]))
        found = host_chains.compare(ends, [*old, *new])
        compared = f", as the log has them at {len(ends)} places"
    for one in found:
        click.echo(output.one_line(str(one)))
    if found:
        raise click.exceptions.Exit(1)
    count = len(old) + len(new)
    said = (
        f"{plural(count, 'record')}, and all follow on each other{compared}"
        if count
        else "nothing was recorded on this host"
    )
    click.echo(said)


def _read(root: str) -> tuple[list[bytes], list[bytes]]:
    chain = HostChain(root)
    try:
        return chain.read()
    except FileNotFoundError:
        return [], []
    except PermissionError as error:
        raise click.ClickException(f"cannot read {chain.shown}: only root may, so use sudo") from error
    finally:
        chain.close()


def _name(lines: list[bytes]) -> str:
    """Return which host a chain is of, by the first record of a file."""
    named = [
        one.object.name
        for line in lines[:1]
        if (one := records.decoded(line)) is not None and one.object.name
    ]
    if not named:
        raise click.UsageError("the chain does not say which ManagedNode it is of: give --node NAME")
    return named[0]


def _told_in(path: Path, name: str) -> list[AuditChain]:
    """Return what a log has of the chain of a host."""
    told = ToldChains(name)
    for _ in told.passing(audit_log.of_path(path).lines):
        pass
    if not told.ends:
        raise click.ClickException(
            f"cannot compare with {path}: it has nothing of a chain of host {name}; --node names another one"
        )
    return told.ends


def _anchor(text: str, lines: list[bytes]) -> AuditChain | None:
    if not text:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,15}:[0-9a-f]{64}", text):
        raise click.UsageError(f"--anchor {text!r} is not SIZE:HEAD, as the status of the ManagedNode has it")
    size, _, head = text.partition(":")
    first = records.decoded(lines[0]) if lines else None
    return AuditChain(id=first.object.uid if first else "", size=int(size), head=head)


def _plain(one: Record) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(one)
    return found


def _who(one: Record) -> str:
    return f"{one.actor.name} ({one.actor.claimed})" if one.actor.claimed else one.actor.name


def _what(one: Record) -> str:
    about = f"{one.object.kind} {one.object.name}".strip()
    parts = (about, one.aspect if one.aspect != "resources" else "", one.to, one.message)
    text = ": ".join(part for part in parts if part)
    return f"{text} ({one.count} times)" if one.count > 1 and one.verb == "repair" else text
