"""`nodemanager bootstrap`: run on a new host, exchanges a short-lived credential for its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from nodemanager.api.rights.host_bounds import MAX_TOKEN_SECONDS
from nodemanager.cli import host_credential
from nodemanager.cli.settings import connect, host_names
from nodemanager.cli.settings import labels as labels_
from nodemanager.cli.settings.durations import Duration
from nodemanager.cli.views import output
from nodemanager.client.auth import kubeconfig
from nodemanager.host.process import runner
from nodemanager.host.state import credential_file
from nodemanager.kube import errors


def _labels_before(target: Path) -> Mapping[str, str]:
    """Return the labels that the host was joined with; none where its kubeconfig is of no use."""
    try:
        return kubeconfig.load(path=str(target), environ={}, run=runner.run).labels
    except (errors.ConfigError, OSError):
        return {}


@click.command(
    epilog="""\b
Examples:
  nodemanager bootstrap --bootstrap-kubeconfig /tmp/bootstrap.kubeconfig
  rm /tmp/bootstrap.kubeconfig
""",
)
@click.option("--bootstrap-kubeconfig", required=True, type=click.Path(exists=True, dir_okay=False),
              metavar="FILE", help="What `nodemanager token` printed.")  # fmt: skip
@click.option("--kubeconfig", "target", type=click.Path(path_type=Path), default=connect.host_kubeconfig_path,
              metavar="FILE", help="Where to write the host's own. Default: /etc/nodemanager/kubeconfig, on"
              " FreeBSD /usr/local/etc/nodemanager/kubeconfig.")  # fmt: skip
@connect.NAMESPACE
@click.option("--hostname", default=socket.gethostname, callback=host_names.hostname, metavar="NAME",
              envvar="NODEMANAGER_HOSTNAME", show_envvar=True,
              help="Name of the host, as in `nodemanager token`. Default: its own.")  # fmt: skip
@click.option("--token-ttl", type=Duration(most=MAX_TOKEN_SECONDS), default="8760h", show_default=True,
              metavar="TIME", help="How long the credential is good for, 8760h at most; the agent renews it"
              " long before.")  # fmt: skip
@labels_.option("A label of this host, which its agent sets if `nodemanager rbac --label` declares it. May be"
                " given again. Default: those that it was joined with before.")  # fmt: skip
def command(bootstrap_kubeconfig: str, target: Path, labels: dict[str, str], **asked: Any) -> None:
    """Fetch this host's own credential, try it, and put it in place.

    Safe to run again: the old credential stays until the new one has been tried.
    """
    namespace, hostname, token_ttl = asked["namespace"], asked["hostname"], asked["token_ttl"]
    credential_file.check_target(target)
    settings = connect.Settings(bootstrap_kubeconfig, "", namespace, {})
    document, issued = asyncio.run(
        host_credential.issue(
            settings, hostname, token_ttl, tried=True, labels=labels or _labels_before(target)
        )
    )
    credential_file.write(target, document)
    click.echo(output.one_line(f"wrote {target} (expires {issued.expires})"), err=True)
