"""The terminal on the home page of the documentation: what was recorded is what happens today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import either
from support.root_tree import needs_root

ROOT = Path(__file__).resolve().parents[2]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def beginnings(text: str) -> list[str]:
    """Return the first word of every line; numbers differ from run to run."""
    words = (line.split() for line in COLOUR.sub("", text).splitlines())
    return [re.sub(r"\d+", "0", each[0]) for each in words if each]


@needs_root  # whom alone nodemanager status answers
def test_the_recorded_session_still_goes_like_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from tools.website import cast, record

    either.need_kubectl()
    recorded = cast.load((ROOT / record.CAST).read_text(encoding="utf-8"))
    now = record.record(tmp_path, record.steps(address="127.0.0.1:0"))
    assert beginnings(now.text()) == beginnings(recorded.text()), "run make docs-record"
    assert str(tmp_path) not in now.text()
