"""The reports of systemd about units, in the terms of a plan. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from nodemanager.plan.facts import ServiceFact

_SUFFIX: Final = re.compile(r"\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)$")
_NAME: Final = re.compile(r"[A-Za-z0-9:_.\\@-]{1,255}")
_RUNNING: Final = frozenset(("active", "reloading", "refreshing"))
_BOOT: Final = {
    "enabled": True,
    "disabled": False,
    "linked": False,
    "masked": False,
    "enabled-runtime": False,  # gone after the next boot
    "linked-runtime": False,
    "masked-runtime": False,
}
"""Whether a unit starts at boot, by the state of its file; other states are None: static and indirect units
decide nothing, generated and transient ones are made by other programs."""


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """A unit as the manager sees it."""

    id: str
    """Its first name; aliases lead to it."""
    load: str
    """One of loaded, not-found, masked, bad-setting, error."""
    active: str
    """active, reloading, inactive, failed, activating, deactivating."""
    sub: str
    path: str
    """Its object on the bus."""
    job: int = 0
    """Number of the job that is at work on it, 0 if there is none."""
    file: str = ""
    """State of the unit file: enabled, disabled, static, ..."""
    stale: bool = False
    """Whether its files changed since they were read."""
    fragment: str = ""
    """Its unit file."""
    drop_ins: tuple[str, ...] = ()
    """The files that add to it."""

    @property
    def known(self) -> bool:
        """Whether there is such a unit; one whose file was deleted is there for as long as it runs."""
        return self.load != "not-found" or self.active not in ("inactive", "failed")

    @property
    def running(self) -> bool:
        """Whether it does what it is there for."""
        return self.active in _RUNNING

    @property
    def crashing(self) -> bool:
        """Whether it ended, and systemd waits to start it once more."""
        return self.active == "activating" and self.sub.startswith("auto-restart")

    @property
    def settled(self) -> bool:
        """Whether waiting a moment would make no difference."""
        return self.active not in ("activating", "deactivating") or self.crashing

    @property
    def masked(self) -> bool:
        """Whether the administrator forbade it."""
        return self.load == "masked" or self.file.startswith("masked")

    @property
    def words(self) -> str:
        """The state as `systemctl status` puts it."""
        if self.masked:
            return "masked"
        return self.active if self.active == self.sub else f"{self.active} ({self.sub})"


def unit_name(name: str) -> str:
    """Return the full name of a unit: one without a type is a service."""
    return name if _SUFFIX.search(name) else f"{name}.service"


def is_unit_name(name: str) -> bool:
    """Return whether systemd accepts this as the full name of a unit."""
    prefix, _, _ = name.rpartition(".")
    return bool(_NAME.fullmatch(name)) and bool(prefix) and not prefix.startswith("@")


def is_template(name: str) -> bool:
    """Return whether a full name is that of a template, `getty@.service`, which itself never runs."""
    return name.rpartition(".")[0].endswith("@")


def starts_at_boot(file_state: str) -> bool | None:
    """Return what the state of a unit file means for the next boot."""
    return _BOOT.get(file_state)


def fact(status: UnitStatus) -> ServiceFact:
    """Return what a plan has to know about a unit."""
    if not status.known:
        return ServiceFact(state="not-found")
    if status.load in ("bad-setting", "error") and not status.stale and not status.running:
        return ServiceFact(
            known=True, error=f"cannot use {status.id}: its unit file is not valid; run {verify(status.id)}"
        )
    return ServiceFact(
        known=True,
        running=status.running,
        enabled=starts_at_boot(status.file),
        state=status.words,
        stale=status.stale,
        unsettled=status.crashing or not status.settled,
        unit=status.id,
    )


def template_fact(file_state: str) -> ServiceFact:
    """Return the fact of a template, of which systemd knows only the file."""
    return ServiceFact(known=True, enabled=starts_at_boot(file_state), state=file_state)


def verify(unit: str) -> str:
    """Return the command that says what is wrong with a unit file."""
    return f"systemd-analyze verify {unit}"


def ending(service: Mapping[str, Any]) -> str:
    """Return how the main process of a service ended, from its properties; empty when there was none."""
    code, status = service.get("ExecMainCode", 0), service.get("ExecMainStatus", 0)
    if code == 1:
        return f"exit status {status}"
    if code in (2, 3):
        return f"killed by signal {status}"
    result = service.get("Result", "success")
    return "" if result == "success" else str(result)
