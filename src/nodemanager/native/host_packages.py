"""The one look at Python packages of the host: for cryptography, which is larger than all of ours.

It is not in bin/manager, which sees no packages of the host otherwise.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def visible() -> Iterator[None]:
    """Let imports find packages of the host, too. Ours come first, so nothing else of the host's is used."""
    import site

    theirs = [path for path in site.getsitepackages() if path not in sys.path]
    sys.path += theirs
    try:
        yield
    finally:
        sys.path[:] = [path for path in sys.path if path not in theirs]
