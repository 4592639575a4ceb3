"""libc is told, in a process of its own, and takes what it is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support import cli

CODE = """
import ctypes, threading
from nodemanager.host.process import allocator

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
assert allocator.keep_little() == hasattr(libc, "mallopt")
blocks = [libc.malloc(4 * allocator.LARGE) for _ in range(8)]
for block in blocks:
    libc.free(block)

def heaps():
    threads = [threading.Thread(target=lambda: libc.free(libc.malloc(1000))) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

heaps()
libc.malloc_stats()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have another libc")
def test_there_is_one_heap_for_all_threads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
        env=cli.environment(),
    )
    assert "Arena 1:" not in done.stderr
    assert "Arena 0:" in done.stderr


SETTLE = """
import gc, weakref
from nodemanager.host.process import allocator

class Loop:
    pass

one = Loop()
one.itself, seen = one, weakref.ref(one)
del one
gc.freeze()
gc.collect()
assert seen() is not None  # what is frozen is not looked at
allocator.settle()
print(seen(), gc.get_freeze_count() > 1000)
"""


def test_garbage_of_the_start_is_found_once_it_is_at_rest() -> None:
    argv = [sys.executable, "-c", SETTLE]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=50, check=False, env=cli.environment()
    )
    assert (done.stdout, done.stderr) == ("None True\n", "")
