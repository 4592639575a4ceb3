"""What templates were rendered to by a process of the same program before this one.

A template makes of the same data always the same: no function of it knows the time, or anything by chance. So
what one process rendered the next one need not; on most hosts that saves it the process that renders, too.
Only texts are kept, none that a Secret went into, by the digest of all that went in, and for this very build:
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
"""Of the file in the state folder."""
MAX_BYTES: Final = 4 * 1024 * 1024
"""More is not kept: hosts are small, and would read it at every start."""


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    program: str
    texts: dict[bytes, bytes]


class RenderedMemory:
    """Remembers renderings from one process to the next. As a part of a manager it keeps them at its end."""

    name = "rendered memory"

    def __init__(self, vault: Vault, program: str = native.BUILD) -> None:
        """`program` tells a build from every other; if it is empty nobody can tell, and nothing is kept."""
        self._vault = vault
        self._program = program
        before = self._load() if program else {}
        self.knows_any = bool(before)
        """Whether there is likely to be nothing to render."""
        self.cache = RenderCache(before=before)

    def keep(self) -> None:
        """Keep what was asked for in this process; where that fails, it is rendered again the next time."""
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
        """Stay until cancelled, then keep what there is: once, as memory cards wear out."""
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
