"""`nodemanager orphans`: what no ConfigSet declares any more, and is still there."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import click

from nodemanager.api.common.managednode import MANAGED_NODES, TAKE_BACK, ManagedNode
from nodemanager.cli import completing, kinds
from nodemanager.cli.settings import connect
from nodemanager.cli.settings.host_options import ROOT
from nodemanager.cli.views import forms, output
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.host.state.ownership_ledger import OwnershipLedger
from nodemanager.host.state.vault import Vault
from nodemanager.kube.wording import plural


class OrphanRow(NamedTuple):
    """One resource that is left behind."""

    node: str
    resource: str
    config_set: str
    why: str


@click.command(
    epilog="""\b
Examples:
  sudo nodemanager orphans         on this host, all of it; needs no API
  nodemanager orphans web1         on a host, as it reports
  nodemanager orphans --fleet      on all hosts
  nodemanager orphans web1 --take-back    its new ManagedNode is meant: take back what waits for that
""",
)
@click.argument("node", required=False, default="", shell_complete=completing.hosts)
@click.option("--fleet", is_flag=True, help="On all hosts of the namespace, as they report.")
@click.option(
    "--take-back", is_flag=True, help="Say that the ManagedNode of NODE, which is a new one, is meant."
)
@forms.option("table")
@connect.options(namespaced=True)
@ROOT
def command(
    node: str, fleet: bool, take_back: bool, form: str, settings: connect.Settings, root: str
) -> None:
    """List what ConfigSets declared once, no longer do, and is still there; and why it is.

    With spec.prune, hosts put such things back to what was there before. What is listed then was changed by
    somebody else since, waits for something, or was there before the agent kept a record. Delete it by hand,
    declare it again, or leave it.
    """
    if node and fleet:
        raise click.UsageError("give NODE or --fleet, not both")
    if take_back:
        if not node:
            raise click.UsageError("--take-back is about one host: give NODE")
        asyncio.run(_take_back(settings, node))
        click.echo(f"{node} takes back what waited for that")
        return
    rows, untold = asyncio.run(_reported(settings, node)) if node or fleet else (_here(root), 0)
    if form != "table":
        found = [
            {"node": one.node, "resource": one.resource, "configSet": one.config_set, "why": one.why}
            for one in rows
        ]
        click.echo(forms.dump(found, form), nl=False)
    elif not rows:
        click.echo("nothing is left behind", err=True)
    else:
        head = ["NODE"] if fleet else []
        table = output.TableWriter([*head, "RESOURCE", "CONFIGSET", "WHY"])
        table.write([
            [output.one_line(cell) for cell in (one if fleet else one[1:])] for one in rows
        ])  # fmt: skip
    if untold:
        said = f"{plural(untold, 'more resource')} not in the status; see sudo nodemanager orphans there"
        click.echo(said, err=True)


async def _take_back(settings: connect.Settings, name: str) -> None:
    """Say that a ManagedNode is meant: this very one, and none that is made later."""
    async with connect.connect(settings) as client:
        with kinds.installed(MANAGED_NODES):
            meta = (
                await kinds.managed_node(client, name, settings.namespace, "take back what waits on")
            ).metadata
            patch = {"resourceVersion": meta.resource_version, "annotations": {TAKE_BACK: meta.uid}}
            await client.patch(MANAGED_NODES, name, settings.namespace, MergePatch({"metadata": patch}))


def _here(root: str) -> list[OrphanRow]:
    ledger = OwnershipLedger(Vault(root), keep=True)
    try:
        return [
            OrphanRow("", str(one), ", ".join(entry.names), entry.left)
            for one, entry in sorted(ledger.owned.items())
            if entry.left
        ]
    finally:
        ledger.close()


async def _reported(settings: connect.Settings, name: str) -> tuple[list[OrphanRow], int]:
    """Return what hosts report, and how much more there is that they have no room for."""
    async with connect.connect(settings) as client:
        with kinds.installed(MANAGED_NODES):
            if name:
                nodes = [
                    await kinds.managed_node(client, name, settings.namespace, "list what is left behind on")
                ]
            else:
                nodes = (await client.list(MANAGED_NODES, Selection(settings.namespace))).items
    rows = [row for node in sorted(nodes, key=lambda one: one.metadata.name) for row in _rows(node)]
    count = sum(one.status.orphans.count for one in nodes if one.status.orphans)
    return rows, max(count - len(rows), 0)


def _rows(node: ManagedNode) -> list[OrphanRow]:
    found = node.status.orphans.resources if node.status.orphans else []
    return [OrphanRow(node.metadata.name, one.resource, one.configset, one.message) for one in found]
