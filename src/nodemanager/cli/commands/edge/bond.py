"""`nodemanager edge bond`: the files of the storage network of a node, as its operating system keeps them."""

from __future__ import annotations

from pathlib import Path

import click

from nodemanager.api.edge import capabilities
from nodemanager.api.edge.edgeprofile import EdgeProfile
from nodemanager.backends.declaring import lacks
from nodemanager.backends.errors import BackendError
from nodemanager.backends.systems import choosing, networkd
from nodemanager.backends.systems.seam import PersistentNet, SystemPlan
from nodemanager.cli.commands.edge import profiles


@click.command(
    epilog="""\b
Examples:
  nodemanager edge bond -f site.yaml --link eth1 --link eth2
  nodemanager edge bond -f site.yaml --link eth1 --link eth2 --for multi
"""
)
@profiles.FILE
@click.option(
    "--link", "links", multiple=True, required=True, help="A link of the bond, the preferred one first."
)
@click.option(
    "--for", "nodes", type=click.Choice(["single", "multi"]), default="single", show_default=True,
    help="In the mode for a site of one node, or of several.",
)  # fmt: skip
def bond(path: Path, links: tuple[str, ...], nodes: str) -> None:
    """Print the files that keep the bond and the VLANs of an EdgeProfile on a node; nothing is written.

    Addresses are no part of a profile: keep them in a drop-in, such as 10-BOND.network.d/address.conf.
    """
    profile, _ = profiles.read(path)
    try:
        click.echo(_text(_plan(profile, links, nodes)), nl=False)
    except BackendError as error:
        raise click.ClickException(str(error)) from error


def _plan(profile: EdgeProfile, links: tuple[str, ...], nodes: str) -> SystemPlan:
    network = profile.spec.network
    if network is None or network.modes is None:
        raise click.ClickException(
            f"cannot print files: EdgeProfile {profile.metadata.name} has no spec.network with modes"
        )
    system = choosing.SYSTEMS[profile.spec.os.provider]
    if not isinstance(system, PersistentNet):
        raise lacks(system, capabilities.SYSTEM, capabilities.PERSISTENT_NET)
    mode = network.modes.multi if nodes == "multi" else network.modes.single
    return system.network(networkd.bond_files(network, mode, links))


def _text(plan: SystemPlan) -> str:
    lines: list[str] = []
    for file in plan.files:
        lines += [f"# {file.path} ({file.mode:04o})", file.content]
    lines += [f"# before that counts: {' '.join(argv)}" for argv in plan.checks]
    lines += [f"# then: {' '.join(argv)}" for argv in plan.commands]
    return "\n".join(lines) + "\n"
