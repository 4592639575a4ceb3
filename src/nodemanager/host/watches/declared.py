"""Which paths have to be watched for what is declared; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from nodemanager.host.inventory import ssh_keys
from nodemanager.host.services.systemd_units import unit_name
from nodemanager.host.watches.inbox import Concern, SettleTime
from nodemanager.host.watches.paths import Interest
from nodemanager.plan.desired import Desired
from nodemanager.plan.resources import ResourceId

PACKAGES: Final = SettleTime(0.2, 2.0)
"""Package managers write a lot until they are done."""
INVENTORY: Final = SettleTime(0.2, 1.0)
OPENRC_STATES: Final = ("started", "starting", "stopping", "inactive", "failed", "crashed")


def files(desired: Desired) -> Iterator[Interest]:
    """Return every declared path; of a directory that is purged, also that entries come and go."""
    for item in desired.files:
        file = item.declaration
        purged = file.purge and file.ensure == "directory"
        yield Interest(file.path, Concern((item.id,)), entries=purged)


def owners(desired: Desired) -> Iterator[Interest]:
    """Return the files that say which number an owner's name stands for."""
    for path, field in (("/etc/passwd", "owner"), ("/etc/group", "group")):
        named = (item.id for item in desired.files if getattr(item.declaration, field).strip("0123456789"))
        if concerned := tuple(named):
            yield Interest(path, Concern(concerned))


def packages(desired: Desired, databases: Sequence[str]) -> Iterator[Interest]:
    """Return the files that a package manager keeps its books in; it rewrites them, or has a folder."""
    if concerned := tuple(item.id for item in desired.packages):
        for path in databases:
            yield Interest(path, Concern(concerned), entries=True, settle=PACKAGES)


def units(desired: Desired) -> dict[str, dict[str, frozenset[ResourceId]]]:
    """Return the services by user and by the full name of their unit; one may be declared by two names."""
    found: dict[str, dict[str, frozenset[ResourceId]]] = {}
    for item in desired.services:
        of_user = found.setdefault(item.declaration.user, {})
        unit = unit_name(item.declaration.name)
        of_user[unit] = of_user.get(unit, frozenset()) | {item.id}
    return found


def openrc(desired: Desired, levels: Sequence[str]) -> Iterator[Interest]:
    """Return the links by which OpenRC remembers what runs, and what starts in which runlevel."""
    for item in desired.services:
        name, concern = item.declaration.name, Concern((item.id,))
        yield Interest(f"/etc/init.d/{name}", concern)
        for folder in (*(f"/run/openrc/{state}" for state in OPENRC_STATES), *levels):
            yield Interest(f"{folder}/{name}", concern)


def inventory() -> Iterator[Interest]:
    """Return the folders of what the status tells of the host."""
    for path in (*ssh_keys.FOLDERS, "/etc/wireguard"):
        yield Interest(path, Concern(inventory=True), entries=True, settle=INVENTORY)
