"""`nodemanager plan`: what would change on this host, or on the hosts of a fleet, and why."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from nodemanager.agent.assembly import HostSetup, ManagedHost, NoLocks, assemble
from nodemanager.agent.declared import fetching
from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.known_sets import CONFIRM_SECONDS
from nodemanager.agent.passes.pruning import Pruner
from nodemanager.api.common import node_conditions
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configsetpreview import MAX_HOSTS
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.cli import agent_credential, fleet_preview, kinds
from nodemanager.cli.applying import converging
from nodemanager.cli.commands.host import apply
from nodemanager.cli.fleet_preview import PreviewQuestion
from nodemanager.cli.manifests import manifest_folder
from nodemanager.cli.settings import connect, host_options
from nodemanager.cli.settings.durations import Duration
from nodemanager.cli.views import fleet_preview_view, forms, output, plan_view
from nodemanager.cli.views.maintenance import preview_view
from nodemanager.fleet.previews.proposing import SAMPLE
from nodemanager.host.process import runner
from nodemanager.host.state.ownership_ledger import OwnershipLedger, OwnershipLedgerError
from nodemanager.host.state.vault import Vault
from nodemanager.kube import conditions
from nodemanager.plan import set_doubts
from nodemanager.plan.desired import Desired
from nodemanager.plan.set_doubts import SetsTold
from nodemanager.plan.steps import Blocked, Step, changes
from nodemanager.rendering.renderer import Renderer
from nodemanager.runtime import signals

EXIT_ERROR = 1
EXIT_CHANGES = 2


class WrongUsage(click.UsageError):
    """Wrong usage of a command whose exit code 2 has another meaning."""

    exit_code = EXIT_ERROR


class PlanCommand(click.Command):
    """A command whose wrong usage is a normal error: a typo must not look like a change."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the command line."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            raise WrongUsage(error.format_message(), error.ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise WrongUsage(error.format_message(), error.ctx) from None


@click.command(
    cls=PlanCommand,
    epilog="""\b
Examples:
  nodemanager plan                         what the API's ConfigSets would change here
  nodemanager plan -f ./manifests          what these manifests would change here
  nodemanager plan -f . --hostname web1    as if this host were called web1
  nodemanager plan -o json                 for programs
  nodemanager plan --fleet -f ./manifests  what they would change on 20 hosts
  nodemanager plan --fleet -f . -l role=web --all -o json

\b
Exit codes: 0 all is as declared, 2 something would change, 1 an error (also of usage), or nothing but what
cannot be; with --fleet also 1 if a host that was asked says nothing, and no other would change.
""",
)
@host_options.manifests("File or folder with manifests, in place of the API.", required=False)
@forms.option("diff")
@click.option(
    "-a", "--all", "everything", is_flag=True,
    help="Also show what is as declared; with --fleet, ask all hosts that it is about.",
)  # fmt: skip
@click.option("--fleet", is_flag=True, help="Ask hosts of the API what the manifests would change there.")
@click.option("-l", "--selector", default="", help='With --fleet: hosts by label, such as "role=db".')
@click.option(
    "--sample", type=click.IntRange(1, MAX_HOSTS), default=None, metavar="N",
    help=f"With --fleet: ask N hosts, some of each kind. [default: {SAMPLE}]",
)  # fmt: skip
@click.option("--prune", is_flag=True, help="With --fleet: as if other ConfigSets were deleted.")
@click.option(
    "--timeout", type=Duration(1), default="2m", show_default=True, metavar="TIME",
    help="With --fleet: how long to wait for the answers.",
)  # fmt: skip
@host_options.host_options
@connect.options(namespaced=True)
def command(
    settings: connect.Settings,
    paths: tuple[Path, ...],
    form: str,
    everything: bool,
    root: str,
    hostname: str,
    **options: Any,
) -> None:
    """Show what would change on this host, as a diff, without changing anything.

    Contents that are made of Secrets are not shown. With --fleet, the operator has agents tell what
    ConfigSets of the manifests would change on their hosts; what they do not name stays as it is.
    """
    _check(paths, everything, options)
    if options["fleet"]:
        sample = None if everything else options["sample"] or SAMPLE
        question = PreviewQuestion(paths, options["selector"], sample, options["prune"], options["timeout"])
        with signals.terminable():  # what was asked is removed again
            code = asyncio.run(_fleet(settings, question, form))
        raise click.exceptions.Exit(code)
    managed_host = assemble(HostSetup(root=root, hostname=hostname), NoLocks(apply.NO_API))
    try:
        found = asyncio.run(_plan(settings, paths, managed_host))
        if form != "diff":
            click.echo(forms.dump(plan_view.plain(found, managed_host.tree), form), nl=False)
        else:
            style = output.Style.of(sys.stdout, os.environ)
            for line in plan_view.lines(found, managed_host.tree, style, everything=everything):
                click.echo(line)
    finally:
        managed_host.close()
    if changes(found):
        raise click.exceptions.Exit(EXIT_CHANGES)
    if any(isinstance(one, Blocked) for one in found):
        raise click.exceptions.Exit(1)


def _check(paths: tuple[Path, ...], everything: bool, options: dict[str, Any]) -> None:
    """Refuse what does not go together."""
    given = [f"--{name}" for name in ("selector", "sample", "prune") if options[name]]
    if not options["fleet"]:
        if given:
            raise click.ClickException(f"{given[0]} is about hosts of the API: add --fleet")
        return
    if not paths:
        raise click.ClickException("--fleet needs manifests whose ConfigSets are proposed: name them with -f")
    source = click.get_current_context().get_parameter_source
    if ParameterSource.COMMANDLINE in (source("root"), source("hostname")):
        raise click.ClickException("--root and --hostname are about this host: leave them out, or --fleet")
    if everything and options["sample"]:
        raise click.ClickException("give --sample or --all, not both")


async def _fleet(settings: connect.Settings, question: PreviewQuestion, form: str) -> int:
    counter = preview_view.AnswerCounter(sys.stderr)
    async with connect.connect(settings) as client:
        with counter:
            outcome = await fleet_preview.look(client, settings.namespace, question, counter.show)
    for warning in outcome.warnings:
        click.echo(f"warning: {output.one_line(warning)}", err=True)
    if form != "diff":
        click.echo(forms.dump(fleet_preview_view.plain(outcome), form), nl=False)
    else:
        for line in fleet_preview_view.lines(outcome, output.Style.of(sys.stdout, os.environ)):
            click.echo(line)
    return outcome.result.code


async def _plan(settings: connect.Settings, paths: tuple[Path, ...], managed_host: ManagedHost) -> list[Step]:
    async with Renderer(runner.companion) as renderer:
        if managed_host.tree.running:
            settings = connect.as_this_host(settings)
        inputs = manifest_folder.load(paths) if paths else await _fetch(settings, managed_host, renderer)
        desired, made = await converging.wanted(inputs, managed_host, Contenter(renderer))
    held = [Blocked(id=one, sources=(), reason=why) for one, why in desired.held.items()]
    steps = await managed_host.converger.preview(desired, made)
    if inputs.told is not None:
        steps += await _prune(managed_host, desired, inputs.told)
    return [*steps, *held]


async def _prune(managed_host: ManagedHost, desired: Desired, told: SetsTold) -> list[Step]:
    """Return what would be taken back because no set declares it any more."""
    ledger = OwnershipLedger(Vault(managed_host.tree.root, managed_host.state), keep=True)
    try:
        return await _put_back(managed_host, ledger, desired, told)
    except OwnershipLedgerError as error:
        said = f"warning: cannot tell what would be taken back: {error}"
        click.echo(output.one_line(said), err=True)
        return []
    finally:
        ledger.close()


async def _put_back(
    managed_host: ManagedHost, ledger: OwnershipLedger, desired: Desired, told: SetsTold
) -> list[Step]:
    found = set_doubts.doubts(ledger.owners, ledger.sets, told)
    wait = f"the agent waits {CONFIRM_SECONDS / 60:g} minutes to be sure"
    doubts = {
        one: f"{doubt.why}; {'a person has to say so' if doubt.person else wait}"
        for one, (doubt, *_) in found.items()
    }
    told = replace(told, doubts=doubts)
    return await Pruner(managed_host.converger, ledger).preview(desired, told)


async def _fetch(settings: connect.Settings, managed_host: ManagedHost, renderer: Renderer) -> DeclaredInputs:
    async with connect.connect(settings) as client:
        with kinds.installed(CONFIG_SETS):
            found = await fetching.fetch(client, settings.namespace, managed_host.identity, renderer)
    for warning in _warnings(settings, found.node(managed_host.identity)):
        click.echo(output.one_line(f"warning: {warning}"), err=True)
    return found


def _warnings(settings: connect.Settings, node: ManagedNode) -> Iterator[str]:
    """Yield why the agent would not do what is planned for this host."""
    if settings.kubeconfig == str(connect.host_kubeconfig_path()):
        credential = agent_credential.load(settings, node.metadata.name, shared=False)
        if credential.token is not None and credential.token.withheld:
            yield credential.token.withheld
    held = conditions.get(node.status.conditions, node_conditions.HELD)
    if held is not None and held.status == conditions.TRUE:
        yield f"nothing of this is done before the end of the hold: {held.message}"
