"""What the shell may offer while somebody types: kinds, and names of objects from the cluster."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import click
from click.core import ParameterSource

from nodemanager.api.kind_parts import KindEntry
from nodemanager.api.kinds import KINDS
from nodemanager.cli import kinds
from nodemanager.cli.settings import connect
from nodemanager.client.calls import Selection
from nodemanager.host.files.bucket import FOLDER, Bucket
from nodemanager.host.files.tree import Tree
from nodemanager.kube import errors

TIMEOUT: Final = 2.0
"""How long a user who pressed TAB waits at most."""

_GIVEN: Final = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def kinds_and_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete `KIND[,KIND]`, then the names of that kind; `KIND/` is completed by names, too."""
    typed: tuple[str, ...] = ctx.params.get(param.name or "") or ()
    kind, slash, start = incomplete.partition("/")
    if slash:
        return [f"{kind}/{name}" for name in _names(ctx, kind) if name.startswith(start)]
    if typed:
        return [name for name in _names(ctx, typed[0]) if name.startswith(incomplete) and name not in typed]
    before, comma, last = incomplete.rpartition(",")
    words = [name for each in KINDS for name in each.names[:-2]]
    return [f"{before}{comma}{word}" for word in words if word.startswith(last)]


def hosts(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of hosts."""
    return [name for name in _names(ctx, "mn") if name.startswith(incomplete)]


def names(kind: str, ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of one kind, which comes first: for functools.partial."""
    return [name for name in _names(ctx, kind) if name.startswith(incomplete)]


def backed_up(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the paths of files with backups on this host, for users who may read them."""
    if _misread(ctx):
        return []
    try:
        tree = Tree(str(ctx.params.get("root") or "/"))
    except OSError:
        return []
    logging.disable()  # as below
    try:
        kept = Bucket(tree, str(ctx.params.get("bucket") or FOLDER)).backups()
        return sorted({one.meta.path for one in kept if one.meta.path.startswith(incomplete)})
    except OSError:
        return []
    finally:
        logging.disable(logging.NOTSET)
        tree.close()


def _misread(ctx: click.Context) -> bool:
    """Tell whether an option has a value that it cannot have, such as a root that does not exist.

    While somebody types, click leaves such a value out; but what the default names is not what is meant.
    """
    typed = (name for name in ctx.params if ctx.get_parameter_source(name) in _GIVEN)
    return any(ctx.params[name] is None for name in typed)


def _names(ctx: click.Context, text: str) -> list[str]:
    """Return the names of all objects of a kind, or none at all if that is not possible quickly."""
    if _misread(ctx):
        return []
    logging.disable()  # on any error, the typed line stays as it is
    try:
        (kind,) = kinds.find(text)
        return asyncio.run(_read_names(connect.of_context(ctx), kind))
    except (click.UsageError, errors.KubeError, OSError, ValueError):
        return []
    finally:
        logging.disable(logging.NOTSET)


async def _read_names(settings: connect.Settings, kind: KindEntry) -> list[str]:
    async with asyncio.timeout(TIMEOUT), connect.connect(settings, aloud=False) as client:
        page = await client.page(kind.resource.untyped(), Selection(settings.namespace))
        return [obj["metadata"]["name"] for obj in page.items]
