"""`nodemanager edge profiles`: the EdgeProfiles that we ship; and how commands read one from a file."""

from __future__ import annotations

from pathlib import Path

import click

from nodemanager.api import manifest_checks
from nodemanager.api.edge import shipped_profiles
from nodemanager.api.edge.edgeprofile import EDGE_PROFILES, EdgeProfile
from nodemanager.cli.manifests import manifest_files
from nodemanager.cli.views import output
from nodemanager.kube import manifests
from nodemanager.kube.manifests import ManifestError
from nodemanager.kube.objects import Untyped

FILE = click.option(
    "-f", "--filename", "path", required=True, metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False), help="File with an EdgeProfile.",
)  # fmt: skip


@click.command(
    epilog="""\b
Examples:
  nodemanager edge profiles
  nodemanager edge profiles vx-rail k3s-linstor
  nodemanager edge profiles ubuntu-local-path | kubectl apply -f -
"""
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
def profiles(names: tuple[str, ...]) -> None:
    """List the EdgeProfiles that we ship, or print some of them for you to change and to apply."""
    shipped = shipped_profiles.profiles()
    for name in names:
        if name not in shipped:
            raise click.UsageError(f"there is no profile {name!r}; there are {', '.join(shipped)}")
    if names:
        click.echo(manifests.dump([shipped[name] for name in names]), nl=False)
        return
    width = max(map(len, shipped))
    for name, obj in shipped.items():
        said = output.one_line(obj["spec"]["description"], 100)
        click.echo(f"{name:{width}}  {obj['spec']['version']}  {said}")


def read(path: Path) -> tuple[EdgeProfile, Untyped]:
    """Return the only EdgeProfile of a file, checked as the API would, typed and as it is written."""
    found = [
        obj
        for obj in manifests.load_all(manifest_files.text(path), str(path))
        if (obj["apiVersion"], obj["kind"]) == (EDGE_PROFILES.api_version, EDGE_PROFILES.kind)
    ]
    if len(found) != 1:
        raise ManifestError(f"cannot use {path}: there are {len(found)} EdgeProfiles in it, not one")
    return manifest_checks.typed(found[0], EDGE_PROFILES, str(path)), found[0]
