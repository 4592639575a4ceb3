"""Saying yes under one's own name: to a plan of a maintenance, or to a change of a ConfigSet."""

from __future__ import annotations

import hashlib
import re
import sys
from typing import Any, Final

import click

from nodemanager.api.maintenance.maintenanceapproval import MAINTENANCE_APPROVALS, MaintenanceApproval
from nodemanager.cli.views import output
from nodemanager.client.verbs import Client
from nodemanager.kube import errors

SHORTEST: Final = 12
"""Least characters of a hash that pin a plan."""
NAME_MAX: Final = 230


def check(pinned: str, *, yes: bool) -> None:
    """Refuse an invalid hash, and a question where no user can answer."""
    if pinned and not re.fullmatch(rf"[0-9a-f]{{{SHORTEST},64}}", pinned):
        raise click.BadParameter(
            f"{pinned!r} is not {SHORTEST} to 64 hexadecimal digits", param_hint="'--hash'"
        )
    if not yes and not sys.stdin.isatty():
        raise click.UsageError(
            "nobody can be asked: this is no terminal; add --yes, and --hash for the plan that you looked at"
        )


def body(field: str, name: str, plan_hash: str, user: str, comment: str) -> dict[str, Any]:
    """Return the approval; its name follows from plan and user, so that nobody approves twice by accident."""
    whose = hashlib.sha256(user.encode()).hexdigest()[:6]
    spec = {field: name, "planHash": plan_hash, "approver": user}
    if comment:
        spec["comment"] = output.one_line(comment)
    short = name[: NAME_MAX - 20].rstrip("-.")
    return {"metadata": {"name": f"{short}-{plan_hash[:SHORTEST]}-{whose}"}, "spec": spec}


async def create(client: Client, namespace: str, body: dict[str, Any]) -> str:
    """Create an approval, and return what to say of it."""
    name, spec = body["metadata"]["name"], body["spec"]
    approved = spec.get("maintenance") or spec["configSet"]
    try:
        await client.create(MAINTENANCE_APPROVALS, body, namespace)
    except errors.AlreadyExists:
        there: MaintenanceApproval = await client.get(MAINTENANCE_APPROVALS, name, namespace)
        if there.spec.plan_hash != spec["planHash"] or there.spec.approver != spec["approver"]:
            raise
        return f"{approved} was approved by you before: maintenanceapproval/{name}"
    return f"{approved} is approved by {spec['approver']}: maintenanceapproval/{name}"
