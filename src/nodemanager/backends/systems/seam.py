"""The interface of a node's operating system: files, commands, and the meaning of answers. Pure.

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
    """A file that should exist with exactly this content."""

    path: str
    content: str
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class SystemPlan:
    """The files and commands of a change that outlives a boot."""

    files: tuple[PlannedFile, ...] = ()
    checks: tuple[Argv, ...] = ()
    """Run after the files were staged and before they count; any that fails stops the rest."""
    commands: tuple[Argv, ...] = ()
    """Run after the files are installed. Their success proves nothing: look at the result itself."""
    effective: str = NOW


@dataclass(frozen=True, slots=True)
class BootEntry:
    """The image that a node runs, of those that it could run."""

    kind: str
    said: str = ""

    @property
    def good(self) -> bool:
        """Whether that is what should run: anything else is what is left of a failure, or not known."""
        return self.kind == ACTIVE


@runtime_checkable
class OperatingSystem(Declaring, Protocol):
    """The operating system of a node."""


@runtime_checkable
class BootRecovery(Protocol):
    """Falls back to the previous image if an upgrade does not boot."""

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
