"""Which package manager a host has: by what it says it is, then by what is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nodemanager.host.base import PackageManager, Runner
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory.identity import Identity
from nodemanager.host.packages import database
from nodemanager.host.packages.common import Surroundings


def _apt(around: Surroundings) -> PackageManager:
    from nodemanager.host.packages.apt import Apt  # here and below: a host needs one of these

    return Apt(around)


def _dnf(around: Surroundings) -> PackageManager:
    from nodemanager.host.packages.dnf import Dnf

    return Dnf(around)


def _pacman(around: Surroundings) -> PackageManager:
    from nodemanager.host.packages.pacman import Pacman

    return Pacman(around)


def _apk(around: Surroundings) -> PackageManager:
    from nodemanager.host.packages.apk import Apk

    return Apk(around)


def _pkgng(around: Surroundings) -> PackageManager:
    from nodemanager.host.packages.pkgng import Pkgng

    return Pkgng(around)


PROGRAMS: Final[dict[Callable[[Surroundings], PackageManager], tuple[str, ...]]] = {
    _apt: ("/usr/bin/apt-get",),
    _dnf: ("/usr/bin/dnf",),
    _pacman: ("/usr/bin/pacman",),
    _apk: ("/sbin/apk", "/usr/sbin/apk", "/usr/bin/apk"),
    _pkgng: ("/usr/local/sbin/pkg", "/usr/sbin/pkg"),
}
"""Where the program of each is; it is also the order in which they are looked for."""

FAMILIES: Final[dict[str, Callable[[Surroundings], PackageManager]]] = {
    "debian": _apt,
    "ubuntu": _apt,
    "fedora": _dnf,
    "rhel": _dnf,
    "centos": _dnf,
    "arch": _pacman,
    "archarm": _pacman,
    "alpine": _apk,
    "freebsd": _pkgng,
}
"""By ID of os-release; distributions that are derived from these say so in ID_LIKE."""


def package_manager(tree: Tree, identity: Identity, run: Runner) -> PackageManager | None:
    """Return the package manager of the host below a root, None if there is none that we know.

    Other package managers may be installed as well (a Debian host may have pacman and dnf), so
    the host's own word counts first; but only a program that is there can be used.
    """
    mine = Tree(tree.root)  # it is walked at other times than the tree of the files
    named = [FAMILIES[one] for one in (identity.os_id, *identity.os_like) if one in FAMILIES]
    for adapter in (*named, *PROGRAMS):
        if any(database.exists(mine, path) for path in PROGRAMS[adapter]):
            kernel = identity.kernel if mine.running else ""
            return adapter(Surroundings(mine, run, kernel))
    mine.close()
    return None
