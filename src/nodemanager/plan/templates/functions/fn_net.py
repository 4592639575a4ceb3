"""net.*, path.*, filepath.* and uuid.*: names and numbers, without asking any machine about them."""

from __future__ import annotations

import ipaddress
import posixpath
import uuid
from typing import Any

from nodemanager.plan.templates.errors import FunctionError
from nodemanager.plan.templates.functions.fn_regexp import glob_matches
from nodemanager.plan.templates.functions.registry import add, checked_size
from nodemanager.plan.templates.functions.values import integer, text

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _address(value: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(text(value))
    except ValueError:
        raise FunctionError("the text is not an IP address") from None


def _network(value: Any) -> Network:
    if "/" not in text(value):
        raise FunctionError("the text is not a network such as 10.0.0.0/8")
    try:
        return ipaddress.ip_network(text(value), strict=False)
    except ValueError:
        raise FunctionError("the text is not a network such as 10.0.0.0/8") from None


@add("net.ParseAddr", "net.ParseIP")
def _parse_address(value: Any) -> str:
    return str(_address(value))


@add("net.ParsePrefix", "net.ParseIPPrefix")
def _parse_prefix(value: Any) -> str:
    try:
        return str(ipaddress.ip_interface(text(value))) if "/" in text(value) else str(_network(value))
    except ValueError:
        raise FunctionError("the text is not a network such as 10.0.0.0/8") from None


@add("net.CIDRHost")
def _cidr_host(number: Any, prefix: Any) -> str:
    network, place = _network(prefix), integer(number, "the host number")
    if not -network.num_addresses <= place < network.num_addresses:
        raise FunctionError("the network has no such host")
    return str(network.network_address + place % network.num_addresses)


@add("net.CIDRNetmask")
def _cidr_netmask(prefix: Any) -> str:
    return str(_network(prefix).netmask)


@add("net.CIDRSubnets")
def _cidr_subnets(bits: Any, prefix: Any) -> list[str]:
    network, more = _network(prefix), integer(bits, "the number of bits")
    if more < 1 or network.prefixlen + more > network.max_prefixlen:
        raise FunctionError("the prefix cannot be extended by that many bits")
    checked_size(20 << min(more, 40))
    return [str(each) for each in network.subnets(prefixlen_diff=more)]


@add("net.CIDRSubnetSizes")
def _cidr_subnet_sizes(*arguments: Any) -> list[str]:
    if len(arguments) < 2:
        raise FunctionError("it takes numbers of bits and then a network")
    network = _network(arguments[-1])
    at = int(network.network_address)
    out: list[str] = []
    for each in arguments[:-1]:
        length = network.prefixlen + integer(each, "a number of bits")
        if not network.prefixlen < length <= network.max_prefixlen:
            raise FunctionError("the prefix cannot be extended by that many bits")
        size = 1 << (network.max_prefixlen - length)
        at = -(-at // size) * size
        if at + size > int(network.broadcast_address) + 1:
            raise FunctionError("the network has no room for all of these")
        out.append(f"{type(network.network_address)(at)}/{length}")
        at += size
    return out


def _both(name: str) -> tuple[str, str]:
    return f"path.{name}", f"filepath.{name}"


@add(*_both("Base"))
def _base(value: Any) -> str:
    stripped = text(value).rstrip("/")
    return posixpath.basename(stripped) or ("/" if text(value) else ".")


@add(*_both("Clean"))
def _clean(value: Any) -> str:
    cleaned = posixpath.normpath(text(value) or ".")
    return cleaned[1:] if cleaned.startswith("//") else cleaned


@add(*_both("Dir"))
def _dir(value: Any) -> str:
    return _clean(text(value)[: text(value).rfind("/") + 1])


@add(*_both("Ext"))
def _ext(value: Any) -> str:
    name = text(value)[text(value).rfind("/") + 1 :]
    return name[name.rfind(".") :] if "." in name else ""


@add(*_both("IsAbs"))
def _is_abs(value: Any) -> bool:
    return text(value).startswith("/")


@add(*_both("Join"))
def _join(*parts: Any) -> str:
    joined = "/".join(text(each) for each in parts if text(each))
    return _clean(joined) if joined else ""


@add(*_both("Split"))
def _split(value: Any) -> list[str]:
    cut = text(value).rfind("/") + 1
    return [text(value)[:cut], text(value)[cut:]]


@add(*_both("Match"))
def _match(pattern: Any, name: Any) -> bool:
    return glob_matches(text(pattern), text(name))


@add("filepath.FromSlash", "filepath.ToSlash")
def _slash(value: Any) -> str:
    return text(value)


@add("uuid.Nil")
def _nil() -> str:
    return str(uuid.UUID(int=0))


@add("uuid.Parse")
def _parse(value: Any) -> str:
    try:
        return str(uuid.UUID(text(value)))
    except ValueError:
        raise FunctionError("the text is not a UUID") from None


@add("uuid.IsValid")
def _is_valid(value: Any) -> bool:
    try:
        _parse(value)
    except FunctionError:
        return False
    return True
