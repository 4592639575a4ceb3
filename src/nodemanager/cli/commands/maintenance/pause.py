"""`nodemanager maintenance pause` and `resume`: begin nothing for a while, and go on."""

from __future__ import annotations

import click

from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.cli.maintenance import objects
from nodemanager.cli.settings import connect
from nodemanager.kube.wording import plural


@click.command(
    epilog="""\b
Examples:
  nodemanager maintenance pause monday
  nodemanager maintenance pause monday kernel-cleanup
  nodemanager maintenance resume monday     go on
"""
)
@objects.NAMES
@connect.options(namespaced=True)
def pause(names: tuple[str, ...], settings: connect.Settings) -> None:
    """Begin with no further host (spec.paused); hosts in work are finished.

    It stays so until resume. Where GitOps keeps the object, pause it there: what is written here would be
    put back.
    """
    objects.change_each(settings, names, "pause", _paused)


@click.command(
    epilog="""\b
Examples:
  nodemanager maintenance resume monday
"""
)
@objects.NAMES
@connect.options(namespaced=True)
def resume(names: tuple[str, ...], settings: connect.Settings) -> None:
    """Go on with a maintenance that is paused, within its window."""
    objects.change_each(settings, names, "resume", _resumed)


def _paused(found: NodeMaintenance) -> tuple[dict[str, object], str]:
    name, working = found.metadata.name, found.status.hosts.running if found.status.hosts else 0
    if found.spec.paused:
        return {}, f"{name} is paused already"
    rest = f"; {plural(working, 'host')} in work will be finished" if working else ""
    said = f"{name} is paused: nothing is begun{rest}. To go on: nodemanager maintenance resume {name}"
    return {"spec": {"paused": True}}, said


def _resumed(found: NodeMaintenance) -> tuple[dict[str, object], str]:
    name, window = found.metadata.name, found.status.window
    if not found.spec.paused:
        return {}, f"{name} is not paused"
    shut = window is not None and not window.open and window.opens_at
    when = f"when its window opens, at {window.opens_at}" if window is not None and shut else "now"
    return {"spec": {"paused": False}}, f"{name} goes on {when}"
