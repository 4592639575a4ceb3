"""`nodemanager backups`: what files contained before they were replaced or removed."""

from __future__ import annotations

import click

from nodemanager.cli import completing
from nodemanager.cli.settings.host_options import BUCKET, ROOT, whole_path
from nodemanager.cli.views import forms, output
from nodemanager.host.files.bucket import Backup, Bucket
from nodemanager.host.files.tree import Tree


@click.command(
    epilog="""\b
Examples:
  nodemanager backups                      everything that is kept
  nodemanager backups /etc/motd            versions of one file
  nodemanager restore /etc/motd            bring the last one back
""",
)
@click.argument("path", default="", callback=whole_path, shell_complete=completing.backed_up)
@forms.option("table")
@BUCKET
@ROOT
def command(path: str, form: str, bucket: str, root: str) -> None:
    """List what files contained before they were replaced or removed, newest first."""
    tree = Tree(root)
    try:
        found = [one for one in Bucket(tree, bucket).backups() if not path or one.meta.path == path]
    finally:
        tree.close()
    found.sort(key=lambda one: (one.meta.backed_up_at, one.meta.path), reverse=True)
    if form != "table":
        click.echo(forms.dump([_plain(one) for one in found], form), nl=False)
        return
    if not found:
        click.echo(f"no backups{f' of {path}' if path else ''}", err=True)
        return
    rows = []
    for one in found:
        meta = one.meta
        path = output.one_line(meta.path)
        rows.append([meta.backed_up_at, one.digest[:16], str(meta.size), meta.mode, path])
    output.TableWriter(["KEPT AT", "HASH", "BYTES", "MODE", "PATH"]).write(rows)


def _plain(one: Backup) -> dict[str, object]:
    return {
        "path": one.meta.path,
        "hash": one.digest,
        "backedUpAt": one.meta.backed_up_at,
        "size": one.meta.size,
        "mode": one.meta.mode,
        "uid": one.meta.uid,
        "gid": one.meta.gid,
    }
