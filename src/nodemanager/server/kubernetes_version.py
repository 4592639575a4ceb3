"""The Kubernetes that the embedded API is like. It is named here, and nowhere else in the code."""

from __future__ import annotations

from typing import Final

VERSION: Final = "1.36.4"
"""What clients are told, and decide by what they may ask for. The contract suite was written against it."""


def minor_version(version: str) -> str:
    """Return `1.36` of `v1.36.4+more`: versions that differ after that do not differ in their API."""
    return ".".join(version.removeprefix("v").split(".")[:2])
