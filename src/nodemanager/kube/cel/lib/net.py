"""ip and cidr as Kubernetes offers them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import ClassVar

from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.registry import Library
from nodemanager.kube.cel.values import CelExtension

LIBRARY = Library()
_add = LIBRARY.add
_MAX_TEXT = 64
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_LINK_LOCAL = (ipaddress.IPv4Network("224.0.0.0/24"), ipaddress.IPv6Network("ff02::/16"))
_SITE = (ipaddress.IPv4Network("169.254.0.0/16"), ipaddress.IPv6Network("fe80::/10"))


@dataclass(frozen=True, slots=True)
class IP(CelExtension):
    """An address."""

    TYPE: ClassVar[str] = "net.IP"
    address: Address


@dataclass(frozen=True, slots=True)
class CIDR(CelExtension):
    """An address with the length of its network prefix; bits after the prefix may be set."""

    TYPE: ClassVar[str] = "net.CIDR"
    address: Address
    length: int


def _address(text: str) -> Address:
    failure = CelError(f'IP Address "{text[:_MAX_TEXT]}" parse error during conversion from string')
    if len(text) > _MAX_TEXT:
        raise failure
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise failure from None
    if "%" in text:
        raise CelError(f'IP address "{text}" with zone value is not allowed')
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


LIBRARY.add_parsing("ip", "isIP", "net.IP", lambda text: IP(_address(text)))


@_add("ip.isCanonical", "(string) -> bool")
def _is_canonical(text: str) -> bool:
    return str(_address(text)) == text


_add("family", "net.IP.() -> int")(lambda value: value.address.version)
_add("string", "(net.IP) -> string")(lambda value: str(value.address))
_add("isUnspecified", "net.IP.() -> bool")(lambda value: value.address.is_unspecified)
_add("isLoopback", "net.IP.() -> bool")(lambda value: value.address.is_loopback)


@_add("isLinkLocalMulticast", "net.IP.() -> bool")
def _is_link_local_multicast(value: IP) -> bool:
    return any(value.address in network for network in _LINK_LOCAL)


@_add("isLinkLocalUnicast", "net.IP.() -> bool")
def _is_link_local_unicast(value: IP) -> bool:
    return any(value.address in network for network in _SITE)


@_add("isGlobalUnicast", "net.IP.() -> bool")
def _is_global_unicast(value: IP) -> bool:
    address = value.address
    if address == ipaddress.IPv4Address("255.255.255.255"):
        return False
    return not (
        address.is_unspecified or address.is_loopback or address.is_multicast or _is_link_local_unicast(value)
    )


def _prefix(text: str) -> CIDR:
    failure = CelError("network address parse error during conversion from string")
    address, slash, length = text[: _MAX_TEXT + 1].partition("/")
    if not slash or not length.isdecimal() or not length.isascii() or "%" in address or len(length) > 3:
        raise failure
    if length != str(int(length)):  # no leading zeros
        raise failure
    try:
        found = CIDR(_address(address), int(length))
    except CelError as why:
        raise (why if "mapped" in str(why) else failure) from None
    if found.length > found.address.max_prefixlen:
        raise failure
    return found


def _network(value: CIDR) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network((value.address, value.length), strict=False)


LIBRARY.add_parsing("cidr", "isCIDR", "net.CIDR", _prefix)


@_add("containsIP", "net.CIDR.(net.IP) -> bool", "net.CIDR.(string) -> bool")
def _contains_ip(value: CIDR, inner: IP | str) -> bool:
    address = inner.address if isinstance(inner, IP) else _address(inner)
    return address in _network(value)


@_add("containsCIDR", "net.CIDR.(net.CIDR) -> bool", "net.CIDR.(string) -> bool")
def _contains_cidr(value: CIDR, inner: CIDR | str) -> bool:
    other = inner if isinstance(inner, CIDR) else _prefix(inner)
    return other.length >= value.length and other.address in _network(value)


_add("ip", "net.CIDR.() -> net.IP")(lambda value: IP(value.address))
_add("prefixLength", "net.CIDR.() -> int")(lambda value: value.length)
_add("masked", "net.CIDR.() -> net.CIDR")(lambda value: CIDR(_network(value).network_address, value.length))
_add("string", "(net.CIDR) -> string")(lambda value: f"{value.address}/{value.length}")
