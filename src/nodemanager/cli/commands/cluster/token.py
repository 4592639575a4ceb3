"""`nodemanager token`: a short-lived credential with which a new host gets its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from nodemanager.cli import host_credential
from nodemanager.cli.commands.cluster.rbac import HOSTNAME
from nodemanager.cli.settings import connect
from nodemanager.cli.settings.durations import Duration
from nodemanager.cli.views import output
from nodemanager.host.state import credential_file
from nodemanager.kube import errors


@click.command(
    epilog="""\b
Examples:
  nodemanager token --hostname web1 --out web1.kubeconfig
  nodemanager token --hostname web1 | ssh web1 nodemanager bootstrap --bootstrap-kubeconfig /dev/stdin
""",
)
@HOSTNAME
@connect.options(namespaced=True)
@click.option("--ttl", type=Duration(), default="1h", show_default=True, metavar="TIME",
              help="How long the credential is good for; 10m or more.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=None, metavar="FILE",
              help="Write it to this file (0600) instead of stdout.")  # fmt: skip
def command(settings: connect.Settings, hostname: str, ttl: float, out: Path | None) -> None:
    """Print a kubeconfig that lets a new host fetch its own credential, and expires soon.

    What `nodemanager rbac` prints must be applied before. Needs the right to create tokens of
    the host's ServiceAccount: an administrator's.
    """
    if out is not None:
        credential_file.check_target(out)
        if not out.absolute().parent.is_dir():  # a typo, rather than a folder to be made
            raise errors.ConfigError(f"cannot write {out}: there is no folder {out.absolute().parent}")
    document, issued = asyncio.run(host_credential.issue(settings, hostname, ttl, tried=False))
    if untold := asyncio.run(host_credential.tell(settings, hostname, issued)):
        said = f"warning: the audit log will not have it that this token was issued: {untold}"
        click.echo(output.one_line(said), err=True)
    if out is None:
        click.echo(document, nl=False)
    else:
        credential_file.write(out, document)
    click.echo(output.one_line(f"token issued (expires {issued.expires})"), err=True)
