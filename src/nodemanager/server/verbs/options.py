"""The query parameters of writes, checked: dry run, field validation, the manager's name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from nodemanager.kube.errors import Cause
from nodemanager.server.http import refusals
from nodemanager.server.http.routing import is_true
from nodemanager.server.hub import ApiCall

_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_MANAGER_MAX = 128


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write."""

    dry_run: bool
    validation: str
    manager: str
    force: bool = False
    patch: bool = False
    """Whether the object was made from a patch: then it has the uid of the stored object."""
    applied: list[Any] | None = None
    """The managedFields of a server-side apply, which knows its own owners."""

    @property
    def checks(self) -> bool:
        """Whether unknown and repeated fields have to be reported."""
        return self.validation != "Ignore"


def write_options(call: ApiCall, options: str, *, apply: bool = False) -> WriteOptions:
    """Read and check the options of a write; `options` is what Kubernetes calls them in refusals."""
    validation = call.query.get("fieldValidation", "")
    dry_run = call.query.get("dryRun", "")
    manager = call.query.get("fieldManager", "")
    causes = []
    if dry_run not in ("", "All"):
        causes.append(refusals.value_unsupported("dryRun", [dry_run], ("All",)))
    if validation not in _VALIDATIONS:
        causes.append(refusals.value_unsupported("fieldValidation", validation, _VALIDATIONS))
    if len(manager) > _MANAGER_MAX:
        why = f"may not be more than {_MANAGER_MAX} bytes"
        causes.append(refusals.value_invalid("fieldManager", manager[:_MANAGER_MAX], why))
    elif not manager.isprintable():
        causes.append(
            refusals.value_invalid("fieldManager", manager, "should only contain printable characters")
        )
    if options == "PatchOptions":
        causes += _patch_causes(call, apply=apply)
    if causes:
        raise refusals.invalid_options(options, causes)
    return WriteOptions(
        dry_run == "All", validation or "Warn", manager or _agent_name(call.user_agent),
        is_true(call.query.get("force")), options == "PatchOptions",
    )  # fmt: skip


def _patch_causes(call: ApiCall, *, apply: bool) -> list[Cause]:
    if apply and not call.query.get("fieldManager"):
        return [refusals.value_required("fieldManager", "is required for apply patch")]
    if not apply and call.query.get("force"):
        return [refusals.value_forbidden("force", "may not be specified for non-apply patch")]
    return []


def given_options(call: ApiCall, kind: str) -> dict[str, Any]:
    """Return the options of a write as an object, the way admission sees them."""
    options: dict[str, Any] = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if call.query.get("dryRun"):
        options["dryRun"] = [call.query["dryRun"]]
    for name in ("fieldManager", "fieldValidation"):
        if call.query.get(name):
            options[name] = call.query[name]
    return options


def _agent_name(user_agent: str) -> str:
    name = re.split(r"/", user_agent, maxsplit=1)[0]
    return "".join(char for char in name if char.isprintable())[:_MANAGER_MAX] or "unknown"
