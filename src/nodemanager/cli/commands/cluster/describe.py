"""`nodemanager describe`: one object in words, with the events about it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from nodemanager.api.kind_parts import KindEntry
from nodemanager.cli import completing, kinds
from nodemanager.cli.settings import connect
from nodemanager.cli.views import descriptions, output
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.kube import core, errors
from nodemanager.kube.objects import Resource

T = TypeVar("T")


@click.command(
    epilog="""\b
Examples:
  nodemanager describe mn web1
  nodemanager describe cs base sshd -n lab
  nodemanager describe mn/web1 cs/base
"""
)
@click.argument(
    "words", nargs=-1, required=True, metavar="KIND NAME...", shell_complete=completing.kinds_and_names
)
@connect.options(namespaced=True)
def command(words: tuple[str, ...], settings: connect.Settings) -> None:
    """Tell all about a host (mn) or a ConfigSet (cs): state, conditions, contents and events.

    What files contain is never shown, nor what is in a Secret.
    """
    targets = kinds.parse(words)
    for target in targets:
        if not target.names:
            raise click.UsageError(f"name the {target.kind.resource.kind}; to see all: nodemanager get")
    raise click.exceptions.Exit(asyncio.run(_run(targets, settings)))


async def _run(targets: list[kinds.Target], settings: connect.Settings) -> int:
    code, begun = 0, False
    async with connect.connect(settings) as client:
        for kind, name in [(target.kind, name) for target in targets for name in target.names]:
            try:
                text = await _describe(client, kind, name, settings.namespace)
            except errors.NotFound as error:
                if not error.details.name:
                    raise
                click.echo(f"error: {output.one_line(str(error))}", err=True)
                code = 1
                continue
            text = output.wrapped(text, output.terminal_width())
            click.echo(f"\n\n{text}" if begun else text)
            begun = True
    return code


async def _describe(client: Client, kind: KindEntry, name: str, namespace: str) -> str:
    with kinds.installed(kind.resource):
        obj = await client.get(kind.resource, name, namespace)
    events = await _events(client, kind.resource.kind, obj)
    known, related = kind.resource.qualified_name, {}
    if known in descriptions.RELATED:
        argument, resource = descriptions.RELATED[known]
        related[argument] = await _listed(client, resource, Selection(obj.metadata.namespace))
    return descriptions.RENDERERS[known](obj, events or [], datetime.now(UTC), **related)


async def _events(client: Client, kind: str, obj: Any) -> list[core.Event] | None:
    """Return the events about this incarnation of an object; none if they cannot be read.

    The uid alone would not do: a host may claim that of another, but tells stories of its own name only.
    """
    about = {"kind": kind, "name": obj.metadata.name, "uid": obj.metadata.uid}
    fields = ",".join(f"involvedObject.{name}={value}" for name, value in about.items())
    return await _listed(client, core.EVENTS, Selection(obj.metadata.namespace, fields=fields))


async def _listed(client: Client, resource: Resource[T], selection: Selection) -> list[T] | None:
    try:
        return (await client.list(resource, selection)).items
    except errors.KubeError as error:
        click.echo(f"warning: {output.one_line(str(error))}", err=True)  # the rest is worth showing
        return None
