"""A machine that looks as if OpenRC had booted it, for tests that need the real one.

It is booted by systemd; what runs through `OpenRCMachine.run` sees neither it nor its sockets, but a system
that OpenRC has booted into the runlevel default.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Self

from support.nspawn import Machine

HIDE_SYSTEMD = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run/systemd && exec "$@"', "sh")
STATE = (
    "daemons", "exclusive", "failed", "hotplugged", "inactive", "options", "scheduled", "started",
    "starting", "stopping", "tmp", "wasinactive",
)  # fmt: skip


class OpenRCMachine:
    """A machine that looks as if OpenRC had booted it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @classmethod
    def on(cls, machine: Machine) -> Self:
        """Make a machine that has the package openrc look so."""
        machine.run("mkdir", "-p", *(f"/run/openrc/{name}" for name in STATE))
        machine.write("/run/openrc/softlevel", "default\n")
        return cls(machine)

    def run(
        self, *argv: str, stdin: str = "", env: Mapping[str, str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in it as root."""
        return self.machine.run(*HIDE_SYSTEMD, *argv, stdin=stdin, env=env, check=check)
