"""What an earlier process of the same program rendered from templates.

A template always makes the same from the same data: its functions know neither time nor chance. So
the next process need not render it again; on most hosts it does not even start the process that renders.
Only texts without Secrets are kept, by the digest of all their inputs, and only for this build, because
another one may render otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import msgspec

from nodemanager import native
from nodemanager.host.base import HostError
from nodemanager.host.state.vault import Vault
from nodemanager.kube.errors import UNREADABLE
from nodemanager.plan.templates import RenderCache

NAME: Final = "rendered"
"""The name of the file in the state folder."""
MAX_BYTES: Final = 4 * 1024 * 1024
"""The largest file that is kept: hosts are small, and read it at every start."""


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    program: str
    texts: dict[bytes, bytes]


class RenderedMemory:
    """Remembers renderings from one process to the next. As a part of a manager it keeps them at its end."""

    name = "rendered memory"

    def __init__(self, vault: Vault, program: str = native.BUILD) -> None:
        """Take an id of the build as `program`; without one the build is unknown, and nothing is kept."""
        self._vault = vault
        self._program = program
        before = self._load() if program else {}
        self.knows_any = bool(before)
        """Whether there is probably nothing to render."""
        self.cache = RenderCache(before=before)

    def keep(self) -> None:
        """Keep what this process used; if that fails, the next one renders it again."""
        if not self._program:
            return
        texts = {key: made.encode(errors="surrogatepass") for key, made in self.cache.texts().items()}
        data = msgspec.msgpack.encode(_Kept(self._program, texts))
        with contextlib.suppress(HostError):
            if texts and len(data) <= MAX_BYTES:
                self._vault.save(NAME, data)
            elif self.knows_any:
                self._vault.remove(NAME)

    def close(self) -> None:
        """Give back what is held open."""
        self._vault.close()

    async def run(self) -> None:
        """Run until cancelled, then save everything once, as memory cards wear out."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.keep()

    def _load(self) -> dict[bytes, str]:
        with contextlib.suppress(HostError, *UNREADABLE, ValueError):
            data = self._vault.load(NAME)
            kept = None if data is None else msgspec.msgpack.decode(data, type=_Kept)
            if kept is not None and kept.program == self._program:
                return {key: made.decode(errors="surrogatepass") for key, made in kept.texts.items()}
        return {}
