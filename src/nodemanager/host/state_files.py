"""Small private files of the agent: replaced whole, on disk before anything relies on them."""

from __future__ import annotations

import os
import secrets

from nodemanager.host.tree import Tree


def prepare_folder(tree: Tree, path: str) -> None:
    """Make a folder, and its parents, that nobody but its owner may look into."""
    place = tree.place(path, make_parents=True)
    try:
        os.mkdir(place.name, 0o700, dir_fd=place.folder)
    except FileExistsError:
        return
    finally:
        tree.forget()


def write(tree: Tree, path: str, data: bytes) -> None:
    """Replace a file, 0600, and return when it is on disk."""
    place = tree.place(path)
    name = f"{place.name}.{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=place.folder)
    try:
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        os.unlink(name, dir_fd=place.folder)
        raise
    with tree.readable(place.folder) as folder:
        os.fsync(folder)


def read(tree: Tree, path: str, limit: int) -> bytes | None:
    """Return the content of a file of ours, None if it is not there."""
    try:
        place = tree.place(path)
        descriptor = os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
    except FileNotFoundError:
        return None
    try:
        chunks = []
        while limit > 0 and (chunk := os.read(descriptor, min(limit, 1024 * 1024))):
            chunks.append(chunk)
            limit -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, however little the system takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
