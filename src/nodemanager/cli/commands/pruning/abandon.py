"""`nodemanager abandon`: let ConfigSets be deleted although no operator is there to let them go."""

from __future__ import annotations

import asyncio
from functools import partial

import click

from nodemanager.api.common.configset import CONFIG_SETS, FINALIZER, SET_METADATA, keeping
from nodemanager.cli import completing, kinds
from nodemanager.cli.settings import connect
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch


@click.command(
    epilog="""\b
Examples:
  nodemanager abandon web       the deletion of ConfigSet web waits for an operator that is gone
  nodemanager abandon --all     the operator was removed, or its namespace is being deleted
""",
)
@click.argument("names", nargs=-1, shell_complete=partial(completing.names, "configsets"))
@click.option("--all", "everything", is_flag=True, help="All ConfigSets of the namespace.")
@connect.options(namespaced=True)
def command(names: tuple[str, ...], everything: bool, settings: connect.Settings) -> None:
    """Take the finalizer of spec.prune off ConfigSets, so that deleting them waits for nobody.

    Nothing is deleted by that. An operator that runs puts it on again, unless the set is being deleted.
    """
    if bool(names) == everything:
        raise click.UsageError("give names of ConfigSets, or --all")
    for name in asyncio.run(_abandon(settings, names)):
        click.echo(f"configset {name} waits for no host any more")


async def _abandon(settings: connect.Settings, names: tuple[str, ...]) -> list[str]:
    async with connect.connect(settings) as client:
        with kinds.installed(CONFIG_SETS):
            if names:
                found = [await client.get(SET_METADATA, name, settings.namespace) for name in names]
            else:
                found = (await client.list(SET_METADATA, Selection(settings.namespace))).items
            kept = [one for one in found if FINALIZER in one.metadata.finalizers]
            for one in kept:
                change = MergePatch({"metadata": keeping(one, has=False)})
                await client.patch(SET_METADATA, one.metadata.name, settings.namespace, change)
    return [one.metadata.name for one in kept]
