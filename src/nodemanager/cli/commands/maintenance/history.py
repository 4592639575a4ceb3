"""`nodemanager maintenance history`: what became of every run, and of every host in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from nodemanager.api.maintenance.nodemaintenance import LABEL_MAINTENANCE, NodeMaintenance
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NodeTask, node_label
from nodemanager.cli import kinds
from nodemanager.cli.maintenance import objects, tries
from nodemanager.cli.settings import connect
from nodemanager.cli.views import forms, output
from nodemanager.cli.views.maintenance import history_view
from nodemanager.client.calls import Selection


@click.command(
    "history",
    epilog="""\b
Examples:
  nodemanager maintenance history monday              runs, and the last hosts
  nodemanager maintenance history monday --run 3f2a   hosts of one run
  nodemanager maintenance history monday --failed     only hosts that failed
  nodemanager maintenance history monday -o json
\b
What one host said: nodemanager describe ntask TASK
""",
)
@objects.NAME
@click.option(
    "--run",
    "wanted",
    default="",
    metavar="ID",
    help="The hosts of this run; the beginning of its id will do.",
)
@click.option("--failed", is_flag=True, help="Only hosts that did not succeed.")
@connect.options(namespaced=True)
@forms.option("table")
def command(name: str, wanted: str, failed: bool, settings: connect.Settings, form: str) -> None:
    """Tell what became of the runs of a maintenance, and of each host, from its NodeTasks.

    Runs are kept as spec.successfulRunsHistoryLimit and failedRunsHistoryLimit say, tasks for as long as
    spec.ttlSecondsAfterFinished.
    """
    objects.run(_history(settings, name, wanted, failed, form))


async def _history(settings: connect.Settings, name: str, wanted: str, failed: bool, form: str) -> None:
    async with connect.connect(settings) as client:
        found = await objects.get(client, name, settings.namespace, "tell the history of")
        label = f"{LABEL_MAINTENANCE}={node_label(name)}"
        with kinds.installed(NODE_TASKS):
            tasks = (await client.list(NODE_TASKS, Selection(settings.namespace, label))).items
    tasks = [task for task in tasks if _is_of(task, found)]
    run = _chosen(found, tasks, wanted)
    shown = tries.tries(task for task in tasks if history_view.run_of(task) == run)
    if failed:
        shown = [one for one in shown if one.went_wrong]
    if form != "table":
        click.echo(forms.dump(plain(found, run, shown), form), nl=False)
        return
    text = history_view.text(found, run, shown, datetime.now(UTC))
    click.echo(output.wrapped(text, output.terminal_width()))


def _is_of(task: NodeTask, maintenance: NodeMaintenance) -> bool:
    """Tell whether a task is of this maintenance, and not of one of the same name that was before."""
    reason = task.spec.reason
    return reason is None or not reason.uid or reason.uid == maintenance.metadata.uid


def _chosen(found: NodeMaintenance, tasks: Sequence[NodeTask], wanted: str) -> str:
    """Return the id of the run whose hosts are shown: the current one, or else the last one."""
    known = [found.status.run.id] if found.status.run is not None and found.status.run.id else []
    known += [run.id for run in found.status.history]
    known = list(dict.fromkeys([*known, *(history_view.run_of(task) for task in tasks)]))
    if not wanted:
        return known[0] if known else ""
    meant = [run for run in known if run.startswith(wanted)]
    if len(meant) != 1:
        why = "several begin so" if meant else "there is none, or it is not remembered any more"
        raise click.ClickException(
            f"cannot tell of run {wanted} of {found.metadata.name}: {why}; there are "
            f"{', '.join(known) or 'none'}"
        )
    return meant[0]


def plain(found: NodeMaintenance, run: str, hosts: Sequence[tries.Try]) -> dict[str, Any]:
    """Return the history for programs."""
    status = found.status
    return {
        "maintenance": found.metadata.name,
        "run": msgspec.to_builtins(status.run) if status.run is not None else None,
        "history": [msgspec.to_builtins(one) for one in status.history],
        "hosts": {
            "run": run,
            "tasks": [
                {
                    "host": one.task.spec.node_name, "task": one.task.metadata.name, "phase": one.phase,
                    "undo": one.undo.metadata.name if one.undo is not None else "",
                    "step": one.task.status.step, "startedAt": one.task.metadata.creation_timestamp,
                    "finishedAt": one.task.status.finished_at, "message": one.message,
                }
                for one in hosts
            ],
        },
    }  # fmt: skip
