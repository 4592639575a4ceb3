"""`nodemanager maintenance abort` and `retry`: end the run under way, or have it go on after failures."""

from __future__ import annotations

import click

from nodemanager.api.maintenance.nodemaintenance import (
    ANNOTATION_ABORT,
    ANNOTATION_RETRY,
    NodeMaintenance,
)
from nodemanager.cli.maintenance import objects
from nodemanager.cli.settings import connect
from nodemanager.kube.wording import plural


@click.command(
    epilog="""\b
Examples:
  nodemanager maintenance abort monday
  nodemanager maintenance history monday      what had been done by then
"""
)
@objects.NAMES
@connect.options(namespaced=True)
def abort(names: tuple[str, ...], settings: connect.Settings) -> None:
    """End the run that is under way: no further host is begun with, those in work are finished.

    The next slot of a cron operation begins a new run; a one-shot does after a change of its runID.
    """
    objects.change_each(settings, names, "abort", _aborted)


@click.command(
    epilog="""\b
Examples:
  nodemanager maintenance history monday    which hosts failed, and how
  nodemanager maintenance retry monday      when that is repaired
"""
)
@objects.NAMES
@connect.options(namespaced=True)
def retry(names: tuple[str, ...], settings: connect.Settings) -> None:
    """Have a run that was stopped by failures go on, and try the hosts that failed again.

    What failed before does not count any more; spec.stopAfter holds for what fails from now on.
    """
    objects.change_each(settings, names, "retry", _retried)


def _aborted(found: NodeMaintenance) -> tuple[dict[str, object], str]:
    name, run = found.metadata.name, found.status.run
    if run is None or not run.id:
        raise click.ClickException(
            f"cannot abort {name}: no run is under way; to have none begin: nodemanager maintenance pause "
            f"{name}"
        )
    if found.metadata.annotations.get(ANNOTATION_ABORT) == run.id:
        return {}, f"run {run.id} of {name} is being ended already"
    working = found.status.hosts.running if found.status.hosts is not None else 0
    rest = f"{plural(working, 'host')} in work will be finished" if working else "no host is in work"
    return _noted(ANNOTATION_ABORT, run.id), f"run {run.id} of {name} ends; {rest}"


def _retried(found: NodeMaintenance) -> tuple[dict[str, object], str]:
    name, run, hosts = found.metadata.name, found.status.run, found.status.hosts
    if run is None or not run.id:
        last = next(iter(found.status.history), None)
        ended = f"the last one has ended ({last.outcome})" if last is not None else "none was begun yet"
        raise click.ClickException(
            f"cannot retry {name}: no run is under way, {ended}; a cron operation begins at its next slot, a "
            "one-shot after a change of its runID"
        )
    failed = hosts.failed if hosts is not None else 0
    if not failed and not run.stopped_at:
        raise click.ClickException(
            f"cannot retry {name}: no host of run {run.id} has failed; why hosts wait: nodemanager describe "
            f"nmaint {name}"
        )
    if found.metadata.annotations.get(ANNOTATION_RETRY) == run.id:
        return {}, f"run {run.id} of {name} is about to go on already"
    tried = f"; {plural(failed, 'host')} that failed will be tried again" if failed else ""
    return _noted(ANNOTATION_RETRY, run.id), f"run {run.id} of {name} goes on{tried}"


def _noted(annotation: str, run: str) -> dict[str, object]:
    return {"metadata": {"annotations": {annotation: run}}}
