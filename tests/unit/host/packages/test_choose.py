"""Which package manager a host has (compat 11 A 21: derived distributions, and unknown ones)."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest

from nodemanager.host import packages
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import identity
from nodemanager.host.packages import choose
from nodemanager.host.packages.common import PackageContext
from nodemanager.host.process import runner

PROGRAMS = {
    "apt": "usr/bin/apt-get",
    "dnf": "usr/bin/dnf",
    "pacman": "usr/bin/pacman",
    "apk": "sbin/apk",
    "pkg": "usr/local/sbin/pkg",
}


def chosen(root: Path, release: str, *present: str) -> str | None:
    for name in present:
        program = root / PROGRAMS[name]
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("a program")
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/os-release").write_text(release)
    tree = Tree(str(root))
    try:
        found = choose.package_manager(tree, identity.identify(tree), runner.run)
        return found.name if found else None
    finally:
        tree.close()


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("ID=debian", "apt"),
        ("ID=ubuntu\nID_LIKE=debian", "apt"),
        ("ID=raspbian\nID_LIKE=debian", "apt"),
        ("ID=fedora", "dnf"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"', "dnf"),
        ("ID=arch", "pacman"),
        ("ID=archarm\nID_LIKE=arch", "pacman"),
        ("ID=endeavouros\nID_LIKE=arch", "pacman"),
        ("ID=alpine", "apk"),
        ("ID=freebsd", "pkg"),
    ],
)
def test_the_hosts_own_word_counts_also_beside_others(tmp_path: Path, release: str, name: str) -> None:
    assert chosen(tmp_path, release, *PROGRAMS) == name


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_unknown_distribution_is_known_by_its_tools(tmp_path: Path, name: str) -> None:
    assert chosen(tmp_path, "ID=mystery", name) == name


def test_a_tool_that_is_not_there_is_not_chosen(tmp_path: Path) -> None:
    assert chosen(tmp_path, "ID=debian", "dnf") == "dnf"


def test_no_tool_at_all(tmp_path: Path) -> None:
    assert chosen(tmp_path, "ID=nixos") is None


def test_every_package_manager_that_we_know_is_found_and_watched(tmp_path: Path) -> None:
    """An adapter that nobody chooses, or that names no books, would never be used, or never be watched."""
    tree = Tree(str(tmp_path))
    chosen_by_table = [one.load(PackageContext(tree, runner.run)) for one in choose.ADAPTERS]
    tree.close()
    written = {
        f"{module.name}.{name}"
        for module in pkgutil.iter_modules(packages.__path__)
        for name, one in vars(importlib.import_module(f"{packages.__name__}.{module.name}")).items()
        if isinstance(one, type) and hasattr(one, "upgrade_all") and one.__module__.endswith(module.name)
    }
    named = {f"{type(one).__module__.rpartition('.')[2]}.{type(one).__name__}" for one in chosen_by_table}
    assert named == written
    assert all(one.databases for one in chosen_by_table)
