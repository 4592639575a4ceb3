"""Fixtures for tests of commands."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may look into; those of pytest are root's, and closed by its next run."""
    with tempfile.TemporaryDirectory(prefix="nodemanager-open-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
