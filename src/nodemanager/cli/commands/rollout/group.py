"""`nodemanager rollout`: how changes of ConfigSets reach their hosts."""

from __future__ import annotations

import click

from nodemanager.cli.commands.rollout import approving, changing, looking
from nodemanager.cli.settings.command_group import CommandGroup


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  nodemanager rollout status web                  wait for the end of the rollout
  nodemanager rollout history web                 what the set said before
  nodemanager rollout diff web                    what the newest revision changes
  nodemanager rollout approve web                 say yes to the change
  nodemanager rollout pause web                   no further host takes the change
  nodemanager rollout undo web                    back to the revision before
  nodemanager rollout undo web --to-revision 3    back to that one
  nodemanager rollout restart web                 try again what stopped or was undone
\b
Which host is how far: nodemanager describe configset NAME
""",
)
def command() -> None:
    """See how changes of ConfigSets reach their hosts; wait, go on, or take them back."""


for one in (
    looking.history, looking.diff, changing.undo, looking.status, changing.pause, changing.resume,
    changing.restart, approving.approve,
):  # fmt: skip
    command.add_command(one)
