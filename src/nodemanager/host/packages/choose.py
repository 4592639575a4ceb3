"""Which package manager a host has: by its os-release, then by the programs that exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from nodemanager.host.base import PackageManager, Runner
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory.identity import Identity
from nodemanager.host.packages import database
from nodemanager.host.packages.common import PackageContext


def _apt(context: PackageContext) -> PackageManager:
    from nodemanager.host.packages.apt import Apt  # here and below: a host needs one of these

    return Apt(context)


def _dnf(context: PackageContext) -> PackageManager:
    from nodemanager.host.packages.dnf import Dnf

    return Dnf(context)


def _pacman(context: PackageContext) -> PackageManager:
    from nodemanager.host.packages.pacman import Pacman

    return Pacman(context)


def _apk(context: PackageContext) -> PackageManager:
    from nodemanager.host.packages.apk import Apk

    return Apk(context)


def _pkgng(context: PackageContext) -> PackageManager:
    from nodemanager.host.packages.pkgng import Pkgng

    return Pkgng(context)


class Adapter(NamedTuple):
    """One package manager that we know."""

    load: Callable[[PackageContext], PackageManager]
    programs: tuple[str, ...]
    """The path of its program."""
    families: tuple[str, ...]
    """By ID of os-release; distributions that are derived from these say so in ID_LIKE."""


ADAPTERS: Final = (
    Adapter(_apt, ("/usr/bin/apt-get",), ("debian", "ubuntu")),
    Adapter(_dnf, ("/usr/bin/dnf",), ("fedora", "rhel", "centos")),
    Adapter(_pacman, ("/usr/bin/pacman",), ("arch", "archarm")),
    Adapter(_apk, ("/sbin/apk", "/usr/sbin/apk", "/usr/bin/apk"), ("alpine",)),
    Adapter(_pkgng, ("/usr/local/sbin/pkg", "/usr/sbin/pkg"), ("freebsd",)),
)
"""In the order in which they are tried on a host without a known os-release."""


def package_manager(tree: Tree, identity: Identity, run: Runner) -> PackageManager | None:
    """Return the package manager of the host below a root, None if there is none that we know.

    Other package managers may be installed as well (a Debian host may have pacman and dnf), so
    the host's own word counts first; but only a program that is there can be used.
    """
    mine = Tree(tree.root)  # it is walked at other times than the tree of the files
    families = (identity.os_id, *identity.os_like)
    named = [adapter for one in families for adapter in ADAPTERS if one in adapter.families]
    for adapter in (*named, *ADAPTERS):
        if any(database.exists(mine, path) for path in adapter.programs):
            kernel = identity.kernel if mine.running else ""
            return adapter.load(PackageContext(mine, run, kernel))
    mine.close()
    return None
