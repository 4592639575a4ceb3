"""How far an upgrade has got, on disk before each thing that is done about it."""

from __future__ import annotations

import logging
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files
from nodemanager.host.state.journal import STATE
from nodemanager.kube.errors import UNREADABLE

log = logging.getLogger(__name__)
NAME: Final = "upgrade.json"
MAX_BYTES: Final = 64 * 1024


class Phase(StrEnum):
    """What is being done, or was about to be done when we were interrupted."""

    IDLE = "Idle"
    LOCKING = "Locking"
    CORDONING = "Cordoning"
    DRAINING = "Draining"
    UPGRADING = "Upgrading"
    UPGRADED = "Upgraded"
    """The packages are upgraded; whether to reboot is to be decided."""
    REBOOTING = "Rebooting"
    """A reboot was asked for in the boot that is recorded: nothing more is done in that boot."""
    PROVING = "Proving"
    RETURNING = "Returning"
    """Uncordoning and giving back the lock, after a success as after a failure."""


class UpgradeResult(StrEnum):
    """How an upgrade ended."""

    SUCCESS = "success"
    ERROR = "error"
    SKIPPED = "skipped"
    """It was not our turn during the whole window."""


class UpgradeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One upgrade, and what is to be remembered of those before it."""

    version: int = 1
    phase: Phase = Phase.IDLE
    slot: datetime | None = None
    """The slot of this upgrade; the last slot that was used when there is none under way."""
    began: datetime | None = None
    group: str = ""
    reboot: str = ""
    """Why to reboot in any case."""
    cordoned: datetime | None = None
    """Since when we keep the Kubernetes Node cordoned."""
    boot_id: str = ""
    """The boot in which this upgrade began."""
    asked: float = 0.0
    """When the reboot was asked for, on the clock of that boot."""
    result: UpgradeResult | None = None
    """How the upgrade under way ends, or the last one ended."""
    message: str = ""
    last_started: datetime | None = None
    """When the last upgrade that succeeded began."""
    last_done: datetime | None = None


class RecordError(HostError):
    """The record of an upgrade cannot be written."""


class Records(Protocol):
    """Where the record is kept."""

    def load(self) -> UpgradeRecord:
        """Return what was saved last."""
        ...

    def save(self, record: UpgradeRecord) -> None:
        """Return when it is on disk; raise RecordError if it cannot be."""
        ...


class RecordFile:
    """A small JSON file in the state folder."""

    def __init__(self, tree: Tree, folder: str = STATE) -> None:
        self._tree = tree
        self._folder = folder
        self._path = f"{folder}/{NAME}"

    def load(self) -> UpgradeRecord:
        """Return what was saved last; a file that cannot be read counts as an upgrade to clean up after."""
        try:
            self._tree.forget()
            data = state_files.read(self._tree, self._path, MAX_BYTES)
            return UpgradeRecord() if data is None else msgspec.json.decode(data, type=UpgradeRecord)
        except (OSError, *UNREADABLE) as error:
            log.warning(
                "cannot read how far the last upgrade got from %s: %s; going on as if it had failed",
                self._tree.outside(self._path), error,
            )  # fmt: skip
            return UpgradeRecord(
                phase=Phase.RETURNING,
                result=UpgradeResult.ERROR,
                message=f"its record could not be read: {error}",
            )

    def save(self, record: UpgradeRecord) -> None:
        """Replace the file."""
        try:
            self._tree.forget()
            state_files.prepare_folder(self._tree, self._folder)
            state_files.write(self._tree, self._path, msgspec.json.encode(record))
        except OSError as error:
            why = error.strerror or str(error)
            raise RecordError(
                f"cannot record the upgrade in {self._tree.outside(self._path)}: {why}; no upgrade is done"
                " until this is possible"
            ) from error
