"""The address on which the server listens, and the one by which clients reach it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_LABEL: Final = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST: Final = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*\.?")
_LONGEST_HOST: Final = 253


@dataclass(frozen=True, slots=True)
class Advertised:
    """What kubeconfigs say; port 0 is the one that the server listens on."""

    host: str
    port: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to listen, what kubeconfigs say instead of that, and further names in the certificate."""

    host: str = "127.0.0.1"
    port: int = 6443
    advertised: Advertised | None = None
    names: tuple[str, ...] = ()

    def url(self, address: str, port: int) -> str:
        """Return how clients reach a socket that is bound to this address; never one that stands for all."""
        host = _reachable(address)
        if self.advertised is not None:
            host, port = self.advertised.host, self.advertised.port or port
        return f"https://{f'[{host}]' if ':' in host else host}:{port}"

    def certificate_names(self, address: str) -> list[str]:
        """Return by which names the server may be called, each once."""
        advertised = (self.advertised.host,) if self.advertised else ()
        every = [*advertised, *self.names, address, self.host, *_LOOPBACK]
        return [name for name in dict.fromkeys(every) if name and not is_unspecified(name)]

    def is_hidden(self, address: str) -> bool:
        """Tell whether other hosts may connect, and our kubeconfig does not say how."""
        return self.advertised is None and is_unspecified(address)


def is_unspecified(host: str) -> bool:
    """Tell whether an address is 0.0.0.0 or ::, which stand for every address of a host."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def name_fault(name: str, *, wildcard: bool) -> str:
    """Return why a server cannot be reached by a name, or nothing."""
    if is_unspecified(name):
        return f"{name} stands for every address of a host, and nobody can connect to it"
    try:
        ipaddress.ip_address(name)
    except ValueError:
        if len(name) > _LONGEST_HOST or not _HOST.fullmatch(name) or (name.startswith("*") and not wildcard):
            return f"{name!r} is neither an IP address nor the name of a host"
        if re.fullmatch(r"[0-9.]+", name):
            return f"{name!r} is not an IP address"
    return ""


def _reachable(address: str) -> str:
    if not is_unspecified(address):
        return address
    return "::1" if ":" in address else "127.0.0.1"  # a socket for :: takes no IPv4 here
