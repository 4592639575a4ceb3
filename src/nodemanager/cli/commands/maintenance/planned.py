"""`nodemanager maintenance plan`: which host comes when, what happens to it, and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

import click

from nodemanager.cli.maintenance import draining, judging, objects, reading
from nodemanager.cli.maintenance.draining import Leaving
from nodemanager.cli.maintenance.judged import Judged
from nodemanager.cli.settings import connect
from nodemanager.cli.views import forms, output
from nodemanager.cli.views.maintenance import plan_table
from nodemanager.client.verbs import Client

SHOWN: Final = 50
"""Hosts that a person is shown unless he asks for all."""


@click.command(
    "plan",
    epilog="""\b
Examples:
  nodemanager maintenance plan monday
  nodemanager maintenance plan monday --all
  nodemanager maintenance plan monday -o json | jq -r .hash
\b
Times are UTC. Ends are expected by how long hosts took before, ten minutes
where nobody knows.
""",
)
@objects.NAME
@click.option("-a", "--all", "everything", is_flag=True, help=f"Show all hosts, not only the first {SHOWN}.")
@connect.options(namespaced=True)
@forms.option("table")
def command(name: str, everything: bool, settings: connect.Settings, form: str) -> None:
    """Show the run under way, or the next one: order of hosts, disruption, expected times, why each waits.

    It is worked out here, by what the operator decides with, from what you may read. Nothing is changed.
    """
    objects.run(_plan(settings, name, form, 0 if everything else SHOWN))


async def _plan(settings: connect.Settings, name: str, form: str, limit: int) -> None:
    async with connect.connect(settings) as client:
        found = await read(client, settings.namespace, name, "plan")
    if form != "table":
        click.echo(forms.dump(plan_table.plain(found.judged, found.leaving, found.unread), form), nl=False)
        return
    show(found, limit)


class Shown(NamedTuple):
    """What there is to show of a plan."""

    judged: Judged
    now: datetime
    leaving: Mapping[str, Leaving]
    unread: tuple[str, ...]


async def read(client: Client, namespace: str, name: str, doing: str) -> Shown:
    """Return what is decided about a maintenance, and what its drains would meet."""
    found = await objects.get(client, name, namespace, doing)
    around = await reading.surroundings(client, namespace, [found])
    judged = judging.judge(found, around)
    leaving, unread = await draining.leaving(client, judged, around)
    return Shown(judged, around.now, leaving, (*around.found.unread, *unread))


def show(found: Shown, limit: int = SHOWN) -> None:
    """Print a plan for people."""
    for said in found.unread:
        click.echo(f"warning: {output.one_line(said)}", err=True)
    text = plan_table.text(found.judged, found.now, found.leaving, limit)
    click.echo(output.wrapped(text, output.terminal_width()))
