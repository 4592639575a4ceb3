"""What a package puts on a host, whatever its format: program, service, flags, manual pages, completion."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nodemanager.cli.commands import completion
from nodemanager.cli.main import cli
from nodemanager.host.init.systems import SYSTEMS, System
from tools.packages import manuals

Files = dict[str, tuple[bytes, int]]
"""Bytes and modes by path, without the slash in front."""
SUMMARY: Final = "configure and maintain hosts with Kubernetes as the plan"
DESCRIPTION: Final = """\
Makes this host what ConfigSets in a Kubernetes API say (packages, files,
services, executions), keeps it so, reports what it sees, and upgrades the
host when and as it is told. The API may be that of a cluster, or a small one
that nodemanager has, too, and this package has not.

The service does nothing before the host has a credential of its own, which
nodemanager bootstrap fetches."""
WRITTEN: Final = "Part of the package nodemanager."
MANUAL: Final = "Documentation=man:nodemanager(8)"
PLAIN: Final = 0o644
EXECUTABLE: Final = 0o755
_VERSION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)*)(?:(a|b|rc)([0-9]+))?")


class CannotBuild(Exception):
    """The package cannot be built; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Program:
    """What a package is made of."""

    path: Path
    target: str
    """Of tools.release: linux-amd64."""
    version: str
    epoch: int
    """The time of everything in a package."""
    licences: Mapping[str, bytes] = field(default_factory=dict)
    """Of what is in the program besides ours, by name."""
    effort: int = 6
    """How hard to compress, 1 to 9; tests are in a hurry."""

    def spelled(self, alpha: str, beta: str, candidate: str) -> str:
        """Return the version as a format orders it, where what comes before a release is older than it."""
        found = _VERSION.fullmatch(self.version)
        if found is None:
            raise CannotBuild(
                f"cannot build a package: version {self.version!r} is none; write 1.2.3 or 1.2.3rc1"
            )
        mark = {"a": alpha, "b": beta, "rc": candidate}.get(found[2] or "", "")
        return f"{found[1]}{mark}{found[3] or ''}"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a kind of operating system has things."""

    init: System
    program: str
    service: str
    manuals: str
    licences: str
    zsh: str
    """Where zsh looks for functions; the other shells agree on it among themselves."""
    share: str = "usr/share"
    unpacks: bool = False
    """Whether the program unpacks itself, as bin/manager does."""

    def service_text(self) -> str:
        """Return the file that starts the agent."""
        text = self.init.unit(f"/{self.program}", written=WRITTEN)
        return text.replace("[Unit]\n", f"[Unit]\n{MANUAL}\n")  # of systemd; others have no such line

    def files(self, program: Program) -> Files:
        """Return all files but those that only one format has."""
        found = self.shared(program)
        found[self.service] = (self.service_text().encode(), self.init.mode)
        found[self.init.environment.lstrip("/")] = (self.init.variables().encode(), PLAIN)
        return dict(sorted(found.items()))

    def shared(self, program: Program) -> Files:
        """Return those that have nothing to do with an init system."""
        found: Files = {self.program: (program.path.read_bytes(), EXECUTABLE)}
        for name, text in manuals.pages(program.version, self.init, unpacked=self.unpacks).items():
            found[f"{self.manuals}/{name}.gz"] = (gzipped(text), PLAIN)
        for shell, path in self.completions().items():
            found[path] = (completion.script(cli, shell).encode(), PLAIN)
        for name, data in program.licences.items():
            found[f"{self.licences}/{name}"] = (data, PLAIN)
        return found

    def completions(self) -> dict[str, str]:
        """Return where shells look for the completion of a command."""
        return {
            "bash": f"{self.share}/bash-completion/completions/nodemanager",
            "zsh": f"{self.zsh}/_nodemanager",
            "fish": f"{self.share}/fish/vendor_completions.d/nodemanager.fish",
        }


def of_linux(init: str, service: str, licences: str, zsh: str, *, unpacks: bool = False) -> Layout:
    """Return the layout of a distribution of Linux."""
    return Layout(
        SYSTEMS[init], "usr/bin/nodemanager", service, "usr/share/man/man8", licences, zsh, unpacks=unpacks
    )


def gzipped(text: str) -> bytes:
    """Return a text compressed, the same whenever it is."""
    return gzip.compress(text.encode(), 9, mtime=0)


def folders(files: Mapping[str, object]) -> list[str]:
    """Return all folders that files are in, those above first."""
    found = {str(above) for path in files for above in Path(path).parents} - {"."}
    return sorted(found)
