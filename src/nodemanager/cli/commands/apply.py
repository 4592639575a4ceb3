"""`nodemanager apply`: make this host what manifests say, without any API."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from nodemanager.agent.assembly import HostSetup, ManagedHost, NoLocks, assemble
from nodemanager.agent.declared import contents
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.report import host_inspector
from nodemanager.cli import manifest_folder
from nodemanager.cli.settings import host_options
from nodemanager.cli.views import forms, output, waiting
from nodemanager.host.process import runner
from nodemanager.host.results import Outcome, Result
from nodemanager.plan import merge
from nodemanager.plan.desired import Contents, Desired
from nodemanager.plan.templates import references
from nodemanager.rendering.renderer import Renderer, Rendering

MAX = 300
NO_API = "there is no API to share it through; restart the service yourself, or run the agent"


@click.command(
    epilog="""\b
Examples:
  nodemanager apply --manifest-dir ./manifests            this host, by its own name
  nodemanager apply -f base.yaml -f web.yaml              of two files
  nodemanager apply --manifest-dir . --hostname web1      as if it were called web1
  nodemanager apply --manifest-dir . --root /mnt/image    an image, with its own tools
  nodemanager plan -f ./manifests                         first see what would change
""",
)
@host_options.manifests("File or folder with ConfigSets, ManagedNodes, Secrets, ConfigMaps.", required=True)
@forms.option("text")
@host_options.host_options
def command(paths: tuple[Path, ...], form: str, root: str, hostname: str) -> None:
    """Converge this host once, with nothing but manifests.

    Exit code 0: everything is as declared now. 1: something could not be brought about.
    """
    inputs = manifest_folder.load(paths)
    managed_host = assemble(HostSetup(root=root, hostname=hostname), NoLocks(NO_API))
    try:
        results = asyncio.run(_apply(inputs, managed_host))
    finally:
        managed_host.close()
    if form == "text":
        for line in report(results, output.Style.of(sys.stdout, os.environ)):
            click.echo(line)
    else:
        click.echo(forms.dump([_plain(one) for one in results], form), nl=False)
    if any(one.bad for one in results):
        raise click.exceptions.Exit(1)


async def _apply(inputs: DeclaredInputs, managed_host: ManagedHost) -> list[Result]:
    async with Renderer(runner.companion) as renderer:
        desired, made = await wanted(inputs, managed_host, renderer)
    for name, said in desired.conflicts.items():
        for conflict in said:
            click.echo(output.one_line(f"conflict in ConfigSet {name}: {conflict}"), err=True)
    async with waiting.told(lambda: f"at work: {managed_host.progress.program() or 'this host'}"):
        results = await managed_host.converger.run(desired, made)
    # Here nobody brings what is missing while we wait.
    results = [replace(one, outcome=Outcome.BLOCKED) if one.awaits else one for one in results]
    held = [Result(one, (), Outcome.BLOCKED, why) for one, why in desired.held.items()]
    return results + held


async def wanted(
    inputs: DeclaredInputs, managed_host: ManagedHost, renderer: Rendering
) -> tuple[Desired, Contents]:
    """Return what this host shall be, templates rendered."""
    node = inputs.node(managed_host.identity)
    matching = inputs.matching(node)
    if not inputs.config_sets:
        click.echo("there is no ConfigSet at all", err=True)
    elif not matching:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(node.metadata.labels.items()))
        click.echo(output.one_line(f"no ConfigSet matches this host, whose labels are {labels}"), err=True)
    if any(references.refers(file) for one in matching for file in one.spec.files):
        run = managed_host.converger.observer.run
        node = await host_inspector.as_reported(node, managed_host.tree.root, managed_host.identity, run)
        inputs = inputs.knowing(node)
    desired = merge.merge(matching)
    return desired, await contents.Contenter(renderer).make(desired, inputs, node)


def _plain(one: Result) -> dict[str, Any]:
    return {
        "resource": str(one.id),
        "outcome": str(one.outcome),
        "configSets": list(one.sources),
        "message": one.message,
    }


def report(results: Sequence[Result], style: output.Style) -> list[str]:
    """Return what was done, what could not be, and how many were fine."""
    colours = {Outcome.CHANGED: "green", Outcome.FAILED: "red", Outcome.BLOCKED: "yellow"}
    said = []
    for one in results:
        if one.outcome is not Outcome.UNCHANGED:
            name = style.paint(output.one_line(str(one.id)), colours[one.outcome])
            said.append(f"{name}  {one.outcome}: {output.one_line(one.message, MAX)}")
    counts = {outcome: sum(one.outcome is outcome for one in results) for outcome in Outcome}
    shown = ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
    return [*said, shown or "nothing is declared for this host"]
