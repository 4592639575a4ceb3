"""`nodemanager maintenance list`: how far all maintenances are."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.cli import kinds
from nodemanager.cli.maintenance import objects
from nodemanager.cli.settings import connect
from nodemanager.cli.views import forms, output
from nodemanager.cli.views.maintenance import progress
from nodemanager.client.calls import Selection

BAR: Final = 12


@click.command(
    "list",
    epilog="""\b
Examples:
  nodemanager maintenance list
  nodemanager maintenance list -A            of all namespaces
  nodemanager maintenance list -o json | jq '.items[].status.phase'
  nodemanager get nmaint -w                  every change from now on
""",
)
@connect.options(namespaced=True)
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Of all namespaces, not of one.")
@forms.option("table")
def command(settings: connect.Settings, everywhere: bool, form: str) -> None:
    """List maintenances: phase, hosts done of how many, window, and when something is due next."""
    objects.run(_list(settings, everywhere, form))


async def _list(settings: connect.Settings, everywhere: bool, form: str) -> None:
    where = Selection("" if everywhere else settings.namespace)
    async with connect.connect(settings) as client:
        with kinds.installed(NODE_MAINTENANCES):
            if form != "table":
                click.echo(forms.dump(_whole(await _untyped(client, where)), form), nl=False)
                return
            found = (await client.list(NODE_MAINTENANCES, where)).items
    if not found:
        click.echo(
            f"No maintenances found{'' if everywhere else f' in {settings.namespace} namespace'}.", err=True
        )
        return
    style = output.Style.of(sys.stdout, os.environ)
    for line in lines(found, datetime.now(UTC), style, namespaces=everywhere, bars=sys.stdout.isatty()):
        click.echo(line)


async def _untyped(client: Any, where: Selection) -> Sequence[Any]:
    return list((await client.list(NODE_MAINTENANCES.untyped(), where)).items)


def _whole(items: Sequence[Any]) -> dict[str, Any]:
    about = {"apiVersion": NODE_MAINTENANCES.api_version, "kind": NODE_MAINTENANCES.kind}
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""},
            "items": [{**about, **one} for one in items]}  # fmt: skip


def lines(
    found: Sequence[NodeMaintenance],
    now: datetime,
    style: output.Style = output.PLAIN,
    *,
    namespaces: bool = False,
    bars: bool = False,
) -> list[str]:
    """Return the table; with bars it is for a terminal."""
    headers = ["NAME", "PHASE", "HOSTS", "FAILED", "WINDOW", "NEXT"]
    rows = [_row(one, now, bars=bars) for one in found]
    if namespaces:
        headers = ["NAMESPACE", *headers]
        rows = [[one.metadata.namespace, *row] for one, row in zip(found, rows, strict=True)]
    return output.TableWriter(headers, style).lines(rows)


def _row(one: NodeMaintenance, now: datetime, *, bars: bool) -> list[str]:
    status = one.status
    hosts = progress.hosts(status.hosts)
    if bars and status.hosts is not None:
        hosts = f"{progress.bar(status.hosts, BAR)} {hosts}"
    return [
        one.metadata.name,
        status.phase or "Pending",
        hosts,
        str(status.hosts.failed) if status.hosts is not None else "-",
        progress.window(status.window, now),
        progress.until(status.next_run, now),
    ]
