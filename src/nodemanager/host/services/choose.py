"""Finds out which service manager a host has."""

from __future__ import annotations

import os
from typing import Final

from nodemanager.host.base import Runner, ServiceManager
from nodemanager.host.identity import Identity
from nodemanager.host.tree import Tree, TreeError

SYSTEMD_RUNS: Final = "/run/systemd/system"
"""Exists if and only if systemd is PID 1; what sd_booted(3) looks at."""
OPENRC_RUNS: Final = "/run/openrc/softlevel"
_SYSTEMD: Final = ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")
_OPENRC: Final = ("/sbin/openrc-run", "/usr/sbin/openrc-run", "/usr/bin/openrc-run")


def choose(tree: Tree, identity: Identity, run: Runner, start_delay: float | None) -> ServiceManager | None:
    """Return the service manager of a host; None where there is none that we know.

    What runs decides; where nothing does (an image, a chroot, a container without init), what is installed.
    With a `start_delay` of None it waits for nothing that is on its way.
    """
    here = tree.root == "/"
    try:
        if identity.system == "freebsd":
            from nodemanager.host.services.rcd import RcD  # here and below: a host needs one of these

            return RcD(run, start_delay or 0.0, booted=here)
        if here and _exists(tree, SYSTEMD_RUNS):
            from nodemanager.host.services.systemd import Systemd

            return Systemd(tree, run, start_delay)
        if here and _exists(tree, OPENRC_RUNS):
            return _openrc(run, start_delay, booted=True)
        if any(_exists(tree, path) for path in _SYSTEMD):
            from nodemanager.host.services.systemctl import OfflineSystemd

            return OfflineSystemd(run)
        if any(_exists(tree, path) for path in _OPENRC):
            return _openrc(run, start_delay, booted=False)
        return None
    finally:
        tree.forget()


def _openrc(run: Runner, start_delay: float | None, *, booted: bool) -> ServiceManager:
    from nodemanager.host.services.openrc import OpenRC

    return OpenRC(run, start_delay or 0.0, booted=booted)


def _exists(tree: Tree, path: str) -> bool:
    try:
        place = tree.place(path)
        os.lstat(place.name, dir_fd=place.folder)
    except (TreeError, OSError):
        return False
    return True
