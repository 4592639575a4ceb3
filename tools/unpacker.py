"""`__main__.py` of bin/manager, twice: the archive's unpacks it, and the one that was unpacked runs it.

The first start of a version unpacks it, beside others, under a name that follows from its content; all later
ones find it there. A running process holds a lock on its folder, so that the file may be replaced by another
version while it runs: what is not in use any more goes with the next unpacking. Nothing is imported at the
top that the agent does not need anyway.
"""

import contextlib
import fcntl
import os
import sys

FRESH_SECONDS = 60.0
HELD: list[int] = []
"""Descriptors of locked folders; the locks go with the process."""


def run() -> None:
    """Run the program that was unpacked here."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is slow to import
    sys.path.insert(0, here)
    HELD.append(os.open(here, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    with contextlib.suppress(OSError):  # a filesystem without locks
        fcntl.flock(HELD[0], fcntl.LOCK_SH | fcntl.LOCK_NB)
    sys.argv[0] = os.environ.pop("NODEMANAGER_PROGRAM", sys.argv[0])
    os.environ.pop("NODEMANAGER_UNPACKED", "")

    from nodemanager.cli.main import main
    from nodemanager.runtime import ending

    ending.leave(main)


def unpack(archive: str, target: str) -> None:
    """Unpack the archive; whole and on disk before it has its name."""
    import shutil
    import tarfile
    import tempfile
    import zipfile

    above = os.path.dirname(target)  # noqa: PTH120
    new = tempfile.mkdtemp(prefix=f"{os.path.basename(target)}.new-", dir=above)  # noqa: PTH119
    lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_SH)
        with (
            zipfile.ZipFile(archive) as zipped,
            zipped.open("site.tar.xz") as packed,
            tarfile.open(fileobj=packed, mode="r|xz") as site,
        ):
            site.extractall(new)  # noqa: S202 - it is what we are
        os.chmod(new, 0o755)  # noqa: PTH101, S103 - others may run it, too
        os.sync()
        _rename(new, target)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)  # whoever tries again needs the room
        raise
    finally:
        os.close(lock)
    _sweep(above, target)


def _rename(new: str, target: str) -> None:
    """Give it its name, unless another process was faster."""
    if os.path.isdir(target) and not _is_whole(target):  # noqa: PTH112 - somebody cleaned up half of it
        os.rename(target, f"{target}.new-{os.getpid()}")  # noqa: PTH104
    try:
        os.rename(new, target)  # noqa: PTH104
    except OSError:
        if not _is_whole(target):
            raise
        import shutil

        shutil.rmtree(new, ignore_errors=True)


def _is_whole(target: str) -> bool:
    return os.path.isfile(os.path.join(target, "__main__.py"))  # noqa: PTH113, PTH118


def _sweep(above: str, kept: str) -> None:
    """Remove other versions that nobody runs, and what unpackings left that were killed."""
    import re
    import shutil
    import time

    for entry in os.scandir(above):
        ours = re.fullmatch(r"[0-9a-f]{24}(\.new-\w+)?", entry.name)
        if entry.path == kept or not ours or not entry.is_dir(follow_symlinks=False):
            continue
        with contextlib.suppress(OSError):
            age = time.time() - entry.stat(follow_symlinks=False).st_mtime
            if 0 <= age < FRESH_SECONDS and ours[1] != f".new-{os.getpid()}":
                continue  # whoever unpacks it, or has just done so, may not hold its lock yet
            folder = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                gone = entry.path if ours[1] else f"{entry.path}.new-{os.getpid()}"
                os.rename(entry.path, gone)  # noqa: PTH104 - half a version must not have the name of a whole one
                shutil.rmtree(gone)
            finally:
                os.close(folder)


def check(path: str) -> None:
    """Raise if a folder is somebody else's: we would run what they put there. What is root's serves all."""
    owner = os.lstat(path).st_uid
    if owner not in (0, os.geteuid()):
        raise PermissionError(1, f"{path} belongs to user {owner}, who could have you run anything")


def _prepare(target: str) -> None:
    """Have the program unpacked, by us or by others whom we trust."""
    above = os.path.dirname(target)  # noqa: PTH120
    mask = os.umask(0o022)
    try:
        os.makedirs(above, 0o755, exist_ok=True)  # noqa: PTH103
        check(above)
        if not _is_whole(target):
            unpack(sys.argv[0], target)
        check(target)
    finally:
        os.umask(mask)


def start() -> None:
    """Unpack, and start again from there."""
    target = os.environ["NODEMANAGER_UNPACKED"]
    try:
        _prepare(target)
    except (OSError, ImportError) as error:
        why = getattr(error, "strerror", None) or error
        sys.exit(
            f"error: cannot unpack nodemanager to {target}: {why}; make room there, or set NODEMANAGER_CACHE"
            " to a directory that is yours, and not mounted noexec"
        )
    program = os.path.join(target, "__main__.py")  # noqa: PTH118
    os.execv(sys.executable, [sys.executable, "-IS", program, *sys.argv[1:]])  # noqa: S606 - an argv


if __name__ == "__main__":
    if os.path.isdir(os.path.dirname(os.path.abspath(__file__))):  # noqa: PTH100, PTH112, PTH120
        run()
    else:
        start()
