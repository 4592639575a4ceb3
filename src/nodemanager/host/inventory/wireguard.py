"""WireGuard interfaces of the host, from what `wg` says."""

from __future__ import annotations

from nodemanager.api.common.managednode import WireGuardStatus
from nodemanager.host.base import Runner
from nodemanager.host.process.runner import RunError

_TIMEOUT = 5.0
_FIELDS = 5


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
    """Return the interfaces in a dump; the private keys in it are looked at by nobody."""
    found = []
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != _FIELDS:  # lines of peers have more
            continue
        name, _, public, port, _ = fields
        if name and public not in ("", "(none)") and port.isdecimal():
            found.append(WireGuardStatus(name=name, public_key=public, listen_port=int(port)))
    return sorted(found, key=lambda one: one.name)
