"""`nodemanager crds`: our kinds, as YAML for GitOps or straight into a cluster and out again."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

import click

from nodemanager.api import crds
from nodemanager.api.maintenance import shipped_templates
from nodemanager.cli.installing import crd_changes
from nodemanager.cli.installing.template_changes import TemplateChanges
from nodemanager.cli.settings import connect
from nodemanager.cli.views import forms, output
from nodemanager.client.verbs import Client
from nodemanager.kube import errors, manifests
from nodemanager.kube.go import durations
from nodemanager.kube.wording import plural


@dataclass(frozen=True, slots=True)
class CrdRequest:
    """The action and its cluster."""

    settings: connect.Settings
    dry_run: bool
    timeout: float
    rename: bool
    templates: bool

    def changes(self, client: Client) -> crd_changes.Changes:
        """Return the changes in this cluster."""
        return crd_changes.Changes(
            client, dry_run=self.dry_run, timeout=self.timeout, rename=self.rename, progress=_progress
        )

    def template_changes(self, client: Client) -> TemplateChanges:
        """Return the changes of the templates that we ship."""
        return TemplateChanges(client, self.settings.namespace, dry_run=self.dry_run, progress=_progress)


def _seconds(_ctx: click.Context, _param: click.Parameter, value: str) -> float:
    try:
        seconds = durations.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if seconds <= 0:
        raise click.BadParameter(f"{value!r} is no time at all; write it like 90s or 2m")
    return seconds


@click.command(
    epilog="""\b
Examples:
  nodemanager crds > crds.yaml         for GitOps
  nodemanager crds --install           straight into the current cluster; again to upgrade
  nodemanager crds --install --dry-run
  nodemanager crds --templates         the NodeOperationTemplates that we ship, for GitOps
  nodemanager crds --uninstall         out again, with every host and ConfigSet
"""
)
@connect.options(namespaced=True)
@click.option("--install", is_flag=True, help="Put them into the cluster, or upgrade them.")
@click.option("--uninstall", is_flag=True, help="Remove them, and all their objects.")
@click.option(
    "-o", "--output", "form", type=click.Choice(["yaml", "json"]), default="yaml", help="How to print them."
)
@click.option("--dry-run", is_flag=True, help="Let the server check everything, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before --uninstall.")
@click.option("--rename-bindings", is_flag=True,
              help="With --install: also rename ClusterRoleBindings of hosts that the Go project or an older"
              " version named, and delete those whose ServiceAccounts are gone.")  # fmt: skip
@click.option("--templates/--no-templates", default=None,
              help="Print the NodeOperationTemplates that we ship, and not our kinds. With --install: whether"
              " they come, too, into --namespace; by default they do.")  # fmt: skip
@click.option(
    "--timeout", default="1m", show_default=True, callback=_seconds, help="How long to wait for each of them."
)
def command(
    settings: connect.Settings,
    install: bool,
    uninstall: bool,
    form: str,
    dry_run: bool,
    yes: bool,
    rename_bindings: bool,
    templates: bool | None,
    timeout: float,
) -> None:
    """Print the CustomResourceDefinitions of our kinds, or install them into a cluster.

    With them --install brings the admission policies that keep every host to its own objects, and that write
    down who asks for something, where the server can do that (Kubernetes 1.36). It changes no
    rights: Roles and bindings stay as they are, unless --rename-bindings is given. Last come the
    NodeOperationTemplates that we ship, if the namespace exists; one that somebody changed stays.
    """
    if install and uninstall:
        raise click.UsageError("--install and --uninstall are opposites: give one of them")
    if rename_bindings and not install:
        raise click.UsageError("--rename-bindings is for --install")
    if uninstall and templates is not None:
        raise click.UsageError("--templates is not for --uninstall: they go with their kind")
    request = CrdRequest(settings, dry_run, timeout, rename_bindings, templates is not False)
    if install:
        asyncio.run(_install(request))
    elif uninstall:
        _consider(request, agreed=dry_run or yes)
        asyncio.run(_uninstall(request))
    elif dry_run or yes:
        raise click.UsageError("--dry-run and --yes are for --install and --uninstall")
    else:
        everything = shipped_templates.templates(settings.namespace) if templates else crds.all_crds()
        if form == "json":
            whole = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": everything}
            click.echo(forms.dump(whole, form), nl=False)
        else:
            click.echo(manifests.dump(everything), nl=False)


async def _install(request: CrdRequest) -> None:
    async with connect.connect(request.settings) as client:
        async for outcome in request.changes(client).install():
            _say(outcome, request.dry_run)
        if request.templates:
            async for name, result in request.template_changes(client).install():
                _say(crd_changes.CrdOutcome(name, result), request.dry_run)


async def _uninstall(request: CrdRequest) -> None:
    async with connect.connect(request.settings) as client:
        async for outcome in request.changes(client).uninstall():
            _say(outcome, request.dry_run)


def _consider(request: CrdRequest, *, agreed: bool) -> None:
    """Tell what would go, and go on only if somebody agrees.

    This is outside of the event loop, where an interrupt ends the question.
    """
    server, counts = asyncio.run(_survey(request))
    if not counts:
        return  # nothing is there that could be lost
    words = {kind: plural(count, kind, _many(kind)) for kind, count in counts.items()}
    lost = ", ".join(words[kind] for kind in counts if counts[kind]) or "no object"
    click.echo(f"This removes our kinds, and with them {lost}, from {server}.", err=True)
    if agreed:
        return
    if not sys.stdin.isatty():
        raise errors.ConfigError(
            "cannot uninstall: there is no terminal to ask at whether this is meant; if it is, add --yes, or"
            " YES=1 to make uninstall"
        )
    if not click.confirm("Go on?", err=True):
        click.echo("Nothing was removed.", err=True)
        raise click.exceptions.Exit(1)


def _many(kind: str) -> str:
    """Return how several of a kind are called."""
    if kind.endswith("y"):
        return f"{kind[:-1]}ies"
    return kind if kind.endswith("s") else f"{kind}s"


async def _survey(request: CrdRequest) -> tuple[str, dict[str, int]]:
    """Return which server it is about, and how many objects would go."""
    async with connect.connect(request.settings) as client:
        return connect.client_config(request.settings).server, await crd_changes.count_objects(client)


def _say(outcome: crd_changes.CrdOutcome, dry_run: bool) -> None:
    click.echo(output.one_line(f"{outcome.name} {outcome.result}{' (server dry run)' if dry_run else ''}"))


def _progress(message: str) -> None:
    click.echo(output.one_line(message), err=True)
