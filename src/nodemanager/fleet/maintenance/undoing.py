"""What takes back a task that succeeded, if its host is not proven afterwards: inverse steps, the last first.

An agent takes back by itself what fails while it works. This is for what only the operator sees later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from nodemanager.api.maintenance.nodetask import TaskStepStatus
from nodemanager.api.maintenance.task_steps import CONTINUE, PackagesAction, TaskPackage, TaskStep

_ARROW: Final = "->"


def is_possible(steps: Sequence[TaskStep]) -> bool:
    """Tell whether anything of it can be taken back."""
    return any(step.undo is not None or step.packages is not None for step in steps)


def inverse(steps: Sequence[TaskStep], became: Sequence[TaskStepStatus]) -> list[TaskStep]:
    """Return the steps that take a task back: of all that changed something and know how."""
    by_name = {one.name: one for one in became}
    found: list[TaskStep] = []
    for step in reversed(steps):
        status = by_name.get(step.name)
        if status is None or not status.changed:
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
            found += _packages(step, status.evidence)
    return found


def _packages(step: TaskStep, evidence: Mapping[str, str]) -> list[TaskStep]:
    """Return steps that bring back the versions that were there, from what the status says: `1.0 -> 1.1`."""
    back: list[TaskPackage] = []
    new: list[str] = []
    for name, change in sorted(evidence.items()):
        before, arrow, _ = change.partition(_ARROW)
        if not arrow:
            continue
        if before.strip():
            back.append(TaskPackage(name=name, version=before.strip()))
        else:
            new.append(name)
    actions = [PackagesAction(install=back)] if back else []
    actions += [PackagesAction(remove=new)] if new else []
    # Both are tried: what is left of one is better than nothing of both.
    return [
        msgspec.structs.replace(
            TaskStep(name=f"{step.name[:55]}-{place}", packages=action, timeout=step.timeout),
            on_failure=CONTINUE if place < len(actions) - 1 else "",
        )
        for place, action in enumerate(actions)
    ]
