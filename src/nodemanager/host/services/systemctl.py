"""systemd that does not run: an image, a chroot. Units can be enabled in it; nothing can be started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from nodemanager.host.base import NotSupported, Runner, ServiceKey
from nodemanager.host.process import runner
from nodemanager.host.services import refusals, systemd_units
from nodemanager.plan.facts import ServiceFact

SECONDS: Final = 60.0
_OFFLINE: Final = {"SYSTEMD_OFFLINE": "1"}
"""Lets systemctl edit links by itself, without asking how it is run: /proc may not be mounted there."""


class OfflineSystemd:
    """The unit files of a root in which no systemd runs."""

    name = "systemd (not running)"

    def __init__(self, run: Runner) -> None:
        self._run = run

    async def observe(self, keys: Iterable[ServiceKey]) -> Mapping[ServiceKey, ServiceFact]:
        """Return whether each is there and enabled; nothing runs."""
        return {key: await self._look(key) for key in keys}

    async def _look(self, key: ServiceKey) -> ServiceFact:
        if key.user:
            return ServiceFact(error=_users_text(key))
        unit = systemd_units.unit_name(key.name)
        if not systemd_units.is_unit_name(unit):
            return ServiceFact(error=_no_unit(key))
        done = await self._run(is_enabled_argv(unit), env=_OFFLINE, timeout=SECONDS)
        return parse_is_enabled(done)

    async def refresh(self, user: str = "") -> None:
        """Do nothing: the next boot reads the files."""

    async def enable(self, key: ServiceKey, *, enabled: bool) -> bool:
        """Make it start at boot, or not; no running manager needs to know."""
        if key.user:
            raise NotSupported(_users_text(key))
        unit = systemd_units.unit_name(key.name)
        if not systemd_units.is_unit_name(unit):
            raise NotSupported(_no_unit(key))
        done = await self._run(enable_argv(unit, enabled=enabled), env=_OFFLINE, timeout=SECONDS)
        refusals.check(done, f"{'enable' if enabled else 'disable'} {unit}")
        return False

    async def set_arguments(self, key: ServiceKey, arguments: str) -> None:
        """Refuse: arguments are part of a unit file."""
        raise NotSupported(f"cannot set arguments {arguments!r} of {key.name}: systemd has no such thing")

    async def start(self, key: ServiceKey) -> None:
        """Refuse."""
        raise refusals.not_running("systemd", "start", key)

    async def stop(self, key: ServiceKey) -> None:
        """Refuse."""
        raise refusals.not_running("systemd", "stop", key)

    async def restart(self, key: ServiceKey) -> None:
        """Refuse."""
        raise refusals.not_running("systemd", "restart", key)

    async def reload(self, key: ServiceKey) -> bool:
        """Refuse."""
        raise refusals.not_running("systemd", "reload", key)


def is_enabled_argv(unit: str) -> list[str]:
    """Return the command that says whether a unit starts at boot."""
    return ["systemctl", "--no-pager", "is-enabled", "--", unit]


def enable_argv(unit: str, *, enabled: bool) -> list[str]:
    """Return the command that makes a unit start at boot, or not."""
    return ["systemctl", "--no-pager", "--quiet", "enable" if enabled else "disable", "--", unit]


def parse_is_enabled(done: runner.Completed) -> ServiceFact:
    """Return what `systemctl is-enabled` says; its exit status says less than its words."""
    word = done.stdout.decode("utf-8", "replace").strip()
    if not word or word == "not-found":
        said = runner.tail(done.stderr)
        if word or "No such file" in said or "not-found" in said:
            return ServiceFact(state="not-found")
        return ServiceFact(error=f"cannot tell whether it is enabled: {said or 'systemctl said nothing'}")
    state = "masked" if word.startswith("masked") else "not running"
    return ServiceFact(known=True, enabled=systemd_units.starts_at_boot(word), state=state)


def _no_unit(key: ServiceKey) -> str:
    return f"cannot manage {key.name[:255]!r}: that is no name for a unit"


def _users_text(key: ServiceKey) -> str:
    return f"cannot reach {key.user[:255]}'s services: systemd does not run in this root"
