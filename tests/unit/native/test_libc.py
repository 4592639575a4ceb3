"""The calls of the C library do the same, found by ctypes and compiled into the executable."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from nodemanager import native
from nodemanager.host.base import NotSupported
from nodemanager.host.watches import fanotify, inotify
from nodemanager.native import by_ctypes
from support.native_module import compiled
from support.root_tree import needs_root

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="most of these calls are Linux's"),
    pytest.mark.xdist_group("native"),  # compiled once
]
NAMES = [
    "fanotify_init", "fanotify_mark", "forget_program", "inotify_add_watch", "inotify_init1",
    "inotify_rm_watch", "malloc_trim", "mallopt", "name_to_handle_at", "prctl", "setproctitle", "syncfs",
]  # fmt: skip


@pytest.fixture(scope="module", params=["ctypes", "compiled"])
def libc(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Either way to the calls; what the static executable has built in is compiled for this Python."""
    return by_ctypes if request.param == "ctypes" else compiled(tmp_path_factory.mktemp("native"))


def test_both_have_the_same_calls(libc: Any) -> None:
    here = {name for name, value in vars(libc).items() if callable(value) and not name.startswith("_")}
    assert here - {"Any", "Callable", "Final"} == set(NAMES)


def test_inotify_tells_of_an_entry(libc: Any, tmp_path: Path) -> None:
    instance = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert not os.get_inheritable(instance)
    try:
        watch = libc.inotify_add_watch(instance, os.fsencode(tmp_path), inotify.CREATE | inotify.MASK_ADD)
        (tmp_path / "å").touch()
        assert list(inotify.parse(os.read(instance, 4096))) == [(watch, inotify.CREATE, "å".encode())]
        libc.inotify_rm_watch(instance, watch)
        with pytest.raises(OSError, match="Invalid argument") as caught:
            libc.inotify_rm_watch(instance, watch)
        assert caught.value.errno == errno.EINVAL
        with pytest.raises(FileNotFoundError):
            libc.inotify_add_watch(instance, b"/nowhere/at/all", inotify.CREATE)
    finally:
        os.close(instance)


def test_a_handle_is_as_long_as_it_says(libc: Any, tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        handle = libc.name_to_handle_at(folder, b"", fanotify._EMPTY_PATH)
        assert len(handle) == 8 + struct.unpack_from("=I", handle)[0]
        assert handle == by_ctypes.name_to_handle_at(folder, b"", fanotify._EMPTY_PATH)
        with pytest.raises(FileNotFoundError):
            libc.name_to_handle_at(folder, b"nothing", 0)
    finally:
        os.close(folder)


@needs_root
def test_fanotify_knows_a_directory_by_its_handle(
    libc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanotify, "libc", libc)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        group = fanotify.Fanotify()
    except NotSupported as error:
        os.close(folder)
        pytest.skip(str(error))
    try:
        key = group.add(folder)
        (tmp_path / "x").touch()
        assert {(event.folder, event.name) for event in group.read()} == {(key, b"x")}
        group.remove(folder)
        with pytest.raises(FileNotFoundError):
            group.remove(folder)
    finally:
        group.close()
        os.close(folder)


def test_syncfs_is_about_an_open_file(libc: Any, tmp_path: Path) -> None:
    with (tmp_path / "x").open("w") as file:
        file.write("x")
        libc.syncfs(file.fileno())
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        libc.syncfs(-1)
    assert caught.value.errno == errno.EBADF


def test_prctl_sets_something_and_says_what_it_refuses(libc: Any) -> None:
    seen = []

    def in_a_thread() -> None:  # the name is that of a thread
        option, name = 15, ctypes.create_string_buffer(b"nodemanager-x")
        libc.prctl(option, ctypes.addressof(name))
        seen.append(Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text())

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    assert seen == ["nodemanager-x\n"]
    with pytest.raises(OSError, match="Invalid argument"):
        libc.prctl(-1, 0)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="it is glibc's")
def test_what_is_free_is_given_back(libc: Any) -> None:
    held = [bytes(100_000) for _ in range(50)]
    del held
    assert isinstance(libc.malloc_trim(0), bool)


def test_a_program_that_was_forgotten_goes_on(libc: Any) -> None:
    if libc is by_ctypes:  # an interpreter that is many files, each of them everybody's
        with pytest.raises(OSError, match="Function not implemented"):
            libc.forget_program()
        return
    name = Path(libc.__file__).name

    def resident() -> int:
        pages, ours = 0, False
        for line in Path("/proc/self/smaps").read_text().splitlines():
            if "-" in line.split()[0]:
                ours = line.endswith(name) and " r-xp " in line
            elif ours and line.startswith("Rss:"):
                pages += int(line.split()[1])
        return pages

    before = resident()
    assert before > 0
    libc.forget_program()
    libc.malloc_trim(0)  # its code is there again, and the rest of it as it was
    assert 0 < resident() <= before


def test_what_a_system_lacks_is_enosys(libc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="Function not implemented") as caught:
        libc.setproctitle(b"nodemanager: agent")  # FreeBSD's
    assert caught.value.errno == errno.ENOSYS
    said: list[bytes] = []
    monkeypatch.setattr(by_ctypes, "_setproctitle", lambda *words: said.extend(words))
    by_ctypes.setproctitle(b"nodemanager: agent")
    assert said == [b"-%s", b"nodemanager: agent"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("syncfs", ["x"]), ("inotify_add_watch", [0, "text", 1]), ("prctl", [1])],
)
def test_arguments_of_another_type_are_refused(libc: Any, name: str, arguments: list[object]) -> None:
    with pytest.raises(Exception, match=r"argument|integer|bytes") as caught:
        getattr(libc, name)(*arguments)
    assert not isinstance(caught.value, OSError)


def test_a_usual_python_takes_ctypes() -> None:
    assert native.libc is by_ctypes


WITHOUT_CTYPES = """
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location

loader = ExtensionFileLoader("_nodemanager", sys.argv[1])
spec = spec_from_file_location("_nodemanager", sys.argv[1], loader=loader)
sys.modules["_nodemanager"] = module_from_spec(spec)
sys.builtin_module_names += ("_nodemanager",)
sys.modules["ctypes"] = sys.modules["_ctypes"] = None  # an import of them fails

import nodemanager.cli.commands.running.agent, nodemanager.cli.commands.host.apply
import nodemanager.rendering.child
from nodemanager.host.watches.inotify import Inotify

Inotify().close()
print(nodemanager.native.libc.__name__)
"""


def test_with_the_module_built_in_nothing_needs_ctypes(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", WITHOUT_CTYPES, str(compiled(tmp_path).__file__)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("_nodemanager\n", "")
