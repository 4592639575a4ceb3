"""`nodemanager restore`: put back what a file contained."""

from __future__ import annotations

import asyncio
import hashlib

import click

from nodemanager.agent.audit import trail_records
from nodemanager.agent.declared import memory
from nodemanager.api.audit.record import Record
from nodemanager.cli import by_hand, completing, holding
from nodemanager.cli.settings.host_options import BUCKET, ROOT, whole_path
from nodemanager.cli.views import output
from nodemanager.host.base import HostError
from nodemanager.host.files import file_facts
from nodemanager.host.files.bucket import Backup, Bucket
from nodemanager.host.files.file_batch import FileBatch, FileTools
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import environment
from nodemanager.host.results import Outcome, Result
from nodemanager.host.state.journal import Journal
from nodemanager.host.state.vault import Vault
from nodemanager.plan import resources
from nodemanager.plan.desired import Content
from nodemanager.plan.steps import WriteFile


@click.command(
    epilog="""\b
Examples:
  nodemanager restore /etc/motd                     what it was before it was last replaced
  nodemanager restore /etc/motd --to 3f2a91         the version with this hash (or its beginning)
  nodemanager restore /etc/motd --hold --for 2h     and have the agent leave this host alone meanwhile
""",
)
@click.argument("path", callback=whole_path, shell_complete=completing.backed_up)
@click.option("--to", "digest", default="", metavar="HASH", help="Which version; see nodemanager backups.")
@click.option("--hold", "holds", is_flag=True,
              help="Hold this host first, as nodemanager hold does: else its agent puts a declared file back"
              " at once.")  # fmt: skip
@holding.FOR
@click.option("--reason", default="", metavar="TEXT", help="Why it is held. Default: restored PATH.")
@BUCKET
@ROOT
def command(
    path: str, digest: str, holds: bool, seconds: float | None, reason: str, bucket: str, root: str
) -> None:
    """Put back what PATH contained, with its owner and mode; what is there now is kept in turn.

    A file that a ConfigSet declares is brought back to the declaration by the agent, at once if it runs;
    --hold keeps it from doing so for a while.
    """
    if not holds and (seconds is not None or reason):
        raise click.UsageError("--for and --reason are about a hold: give --hold, too")
    hold, lasts = holding.made(reason or f"restored {path}", seconds, "")
    tree = Tree(root)
    try:
        kept = Bucket(tree, bucket)
        backup = kept.find(path, digest)
        if holds:  # first, and only for what can be restored
            holding.begin_here(root, hold, lasts)
        done = asyncio.run(_restore(tree, kept, backup, path))
        changed = list(trail_records.files([done]))
        said = f"{path} as it was at {backup.meta.backed_up_at}"
        record = Record(actor=by_hand.actor(), verb="restore", aspect=path, message=said, files=changed)
        by_hand.recorded(root, "", [record])
    finally:
        tree.close()
    when = backup.meta.backed_up_at
    click.echo(output.one_line(f"restored {path} to {backup.digest[:16]}, as it was at {when}"))
    if holds:
        held = holding.lasting(hold, lasts)
        click.echo(output.one_line(f"this host is held {held}; to end it before: nodemanager unhold"))
    elif sets := _declaring(root, path):
        again = f"nodemanager restore {path} --to {backup.digest[:16]} --hold"
        said = f"ConfigSet {', '.join(sets)} declares {path}, so the agent puts that back, at once if it runs"
        click.echo(output.one_line(f"warning: {said}; to keep this for a while: {again}"), err=True)


def _declaring(root: str, path: str) -> list[str]:
    vault = Vault(root)
    try:
        return memory.declaring_sets(vault, path)
    finally:
        vault.close()


async def _restore(tree: Tree, bucket: Bucket, backup: Backup, path: str) -> Result:
    meta, data = backup.meta, bucket.read(backup)
    step = WriteFile(
        id=resources.file_id(path), sources=(), reason="restored", path=path,
        before=file_facts.observe(tree, path, None, file_facts.Digests()),
        content=Content(data, hashlib.sha256(data).hexdigest()),
        mode=int(meta.mode, 8), uid=meta.uid, gid=meta.gid,
    )  # fmt: skip
    tools = FileTools(tree, bucket, Journal(tree), environment.host_runner(tree.root))
    (result,) = await FileBatch(tools).apply([step])
    if result.outcome is not Outcome.CHANGED:
        raise HostError(result.message)
    return result
