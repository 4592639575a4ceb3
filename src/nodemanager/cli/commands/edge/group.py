"""`nodemanager edge`: what sites are made of, and who may look at them."""

from __future__ import annotations

import click

from nodemanager.cli.commands.edge import bond, profiles, rights, signing


@click.group(
    epilog="""\b
Examples:
  nodemanager edge profiles                        which profiles we ship
  nodemanager edge profiles vx-rail > site.yaml    one of them, to begin with
  nodemanager edge rbac -f site.yaml               what lets the operator observe it
  nodemanager edge bond -f site.yaml --link eth1 --link eth2
  nodemanager edge payload -f site.yaml > site.payload
"""
)
def command() -> None:
    """Look at profiles of edge sites, and sign them. See docs/edge.md."""


command.add_command(profiles.profiles)
command.add_command(rights.rbac)
command.add_command(bond.bond)
command.add_command(signing.payload)
command.add_command(signing.attach)
