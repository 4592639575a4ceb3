"""How long a hold lasts: measured by a clock that cannot be set, across restarts of the agent and reboots.

When a hold is first heard of, its `until` is compared with the time of day, once. From then on the clock
since boot counts. After a reboot, `until` is asked again: a clock that was never set, or was set back, makes
a hold last for what was left when that was last recorded, and no longer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from nodemanager.agent.link.api_reachability import SANE
from nodemanager.api.common.acting import Hold
from nodemanager.host.inventory import boot
from nodemanager.host.state.vault import Vault, VaultError
from nodemanager.kube.errors import UNREADABLE
from nodemanager.kube.objects import Struct

log = logging.getLogger(__name__)
BY_HOST: Final = "hold"
"""The file of the hold that root made on this host."""
BY_API: Final = "hold-of-api"
"""The file in which the agent keeps the hold of its ManagedNode, for a start without the API."""
UNSET_SECONDS: Final = 7 * 86400.0
"""The longest time of a hold on a host whose clock was never set, until it is set."""


@dataclass(frozen=True, slots=True)
class HoldClocks:
    """The clocks."""

    wall: Callable[[], float] = time.time
    since_boot: Callable[[], float] = boot.seconds_since_boot
    boot: Callable[[], str] = boot.current_boot

    @property
    def is_set(self) -> bool:
        """Whether the time of day was ever set."""
        return self.wall() > SANE


class TimedHold(Struct):
    """A hold as it is on disk, with its end by the clock since boot."""

    hold: Hold
    boot: str
    """The boot to which `ends` belongs."""
    ends: float
    left: float
    """The seconds that were left when this was written."""
    dated: bool = True
    """Whether the time of day was known then."""


def timed(hold: Hold, clocks: HoldClocks, seconds: float | None = None) -> TimedHold:
    """Return a hold that lasts from now on for so many seconds, or until the time that it says."""
    left = _until(hold, clocks) if seconds is None else seconds
    if seconds is None and not clocks.is_set:
        left = min(left, UNSET_SECONDS)
    return TimedHold(
        hold=hold, boot=clocks.boot(), ends=clocks.since_boot() + left, left=left,
        dated=clocks.is_set or seconds is not None,
    )  # fmt: skip


def left(one: TimedHold, clocks: HoldClocks) -> float:
    """Return how many seconds a hold of this boot lasts."""
    return one.ends - clocks.since_boot()


def resumed(one: TimedHold, clocks: HoldClocks) -> TimedHold:
    """Return a hold that was read from disk, timed for the boot that this is."""
    if one.boot and one.boot == clocks.boot():
        return one
    rest = min(one.left, _until(one.hold, clocks)) if clocks.is_set else one.left
    return timed(one.hold, clocks, max(rest, 0.0))


def load(vault: Vault, name: str) -> TimedHold | None:
    """Return the hold in a file; an unreadable file is set aside, and reported."""
    try:
        data = vault.load(name)
        return None if data is None else msgspec.json.decode(data, type=TimedHold)
    except (VaultError, *UNREADABLE) as error:
        log.warning("%s; this host is not held by it", error)
        vault.set_aside(name)
        return None


def save(vault: Vault, name: str, one: TimedHold | None) -> None:
    """Write a hold to disk, or remove it; raise VaultError if that fails."""
    if one is None:
        vault.remove(name)
    else:
        vault.save(name, msgspec.json.encode(one))


def _until(hold: Hold, clocks: HoldClocks) -> float:
    try:
        end = datetime.fromisoformat(hold.until)
    except ValueError:
        shown = hold.until[:64]
        log.warning("cannot hold this host until %r: that is no time, such as 2026-03-01T04:00:00Z", shown)
        return 0.0
    return (end if end.tzinfo else end.replace(tzinfo=UTC)).timestamp() - clocks.wall()
