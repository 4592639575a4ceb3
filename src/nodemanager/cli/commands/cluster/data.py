"""`nodemanager data`: what templates of a host read as .Data, and which layer says so."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from nodemanager.cli import completing, host_data
from nodemanager.cli.host_data import GatheredData
from nodemanager.cli.settings import connect, host_options
from nodemanager.cli.views import forms, output
from nodemanager.cli.views.data_view import DataView
from nodemanager.plan.data import explaining


@click.command(
    epilog="""\b
Examples:
  nodemanager data web1
  nodemanager data web1 --explain ntp.servers    who says what of it, and who wins
  nodemanager data web1 -o json | jq .data
  nodemanager data web1 -f ./manifests           of manifests, without an API
""",
)
@click.argument("node", shell_complete=completing.hosts)
@click.option("--explain", "key", default="", metavar="KEY", help="Tell what each layer says of a key.")
@click.option(
    "--show-secrets", is_flag=True, help="Show values of Secrets, too: only on the host itself, as root."
)
@host_options.manifests("File or folder with manifests, in place of the API.", required=False)
@connect.options(namespaced=True)
@forms.option("table")
def command(
    node: str, key: str, show_secrets: bool, paths: tuple[Path, ...], settings: connect.Settings, form: str
) -> None:
    """Show the data of NODE, which its templates read as .Data: each value with the layer that it is from.

    It is merged as the agent of the host does it, from what you may read. Values of Secrets are not shown.
    """
    own = node == os.uname().nodename
    if show_secrets and not (own and os.geteuid() == 0):
        raise click.ClickException(
            f"cannot show secrets of {node}: that is for root on the host itself; run it there with sudo"
        )
    if paths:
        found = host_data.from_manifests(paths, node)
    else:
        found = asyncio.run(_fetch(connect.as_this_host(settings) if own else settings, node))
    for said in (*found.unread, *map(str, found.data.clashes)):
        click.echo(output.one_line(f"warning: {said}"), err=True)
    view = DataView(found.data, show_secrets)
    if key:
        _explain(view, node, key, form)
    elif form != "table":
        whole = {"node": node, **view.plain(), "unread": list(found.unread)}
        click.echo(forms.dump(whole, form), nl=False)
    elif found.data.tree:
        view.write()
    else:
        click.echo(f"{output.one_line(node)} has no data")


async def _fetch(settings: connect.Settings, node: str) -> GatheredData:
    async with connect.connect(settings) as client:
        return await host_data.from_api(client, settings.namespace, node)


def _explain(view: DataView, node: str, key: str, form: str) -> None:
    path = explaining.find(view.data, key)
    if path is None:
        there = ", ".join(sorted({name for _, values in view.data.said for name in values}))
        raise click.ClickException(
            f"cannot explain {key} of {node}: no layer says anything of it; at the top there are"
            f" {there or 'no keys'}"
        )
    said = explaining.explain(view.data, path)
    if form != "table":
        click.echo(
            forms.dump({"node": node, "key": key, "statements": view.plain_statements(said)}, form), nl=False
        )
    else:
        view.write_statements(said, path)
