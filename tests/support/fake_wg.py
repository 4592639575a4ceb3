"""A `wg` that knows keys and nothing else; the arithmetic is that of cryptography."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from nodemanager.host.base import How, Runner
from nodemanager.host.process import runner
from nodemanager.host.process.runner import Completed
from support import scripts

_BODY = """
import base64, os, sys
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
if sys.argv[1] == "genkey":
    print(base64.b64encode(os.urandom(32)).decode())
else:
    try:
        private = X25519PrivateKey.from_private_bytes(base64.b64decode(sys.stdin.read(), validate=True))
    except ValueError:
        sys.exit("wg: Key is not the correct length or format")
    print(base64.b64encode(private.public_key().public_bytes_raw()).decode())
"""


def host_with_wg(folder: Path, body: str = _BODY) -> Runner:
    """Return what runs programs on a host that has a `wg`, and nothing else."""
    scripts.write_python(folder / "wg", body)
    return host_without_wg(folder)


def host_without_wg(folder: Path) -> Runner:
    """Return what runs the programs in a folder."""

    async def run(argv: Sequence[str], **how: Unpack[How]) -> Completed:
        how["env"] = {"PATH": str(folder)}
        return await runner.run(argv, **how)

    return run
