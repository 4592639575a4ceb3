"""Kairos: every boot resets /etc, so lasting changes are files in /oem that write them again. Pure.

A boot that says passive after an upgrade is one that failed: the node runs what it ran before.
`kairos-agent reset` is not here: it destroys what is persistent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from nodemanager.api.edge import capabilities
from nodemanager.api.maintenance.edge_steps import OEM_NETWORK
from nodemanager.backends.systems import texts
from nodemanager.backends.systems.seam import (
    ACTIVE,
    FALLBACK,
    NEXT_BOOT,
    NOT_KNOWN,
    RECOVERY,
    Argv,
    BootEntry,
    PlannedFile,
    SystemPlan,
)
from nodemanager.fleet.edge.decoding import printable

NAME: Final = "kairos"
AGENT: Final = "kairos-agent"
NETWORK: Final = f"/oem/{OEM_NETWORK}"
TUNING: Final = "/oem/95_nodemanager_tuning.yaml"
"""Files of /oem are read in alphabetical order, and the last one wins."""
_STAGE: Final = "initramfs"
"""This stage comes before systemd starts the programs that read these files."""
_BOOTS: Final = {"active_boot": ACTIVE, "passive_boot": FALLBACK, "recovery_boot": RECOVERY}


class Kairos:
    """An immutable system with two images, of which one runs."""

    name = NAME
    capabilities = capabilities.SYSTEM.choices[NAME]

    def boot_question(self) -> Argv:
        """Ask which of its images it runs."""
        return (AGENT, "state", "get", "boot")

    def boot_entry(self, printed: str) -> BootEntry:
        """Only active_boot is good; a word that we do not know is not known."""
        word = printable(printed.strip(), 63)
        return BootEntry(_BOOTS.get(word, NOT_KNOWN), word)

    def booted(self, image: str) -> BootEntry:
        """Say what it means that an image runs, as its mark in /run/cos calls it: active, passive, ..."""
        return self.boot_entry(f"{image}_boot")

    def upgrade(self, image: str) -> Argv:
        """Put an image in the place of the passive one, to be booted next."""
        return upgrade_argv(f"oci:{texts.image(image)}")

    def network(self, files: Mapping[str, str]) -> SystemPlan:
        """Write the files as they are now, and have every boot write them."""
        now = tuple(PlannedFile(path, text) for path, text in texts.network(files).items())
        if not now:
            return SystemPlan()
        lasting = _oem(NETWORK, "network of nodemanager", now)
        return SystemPlan((*now, lasting), (_validate(NETWORK),), (("networkctl", "reload"),))

    def tuning(self, settings: Mapping[str, str], modules: Sequence[str] = ()) -> SystemPlan:
        """Have every boot write the files that systemd reads when it starts."""
        wanted = [PlannedFile(texts.MODULES, texts.modules(modules))] if modules else []
        wanted += [PlannedFile(texts.SYSCTL, texts.sysctl(settings))] if settings else []
        if not wanted:
            return SystemPlan()
        return SystemPlan(
            (_oem(TUNING, "kernel settings of nodemanager", wanted),),
            (_validate(TUNING),),
            effective=NEXT_BOOT,
        )


def upgrade_argv(source: str, *, recovery: bool = False) -> Argv:
    """Put an image from a source, such as oci:..., in the place of the passive one, or of recovery."""
    return (AGENT, "upgrade", "--source", source, *(("--recovery",) if recovery else ()))


def stage_argv(stage: str, path: str = "") -> Argv:
    """Run a stage now, as far as a file or a folder says what belongs to it; an error in it is one."""
    return (AGENT, "run-stage", stage, "--strict", *(("--cloud-init-paths", path) if path else ()))


def _validate(path: str) -> Argv:
    return (AGENT, "validate", path)


def _oem(path: str, name: str, files: Sequence[PlannedFile]) -> PlannedFile:
    """Return a file that writes others at every boot: JSON, which is YAML, and quotes whatever is in it."""
    written = [
        {"path": one.path, "content": one.content, "permissions": one.mode, "owner": 0, "group": 0}
        for one in files
    ]
    stages = {"stages": {_STAGE: [{"name": name, "files": written}]}}
    return PlannedFile(path, "#cloud-config\n" + json.dumps(stages, indent=2) + "\n", 0o600)
