"""`nodemanager maintenance plan`: which host comes when, what happens to it, and what it waits for."""

from __future__ import annotations

from typing import Final

import click

from nodemanager.cli.maintenance import judging, objects, reading
from nodemanager.cli.maintenance.judged import Judged
from nodemanager.cli.maintenance.reading import Surroundings
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
        judged, around = await read(client, settings.namespace, name, "plan")
    if form != "table":
        click.echo(forms.dump(plan_table.plain(judged, around.found.unread), form), nl=False)
        return
    show(judged, around, limit)


async def read(client: Client, namespace: str, name: str, doing: str) -> tuple[Judged, Surroundings]:
    """Return what is decided about a maintenance, and what from."""
    found = await objects.get(client, name, namespace, doing)
    around = await reading.surroundings(client, namespace, [found])
    return judging.judge(found, around), around


def show(judged: Judged, around: Surroundings, limit: int = SHOWN) -> None:
    """Print a plan for people."""
    for said in around.found.unread:
        click.echo(f"warning: {output.one_line(said)}", err=True)
    click.echo(output.wrapped(plan_table.text(judged, around.now, limit), output.terminal_width()))
