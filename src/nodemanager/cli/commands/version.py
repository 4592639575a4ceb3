"""`nodemanager version`: what runs here. Everyone's first command, so it imports next to nothing."""

from __future__ import annotations

import os
import sys
from typing import Final, NamedTuple

import click

import nodemanager
from nodemanager.cli.views import forms

_ARCHITECTURES: Final = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "armv6l": "arm",
    "i686": "386",
}
"""Names of `uname -m` to those that Kubernetes uses in labels."""


class VersionFacts(NamedTuple):
    """What there is to say about this program."""

    version: str
    python: str
    os: str
    arch: str

    def line(self) -> str:
        """Return all of it as one line."""
        return f"nodemanager {self.version} python/{self.python} {self.os}/{self.arch}"


def facts() -> VersionFacts:
    """Return what runs here."""
    machine = os.uname().machine
    python = ".".join(str(part) for part in sys.version_info[:3])
    system = sys.platform.rstrip("0123456789.")  # freebsd14 is freebsd
    return VersionFacts(nodemanager.__version__, python, system, _ARCHITECTURES.get(machine, machine))


@click.command(
    epilog="""\b
Examples:
  nodemanager version
  nodemanager version -o json
"""
)
@forms.option("text")
def command(form: str) -> None:
    """Print the version of nodemanager, of Python, and what they run on."""
    found = facts()
    click.echo(found.line() + "\n" if form == "text" else forms.dump(found._asdict(), form), nl=False)
