"""`nodemanager health`: how sites, hosts, sets, rollouts and maintenances are, with a code for monitoring."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from typing import Final, NoReturn

import click
import msgspec

from nodemanager.cli.commands.health import reading
from nodemanager.cli.settings import connect
from nodemanager.cli.settings.durations import Duration
from nodemanager.cli.views import forms, output
from nodemanager.cli.views.health import screen
from nodemanager.client.verbs import Client
from nodemanager.fleet import health
from nodemanager.fleet.health import FleetHealth, FleetSnapshot
from nodemanager.kube import errors

CODES: Final = {health.OK: 0, health.UNDERWAY: 0, health.UNWELL: 2, health.UNTOLD: 3}
_OUTAGES: Final = (
    errors.TransportError,
    errors.TooManyRequests,
    errors.InternalError,
    errors.ServiceUnavailable,
    errors.ServerTimeout,
    errors.Gone,
)
"""What passes."""
HOME: Final = "\x1b[H\x1b[J"
"""Moves to the top left of a terminal, and empties what is below."""


@click.command(
    epilog="""\b
Examples:
  nodemanager health                       how everything in the namespace is
  nodemanager health --watch               and how that changes, until Ctrl-C
  nodemanager health -o json | jq .state   for programs
\b
Exit codes:
  0  all is well, or on its way
  1  the API cannot be asked
  2  something is unwell (also: wrong usage)
  3  nothing is known to be unwell, and of something nobody knows
\b
One host, asked on it: nodemanager status. Why one waits: nodemanager why NAME
""",
)
@connect.options(namespaced=True)
@forms.option("table")
@click.option("-w", "--watch", is_flag=True,
              help="Stay and show it again: in place on a terminal, else whenever it changed.")  # fmt: skip
@click.option("--every", type=Duration(1), default="5s", show_default=True, metavar="DURATION",
              help="How often to look, with --watch.")  # fmt: skip
def command(settings: connect.Settings, form: str, watch: bool, every: float) -> None:
    """Tell how edge sites, hosts, ConfigSets, rollouts and maintenances of a namespace are, on one screen.

    What is well is counted, what is not is named. A silent host, and a site that nobody looked at for two
    minutes, are unknown, whatever they said last. Nor is a host well where no operator judges who is alive.
    """
    raise click.exceptions.Exit(asyncio.run(_run(settings, form, every if watch else 0.0)))


async def _run(settings: connect.Settings, form: str, every: float) -> int:
    async with connect.connect(settings) as client:
        if every:
            await _watch(client, settings.namespace, form, every)
        shown, found = await _look(client, settings.namespace, form)
        click.echo(shown, nl=False)
        return CODES[found.state]


async def _watch(client: Client, namespace: str, form: str, every: float) -> NoReturn:
    """Show it again and again; an API that goes away is waited for, and nothing old is left standing."""
    last: FleetHealth | None = None
    while True:
        try:
            shown, found = await _look(client, namespace, form)
        except _OUTAGES as error:
            if last is None:
                raise
            found = health.unanswered(output.one_line(f"{error}; looking again"))
            shown = _shown(found, FleetSnapshot(), namespace, form)
        if form == "table" and sys.stdout.isatty():
            click.echo(HOME + shown, nl=False)
        elif found != last:
            click.echo(shown, nl=False)
        last = found
        await asyncio.sleep(every)


async def _look(client: Client, namespace: str, form: str) -> tuple[str, FleetHealth]:
    seen: FleetSnapshot = await reading.read(client, namespace)
    found = health.judge(seen, datetime.now(UTC))
    return _shown(found, seen, namespace, form), found


def _shown(found: FleetHealth, seen: FleetSnapshot, namespace: str, form: str) -> str:
    if form != "table":
        return forms.dump(msgspec.to_builtins(found), form)
    style, now = output.Style.of(sys.stdout, os.environ), datetime.now(UTC)
    return screen.render(found, seen.clusters, namespace, now, style, output.terminal_width())
