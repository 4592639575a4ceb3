"""The digest of what a step runs: the same one in the chain of a host and in the audit log."""

from __future__ import annotations

from nodemanager.api.audit import record as records
from nodemanager.api.maintenance.task_steps import TaskStep


def argv_digest(step: TaskStep) -> str:
    """Return the digest of what a step runs: its argv, or its script; empty = it runs no program.

    The digest has no other part of the step, so that a person who knows the command can compare.
    """
    if step.execution is None:
        return ""
    return records.digest(step.execution.argv or step.execution.script)
