"""What is asked of the operating system of a node: files, commands, and what answers mean. Pure.

Each word of `api/edge/capabilities.py` has a small Protocol here, and `tests/support/system_contract.py`
holds every system to those that it declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from nodemanager.api.edge import capabilities
from nodemanager.backends.declaring import Declaring

Argv = tuple[str, ...]
NOW: Final = "now"
NEXT_BOOT: Final = "next boot"

ACTIVE: Final = "active"
FALLBACK: Final = "fallback"
RECOVERY: Final = "recovery"
NOT_KNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that shall be there, whole."""

    path: str
    content: str
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class SystemPlan:
    """What makes something so, and has it be so after a boot."""

    files: tuple[PlannedFile, ...] = ()
    checks: tuple[Argv, ...] = ()
    """Run after the files were staged and before they count; any that fails stops the rest."""
    commands: tuple[Argv, ...] = ()
    """Run after the files are in place. That they end well proves nothing: look at what they were for."""
    effective: str = NOW


@dataclass(frozen=True, slots=True)
class BootEntry:
    """What a node runs of what it could."""

    kind: str
    said: str = ""

    @property
    def good(self) -> bool:
        """Whether that is what should run: anything else is what is left of a failure, or not known."""
        return self.kind == ACTIVE


@runtime_checkable
class OperatingSystem(Declaring, Protocol):
    """What a node runs."""


@runtime_checkable
class BootRecovery(Protocol):
    """Falls back to what ran before, where an upgrade does not boot."""

    def boot_question(self) -> Argv:
        """Return the command that says what runs."""

    def boot_entry(self, printed: str) -> BootEntry:
        """Say what its output means."""

    def upgrade(self, image: str) -> Argv:
        """Return the command that puts another image beside the one that runs, for the next boot."""


@runtime_checkable
class PersistentNet(Protocol):
    """Keeps files of systemd-networkd."""

    def network(self, files: Mapping[str, str]) -> SystemPlan:
        """Keep files, by their names in /etc/systemd/network."""


@runtime_checkable
class KernelTuning(Protocol):
    """Keeps settings and modules of the kernel."""

    def tuning(self, settings: Mapping[str, str], modules: Sequence[str] = ()) -> SystemPlan:
        """Keep settings of sysctl, and have modules be loaded."""


PROTOCOLS: Final[Mapping[str, type]] = {
    capabilities.BOOT_RECOVERY: BootRecovery,
    capabilities.PERSISTENT_NET: PersistentNet,
    capabilities.KERNEL_TUNING: KernelTuning,
}
