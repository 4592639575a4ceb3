"""Puts together what upgrades the program of this host."""

from __future__ import annotations

import os
from pathlib import Path

from nodemanager.host.base import NotSupported, Runner, ServiceManager
from nodemanager.host.files.tree import Tree
from nodemanager.host.init import executable
from nodemanager.host.self_update import processors
from nodemanager.host.self_update.guard import SERVICES, Guard
from nodemanager.host.self_update.records import UpgradeRecords
from nodemanager.host.self_update.staging import Stager
from nodemanager.host.self_update.upgrading import Upgrader
from nodemanager.host.services import choose
from nodemanager.host.services.choose import Name


def init_of(tree: Tree) -> Name:
    """Return the init system that runs this host; raises NotSupported where none does, as in a container."""
    found = choose.find(tree, os.uname().sysname.lower())
    if tree.root != "/" or found is None or not found.runs:
        raise NotSupported(
            "cannot upgrade: no systemd, OpenRC or rc.d of this root runs the agent; in a container, or with"
            " --root, the program comes with an image: roll out another image"
        )
    return found.name


def upgrader(tree: Tree, state: str, program: str, manager: ServiceManager | None, run: Runner) -> Upgrader:
    """Return what upgrades a program of this host, which its service starts."""
    init = init_of(tree)
    if manager is None:
        raise NotSupported("cannot upgrade: there is nobody here who runs services")
    path = str(Path(program).resolve())
    executable.check(tree, path)
    records = UpgradeRecords(tree, state)
    stager = Stager(tree, path, run, processors.of_program(path, os.uname().machine))
    return Upgrader(records, stager, Guard(tree, records, SERVICES[init], manager))
