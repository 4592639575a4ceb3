"""A network for test machines: a bridge on this machine, and for each of them a namespace with an eth0.

    with Bridge() as bridge:
        namespace, address = bridge.plug("alpha")      # Machine.boot(network=namespace)
        ...                                            # and reaches what listens on bridge.address

Nothing of it leads anywhere else: there is no route, no forwarding, no name server.
"""

from __future__ import annotations

import contextlib
import secrets
import subprocess
from types import TracebackType
from typing import Self

import pytest

from support import debian_packages

CALL_SECONDS = 60.0


class Bridge:
    """A bridge of our own; gone with everything that was plugged in at the end."""

    def __init__(self) -> None:
        self.name = f"nm{secrets.token_hex(3)}"
        self.address = ""
        """Our own address on it."""
        self._namespaces: list[str] = []

    def __enter__(self) -> Self:
        debian_packages.ensure("iproute2")
        try:
            ip("link", "add", self.name, "type", "bridge")
        except subprocess.CalledProcessError as error:
            pytest.fail(
                f"cannot connect test machines: ip says {error.stderr.strip()!r}; the kernel needs bridge and"
                " veth, and we have to be root"
            )
        try:
            self.address = _free_address()
            ip("address", "add", f"{self.address}/24", "dev", self.name)
            ip("link", "set", self.name, "up")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def plug(self, name: str) -> tuple[str, str]:
        """Return the path of a new network namespace, and the address that its eth0 has."""
        number = len(self._namespaces) + 2
        namespace, cable = f"{self.name}-{name}"[:60], f"{self.name}v{number}"
        address = f"{self.address.rpartition('.')[0]}.{number}"
        ip("netns", "add", namespace)
        self._namespaces.append(namespace)
        ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        ip("link", "set", cable, "master", self.name, "up")
        ip("-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            ip("-n", namespace, "link", "set", link, "up")
        return f"/run/netns/{namespace}", address

    def close(self) -> None:
        """Take everything down; a cable goes with its end in the namespace."""
        for namespace in self._namespaces:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "delete", namespace)
        self._namespaces.clear()
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("link", "delete", self.name)


def ip(*argv: str) -> str:
    """Run ip of iproute2, and return what it prints."""
    done = subprocess.run(["ip", *argv], capture_output=True, text=True, timeout=CALL_SECONDS, check=False)
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, ["ip", *argv], done.stdout, done.stderr)
    return done.stdout


def _free_address() -> str:
    """Return the first address of a small network that this machine has no route to.

    By chance, and not by the chance that a plugin seeds alike in all processes that run tests at once.
    """
    taken = ip("-4", "route", "show", "table", "all")
    while True:
        network = f"10.{200 + secrets.randbelow(50)}.{1 + secrets.randbelow(254)}"
        if f"{network}." not in taken:
            return f"{network}.1"
