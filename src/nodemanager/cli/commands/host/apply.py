"""`nodemanager apply`: make this host what manifests say, without any API."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from nodemanager.agent.declared.rendered_memory import RenderedMemory
from nodemanager.cli.settings import host_options
from nodemanager.cli.views import forms, output
from nodemanager.host.process import runner
from nodemanager.host.results import Outcome
from nodemanager.host.state.vault import Vault
from nodemanager.rendering.renderer import Renderer

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
    renderer, rendered = Renderer(runner.companion), RenderedMemory(Vault(root))
    if not rendered.knows_any and _mention_templates(paths):
        renderer.begin()
    # Only now, as the other process has its own imports to do meanwhile.
    from nodemanager.agent.assembly import HostSetup, NoLocks, assemble
    from nodemanager.agent.declared.contents import Contenter
    from nodemanager.cli.applying import converging
    from nodemanager.cli.manifests import checked_manifests

    with contextlib.ExitStack() as stack:
        stack.callback(rendered.close)
        checked = stack.enter_context(contextlib.closing(checked_manifests.of_host(root)))
        inputs = checked.load(paths)
        managed_host = assemble(HostSetup(root=root, hostname=hostname), NoLocks(NO_API))
        stack.callback(managed_host.close)
        contenter = Contenter(renderer, rendered.cache)
        results = asyncio.run(converging.converge(inputs, managed_host, contenter, renderer))
        if results:  # else nothing of ours need be here
            checked.keep()
            rendered.keep()
        if any(one.outcome is not Outcome.UNCHANGED for one in results):
            from nodemanager.cli import by_hand

            by_hand.applied(root, managed_host.identity.hostname, results)
    if form == "text":
        for line in converging.report(results, output.Style.of(sys.stdout, os.environ)):
            click.echo(line)
    else:
        click.echo(forms.dump([converging.plain(one) for one in results], form), nl=False)
    if any(one.bad for one in results):
        raise click.exceptions.Exit(1)


def _mention_templates(paths: Sequence[Path]) -> bool:
    """Tell whether something is likely to be rendered; what cannot be read is told of where it is read."""
    try:
        found = [one for path in paths for one in (path.iterdir() if path.is_dir() else [path])]
        return any(b"template" in one.read_bytes() for one in found if one.is_file())
    except OSError:
        return False
