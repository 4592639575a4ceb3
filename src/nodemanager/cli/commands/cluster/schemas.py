"""`nodemanager schemas`: our kinds for editors, which then complete fields and point at mistakes."""

from __future__ import annotations

from pathlib import Path

import click

from nodemanager.api import json_schemas
from nodemanager.cli.views import forms, output


@click.command(
    epilog="""\b
Examples:
  nodemanager schemas > nodemanager.json     one schema for all our kinds
  nodemanager schemas .schemas               a file for each kind, and all.json

\b
The first line of a manifest tells it to yaml-language-server:
  # yaml-language-server: $schema=.schemas/all.json
"""
)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path))
def command(folder: Path | None) -> None:
    """Print a JSON schema of our kinds, or write one for each kind into DIR."""
    if folder is None:
        click.echo(forms.dump(json_schemas.everything(), "json"), nl=False)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, schema in json_schemas.files().items():
            (folder / name).write_text(forms.dump(schema, "json"), encoding="utf-8")
            click.echo(output.printable(str(folder / name)))
    except OSError as error:
        raise click.ClickException(f"cannot write schemas into {folder}: {error.strerror}") from error
