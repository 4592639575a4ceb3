"""Addresses of the network interfaces, asked of the kernel: netlink on Linux, ifconfig elsewhere."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from nodemanager.api.common.managednode import Interface
from nodemanager.host.base import Runner
from nodemanager.host.process.runner import RunError

_GET_LINK, _NEW_LINK, _GET_ADDRESS, _NEW_ADDRESS, _DONE, _ERROR = 18, 16, 22, 20, 3, 2
_REQUEST_DUMP: Final = 0x301
_IFLA_IFNAME, _IFA_ADDRESS, _IFA_LOCAL = 3, 1, 2
_UP, _LOOPBACK = 0x1, 0x8
_HEADER: Final = struct.Struct("=IHHII")
_LINK: Final = struct.Struct("=BxHiII")
_ADDRESS: Final = struct.Struct("=BBBBI")
_TIMEOUT: Final = 5.0


class Link(NamedTuple):
    """An interface."""

    name: str
    flags: int


class InterfaceAddress(NamedTuple):
    """An address of an interface, by its number."""

    link: int
    text: str


async def interfaces(run: Runner) -> dict[str, Interface]:
    """Return the addresses of every interface that is up, loopback aside."""
    if hasattr(socket, "AF_NETLINK"):
        try:
            links = parse_links(_dump(_GET_LINK))
            return collect(links, parse_addresses(_dump(_GET_ADDRESS)))
        except OSError:
            return {}  # a sandbox may forbid netlink; that is no reason to report nothing at all
    try:
        completed = await run(["ifconfig", "-a"], timeout=_TIMEOUT)
    except RunError:
        return {}
    return parse_ifconfig(completed.stdout.decode("utf-8", "replace"))


def _dump(kind: int) -> Iterator[tuple[int, bytes]]:
    """Yield type and payload of everything the kernel answers."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as asked:
        asked.settimeout(_TIMEOUT)
        asked.bind((0, 0))
        asked.send(_HEADER.pack(_HEADER.size + 16, kind, _REQUEST_DUMP, 1, 0) + bytes(16))
        while True:
            for number, payload in messages(asked.recv(65536)):
                if number in (_DONE, _ERROR):
                    return
                yield number, payload


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the messages in what netlink sent."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size or at + length > len(data):
            return
        yield kind, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4 or at + length > len(data):
            return
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += (length + 3) & ~3


def parse_links(found: Iterable[tuple[int, bytes]]) -> dict[int, Link]:
    """Return the interfaces by number."""
    links = {}
    for kind, payload in found:
        if kind != _NEW_LINK or len(payload) < _LINK.size:
            continue
        _, _, index, flags, _ = _LINK.unpack_from(payload)
        names = [value for number, value in _attributes(payload[_LINK.size :]) if number == _IFLA_IFNAME]
        if names:
            links[index] = Link(names[0].rstrip(b"\0").decode("utf-8", "replace"), flags)
    return links


def parse_addresses(found: Iterable[tuple[int, bytes]]) -> list[InterfaceAddress]:
    """Return all addresses; of a point-to-point interface the near end."""
    addresses = []
    for kind, payload in found:
        if kind != _NEW_ADDRESS or len(payload) < _ADDRESS.size:
            continue
        index = _ADDRESS.unpack_from(payload)[4]
        values = dict(_attributes(payload[_ADDRESS.size :]))
        raw = values.get(_IFA_LOCAL) or values.get(_IFA_ADDRESS)
        if raw is not None and len(raw) in (4, 16):
            addresses.append(InterfaceAddress(index, str(ipaddress.ip_address(raw))))
    return addresses


def collect(links: dict[int, Link], addresses: Iterable[InterfaceAddress]) -> dict[str, Interface]:
    """Return addresses by interface: those that are up, IPv6 without link-local, all sorted."""
    found: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for address in addresses:
        link = links.get(address.link)
        if link is None or not link.flags & _UP or link.flags & _LOOPBACK:
            continue
        _sort_in(found[link.name], address.text)
    return _interfaces(found)


def _sort_in(found: tuple[set[str], set[str]], text: str) -> None:
    address = ipaddress.ip_address(text)
    if address.version == 4:
        found[0].add(text)
    elif not (address.is_link_local or address.is_multicast or address.is_loopback):
        found[1].add(text)


def _interfaces(found: dict[str, tuple[set[str], set[str]]]) -> dict[str, Interface]:
    return {
        name: Interface(ipv4=sorted(four), ipv6=sorted(six))
        for name, (four, six) in sorted(found.items())
        if four or six
    }


def parse_ifconfig(text: str) -> dict[str, Interface]:
    """Return addresses by interface from what the BSDs' ifconfig prints."""
    found: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    name, wanted = "", False
    for line in text.splitlines():
        if line and not line[0].isspace():
            name = line.split(":", 1)[0]
            flags = line.partition("<")[2].partition(">")[0].split(",")
            wanted = "UP" in flags and "LOOPBACK" not in flags
            continue
        words = line.split()
        if wanted and len(words) > 1 and words[0] in ("inet", "inet6"):
            try:
                _sort_in(found[name], words[1].partition("%")[0].partition("/")[0])
            except ValueError:
                continue
    return _interfaces(found)
