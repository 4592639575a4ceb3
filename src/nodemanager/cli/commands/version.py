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
    "armv8l": "arm",
    "armv7l": "arm",
    "armv6l": "arm",
    "i686": "386",
}
"""Names of `uname -m` to those that Kubernetes uses in labels."""
_SHORT: Final = 12
"""The length of a digest for people to compare."""


class VersionFacts(NamedTuple):
    """What there is to say about this program."""

    version: str
    python: str
    os: str
    arch: str

    def line(self) -> str:
        """Return all of it as one line."""
        return f"nodemanager {self.version} python/{self.python} {self.os}/{self.arch}"


class BuildFacts(NamedTuple):
    """What a static program knows of how it was made; every other one is files, which may change."""

    build: str
    """A digest of its modules: equal programs have the same."""
    commit: str
    state: str
    """Whether it was built of that commit, and of nothing else: clean, modified or unknown."""

    def line(self) -> str:
        """Return all of it as one line."""
        changed = "" if self.state == "clean" else f" ({self.state})"
        return f"build {self.build[:_SHORT]} of commit {self.commit[:_SHORT]}{changed}"


def build_facts() -> BuildFacts | None:
    """Return how this program was made, if that is written in it."""
    if "_nodemanager" not in sys.builtin_module_names:  # elsewhere the import would take longer than all else
        return None
    from nodemanager import native

    return BuildFacts(native.BUILD, native.COMMIT, native.STATE)


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
    """Print the version of nodemanager, of Python, and what they run on.

    The static program also says which build it is, and of which commit.
    """
    found, built = facts(), build_facts()
    if form == "text":
        click.echo("\n".join(each.line() for each in (found, built) if each is not None))
    else:
        more = built._asdict() if built is not None else {}
        click.echo(forms.dump({**found._asdict(), **more}, form), nl=False)
