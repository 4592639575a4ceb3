"""A change of a bond on disk: the former state, the wanted one, and the progress; one folder for each bond.

plan.json            what is changed; written last, so that without it there is no change
before/  absent/     files as they were, and names of those that were not there
staged/              files as they should be
active               the card that was active, for bond.sh; missing if no mode has one
bond.sh              what changes the mode and puts everything back
armed                the dead-man waits; taken by one rename: to `fired` by the dead-man, to `committed` or
                     `reverted` by us; so only one of them succeeds
restored             how putting back ended, as bond.sh writes it
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from nodemanager.host import edge
from nodemanager.host.base import HostError
from nodemanager.host.edge import networkd_files
from nodemanager.host.edge.bond_plans import Arming, BondPlan, Phase
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files
from nodemanager.host.state.state_files import Owner
from nodemanager.kube.errors import UNREADABLE

T = TypeVar("T")
SCRIPT: Final = "bond.sh"
PLAN: Final = "plan.json"
ARMED, FIRED, COMMITTED, REVERTED, RESTORED = "armed", "fired", "committed", "reverted", "restored"
BEFORE, ABSENT, STAGED = "before", "absent", "staged"
ACTIVE: Final = "active"
_MAX: Final = 1024 * 1024
_MAX_BONDS: Final = 64
_LINK_NAME: Final = re.compile("[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}")


@dataclass(frozen=True, slots=True)
class BondRecord:
    """The folder of one bond."""

    tree: Tree
    state: str
    bond: str

    @property
    def folder(self) -> str:
        """Where it is, below the root."""
        return f"{self.state}/bonds/{self.bond}"

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self.tree.outside(self.folder))

    def plan(self) -> BondPlan | None:
        """Return what is changed; None = nothing is."""
        return _decoded(self._read(PLAN), BondPlan)

    def staged(self, mode: str) -> BondPlan:
        """Return what is changed; raises where nothing is, or to another mode."""
        plan = self.plan()
        if plan is None:
            raise HostError(f"cannot go on with {self.bond}: no change of it is staged on this host")
        if plan.mode != mode:
            raise HostError(f"cannot go on with {self.bond}: {plan.mode} is staged, and not {mode}")
        return plan

    def arming(self) -> Arming | None:
        """Return the dead-man that waits; None = none does."""
        return None if self._has_fired() else _decoded(self._read(ARMED), Arming)

    def phase(self) -> Phase:
        """Return how far the change is; what was committed and then reverted is both for a moment.

        Whether the dead-man has fired is looked for twice: it may, between two looks.
        """
        for name, phase in ((FIRED, Phase.FIRED), (ARMED, Phase.ARMED), (FIRED, Phase.FIRED),
                            (REVERTED, Phase.REVERTED), (COMMITTED, Phase.COMMITTED)):  # fmt: skip
            if (self.path / name).exists():
                return phase
        return Phase.STAGED

    def restored(self) -> int | None:
        """Return how putting back ended; None = it did not."""
        text = (self._read(RESTORED) or b"").strip()
        return int(text) if text.isdigit() else None

    def need_put_back(self, what: str) -> None:
        """Raise while a bond still has to be put back: its records are the only ones of how it was."""
        begun = self.plan() is not None and self.phase() in (Phase.FIRED, Phase.REVERTED)
        if begun and self.restored() != 0:
            raise HostError(
                f"cannot {what}: {self.bond} was to be put back, and that is not done; revert it first"
            )

    def need_no_links(self, names: Iterable[str]) -> None:
        """Raise if one of the files that count is a link: it would be replaced."""
        if link := next((live for live in map(self._live, names) if live.is_symlink()), None):
            raise HostError(f"cannot stage {link}: it is a link, which somebody else made; remove it first")

    def stage(self, plan: BondPlan, files: dict[str, str]) -> None:
        """Have everything on disk that a change needs, and nothing of an earlier one."""
        self.remove()
        for name in ("", BEFORE, ABSENT, STAGED):
            state_files.prepare_below(self.tree, f"{self.folder}/{name}" if name else self.folder)
        for name, text in files.items():
            live = self._live(name)
            if live.exists():
                seen = live.stat()
                owner = Owner(seen.st_uid, seen.st_gid)
                self._write(f"{BEFORE}/{name}", live.read_bytes(), seen.st_mode & 0o777, owner)
            else:
                self._write(f"{ABSENT}/{name}", b"")
            self._write(f"{STAGED}/{name}", text.encode(), 0o644)
        script = (resources.files(edge) / SCRIPT).read_bytes()
        self._write(SCRIPT, script, 0o700)
        if plan.active:
            self._write(ACTIVE, f"{plan.active}\n".encode())
        self._write(PLAN, msgspec.json.encode(plan))

    def remove(self) -> None:
        """Forget the change; the plan goes first."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / PLAN).unlink()
        shutil.rmtree(self.path, ignore_errors=True)

    def arm(self, arming: Arming) -> None:
        """Write down that the dead-man waits; what an earlier one did is forgotten."""
        self._drop(ARMED, FIRED, REVERTED, COMMITTED, RESTORED)
        self._write(ARMED, msgspec.json.encode(arming))

    def rearm(self, arming: Arming) -> bool:
        """Write down that another dead-man waits; False = the one from before has taken the change."""
        self._write(ARMED, msgspec.json.encode(arming))
        if not self._has_fired():
            return True
        self._drop(ARMED)
        return False

    def take(self, name: str) -> bool:
        """Take `armed`; False = another process has taken it, or it was not there."""
        if name == COMMITTED and self._has_fired():
            return False  # a process that armed it anew was killed before it saw that
        try:
            os.rename(self.path / ARMED, self.path / name)  # noqa: PTH104 - as the dead-man does
        except FileNotFoundError:
            return False
        self._sync()
        return True

    def begin_revert(self) -> None:
        """Write down that it is put back from now on; how an earlier putting back ended does not count.

        There is no moment at which nothing says how far it is: what is only staged may be forgotten.
        """
        self._drop(RESTORED)
        self._write(REVERTED, b"")
        self._drop(FIRED, COMMITTED)

    def wanted_files(self) -> dict[str, str]:
        """Return files as they shall be, by name."""
        return {one.name: one.read_text("utf-8") for one in sorted((self.path / STAGED).glob("*"))}

    def _live(self, name: str) -> Path:
        return Path(self.tree.outside(f"{networkd_files.ETC}/{name}"))

    def _has_fired(self) -> bool:
        return (self.path / FIRED).exists()

    def _drop(self, *names: str) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                (self.path / name).unlink()

    def _read(self, name: str) -> bytes | None:
        try:
            with (self.path / name).open("rb") as file:
                return file.read(_MAX)
        except OSError:
            return None

    def _write(self, name: str, data: bytes, mode: int = 0o600, owner: Owner | None = None) -> None:
        self.tree.forget()
        state_files.write(self.tree, f"{self.folder}/{name}", data, mode, owner)

    def _sync(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def digest(files: Mapping[str, str]) -> str:
    """Return what two hosts with the same files have alike; pure."""
    found = hashlib.sha256()
    for name, text in sorted(files.items()):
        data = text.encode()
        found.update(f"{name}\0{len(data)}\0".encode() + data)
    return found.hexdigest()


def is_link_name(name: str) -> bool:
    """Tell whether it can be the name of a bond, and of its folder, as the schema of tasks has it."""
    return _LINK_NAME.fullmatch(name) is not None


def records(tree: Tree, state: str) -> list[BondRecord]:
    """Return the changes that there are on this host."""
    folder = Path(tree.outside(f"{state}/bonds"))
    names = sorted(one.name for one in folder.iterdir())[:_MAX_BONDS] if folder.is_dir() else []
    found = [BondRecord(tree, state, name) for name in names if is_link_name(name)]
    return [one for one in found if one.plan() is not None]


def _decoded(data: bytes | None, kind: type[T]) -> T | None:
    try:
        return None if data is None else msgspec.json.decode(data, type=kind)
    except UNREADABLE:
        return None
