"""The local status on a socket that only root can reach: one line of JSON, or one more with every change.

client: "once\\n" or "watch\\n"      agent: {"host": "web1", ...}\\n
client: "hold\\n", after root has written or removed a hold: the answer tells whether it is in force
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from nodemanager.agent.report.local_status import LINUX, SOCKET, Board
from nodemanager.host.base import HostError
from nodemanager.host.files import private
from nodemanager.host.files.tree import NoParent, Tree
from nodemanager.runtime import tasks

log = logging.getLogger(__name__)
MAX_CLIENTS: Final = 16
ASK_SECONDS: Final = 5.0
"""How long a client may take to send its request, and to read the answer."""
PAUSE: Final = 0.2
"""Seconds between two lines to one client, so that changes at about the same time share a line."""
RETRY: Final = 10.0
"""Seconds until we try again: another agent may just be ending, or a disk be full."""
WATCH: Final = b"watch\n"
HOLD: Final = b"hold\n"


class SocketTaken(HostError):
    """Another agent answers on the socket."""


@dataclass(eq=False)
class StatusSocket:
    """A part that answers requests; without its socket the agent works on."""

    board: Board
    root: str = "/"
    path: str = SOCKET
    pause: float = PAUSE
    holds_changed: Callable[[], None] = lambda: None
    """Reads the hold of this host again."""
    name: str = "local status"
    _clients: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Answer until cancelled."""
        tree = Tree(self.root)
        try:
            listening = await self._listening(tree)
            if listening is None:
                await asyncio.get_running_loop().create_future()
                return
            with listening:
                await self._serve(tree, listening)
        finally:
            tree.close()

    async def _listening(self, tree: Tree) -> socket.socket | None:
        """Return the socket, as soon as it can be had; None = never, as there is no place for it."""
        told = ""
        while True:
            try:
                return listen(tree, self.path)
            except OSError as error:
                why = f"cannot answer nodemanager status on {tree.outside(self.path)}: {error}"
                if why != told:
                    log.log(
                        logging.DEBUG if _is_bare(tree, self.path) else logging.WARNING, "%s", told := why
                    )
                if isinstance(error, NoParent):
                    return None
            await asyncio.sleep(RETRY)

    async def _serve(self, tree: Tree, listening: socket.socket) -> None:
        ours = _inode(tree, self.path)
        try:
            # Begun below: who is cancelled while a server begins never gets it, and cannot close it.
            server = await asyncio.start_unix_server(
                self._accept, sock=listening, limit=64, start_serving=False
            )
            try:
                await server.start_serving()
                await asyncio.get_running_loop().create_future()
            finally:
                server.close()  # not waited for: newer Pythons wait for the clients, who may watch for ever
        finally:
            await tasks.end(self._clients.copy())
            _remove(tree, self.path, ours)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= MAX_CLIENTS:
            writer.close()
            return
        task = asyncio.create_task(self._answer(reader, writer), name="status client")
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)
        task.add_done_callback(lambda _: writer.close())  # also of one that was ended before it began

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=0)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                wanted = await reader.readuntil(b"\n")
            if wanted == HOLD:
                self.holds_changed()
            version = self.board.version
            await self._tell(writer)
            if wanted == WATCH:
                await self._follow(version, reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.debug("a client of the local status left: %r", error)
        finally:
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _follow(self, version: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Tell every change until the client leaves."""
        gone = asyncio.create_task(reader.read(1), name="end of a status client")
        try:
            while True:
                news = asyncio.create_task(self.board.news(version), name="news for a status client")
                try:
                    await asyncio.wait({gone, news}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await tasks.end([news])
                if gone.done():
                    return
                await asyncio.sleep(self.pause)
                version = self.board.version
                await self._tell(writer)
        finally:
            await tasks.end([gone])

    async def _tell(self, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(ASK_SECONDS):
            writer.write(msgspec.json.encode(self.board.snapshot()) + b"\n")
            await writer.drain()


def listen(tree: Tree, path: str) -> socket.socket:
    """Return a socket that only its owner can reach, in place of one that a dead process left."""
    try:
        return _listen(tree, path)
    finally:
        tree.forget()


def _listen(tree: Tree, path: str) -> socket.socket:
    folder = path.rpartition("/")[0]
    _make_folder(tree, folder)
    descriptor = tree.folder(folder)
    _check_folder(descriptor, tree.outside(folder))
    place = tree.place(path)
    if _answers(address(tree, path)):
        raise SocketTaken("another agent answers there, and is the one that is shown")
    name = private.temporary_name()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        made.bind(address(tree, f"{folder}/{name}"))
        os.chmod(name, 0o600, dir_fd=descriptor)  # the folder keeps others out anyway
        made.listen(MAX_CLIENTS)
        os.rename(name, place.name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
    except BaseException:
        made.close()
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=descriptor)
        raise
    return made


def address(tree: Tree, path: str) -> str:
    """Return the address of a socket: short, as the system wants it, wherever the root is.

    It goes through an open folder, and is good until `Tree.forget`.
    """
    place = tree.place(path)
    if LINUX:
        return f"/proc/self/fd/{place.folder}/{place.name}"
    return tree.outside(path)


def _make_folder(tree: Tree, folder: str) -> None:
    """Make the folder of the socket, and none above it: who has no /run has not asked for one."""
    above = tree.place(folder)
    with contextlib.suppress(FileExistsError):
        os.mkdir(above.name, 0o700, dir_fd=above.folder)


def _check_folder(folder: int, shown: str) -> None:
    found = os.stat(".", dir_fd=folder)
    if found.st_uid not in (0, os.geteuid()) or stat.S_IMODE(found.st_mode) & 0o022:
        raise OSError(errno.EPERM, f"{shown} belongs to somebody else, or others may write there; remove it")


def _is_bare(tree: Tree, path: str) -> bool:
    """Tell whether this is an image without /run, for which nobody expects an answer."""
    try:
        tree.folder(path.rsplit("/", 2)[0])
    except NoParent:
        return not tree.running
    except OSError:
        return False
    finally:
        tree.forget()
    return False


def _answers(where: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(where)
        except OSError:
            return False
        return True


def _inode(tree: Tree, path: str) -> int:
    try:
        place = tree.place(path)
        return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_ino
    except OSError:
        return 0
    finally:
        tree.forget()


def _remove(tree: Tree, path: str, ours: int) -> None:
    """Take the socket away, unless a newer agent has put its own there."""
    if ours and _inode(tree, path) == ours:
        with contextlib.suppress(OSError):
            place = tree.place(path)
            os.unlink(place.name, dir_fd=place.folder)
            tree.forget()
            above = tree.place(path.rpartition("/")[0])
            os.rmdir(above.name, dir_fd=above.folder)
    tree.forget()
