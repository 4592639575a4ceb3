"""A maintenance for once: made of a template, hosts and values, after all of them were looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import msgspec

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.api.maintenance.nodeoperationtemplate import NODE_OPERATION_TEMPLATES, NodeOperationTemplate
from nodemanager.api.maintenance.operations import ONE_SHOT
from nodemanager.cli import kinds
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.fleet.maintenance import steps
from nodemanager.kube import errors, selectors

OPERATION = "run"
NAME_PART = 40
"""Characters of the template's name that the maintenance is named by: tasks have its name as a label."""


@dataclass(frozen=True, slots=True)
class AdHocWork:
    """Work that a user wants done, once."""

    template: str
    values: dict[str, str] = field(default_factory=dict)
    selector: str = ""
    hosts: tuple[str, ...] = ()
    everywhere: bool = False
    window: str = ""
    """Name of a MaintenanceWindow; empty = now."""
    limits: dict[str, Any] = field(default_factory=dict)
    """Fields of the spec: budget, stopAfter, disruption."""


async def check(client: Client, namespace: str, wanted: AdHocWork) -> list[str]:
    """Return the names of the hosts that are meant; raise what stands against it before anything is."""
    what = f"cannot run {wanted.template}: "
    template = await _template(client, namespace, wanted, what)
    if not template.spec.steps:
        raise click.ClickException(
            f"{what}it declares what shall hold (type realtime), and nothing to do once; make it an "
            "operation of a NodeMaintenance"
        )
    try:
        steps.filled(template.spec.steps, steps.values(template.spec.parameters, wanted.values))
    except steps.StepsError as error:
        raise click.ClickException(f"{what}{error}; give values as --set NAME=VALUE") from error
    if wanted.window:
        await _window(client, namespace, wanted, what)
    return await _hosts(client, namespace, wanted, what)


async def _template(client: Client, namespace: str, wanted: AdHocWork, what: str) -> NodeOperationTemplate:
    try:
        with kinds.installed(NODE_OPERATION_TEMPLATES):
            return await client.get(NODE_OPERATION_TEMPLATES, wanted.template, namespace)
    except errors.NotFound as error:
        if not error.details.name:
            raise
        raise click.ClickException(
            f"{what}there is no such NodeOperationTemplate in namespace {namespace}; see nodemanager get "
            "notmpl"
        ) from error


async def _window(client: Client, namespace: str, wanted: AdHocWork, what: str) -> None:
    try:
        await client.get(MAINTENANCE_WINDOWS, wanted.window, namespace)
    except errors.NotFound as error:
        raise click.ClickException(
            f"{what}there is no MaintenanceWindow {wanted.window} in namespace {namespace}; see nodemanager "
            "get mw"
        ) from error


async def _hosts(client: Client, namespace: str, wanted: AdHocWork, what: str) -> list[str]:
    found: Sequence[ManagedNode] = (
        await client.list(MANAGED_NODES, Selection(namespace, wanted.selector))
    ).items
    names = [one.metadata.name for one in found]
    if wanted.hosts:
        lacking = sorted(set(wanted.hosts) - set(names))
        if lacking:
            raise click.ClickException(
                f"{what}there is no host {', '.join(lacking)} in namespace {namespace}; see nodemanager get "
                "mn"
            )
        names = [name for name in names if name in wanted.hosts]
    if not names:
        chosen = f" with {wanted.selector}" if wanted.selector else ""
        raise click.ClickException(
            f"{what}there is no host{chosen} in namespace {namespace}; see nodemanager get mn"
        )
    return names


def body(wanted: AdHocWork) -> dict[str, Any]:
    """Return the NodeMaintenance."""
    operation: dict[str, Any] = {
        "name": OPERATION,
        "type": ONE_SHOT,
        "templateRef": {"name": wanted.template},
    }
    if wanted.values:
        operation["parameters"] = wanted.values
    spec: dict[str, Any] = {"operations": [operation], **wanted.limits}
    if wanted.window:
        spec["windowRef"] = {"name": wanted.window}
    else:
        spec["window"] = {"always": True}
    if wanted.selector:
        spec["series"] = {"selector": msgspec.to_builtins(selectors.parse_selector(wanted.selector))}
    elif wanted.hosts:
        spec["series"] = {"names": list(wanted.hosts)}
    return {"metadata": {"generateName": f"{wanted.template[:NAME_PART].rstrip('-.')}-"}, "spec": spec}


async def create(client: Client, namespace: str, wanted: AdHocWork) -> NodeMaintenance:
    """Create it."""
    with kinds.installed(NODE_MAINTENANCES):
        return await client.create(NODE_MAINTENANCES, body(wanted), namespace)
