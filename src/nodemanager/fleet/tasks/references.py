"""Which Secrets and files tasks refer to, while they have not ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodemanager.api.common.declarations import File
from nodemanager.api.maintenance.nodetask import NodeTask, is_ended
from nodemanager.api.maintenance.task_steps import TaskAction, TaskStep


def secrets(tasks: Iterable[NodeTask]) -> set[str]:
    """Return the Secrets whose values the programs of tasks get, including programs that take a step back."""
    return {
        variable.secret
        for action in _actions(tasks)
        if action.execution is not None
        for variable in action.execution.secret_env
    }


def files(tasks: Iterable[NodeTask]) -> list[File]:
    """Return the files of tasks, whose content may come from Secrets and ConfigMaps."""
    return [action.file for action in _actions(tasks) if action.file is not None]


def _actions(tasks: Iterable[NodeTask]) -> Iterator[TaskStep | TaskAction]:
    for task in tasks:
        if is_ended(task.status):
            continue
        for step in task.spec.steps:
            yield step
            if step.undo is not None:
                yield step.undo
