"""All admission policies that we ship, each with its binding, by what the file of it is called."""

from __future__ import annotations

from typing import Any, Final

from nodemanager.api.rights import (
    approval_policy,
    audit_policy,
    host_policy,
    operator_policy,
    preview_policy,
    revision_policy,
    stamp_policy,
    task_policy,
)

BY_FILE: Final[dict[str, list[dict[str, Any]]]] = {
    "hosts": host_policy.policies(),
    "tasks": task_policy.policies(),
    "revisions": revision_policy.policies(),
    "previews": preview_policy.policies(),
    "operator": operator_policy.policies(),
    "approvals": approval_policy.policies(),
    "audit": audit_policy.policies(),
    "stamps": stamp_policy.policies(),
}
MUTATING_BY_FILE: Final[dict[str, list[dict[str, Any]]]] = {"stamping": stamp_policy.stamping()}
"""The same for those that not every server has: MutatingAdmissionPolicies are in Kubernetes 1.36."""


def objects() -> list[dict[str, Any]]:
    """Return all that refuse something, every policy before its binding."""
    return [one for pair in BY_FILE.values() for one in pair]


def mutating_objects() -> list[dict[str, Any]]:
    """Return all that change something, every policy before its binding."""
    return [one for pair in MUTATING_BY_FILE.values() for one in pair]
