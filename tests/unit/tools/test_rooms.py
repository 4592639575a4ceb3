"""No folder of the source has more modules than somebody can survey."""

from __future__ import annotations

from pathlib import Path

from tools import rooms


def test_a_folder_with_too_many_modules_is_named(tmp_path: Path) -> None:
    full, fine = tmp_path / "full", tmp_path / "full/fine"
    for folder, count in ((full, rooms.MOST + 1), (fine, rooms.MOST)):
        folder.mkdir()
        for name in ("__init__", *(f"m{number}" for number in range(count))):
            (folder / f"{name}.py").touch()
    assert rooms.crowded(tmp_path) == {full: rooms.MOST + 1}


def test_ours_can_be_surveyed() -> None:
    assert rooms.crowded(Path(__file__).parents[3] / "src") == {}
