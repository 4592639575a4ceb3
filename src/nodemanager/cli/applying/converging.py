"""One pass without an API: what manifests declare becomes what this host shall be, and is brought about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from nodemanager.agent.assembly import ManagedHost
from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.report import host_inventory
from nodemanager.cli.views import output, waiting
from nodemanager.host.results import ResourceOutcome, Result
from nodemanager.plan import merge
from nodemanager.plan.desired import Contents, Desired
from nodemanager.plan.templates import references
from nodemanager.rendering.renderer import Renderer

MAX = 300


async def converge(
    inputs: DeclaredInputs, managed_host: ManagedHost, contenter: Contenter, renderer: Renderer
) -> list[Result]:
    """Bring about what is declared for this host, and return what became of it."""
    async with renderer:
        desired, made = await wanted(inputs, managed_host, contenter)
    for name, said in desired.conflicts.items():
        for conflict in said:
            click.echo(output.one_line(f"conflict in ConfigSet {name}: {conflict}"), err=True)
    async with waiting.told(lambda: f"at work: {managed_host.progress.program() or 'this host'}"):
        results = await managed_host.converger.run(desired, made)
    # Here no operator or user brings missing objects while we wait.
    results = [replace(one, outcome=ResourceOutcome.BLOCKED) if one.awaits else one for one in results]
    held = [Result(one, (), ResourceOutcome.BLOCKED, why) for one, why in desired.held.items()]
    return results + held


async def wanted(
    inputs: DeclaredInputs, managed_host: ManagedHost, contenter: Contenter
) -> tuple[Desired, Contents]:
    """Return the wanted state of this host, with rendered templates."""
    node = inputs.node(managed_host.identity)
    matching = inputs.matching(node)
    if not inputs.config_sets:
        click.echo("there is no ConfigSet at all", err=True)
    elif not matching:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(node.metadata.labels.items()))
        click.echo(output.one_line(f"no ConfigSet matches this host, whose labels are {labels}"), err=True)
    if any(references.refers(file) for one in matching for file in one.spec.files):
        run = managed_host.converger.observer.run
        node = await host_inventory.as_reported(node, managed_host.tree.root, managed_host.identity, run)
        inputs = inputs.knowing(node)
    desired = merge.merge(matching)
    return desired, await contenter.make(desired, inputs, node)


def plain(one: Result) -> dict[str, Any]:
    """Return what became of a resource, for programs."""
    return {
        "resource": str(one.id),
        "outcome": str(one.outcome),
        "configSets": list(one.sources),
        "message": one.message,
    }


def report(results: Sequence[Result], style: output.Style) -> list[str]:
    """Return what was done, what could not be, and how many were fine."""
    colours = {
        ResourceOutcome.CHANGED: "green",
        ResourceOutcome.FAILED: "red",
        ResourceOutcome.BLOCKED: "yellow",
    }
    said = []
    for one in results:
        if one.outcome is not ResourceOutcome.UNCHANGED:
            name = style.paint(output.one_line(str(one.id)), colours[one.outcome])
            said.append(f"{name}  {one.outcome}: {output.one_line(one.message, MAX)}")
    counts = {outcome: sum(one.outcome is outcome for one in results) for outcome in ResourceOutcome}
    shown = ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
    return [*said, shown or "nothing is declared for this host"]
