"""What takes back a task that succeeded, if its host is not proven afterwards: inverse steps, the last first.

An agent takes back by itself what fails while it works. This is for what only the operator sees later. Which
packages there were, the agent has on disk: a status has room for some of them only.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.api.maintenance.task_steps import PackagesAction, PackagesBefore, TaskStep


def is_possible(steps: Sequence[TaskStep]) -> bool:
    """Tell whether any part of a task can be taken back."""
    return any(step.undo is not None or step.packages is not None for step in steps)


def inverse(task: NodeTask) -> list[TaskStep]:
    """Return the steps that take a task back: one for each step that changed something and has an inverse."""
    changed = {one.name for one in task.status.steps if one.changed}
    found: list[TaskStep] = []
    for step in reversed(task.spec.steps):
        if step.name not in changed:
            continue
        if step.undo is not None:
            found.append(
                TaskStep(
                    name=step.name,
                    timeout=step.timeout,
                    packages=step.undo.packages,
                    service=step.undo.service,
                    execution=step.undo.execution,
                    file=step.undo.file,
                )
            )
        elif step.packages is not None:
            before = PackagesBefore(task=task.metadata.uid, step=step.name)
            action = PackagesAction(restore=before)
            found.append(TaskStep(name=step.name, packages=action, timeout=step.timeout))
    return found
