"""`nodemanager restore`: put back what a file contained."""

from __future__ import annotations

import asyncio
import hashlib

import click

from nodemanager.cli import completing
from nodemanager.cli.settings.host_options import BUCKET, ROOT, whole_path
from nodemanager.cli.views import output
from nodemanager.host.base import HostError
from nodemanager.host.files import file_facts
from nodemanager.host.files.bucket import Backup, Bucket
from nodemanager.host.files.file_batch import FileBatch, FileTools
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import environment
from nodemanager.host.results import Outcome
from nodemanager.host.state.journal import Journal
from nodemanager.plan import resources
from nodemanager.plan.desired import Content
from nodemanager.plan.steps import WriteFile


@click.command(
    epilog="""\b
Examples:
  nodemanager restore /etc/motd                     what it was before it was last replaced
  nodemanager restore /etc/motd --to 3f2a91         the version with this hash (or its beginning)
""",
)
@click.argument("path", callback=whole_path, shell_complete=completing.backed_up)
@click.option("--to", "digest", default="", metavar="HASH", help="Which version; see nodemanager backups.")
@BUCKET
@ROOT
def command(path: str, digest: str, bucket: str, root: str) -> None:
    """Put back what PATH contained, with its owner and mode; what is there now is kept in turn.

    A file that a ConfigSet declares is brought back to the declaration by the next pass of the agent.
    """
    tree = Tree(root)
    try:
        kept = Bucket(tree, bucket)
        backup = kept.find(path, digest)
        asyncio.run(_restore(tree, kept, backup, path))
    finally:
        tree.close()
    when = backup.meta.backed_up_at
    click.echo(output.one_line(f"restored {path} to {backup.digest[:16]}, as it was at {when}"))


async def _restore(tree: Tree, bucket: Bucket, backup: Backup, path: str) -> None:
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
