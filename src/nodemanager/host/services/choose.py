"""Finds out which service manager a host has."""

from __future__ import annotations

import os
from typing import Final, Literal, NamedTuple

from nodemanager.host.base import Runner, ServiceManager
from nodemanager.host.files.tree import Tree, TreeError
from nodemanager.host.inventory.identity import Identity

SYSTEMD_RUNS: Final = "/run/systemd/system"
"""Exists if and only if systemd is PID 1; what sd_booted(3) looks at."""
OPENRC_RUNS: Final = "/run/openrc/softlevel"
RCD_INSTALLED: Final = "/etc/rc.subr"
_SYSTEMD: Final = ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")
_OPENRC: Final = ("/sbin/openrc-run", "/usr/sbin/openrc-run", "/usr/bin/openrc-run")


Name = Literal["systemd", "openrc", "rc.d"]


class DetectedManager(NamedTuple):
    """A service manager, and whether it is the one that runs here."""

    name: Name
    runs: bool


def find(tree: Tree, system: str) -> DetectedManager | None:
    """Return which service manager a host has; None where there is none that we know.

    What runs decides; where nothing does (an image, a chroot, a container without init), what is installed.
    """
    here = tree.running
    try:
        if system == "freebsd":
            return DetectedManager("rc.d", here)
        if here and _exists(tree, SYSTEMD_RUNS):
            return DetectedManager("systemd", runs=True)
        if here and _exists(tree, OPENRC_RUNS):
            return DetectedManager("openrc", runs=True)
        if any(_exists(tree, path) for path in _SYSTEMD):
            return DetectedManager("systemd", runs=False)
        if any(_exists(tree, path) for path in _OPENRC):
            return DetectedManager("openrc", runs=False)
        return DetectedManager("rc.d", runs=False) if _exists(tree, RCD_INSTALLED) else None
    finally:
        tree.forget()


def choose(tree: Tree, identity: Identity, run: Runner, start_delay: float | None) -> ServiceManager | None:
    """Return the service manager of a host; None where there is none that we know and can run.

    With a `start_delay` of None it waits for nothing that is on its way.
    """
    match find(tree, identity.system):
        case DetectedManager("systemd", runs=True):
            from nodemanager.host.services.systemd import Systemd  # here and below: a host needs one of these

            return Systemd(tree, run, start_delay)
        case DetectedManager("systemd"):
            from nodemanager.host.services.systemctl import OfflineSystemd

            return OfflineSystemd(run)
        case DetectedManager("openrc", runs=booted):
            from nodemanager.host.services.openrc import OpenRC

            return OpenRC(run, start_delay or 0.0, booted=booted)
        case DetectedManager("rc.d", runs=booted) if identity.system == "freebsd":
            from nodemanager.host.services.rcd import RcD

            return RcD(run, start_delay or 0.0, booted=booted)
    return None


def _exists(tree: Tree, path: str) -> bool:
    try:
        place = tree.place(path)
        os.lstat(place.name, dir_fd=place.folder)
    except (TreeError, OSError):
        return False
    return True
