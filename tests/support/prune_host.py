"""The host of `crash_host` with all that can be taken back, and how each of it is: ours, or as before."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from nodemanager.api.common.configset import ConfigSet
from nodemanager.host.state.ownership_ledger import OwnershipLedger
from nodemanager.host.state.vault import Vault
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan.resources import FILE, PACKAGE, SERVICE
from support import crash_host
from support.root_tree import config_set

GIVEN_UP: Final = "package:game"
"""What a set had removed: it is not installed again."""
STAYS: Final = ("conf.d/old", "deep", "deep/er")
"""What was purged is in the backups only, and directories that nobody declared stay."""
BEFORE, OURS, BETWEEN = "before", "ours", "between"
States = dict[str, object]
"""How resources are, by their ids."""


def prepare(folder: Path) -> None:
    """Make the host as it is before any set."""
    crash_host.prepare(folder)
    etc = folder / "etc"
    (etc / "was-link").symlink_to("theirs")
    (etc / "shared").mkdir(mode=0o700)
    os.chown(etc / "shared", 3, 4)
    state = crash_host.DiskTools(folder)._load()
    state["packages"]["game"] = "1"
    for part in ("running", "enabled"):
        state[part].append("nightly")
    (folder / "tools" / "state").write_text(json.dumps(state))


def declared(folder: Path) -> ConfigSet:
    """Return a set of every kind of resource, which takes all of it back."""
    etc = folder / "etc"
    more = config_set(
        "more",
        packages=[{"name": "game", "ensure": "absent"}],
        files=[
            {"path": f"{etc}/was-link", "content": "ours"},
            {"path": f"{etc}/shared", "ensure": "directory", "owner": "7", "mode": "0750"},
        ],
        services=[
            {"name": "nightly", "ensure": "stopped", "enable": False},
            {"name": "extra", "ensure": "running", "enable": True},
        ],
    ).spec
    found = crash_host.declared(folder)
    spec = msgspec.structs.replace(
        found.spec,
        prune=True,
        prune_packages=True,
        packages=[*found.spec.packages, *more.packages],
        files=[*found.spec.files, *more.files],
        services=[*found.spec.services, *more.services],
    )
    return msgspec.structs.replace(found, spec=spec, metadata=ObjectMeta(name="mixed", uid="uid of mixed"))


def states(folder: Path, declaring: ConfigSet) -> States:
    """Return how everything is that a set declares and that can be taken back."""
    tools = crash_host.DiskTools(folder)._load()
    found: States = {
        f"{PACKAGE}:{one.name}": one.name in tools["packages"] for one in declaring.spec.packages
    }
    for service in declaring.spec.services:
        parts = tuple(service.name in tools[part] for part in ("running", "enabled"))
        found[f"{SERVICE}:{service.name}"] = parts
    for file in declaring.spec.files:
        about = crash_host.entry(Path(file.path))
        found[f"{FILE}:{file.path}"] = about[:3] if Path(file.path).is_dir() else about
    return found


def recorded(folder: Path) -> set[str]:
    """Return what this host has because of sets, as its record on disk says."""
    ledger = OwnershipLedger(Vault("/", f"{folder}/state"), keep=True)
    try:
        return set(map(str, ledger.owned))
    finally:
        ledger.close()


class Sightings:
    """How every resource was seen, with and without a record of it, at all moments of a pass."""

    def __init__(self, folder: Path, declaring: ConfigSet, before: States, ours: States) -> None:
        self._folder, self._declaring = folder, declaring
        self._known = {BEFORE: before, OURS: ours}
        self.seen: dict[str, set[tuple[str, bool]]] = {
            one: set() for one in before if before[one] != ours[one]
        }
        self.strange: set[str] = set()
        """What is recorded and must not be: what an execution did is its own."""

    def look(self) -> None:
        """Look at everything now."""
        now, names = states(self._folder, self._declaring), recorded(self._folder)
        for one, seen in self.seen.items():
            how = next((word for word, known in self._known.items() if known[one] == now[one]), BETWEEN)
            seen.add((how, one in names))
        self.strange |= names - now.keys()

    def write(self, path: Path) -> None:
        """Leave it to another process."""
        found = {one: sorted(seen) for one, seen in self.seen.items()}
        path.write_text(json.dumps({"seen": found, "strange": sorted(self.strange)}))


def missed(seen: Mapping[str, Iterable[Any]], mode: str) -> list[str]:
    """Return the moments of resources at which nobody was killed, and those that must not be.

    What is ours is recorded, always. Before a deed there is a moment with a record of it and one without.
    """
    wrong = []
    for one, found in seen.items():
        moments = {tuple(each) for each in found}
        wanted = {(BEFORE, False), (BEFORE, True), (OURS, True)}
        if mode == "pruning" and one == GIVEN_UP:
            wanted = {(OURS, True), (OURS, False)}
        elif (OURS, False) in moments or (BETWEEN, False) in moments:
            wrong.append(f"{one} was ours, and not recorded")
        wrong += [f"{one} was never seen {how}, recorded: {there}" for how, there in sorted(wanted - moments)]
    return wrong
