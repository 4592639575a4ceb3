"""What each workflow needs from a site, and what each part of a site can do: a table. Pure.

    workflow  ->  what it needs of storage, of the operating system and of virtualisation
    choice    ->  what it can do

Rules of admission are made of the table, so the API, `nodemanager lint` and the operator say the same. A new
backend is a line of the table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from nodemanager.kube.hints import Rule

CLONE: Final = "Clone"
SNAPSHOT: Final = "Snapshot"
REPLICATION: Final = "Replication"
RWX: Final = "RWX"
BOOT_RECOVERY: Final = "BootRecovery"
PERSISTENT_NET: Final = "PersistentNet"
KERNEL_TUNING: Final = "KernelTuning"
VIRTUAL_MACHINES: Final = "VirtualMachines"

Abilities = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class SitePart:
    """A part of a site that something is chosen for."""

    words: str
    field: str
    """Where a profile names the choice, below spec."""
    choices: Abilities
    """What may be chosen, and what it can do."""

    def able(self, needed: Collection[str]) -> list[str]:
        """Return the choices that can do all of it."""
        return [name for name, has in self.choices.items() if has.issuperset(needed)]


STORAGE: Final = SitePart(
    "storage backend",
    "storage.backend",
    {"linstor": frozenset({CLONE, SNAPSHOT, REPLICATION, RWX}), "local-path": frozenset()},
)
SYSTEM: Final = SitePart(
    "operating system",
    "os.provider",
    {
        "kairos": frozenset({BOOT_RECOVERY, PERSISTENT_NET, KERNEL_TUNING}),
        "debian": frozenset({PERSISTENT_NET, KERNEL_TUNING}),
        "ubuntu": frozenset({PERSISTENT_NET, KERNEL_TUNING}),
        # NetworkManager keeps its network, and files of systemd-networkd mean nothing there.
        "rhel": frozenset({KERNEL_TUNING}),
    },
)
VIRTUALISATION: Final = SitePart(
    "virtualisation", "virtualisation", {"kubevirt": frozenset({VIRTUAL_MACHINES}), "none": frozenset()}
)
PARTS: Final = (STORAGE, SYSTEM, VIRTUALISATION)

BOND_MODE_FLIP: Final = "BondModeFlip"
REPLICATION_UPGRADE: Final = "ReplicationUpgrade"
VOLUME_MIGRATION: Final = "VolumeMigration"
WORKFLOWS: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    BOND_MODE_FLIP: {SYSTEM.field: frozenset({PERSISTENT_NET})},
    REPLICATION_UPGRADE: {
        STORAGE.field: frozenset({REPLICATION, SNAPSHOT}),
        SYSTEM.field: frozenset({PERSISTENT_NET}),
    },
    VOLUME_MIGRATION: {
        STORAGE.field: frozenset({RWX, SNAPSHOT, CLONE}),
        VIRTUALISATION.field: frozenset({VIRTUAL_MACHINES}),
    },
}
"""What each workflow needs, by the field that names the part that must be able to do it."""


def _needs() -> Iterator[tuple[str, SitePart, list[str]]]:
    for workflow, needs in WORKFLOWS.items():
        for part in PARTS:
            if part.field in needs:
                yield workflow, part, sorted(needs[part.field])


def rules() -> tuple[Rule, ...]:
    """Return what admission asks of the spec of a profile: no workflow that a part of the site cannot do."""
    return tuple(
        Rule(
            f"!has(self.workflows) || !('{workflow}' in self.workflows)"
            f" || self.{part.field} in {part.able(needed)}",
            _refusal(workflow, part, needed),
            ".workflows",
        )
        for workflow, part, needed in _needs()
    )


def faults(workflows: Collection[str], chosen: Mapping[str, str]) -> list[str]:
    """Return what admission would say: `chosen` are the choices by field."""
    return [
        _refusal(workflow, part, needed)
        for workflow, part, needed in _needs()
        if workflow in workflows and chosen.get(part.field) not in part.able(needed)
    ]


def _refusal(workflow: str, part: SitePart, needed: list[str]) -> str:
    able = " or ".join(part.able(needed))
    return (
        f"{workflow} needs {' and '.join(needed)} of the {part.words}, which only {able} can do:"
        f" set spec.{part.field} to {able}, or leave {workflow} out"
    )
