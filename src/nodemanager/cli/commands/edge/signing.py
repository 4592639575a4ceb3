"""`nodemanager edge payload` and `attach`: what minisign signs of a profile, and both together."""

from __future__ import annotations

from pathlib import Path

import click

from nodemanager.api.edge.edgeprofile import SIGNATURE
from nodemanager.cli.commands.edge import profiles
from nodemanager.fleet.edge import profile_trust
from nodemanager.kube import manifests
from nodemanager.tlog import minisign


@click.command(
    epilog="""\b
Examples:
  nodemanager edge payload -f site.yaml > site.payload
  minisign -S -s minisign.key -m site.payload -t "$(nodemanager edge payload -f site.yaml --comment)"
"""
)
@profiles.FILE
@click.option("--comment", is_flag=True, help="Print the comment that has to be signed with it instead.")
def payload(path: Path, comment: bool) -> None:
    """Print what is to be signed of an EdgeProfile: its name and its spec, in one form.

    Order, comments and layout of the file do not matter, nor do labels and annotations.
    """
    profile, _ = profiles.read(path)
    shown = (
        f"{profile_trust.comment(profile)}\n" if comment else profile_trust.payload(profile).decode("ascii")
    )
    click.echo(shown, nl=False)


def _text(path: Path) -> str:
    """Return what is in a file of minisign; any other file is none, however long it is."""
    with path.open("rb") as file:
        return file.read(minisign.MAX_BYTES + 1).decode("utf-8", "replace")


@click.command(
    epilog="""\b
Examples:
  nodemanager edge attach -f site.yaml --signature site.payload.minisig --key minisign.pub > signed.yaml
"""
)
@profiles.FILE
@click.option("--signature", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="The signature that minisign made of the payload.")  # fmt: skip
@click.option("--key", required=True, metavar="FILE|KEY",
              help="The public key that it has to be good for: a file, or the key itself.")  # fmt: skip
def attach(path: Path, signature: Path, key: str) -> None:
    """Print an EdgeProfile with its signature, for the API; one that is not good is refused."""
    profile, obj = profiles.read(path)
    keys = _text(Path(key)) if Path(key).exists() else key
    text = _text(signature)
    try:
        profile_trust.verify(profile, [keys], text)
    except profile_trust.Untrusted as error:
        raise click.ClickException(f"cannot attach {signature} to {path}: {error}") from error
    meta = obj["metadata"]
    annotations = {**(meta.get("annotations") or {}), SIGNATURE: text}
    click.echo(manifests.dump([{**obj, "metadata": {**meta, "annotations": annotations}}]), nl=False)
