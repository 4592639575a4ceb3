"""The identity of a host: name, operating system, architecture; and the labels for them."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from typing import Final

from nodemanager.api.common.managednode import LABEL_OS
from nodemanager.api.common.matching import ARCH, OS, architecture
from nodemanager.host.files.tree import Tree, TreeError
from nodemanager.host.state import state_files

HOSTNAME: Final = "kubernetes.io/hostname"
_RELEASE_FILES: Final = ("/etc/os-release", "/usr/lib/os-release")
_MAX: Final = 64 * 1024
_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Identity:
    """Facts that do not change while the host is up."""

    hostname: str
    os_id: str
    """ID of os-release, such as debian; `linux` or `freebsd` where there is no os-release."""
    os_like: tuple[str, ...]
    """ID_LIKE of os-release: the systems that it is derived from, nearest first."""
    system: str
    """linux or freebsd."""
    machine: str
    """As in uname -m."""
    kernel: str
    """As in uname -r."""

    @property
    def arch(self) -> str:
        """The architecture as Kubernetes names it."""
        return architecture(self.machine)

    def labels(self) -> dict[str, str]:
        """Return the labels that the agent sets on its own ManagedNode."""
        found = {OS: self.system, ARCH: self.arch, HOSTNAME: self.hostname, LABEL_OS: self.os_id}
        return {key: value for key, value in found.items() if _VALUE.fullmatch(value)}


def identify(tree: Tree, hostname: str = "") -> Identity:
    """Return the identity of the host; `hostname` overrides the name that the system reports."""
    uname = os.uname()
    release = read_release(tree)
    system = uname.sysname.lower()
    return Identity(
        hostname=hostname or uname.nodename,
        os_id=release.get("ID", system).lower(),
        os_like=tuple(release.get("ID_LIKE", "").lower().split()),
        system=system,
        machine=uname.machine,
        kernel=uname.release,
    )


def read_release(tree: Tree) -> dict[str, str]:
    """Return what os-release says; nothing where there is none."""
    for path in _RELEASE_FILES:
        try:
            data = state_files.read_following(tree, path, _MAX)
        except (OSError, TreeError):
            continue
        if data is not None:
            return parse_release(data.decode("utf-8", "replace"))
    return {}


def parse_release(text: str) -> dict[str, str]:
    """Return the variables of an os-release file; lines that are none are passed over."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if not equals or not name.isidentifier():
            continue
        try:
            words = shlex.split(value, comments=True)
        except ValueError:
            continue
        found[name] = " ".join(words)
    return found
