"""Maintenances by their names, and changes of them that do not lose the changes of others."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import click

from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.cli import completing, kinds
from nodemanager.cli.settings import connect
from nodemanager.cli.views import output
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors

ATTEMPTS: Final = 5
"""How often a change is tried again when another writer was faster."""

NAME: Final = click.argument(
    "name", shell_complete=functools.partial(completing.names, NODE_MAINTENANCES.plural)
)
NAMES: Final = click.argument(
    "names", nargs=-1, required=True, metavar="NAME...",
    shell_complete=functools.partial(completing.names, NODE_MAINTENANCES.plural),
)  # fmt: skip

Change = Callable[[NodeMaintenance], tuple[dict[str, Any], str]]
"""What is to be changed (nothing: {}), and what to say of it; refuses with a ClickException."""


async def get(client: Client, name: str, namespace: str, doing: str) -> NodeMaintenance:
    """Return a maintenance, or say that there is none; `doing` is what it is wanted for."""
    try:
        with kinds.installed(NODE_MAINTENANCES):
            return await client.get(NODE_MAINTENANCES, name, namespace)
    except errors.NotFound as error:
        if not error.details.name:
            raise
        raise click.ClickException(
            f"cannot {doing} {name}: there is no such maintenance in namespace {namespace}; see nodemanager "
            "maintenance list -A"
        ) from error


def change_each(settings: connect.Settings, names: Sequence[str], doing: str, change: Change) -> None:
    """Change maintenances one after the other, and say what became of each; one failure stops no other."""
    raise click.exceptions.Exit(asyncio.run(_change_each(settings, names, doing, change)))


async def _change_each(settings: connect.Settings, names: Sequence[str], doing: str, change: Change) -> int:
    code = 0
    async with connect.connect(settings) as client:
        for name in dict.fromkeys(names):
            try:
                said = await change_one(client, settings.namespace, name, doing, change)
            except (click.ClickException, errors.StatusError) as error:
                if len(names) == 1:
                    raise
                said_of = error.format_message() if isinstance(error, click.ClickException) else str(error)
                click.echo(f"error: {output.one_line(said_of)}", err=True)
                code = 1
                continue
            click.echo(output.one_line(said))
    return code


async def change_one(client: Client, namespace: str, name: str, doing: str, change: Change) -> str:
    """Change only the object that was read: if it was changed meanwhile, it is read and judged again."""
    for left in reversed(range(ATTEMPTS)):
        found = await get(client, name, namespace, doing)
        body, said = change(found)
        if not body:
            return said
        version = {"resourceVersion": found.metadata.resource_version}
        patch = MergePatch({**body, "metadata": {**body.get("metadata", {}), **version}})
        try:
            await client.patch(NODE_MAINTENANCES, name, namespace, patch)
        except errors.Conflict:
            if not left:
                raise
            continue
        return said
    raise AssertionError("the loop ends by return or raise")


def run(work: Coroutine[Any, Any, int | None]) -> None:
    """Do something that talks to the API, and end with its exit code."""
    raise click.exceptions.Exit(asyncio.run(work) or 0)
