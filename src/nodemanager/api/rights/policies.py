"""All admission policies that we ship, each with its binding, by what the file of it is called."""

from __future__ import annotations

from typing import Any, Final

from nodemanager.api.rights import (
    approval_policy,
    host_policy,
    operator_policy,
    preview_policy,
    revision_policy,
    task_policy,
)

BY_FILE: Final[dict[str, list[dict[str, Any]]]] = {
    "hosts": host_policy.policies(),
    "tasks": task_policy.policies(),
    "revisions": revision_policy.policies(),
    "previews": preview_policy.policies(),
    "operator": operator_policy.policies(),
    "approvals": approval_policy.policies(),
}


def objects() -> list[dict[str, Any]]:
    """Return all of them, every policy before its binding."""
    return [one for pair in BY_FILE.values() for one in pair]
