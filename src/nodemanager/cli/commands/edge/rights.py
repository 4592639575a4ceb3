"""`nodemanager edge rbac`: what lets the operator look at what a profile names, and at nothing else."""

from __future__ import annotations

from pathlib import Path

import click

from nodemanager.cli.commands.edge import profiles
from nodemanager.cli.settings import connect
from nodemanager.controllers import assembly
from nodemanager.kube import manifests


@click.command(
    epilog="""\b
Examples:
  nodemanager edge rbac -f site.yaml | kubectl apply -f -
"""
)
@profiles.FILE
@connect.NAMESPACE
def rbac(path: Path, namespace: str) -> None:
    """Print the Role that lets the operator read what an EdgeProfile names; nothing is applied.

    Of a DaemonSet, its ConfigMaps by name; DaemonSets and Events of its namespace, to tell whether there are
    two, and what it warns of. Of storage and virtual machines, the Secret and the LinstorCluster by name;
    satellites, their configurations and connections, volumes and instances as lists. Of Nodes, each by its
    name: a profile does not know those of a site, so the right is to all of them. No verb that writes.
    --namespace is that of the operator.
    """
    profile, _ = profiles.read(path)
    found = assembly.site_manifests(profile, namespace)
    if not found:
        raise click.ClickException(
            f"cannot print rights: EdgeProfile {profile.metadata.name} names nothing to look at in the API"
            " (spec.bridge, spec.storage.linstor.secret, spec.storage.piraeus, spec.kubevirt,"
            " spec.topology.observeNodes)"
        )
    click.echo(manifests.dump(found), nl=False)
