"""`nodemanager rollout undo`, `pause`, `resume` and `restart`: what people decide about a rollout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from nodemanager.api.common import choosing
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import RESTART
from nodemanager.api.common.rollout import PAUSED
from nodemanager.api.common.rolloutpolicy import DEFAULT
from nodemanager.cli import rollout_objects
from nodemanager.cli.maintenance import identity
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

    Without --to-revision, so do all sets that changed together with it (rollout.group).

    Where GitOps keeps the set, revert it there: what is written here would be put back.
    """
    asyncio.run(_undo(name, number, settings))


async def _undo(name: str, number: int | None, settings: connect.Settings) -> None:
    async with connect.connect(settings) as client:
        for one in await _changed_together(client, name, settings) if number is None else [name]:
            click.echo(output.one_line(await _undo_one(client, one, number, settings)))


async def _changed_together(client: Client, name: str, settings: connect.Settings) -> list[str]:
    """Return the sets that the last change of a set was about: it, and those that move with it."""
    found = await rollout_objects.get(client, settings, name, "undo")
    status = found.status.rollout
    if status is None or status.group is None or not choosing.is_decided(found):
        return [name]
    there = {one.metadata.name for one in await rollout_objects.together(client, settings, found)}
    changed = [one.name for one in status.group.members if one.name in there]
    return [name, *changed] if status.group.digest_of(name) else [name]


async def _undo_one(client: Client, name: str, number: int | None, settings: connect.Settings) -> str:
    left = ATTEMPTS
    while True:
        left -= 1
        try:
            return await _undone(client, name, number, settings)
        except (errors.Conflict, errors.Invalid) as error:
            if left <= 0:
                raise click.ClickException(
                    f"cannot undo {name}: {error}; if others change it at the same time, try again"
                ) from error


async def _undone(client: Client, name: str, number: int | None, settings: connect.Settings) -> str:
    """Restore the content of a revision in a set, unless the set was changed since it was read."""
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
    approval = (kept.get("rollout") or {}).get("approval") or {}
    if approval.get("differentUser"):  # the policy accepts it only from the user it names, as with any change
        instead = "Undo it with kubectl, with your user name as spec.rollout.approval.requester"
        user = await identity.whoami(client, f"undo {name}", instead)
        kept["rollout"] = {**kept["rollout"], "approval": {**approval, "requester": user}}
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
        if not choosing.in_stages(found):
            raise click.ClickException(
                f"cannot {doing} {name}: its changes reach all hosts at once; set spec.rollout.strategy to"
                " Staged"
            )
        if change is not _restarted and found.spec.rollout is None:
            raise click.ClickException(
                f"cannot {doing} {name}: it is rolled out by the default of its namespace; set spec.paused of"
                f" RolloutPolicy {DEFAULT}, for all sets that follow it, or give the set a spec.rollout"
            )
        others = await rollout_objects.together(client, settings, found)
        body, said = change(found)
        if body:
            await client.patch(CONFIG_SETS, name, settings.namespace, MergePatch(body))
        if change is _resumed and await _resume_others(client, settings, others):
            said = f"{name} goes on"
    click.echo(output.one_line(f"{said}{rollout_objects.with_group(found, others)}"))


async def _resume_others(client: Client, settings: connect.Settings, others: Sequence[ConfigSet]) -> bool:
    """Have the other sets of a group go on: one that is paused keeps all of them. Tell whether one was."""
    paused = [one for one in others if one.spec.rollout is not None and one.spec.rollout.paused]
    for one in paused:
        body, _ = _resumed(one)
        await client.patch(CONFIG_SETS, one.metadata.name, settings.namespace, MergePatch(body))
    return bool(paused)


def _paused(found: ConfigSet) -> tuple[dict[str, Any], str]:
    name = found.metadata.name
    if found.spec.rollout is not None and found.spec.rollout.paused:
        return {}, f"{name} is paused already"
    said = f"{name} is paused; to go on: nodemanager rollout resume {name}"
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
