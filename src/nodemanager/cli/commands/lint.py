"""`nodemanager lint`: what is wrong with manifests, found before any host sees them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.cli.linting import hosts, sites
from nodemanager.cli.linting.sources import Located, ManifestSources
from nodemanager.cli.manifests import manifest_folder
from nodemanager.cli.settings import host_options
from nodemanager.cli.views import forms, lint_view, output
from nodemanager.host.process import runner
from nodemanager.kube.manifests import ManifestError
from nodemanager.plan.lint import config_sets, folders, host_data, syntax
from nodemanager.plan.lint.findings import RULES
from nodemanager.plan.lint.folders import Together
from nodemanager.rendering.renderer import Renderer

EXIT_FINDINGS = 1
EXIT_CANNOT = 2


class CannotLint(click.ClickException):
    """There is nothing that could be looked at."""

    exit_code = EXIT_CANNOT


@click.command(
    epilog="""\b
Examples:
  nodemanager lint -f ./manifests
  nodemanager lint -f . --host web1          templates with the data of this ManagedNode only
  kubectl get mn web1 -o yaml > web1.yaml && nodemanager lint -f . --host web1.yaml
  nodemanager lint -f . -o github            annotations of a pull request
  nodemanager lint -f . --ignore missing-reference

\b
Exit codes: 0 nothing found, 1 something found, 2 it could not be looked at.
""",
)
@host_options.manifests("File or folder with manifests.", required=True)
@click.option(
    "--host", "chosen", multiple=True, metavar="FILE|NAME",
    help="Render templates for this ManagedNode, from a file or by name. Default: all in the manifests.",
)  # fmt: skip
@click.option(
    "--ignore", "ignored", multiple=True, metavar="RULE", type=click.Choice(sorted(RULES)),
    help="Leave out what this rule finds.",
)  # fmt: skip
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "json", "yaml", "github"]), default="text",
    show_default=True, help="For people, for programs, or as annotations on GitHub.",
)  # fmt: skip
def command(paths: tuple[Path, ...], chosen: tuple[str, ...], ignored: tuple[str, ...], form: str) -> None:
    """Find mistakes in manifests, without an API and without a host.

    What the API would refuse, templates that cannot be read or that lack something on a host, references to
    what nothing declares, paths, owners and modes that are hardly meant, and sets that contradict each other.
    """
    sources = ManifestSources()
    try:
        sources.read(paths)
        nodes = _hosts(sources, chosen)
    except (ManifestError, OSError) as error:
        raise CannotLint(str(error)) from error
    asyncio.run(_look(sources, nodes))
    found = [one for one in _ordered(sources.located) if one.finding.rule not in ignored]
    if form == "github":
        shown = list(lint_view.github(found))
    elif form == "text":
        style = output.Style.of(sys.stdout, os.environ)
        shown = list(lint_view.lines(found, sources.objects, sources.files, style))
    else:
        shown = [forms.dump(lint_view.plain(found), form).rstrip("\n")]
    for line in shown:
        click.echo(line)
    if not nodes and form == "text":
        click.echo("There is no ManagedNode to use: templates were read, not rendered; see --host.", err=True)
    if found:
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _hosts(sources: ManifestSources, chosen: Sequence[str]) -> list[ManagedNode]:
    """Return the hosts to render for; those of files become known to the others, too."""
    known = sources.collection.nodes
    names: list[str] = []
    for one in chosen:
        if one not in known and Path(one).is_file():
            extra = manifest_folder.load([Path(one)]).nodes
            if not extra:
                raise ManifestError(f"cannot render for {one}: there is no ManagedNode in it")
            known |= {node.metadata.name: node for node in extra}
            names += [node.metadata.name for node in extra]
        elif one in known:
            names.append(one)
        else:
            there = ", ".join(sorted(known)) or "none"
            raise ManifestError(
                f"cannot render for {one}: it is no file, and no ManagedNode here; there are {there}"
            )
    return [manifest_folder.labelled(known[name]) for name in (names if chosen else known)]


async def _look(sources: ManifestSources, nodes: Sequence[ManagedNode]) -> None:
    collection = sources.collection
    async with Renderer(runner.companion) as renderer:
        unreadable = set()
        for one in collection.sets.values():
            sources.locate(config_sets.findings(one))
            todo = syntax.jobs(one)
            answers = await renderer.render(todo) if todo else []
            wrong = list(syntax.findings(one, answers, limits=True))
            unreadable |= {(finding.name, finding.path[:3]) for finding in wrong}
            sources.locate(wrong)
        failed = await hosts.findings(collection.inputs(), nodes, sources.made_elsewhere, renderer)
    sources.locate(one for one in failed if (one.name, one.path[:3]) not in unreadable)
    sources.locate(sites.findings(collection.edge_clusters, collection.edge_profiles))
    made = collection.secrets.keys() | sources.made_elsewhere
    names = {"ConfigSet": collection.sets.keys(), "ManagedNode": collection.nodes.keys()}
    sets = list(collection.sets.values())
    sources.locate(host_data.findings(sets, nodes, collection.secrets, collection.config_maps))
    sources.locate(folders.findings(Together(sets, nodes, made, collection.config_maps.keys(), names)))


def _ordered(found: Sequence[Located]) -> list[Located]:
    """Return each finding once, by file and line."""
    return sorted(dict.fromkeys(found), key=lambda one: (str(one.file), one.line, one.finding.rule))
