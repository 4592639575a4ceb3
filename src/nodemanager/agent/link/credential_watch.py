"""Notices that the credential of this host was replaced on disk: `nodemanager bootstrap` suffices to join.

A newer token of the same account is used from then on. Anything else, such as another host's name, another
API or a client certificate, makes the agent begin anew with it, in the same process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nodemanager.client.auth import renewed_token
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.credentials import BearerToken
from nodemanager.client.auth.renewed_token import RenewedToken
from nodemanager.host.process.threads import in_thread
from nodemanager.kube import errors, times

log = logging.getLogger(__name__)
LOOK: Final = 5.0
"""How often to look at the files; SIGHUP is for people who cannot wait."""
ANSWER: Final = 10.0
"""How long the API has to say whether another host's credential, as it seems, is ours, too."""

Stamps = tuple[tuple[int, ...] | None, ...]


def stamps(files: Sequence[Path]) -> Stamps:
    """Return values that differ after one of the files was written or replaced."""
    return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(slots=True)
class CredentialWatch:
    """A part that follows the kubeconfig of this host."""

    files: Sequence[Path]
    seen: Stamps
    """The stamps of the files, from before they were read."""
    config: ClientConfig
    """The content that was read."""
    read: Callable[[], ClientConfig]
    """Reads it again."""
    token: RenewedToken | None
    """The token of the requests; None = it cannot be replaced while it is in use."""
    begin_anew: Callable[[str], None]
    """Called with the reason why the agent has to begin anew."""
    is_ours: Callable[[], Awaitable[bool]] | None = None
    """Asks the API whether what seems to be another host's credential is valid for us; None = not needed."""
    clock: Callable[[], float] = time.time
    name: str = "credential"
    _listeners: list[Callable[[], None]] = field(default_factory=list)
    _hurry: asyncio.Event = field(default_factory=asyncio.Event)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a listener when another token is in use."""
        self._listeners.append(listener)

    def look_now(self) -> None:
        """Look at the files at once."""
        self._hurry.set()

    async def run(self) -> None:
        """Look at the files again and again, until cancelled."""
        while True:
            await self._ask_whose()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._hurry.wait()
            self._hurry.clear()
            found = await in_thread(lambda: stamps(self.files))
            if found != self.seen:
                self.seen = found
                await self._look()

    async def _ask_whose(self) -> None:
        if self.is_ours is None:
            return
        with contextlib.suppress(errors.KubeError, TimeoutError):  # it is asked again
            async with asyncio.timeout(ANSWER):
                ours, self.is_ours = await self.is_ours(), None
            if ours:
                self.begin_anew("the API lets several hosts use this credential")

    async def _look(self) -> None:
        try:
            found = await in_thread(self.read)
        except (errors.ConfigError, OSError) as error:
            log.warning("%s; this host goes on with the credential that it had before", error)
            return
        token = found.credentials.token if isinstance(found.credentials, BearerToken) else ""
        if self.token is None or not token or not _same_account(found, token, self.config, self.token.token):
            self.begin_anew(f"there is another credential in {self._where()}")
        elif self._is_newer(token, self.token.token):
            self.token.replace(token)
            life = self.token.life
            until = f", good until {times.rfc3339_unix(life.expires)}" if life else ""
            log.info("took over a token that was put into %s%s", self._where(), until)
            for listener in self._listeners:
                listener()

    def _is_newer(self, token: str, ours: str) -> bool:
        """Tell whether a token is neither our own, nor older than that, nor expired."""
        there, here = renewed_token.lifetime(token), renewed_token.lifetime(ours)
        if token == ours or there is None or here is None:
            return token != ours
        return there.issued >= here.issued and there.expires > self.clock()

    def _where(self) -> str:
        return ", ".join(str(file) for file in self.files)


def _same_account(one: ClientConfig, token: str, other: ClientConfig, its_token: str) -> bool:
    """Tell whether two tokens are of one account of one API, reached in one way."""
    here, there = (
        (at.server, at.ca, at.tls_server_name, at.insecure, at.proxy, at.labels, renewed_token.subject(of))
        for at, of in ((one, token), (other, its_token))
    )
    return here == there
