"""Test cases of templates that are data files: a template in, a text or an error out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.plan.templates import Data

FOLDER = Path(__file__).resolve().parent.parent / "cases" / "templates"
_KEYS = {"name", "engine", "template", "output", "error", "lax"}


def data() -> Data:
    """Return the data that all cases are rendered with."""
    loaded = yaml.safe_load((FOLDER / "data.yaml").read_text(encoding="utf-8"))
    return Data(**loaded)


def cases() -> list[Any]:
    """Return all cases as parameters, named by file and place."""
    found: list[Any] = []
    for path in sorted(FOLDER.glob("*.yaml")):
        if path.name == "data.yaml":
            continue
        for place, case in enumerate(yaml.safe_load(path.read_text(encoding="utf-8"))):
            assert set(case) <= _KEYS, f"{path}: {set(case) - _KEYS}"
            assert ("output" in case) != ("error" in case), f"{path}: case {place} needs one verdict"
            label = f"{path.stem}-{place}-{case.get('name', case['template'])[:40]}"
            found.append(pytest.param(case, id=label))
    return found
