"""The version of Kubernetes that the embedded API is like. Only this module names it."""

from __future__ import annotations

from typing import Final

VERSION: Final = "1.36.4"
"""The version that clients see and adapt to. The contract suite was written against it."""


def minor_version(version: str) -> str:
    """Return `1.36` of `v1.36.4+more`: versions that differ after that do not differ in their API."""
    return ".".join(version.removeprefix("v").split(".")[:2])
