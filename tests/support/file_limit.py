"""How many files this process may have open, as it was before a server raised it for all of the process."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Put the limit back after this block; forks compare it (`forks`), and would not be made any more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
