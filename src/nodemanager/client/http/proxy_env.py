"""Which proxy the environment asks for, by the rules of Go's net/http, which kubectl follows."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from nodemanager.kube.errors import ConfigError

SCHEMES = ("http", "https", "socks5", "socks5h")
_PORTS = {"http": 80, "https": 443}
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def from_environment(server: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy for requests to `server`, or "" for a direct connection."""
    parts = urlsplit(server)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    value = environ.get(name) or environ.get(name.lower()) or ""
    if not value or not parts.hostname:
        return ""
    port = parts.port or _PORTS.get(parts.scheme, 0)
    if _bypassed(parts.hostname, port, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return ""
    return check_url(value if "://" in value else f"http://{value}", f"the environment variable {name}")


def check_url(url: str, what: str) -> str:
    """Return a proxy URL, or raise ConfigError; the URL stays out of the message: it may hold a password."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isascii() or not url.isprintable():
        raise ConfigError(
            f"cannot use {what}: it is not the URL of a proxy;"
            " write it as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT"
        )
    return url


def _bypassed(host: str, port: int, no_proxy: str) -> bool:
    host = host.lower()
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry, host, address, port) for entry in no_proxy.lower().split(","))


def _matches(entry: str, host: str, address: _Address | None, port: int) -> bool:
    """Tell whether one item of NO_PROXY covers the host."""
    entry = entry.strip()
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and _in_network(address, entry)
    entry_host, entry_port = _split_port(entry)
    if not entry_host or (entry_port and entry_port != str(port)):
        return False
    wanted = _address(entry_host)
    if wanted is not None:
        return wanted == address
    suffix = entry_host.removeprefix("*")
    if suffix.startswith("."):
        return host.endswith(suffix)
    return host == suffix or host.endswith("." + suffix)


def _split_port(entry: str) -> tuple[str, str]:
    """Split `host:port` and `[v6]:port`; a bare IPv6 address has no port."""
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        return host, rest.removeprefix(":")
    if entry.count(":") == 1:
        host, _, port = entry.partition(":")
        return host, port
    return entry, ""


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _in_network(address: _Address, text: str) -> bool:
    try:
        return address in ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
