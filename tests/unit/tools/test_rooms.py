"""No folder of the source has more modules than somebody can survey, and no two classes share a name."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))  # tools are no part of what is installed

from tools import rooms

SOURCE = Path(__file__).parents[3] / "src"


def test_a_folder_with_too_many_modules_is_named(tmp_path: Path) -> None:
    full, fine = tmp_path / "full", tmp_path / "full/fine"
    for folder, count in ((full, rooms.MOST + 1), (fine, rooms.MOST)):
        folder.mkdir()
        for name in ("__init__", *(f"m{number}" for number in range(count))):
            (folder / f"{name}.py").touch()
    assert rooms.crowded(tmp_path) == {full: rooms.MOST + 1}


def test_ours_can_be_surveyed() -> None:
    assert rooms.crowded(SOURCE) == {}


def test_a_name_that_two_classes_share_is_told_with_its_modules(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("class Turn: ...\nclass Own: ...\nclass _Hidden: ...\n")
    other.write_text("def made():\n    class Turn: ...\nclass _Hidden: ...\n")
    assert rooms.shared(tmp_path) == {"Turn": [one, other]}
    (said,) = rooms.misnamed(tmp_path, {})
    assert said.startswith(f"2 classes are called Turn ({one}, {other}): ")


def test_a_name_may_be_shared_for_a_reason_and_only_while_it_is(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Turn: ...\n")
    (tmp_path / "other.py").write_text("class Turn: ...\n")
    assert rooms.misnamed(tmp_path, {"Turn": "the same idea"}) == []
    (tmp_path / "other.py").write_text("class OtherTurn: ...\n")
    assert rooms.misnamed(tmp_path, {"Turn": "the same idea"}) == [
        "no two classes are called Turn: take it out of tools/rooms.py"
    ]


def test_names_of_ours_mean_one_class_each() -> None:
    assert rooms.misnamed(SOURCE, rooms.SHARED) == []
