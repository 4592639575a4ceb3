"""Installs the files of a change below /etc."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from nodemanager.host.edge import networkd_files
from nodemanager.host.edge.bond_records import BondRecord
from nodemanager.host.files.tree import Tree
from nodemanager.host.init import placing

RUNTIME: Final = "/run/systemd/network"


def put(tree: Tree, record: BondRecord, mode: str) -> list[str]:
    """Put the new files in place, those that are different; the flip need not overrule them any more."""
    wanted = record.wanted_files()
    written = [
        name for name in networkd_files.in_order(wanted, mode)
        if placing.put(tree, f"{networkd_files.ETC}/{name}", wanted[name], None)
    ]  # fmt: skip
    overruling = f"*.network.d/zz-nodemanager-{record.bond}.conf"
    for one in Path(tree.outside(RUNTIME)).glob(overruling):
        one.unlink(missing_ok=True)
    return written


def missing(tree: Tree, record: BondRecord) -> bool:
    """Tell whether new files are not in place."""
    wanted = record.wanted_files()
    return any(placing.read(tree, f"{networkd_files.ETC}/{name}") != text for name, text in wanted.items())


def live(tree: Tree, bond: str) -> dict[str, str]:
    """Return the files that make a bond, as they are now, by name."""
    found = networkd_files.of_bond(networkd_files.read(tree.root), bond)
    return {name: one.text for name, one in found.items()}
