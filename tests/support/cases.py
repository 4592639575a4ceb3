"""Test cases that are files, and above all manifests, accepted and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "cases"
MANIFESTS = FOLDER / "manifests"
_REFUSED = "# refused: "


def manifests(verdict: str) -> list[Any]:
    """Return the manifests of a folder, as parameters named by file.

    `accepted` and `refused` are for whoever may write our kinds, `made_by_operator` for the operator alone.
    """
    paths = sorted((MANIFESTS / verdict).glob("*.yaml"))
    assert paths, f"no cases in {MANIFESTS / verdict}"
    return [pytest.param(path, id=path.stem) for path in paths]


def expected_fragments(path: Path) -> list[str]:
    """Return what the refusal of a manifest must say, from the comments at its top."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [line.removeprefix(_REFUSED) for line in lines if line.startswith(_REFUSED)]
    assert found, f"{path} does not say why it is refused"
    return found
