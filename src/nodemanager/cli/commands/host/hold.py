"""`nodemanager hold`: keep a host as it is for a while."""

from __future__ import annotations

import asyncio

import click

from nodemanager.cli import completing, holding
from nodemanager.cli.commands.host import unhold
from nodemanager.cli.settings import connect
from nodemanager.cli.settings.durations import Duration
from nodemanager.cli.settings.host_options import ROOT
from nodemanager.cli.views import output

WAIT = click.option(
    "--wait", "patience", type=Duration(0), default=f"{holding.CONFIRM_SECONDS:g}s", show_default=True,
    metavar="TIME", help="How long to wait for NODE to confirm it; 0s = not at all.",
)  # fmt: skip


@click.command(
    epilog="""\b
Examples:
  nodemanager hold web1 --reason "replacing a disk" --for 2h
  nodemanager hold web1 --reason "freeze for the audit" --until 2026-03-01T04:00:00Z
  nodemanager unhold web1                              end it before
  sudo nodemanager hold --reason "debugging sshd"      this host, also without the API
""",
)
@click.argument("node", required=False, default="", shell_complete=completing.hosts)
@click.option("--reason", default="", metavar="TEXT", help="Why; shown to everybody who looks.")
@holding.FOR
@holding.UNTIL
@click.option("--end", "ends", is_flag=True, help="End a hold, as nodemanager unhold does.")
@WAIT
@connect.options(namespaced=True)
@ROOT
def command(
    node: str,
    reason: str,
    seconds: float | None,
    until: str,
    ends: bool,
    patience: float,
    settings: connect.Settings,
    root: str,
) -> None:
    """Keep NODE as it is: until the hold ends by itself, its agent looks and reports, and changes nothing.

    No pass, no repair and no upgrade begins; what is under way is finished. Without NODE it is about this
    host, needs root and no API. What waited is done when the hold ends.
    """
    if ends:
        unhold.end(node, patience, settings, root)
        return
    hold, lasts = holding.made(reason, seconds, until)
    words = holding.lasting(hold, lasts)
    if not node:
        runs = holding.begin_here(root, hold, lasts)
        tail = "to end it before: nodemanager unhold" if runs else "its agent does not run now"
        click.echo(output.one_line(f"this host is held {words}; {tail}"))
    elif asyncio.run(holding.begin(settings, node, hold, patience)):
        click.echo(output.one_line(f"{node} is held {words}; to end it before: nodemanager unhold {node}"))
    else:
        click.echo(
            output.one_line(
                f"{node} shall be held {words}; it has not confirmed that yet, and does so as soon as it "
                f"hears of it: nodemanager describe mn {node}"
            )
        )
