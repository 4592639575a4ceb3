"""Machines of one run have room for what they watch, and the limit is as it was afterwards."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from support import inotify_room


@pytest.mark.parametrize(
    ("before", "during", "changed", "after"),
    [
        pytest.param(128, 1024, None, 128, id="too low"),
        pytest.param(8192, 8192, None, 8192, id="high enough"),
        pytest.param(128, 1024, 4096, 4096, id="somebody else raised it meanwhile"),
    ],
)
def test_the_limit_is_raised_and_given_back(
    before: int, during: int, changed: int | None, after: int, tmp_path: Path
) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text(f"{before}\n")
    stash = pytest.Stash()
    inotify_room.make(stash, limit)
    assert int(limit.read_text()) == during
    if changed is not None:
        limit.write_text(f"{changed}\n")
    inotify_room.give_back(stash, limit)
    assert int(limit.read_text()) == after


def test_a_limit_that_cannot_be_raised_is_said_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text("128\n")

    def refuse(_path: Path, _text: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "write_text", refuse)  # root may write whatever its mode is
    with pytest.raises(pytest.UsageError, match=r"is 128, .*: Read-only file system; run sysctl"):
        inotify_room.make(pytest.Stash(), limit)
