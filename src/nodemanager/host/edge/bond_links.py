"""What is on a bond: its VLANs, and the addresses that it and they have.

Addresses from files of systemd-networkd must be back after a flip. Others belong to other programs,
which may move them meanwhile, as keepalived does; a leased address may be replaced by another one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from nodemanager.host.base import HostError, Runner
from nodemanager.host.edge import links, networkd_files
from nodemanager.host.edge.bond_plans import LinkBefore
from nodemanager.kube.errors import UNREADABLE

_TIMEOUT: Final = 10.0
_MAX_VLANS: Final = 64


class LinkAddress(msgspec.Struct, frozen=True):
    """An address of a link, as `ip` reports it."""

    family: str = ""
    local: str = ""
    prefixlen: int = 0
    dynamic: bool = False
    """Whether it expires, such as one from DHCP."""


class _Link(msgspec.Struct, frozen=True):
    addr_info: list[LinkAddress] = []


def show(link: str) -> list[str]:
    """Return what tells the addresses of a link."""
    return ["ip", "-j", "address", "show", "dev", link]


def parse(output: bytes) -> list[LinkAddress]:
    """Return addresses from what `show` prints; what is not there, `ip` prints as an empty object."""
    return [one for link in msgspec.json.decode(output or b"[]", type=list[_Link]) for one in link.addr_info]


def declared(files: Mapping[str, networkd_files.Found]) -> frozenset[str]:
    """Return the addresses that files of systemd-networkd give to any link; pure."""
    said = (one.value for file in files.values() for one in networkd_files.settings(file.text)
            if one.key == "Address" and one.section in ("Network", "Address"))  # fmt: skip
    return frozenset(filter(None, map(_normal, said)))


async def before(root: str | Path, run: Runner, bond: str) -> tuple[LinkBefore, ...]:
    """Return how a bond and its VLANs are; raises HostError where that cannot be seen."""
    wanted = declared(networkd_files.read(root))
    return tuple([await _one(root, run, name, wanted) for name in (bond, *vlans(root, bond))])


async def lacking(root: str | Path, run: Runner, was: Iterable[LinkBefore], *, leases: bool) -> str:
    """Return what a bond and its VLANs do not have any more; empty = nothing."""
    for one in was:
        if why := _other(root, one):
            return why
        found = await _addresses(run, one.name) if one.addresses or (leases and one.leased) else []
        have = {_normal(f"{address.local}/{address.prefixlen}") for address in found}
        if gone := [address for address in one.addresses if address not in have]:
            return f"{one.name} does not have its address {gone[0]}"
        if leases and one.leased and not any(address.family == "inet" for address in found):
            return f"{one.name} does not have an address by DHCP, as it had"
    return ""


def vlans(root: str | Path, link: str) -> list[str]:
    """Return the VLANs on a link, and those on these."""
    found: list[str] = []
    waiting = [link]
    while waiting and len(found) < _MAX_VLANS:
        here = links.vlans_on(root, waiting.pop(0))
        found += here
        waiting += here
    return found[:_MAX_VLANS]


async def _one(root: str | Path, run: Runner, name: str, wanted: frozenset[str]) -> LinkBefore:
    found = await _addresses(run, name)
    have = (_normal(f"{one.local}/{one.prefixlen}") for one in found if not one.dynamic)
    leased = any(one.dynamic and one.family == "inet" for one in found)
    return LinkBefore(name, links.mtu(root, name), links.is_up(root, name),
                      tuple(one for one in have if one in wanted), leased)  # fmt: skip


def _other(root: str | Path, was: LinkBefore) -> str:
    """Return how a link differs from how it was, its addresses left aside."""
    mtu = links.mtu(root, was.name)
    if not mtu:
        return f"{was.name} is gone"
    if mtu != was.mtu:
        return f"the MTU of {was.name} is {mtu}, and not {was.mtu}"
    return f"{was.name} is switched off" if was.up and not links.is_up(root, was.name) else ""


async def _addresses(run: Runner, link: str) -> list[LinkAddress]:
    try:
        return parse((await run(show(link), timeout=_TIMEOUT)).check().stdout)
    except (OSError, *UNREADABLE) as error:
        raise HostError(f"cannot see the addresses of {link}: {error}") from error


def _normal(text: str) -> str:
    """Return an address as all write it; empty for what is none."""
    try:
        return str(ipaddress.ip_interface(text))
    except ValueError:
        return ""
