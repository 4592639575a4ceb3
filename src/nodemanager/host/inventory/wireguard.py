"""WireGuard interfaces and keys of the host, from what `wg` says."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.api.common.managednode import WireGuardStatus
from nodemanager.host.base import Runner
from nodemanager.host.process.runner import CommandNotFound, RunError

_TIMEOUT = 5.0
_FIELDS = 5
_NO_KEY = 1
"""The exit of `wg pubkey` if its input is no key."""
_NOT_THERE = 127
"""The exits of chroot and nsenter if there is no such program inside."""


async def interfaces(run: Runner) -> list[WireGuardStatus]:
    """Return the live interfaces with their public keys; none where there is no wg."""
    try:
        completed = await run(["wg", "show", "all", "dump"], timeout=_TIMEOUT)
    except RunError:
        return []
    if completed.returncode != 0:
        return []
    return parse_dump(completed.stdout.decode("utf-8", "replace"))


def parse_dump(text: str) -> list[WireGuardStatus]:
    """Return the interfaces in a dump, without its private keys."""
    found = []
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != _FIELDS:  # lines of peers have more
            continue
        name, _, public, port, _ = fields
        if name and public not in ("", "(none)") and port.isdecimal():
            found.append(WireGuardStatus(name=name, public_key=public, listen_port=int(port)))
    return sorted(found, key=lambda one: one.name)


async def new_private_key(run: Runner) -> str:
    """Return a new private key, in base64; raises RunError."""
    return await _key(run, "genkey")


async def public_key(run: Runner, private: str) -> str:
    """Return the public half of a private key; raises ValueError if it is none, and RunError."""
    return await _key(run, "pubkey", private)


async def _key(run: Runner, verb: str, private: str = "") -> str:
    """Have `wg` print a key; a private one goes in and out through pipes, and into no message."""
    missing = f"cannot run wg {verb}: this host has no wg; declare the package wireguard-tools"
    try:
        done = await run(["wg", verb], stdin=private.encode(), timeout=_TIMEOUT)
    except CommandNotFound as error:
        raise RunError(missing) from error
    if done.returncode == _NOT_THERE:
        raise RunError(missing)
    if verb == "pubkey" and done.returncode == _NO_KEY:
        raise ValueError("it is no key of WireGuard")
    if done.returncode != 0:
        replace(done, stdout=b"").check()
    return done.stdout.decode("ascii", "replace").strip()
