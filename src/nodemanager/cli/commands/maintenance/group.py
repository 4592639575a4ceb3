"""`nodemanager maintenance`: look at maintenances, and say yes, wait, go on or stop."""

from __future__ import annotations

import click

from nodemanager.cli.commands.maintenance import abort, approve, history, listing, pause, planned
from nodemanager.cli.settings.command_group import CommandGroup


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  nodemanager maintenance list               how far all of them are
  nodemanager maintenance plan monday        which host comes when, and why
  nodemanager maintenance approve monday     say yes to that plan
  nodemanager maintenance pause monday       begin with nothing more
  nodemanager maintenance history monday     what became of every run and host
\b
Why a host waits: nodemanager why HOST. Once, on some hosts: nodemanager run.
""",
)
def command() -> None:
    """Look at maintenances (NodeMaintenance), and say yes, wait, go on or stop."""


for one in (
    listing.command, planned.command, approve.approve, pause.pause, pause.resume, abort.abort, abort.retry,
    history.command,
):  # fmt: skip
    command.add_command(one)
