"""`nodemanager audit`: who did what, when; and the proof that the log was not altered."""

from __future__ import annotations

import click

from nodemanager.cli.commands.audit import host, looking, proving, witness
from nodemanager.cli.settings.command_group import CommandGroup


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  nodemanager audit log --host web1 --since 24h       what happened there
  nodemanager audit log --actor ada -o json           what one user did
  nodemanager audit show 1234                         all about one record
  nodemanager audit verify                            is all as it was signed?
  nodemanager audit verify evidence.jsonl --key KEY   the same of a file, without a cluster
  nodemanager audit prove 1234                        a proof for one record
  nodemanager audit export evidence.jsonl             everything as one file
  nodemanager audit cosign --key witness.key          be a witness of it
  sudo nodemanager audit host verify                  what was done on this host, without a cluster
""",
)
def command() -> None:
    """See who did what, when, and prove the log unaltered."""


for one in (
    looking.log,
    looking.show,
    proving.verify,
    proving.prove,
    proving.export,
    witness.cosign,
    host.host,
):
    command.add_command(one)
