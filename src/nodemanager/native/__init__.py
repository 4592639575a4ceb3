"""Calls of the C library that Python's standard library lacks: only `libc` offers them.

The static executable cannot load a library, so it has them built in, as the module `_nodemanager`, which is
made of `_nodemanager.c`; every other Python finds them by ctypes. `by_ctypes` says what each of them does.
One that fails raises OSError; one that this system does not have fails with ENOSYS.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

BUILT_IN: Final = "_nodemanager" in sys.builtin_module_names
HAS_NSS: Final = not BUILT_IN or sys.platform != "linux"
"""Whether users are those that nsswitch.conf(5) says; the C library of a static program reads files only."""
BUILD: Final[str] = getattr(sys, "build", "")
"""What tells this static program from every other; empty where modules are files, which may change."""
_REVISION: Final[list[str]] = getattr(sys, "revision", "").split()  # as tools/release/revision.py writes it
COMMIT: Final = _REVISION[1] if _REVISION else ""
"""What it was built of: a commit of git, `unknown`, or empty as above."""
STATE: Final = _REVISION[2] if _REVISION else ""
"""Whether the sources were those of the commit: clean, modified, unknown, or empty as above."""

if TYPE_CHECKING or not BUILT_IN:
    from nodemanager.native import by_ctypes as libc
else:
    import _nodemanager as libc

__all__ = ["BUILD", "BUILT_IN", "COMMIT", "HAS_NSS", "STATE", "libc"]
