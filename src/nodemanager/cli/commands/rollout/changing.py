"""`nodemanager rollout undo`, `pause`, `resume` and `restart`: what people decide about a rollout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import click

from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import RESTART
from nodemanager.api.common.rollout import PAUSED, is_staged
from nodemanager.cli import rollout_objects
from nodemanager.cli.settings import connect
from nodemanager.cli.views import output
from nodemanager.client.patches import JsonPatch, MergePatch
from nodemanager.client.verbs import Client
from nodemanager.kube import errors, times

Change = Callable[[ConfigSet], tuple[dict[str, Any], str]]
"""What is to be changed (nothing: {}), and what to say of it."""
_KEPT = ("rollout", "revisionHistoryLimit", "enforcement")
"""Parts of a spec that no revision has: they stay as they are."""
ATTEMPTS: Final = 5
"""The status of a set changes often while it is rolled out, and then it has to be read again."""


@click.command(
    epilog="""\b
Examples:
  nodemanager rollout undo web
  nodemanager rollout undo web --to-revision 3
"""
)
@rollout_objects.NAME
@click.option(
    "--to-revision", "number", type=click.IntRange(min=1), help="Which one. Default: the one before."
)
@connect.options(namespaced=True)
def undo(name: str, number: int | None, settings: connect.Settings) -> None:
    """Have a ConfigSet say again what a revision said: a change like any other, with its stages.

    Where GitOps keeps the set, revert it there: what is written here would be put back.
    """
    asyncio.run(_undo(name, number, settings))


async def _undo(name: str, number: int | None, settings: connect.Settings) -> None:
    async with connect.connect(settings) as client:
        for left in reversed(range(ATTEMPTS)):
            try:
                said = await _undone(client, name, number, settings)
                break
            except (errors.Conflict, errors.Invalid) as error:
                if not left:
                    raise click.ClickException(
                        f"cannot undo {name}: {error}; if others change it at the same time, try again"
                    ) from error
    click.echo(output.one_line(said))


async def _undone(client: Client, name: str, number: int | None, settings: connect.Settings) -> str:
    """Have a set say again what a revision said, if nobody has changed it since it was read."""
    found = await rollout_objects.known(client, settings, name, "undo")
    target = found.numbered(number, "undo") if number is not None else found.previous
    if target is None:
        raise click.ClickException(
            f"cannot undo {name}: it has no revision before the newest one; declare what it shall say, and if"
            " it has none at all, see whether an operator of this version or newer runs"
        )
    if found.says(target):
        return f"{name} says already what revision {target.spec.revision} said"
    raw = await client.get(CONFIG_SETS.untyped(), name, settings.namespace)
    kept = {key: value for key, value in (raw.get("spec") or {}).items() if key in _KEPT}
    version = found.config_set.metadata.resource_version
    body = JsonPatch(
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/spec", "value": {**target.spec.content, **kept}},
            {"op": "add", "path": "/metadata/labels", "value": found.labels_of(target)},
        ]
    )
    await client.patch(CONFIG_SETS, name, settings.namespace, body)
    done = f"{name} says again what revision {target.spec.revision} said"
    return f"{done}; see nodemanager rollout status {name}"


@click.command(
    epilog="""\b
Examples:
  nodemanager rollout pause web
"""
)
@rollout_objects.NAME
@connect.options(namespaced=True)
def pause(name: str, settings: connect.Settings) -> None:
    """Let no further host take the change (spec.rollout.paused); failures are still undone.

    Where GitOps keeps the set, pause it there: what is written here would be put back.
    """
    asyncio.run(_change(name, settings, "pause", _paused))


@click.command(
    epilog="""\b
Examples:
  nodemanager rollout resume web
"""
)
@rollout_objects.NAME
@connect.options(namespaced=True)
def resume(name: str, settings: connect.Settings) -> None:
    """Go on with a rollout that somebody paused."""
    asyncio.run(_change(name, settings, "resume", _resumed))


@click.command(
    epilog="""\b
Examples:
  nodemanager rollout restart web
"""
)
@rollout_objects.NAME
@connect.options(namespaced=True)
def restart(name: str, settings: connect.Settings) -> None:
    """Try again what was undone, from its first stage, or go on with what stopped.

    It sets an annotation, and nothing that GitOps would put back.
    """
    asyncio.run(_change(name, settings, "restart", _restarted))


async def _change(name: str, settings: connect.Settings, doing: str, change: Change) -> None:
    async with connect.connect(settings) as client:
        found = await rollout_objects.get(client, settings, name, doing)
        if not is_staged(found.spec.rollout):
            raise click.ClickException(
                f"cannot {doing} {name}: its changes reach all hosts at once; set spec.rollout.strategy to"
                " Staged"
            )
        body, said = change(found)
        if body:
            await client.patch(CONFIG_SETS, name, settings.namespace, MergePatch(body))
    click.echo(output.one_line(said))


def _paused(found: ConfigSet) -> tuple[dict[str, Any], str]:
    name = found.metadata.name
    if found.spec.rollout is not None and found.spec.rollout.paused:
        return {}, f"{name} is paused already"
    said = f"{name} is paused. To go on: nodemanager rollout resume {name}"
    return {"spec": {"rollout": {"paused": True}}}, said


def _resumed(found: ConfigSet) -> tuple[dict[str, Any], str]:
    name, status = found.metadata.name, found.status.rollout
    if found.spec.rollout is not None and found.spec.rollout.paused:
        return {"spec": {"rollout": {"paused": None}}}, f"{name} goes on"
    if status is not None and status.phase == PAUSED:
        return {}, f"{name} stopped by itself, for hosts failed: see nodemanager rollout restart {name}"
    return {}, f"{name} is not paused"


def _restarted(found: ConfigSet) -> tuple[dict[str, Any], str]:
    name, stamp = found.metadata.name, times.rfc3339_micro(datetime.now(UTC))
    return {"metadata": {"annotations": {RESTART: stamp}}}, f"{name} is tried again"
