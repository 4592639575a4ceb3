"""`nodemanager rbac`: what a host needs to be let in, printed for people to review and apply."""

from __future__ import annotations

from typing import Any, Final

import click

from nodemanager.api.rights import host_rights
from nodemanager.cli.settings import connect, host_names
from nodemanager.cli.settings import labels as labels_
from nodemanager.kube import manifests


def _groups(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        host_names.check(value, "a Lease")
    return values


HOSTNAME: Final = click.option(
    "--hostname", required=True, callback=host_names.hostname, metavar="NAME", help="Name of the host."
)


@click.command(
    epilog="""\b
Examples:
  nodemanager rbac --hostname web1 | kubectl apply -f -
  nodemanager rbac --hostname web1 > manifests/nodemanager-web1.yaml
  nodemanager rbac --hostname node7 --kubernetes-node      also a Kubernetes node: may be drained
  nodemanager rbac --hostname node7 --daemonset            the agent runs as a pod of the DaemonSet
  nodemanager rbac --hostname web1 --label role=web        may label itself so
  nodemanager rbac --hostname web1 --wide-secrets          where no operator runs
  nodemanager rbac --hostname web1 --revoke | kubectl delete --ignore-not-found -f -
""",
)
@HOSTNAME
@connect.NAMESPACE
@click.option("--kubernetes-node", is_flag=True,
              help="The host is also a Kubernetes node, and may cordon and drain itself.")  # fmt: skip
@click.option("--wide-secrets", is_flag=True,
              help="Let it read all Secrets and ConfigMaps of the namespace. Without this flag, the operator"
              " lets it read those that its ConfigSets refer to.")  # fmt: skip
@click.option("--lock-group", "lock_groups", multiple=True, metavar="NAME", callback=_groups,
              help="A lock_group or upgrade group it takes part in; for where no operator runs.")  # fmt: skip
@labels_.option("A label that the host may set on its ManagedNode, with this value and no other. May be given"
                " again.")  # fmt: skip
@click.option("--daemonset", is_flag=False, flag_value=host_rights.DAEMONSET_NAMESPACE, default="",
              metavar="NAMESPACE",
              help="The agent runs as a pod: let the DaemonSet's pod on this node get the host's token."
              f" Without a value: {host_rights.DAEMONSET_NAMESPACE}.")  # fmt: skip
@click.option("--revoke", is_flag=True,
              help="Print what is this host's alone instead, for kubectl delete.")  # fmt: skip
def command(hostname: str, namespace: str, revoke: bool, labels: dict[str, str], **rights: Any) -> None:
    """Print the objects that let a host in; nothing is applied.

    A Namespace, a ServiceAccount, and roles with which the host can read what is declared,
    write its own ManagedNode and Lease, and renew its own token: nothing of another host.
    """
    declared = sorted(f"{key}={value}" for key, value in labels.items())
    access = host_rights.HostAccess(hostname, namespace, labels=declared, **rights)
    found = host_rights.own_manifests(access) if revoke else host_rights.manifests(access)
    click.echo(manifests.dump(found), nl=False)
