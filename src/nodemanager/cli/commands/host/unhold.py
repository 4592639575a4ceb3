"""`nodemanager unhold`: let a host that is held go on."""

from __future__ import annotations

import asyncio

import click

from nodemanager.api.common.acting import HoldOrigin
from nodemanager.cli import completing, holding
from nodemanager.cli.settings import connect
from nodemanager.cli.settings.host_options import ROOT
from nodemanager.cli.views import output


@click.command(
    epilog="""\b
Examples:
  nodemanager unhold web1       end what nodemanager hold web1 began
  sudo nodemanager unhold       end what root began on this host
""",
)
@click.argument("node", required=False, default="", shell_complete=completing.hosts)
@connect.options(namespaced=True)
@ROOT
def command(node: str, settings: connect.Settings, root: str) -> None:
    """End the hold of NODE, or without NODE that of this host: what waited for that is done now."""
    end(node, holding.CONFIRM_SECONDS, settings, root)


def end(node: str, patience: float, settings: connect.Settings, root: str) -> None:
    """End a hold, and say what is left of it."""
    if node:
        still = asyncio.run(holding.end(settings, node, patience))
        said = f"; it says: {still}" if still else ""
        click.echo(output.one_line(f"{node} is not held through the API any more{said}"))
        return
    was, left = holding.end_here(root)
    said = "this host is not held any more" if was else "nobody held this host from here"
    if left is not None and left.origin == HoldOrigin.API:
        said += f", but the API holds it until {left.until} ({left.reason}): nodemanager unhold NODE"
    click.echo(output.one_line(said))
