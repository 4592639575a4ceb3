"""Key files for Secrets on disk."""

from __future__ import annotations

from pathlib import Path


def key_file(folder: Path, content: bytes = b"k" * 32, mode: int = 0o400) -> str:
    """Write a key, and return where."""
    path = folder / f"key-{content[:1].hex()}"
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)
