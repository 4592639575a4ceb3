"""The picture of the packages in docs/architecture.md: what it shows is what the code imports."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src/nodemanager"
PACKAGES = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
SVG = "{http://www.w3.org/2000/svg}"
ROWS = [["cli"], ["agent", "ui"], ["plan"], ["api"]]


@pytest.fixture(name="packages")
def _packages(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    from tools.website import packages

    return packages


@pytest.fixture(name="picture")
def _picture(packages: Any) -> Any:
    return packages.picture(ROOT)


def ends(picture: Any) -> set[tuple[str, str]]:
    return {(arrow.start.partition(":")[0], arrow.end.partition(":")[0]) for arrow in picture.arrows}


def test_it_has_each_package_of_the_source_and_no_other() -> None:
    drawn = ET.parse(ROOT / "docs/pictures/packages.svg")
    assert sorted(each.text or "" for each in drawn.iter(f"{SVG}text")) == sorted(PACKAGES)


def test_no_arrow_points_up() -> None:
    drawn = ET.parse(ROOT / "docs/pictures/packages.svg").getroot()
    arrows = [each.attrib["d"] for each in drawn.iter(f"{SVG}path") if each.get("class") == "arrow"]
    assert len(arrows) > len(PACKAGES)
    for way in arrows:
        heights = [float(pair.split()[1]) for pair in re.findall(r"[\d.]+ [\d.]+", way)]
        assert heights == sorted(heights)
        assert heights[0] < heights[-1]


def test_an_arrow_is_an_import_and_an_import_is_a_way_along_arrows(picture: Any) -> None:
    """Found out in another way than the picture does: by what is written at the beginning of lines."""
    arrows = ends(picture)
    word = re.compile(r"^\s*(?:from|import) nodemanager\.(\w+)", re.MULTILINE)
    both = re.compile(r"^\s*from nodemanager import (.+)$", re.MULTILINE)
    for package in PACKAGES:
        text = "\n".join(path.read_text() for path in (SOURCE / package).rglob("*.py"))
        named = {*word.findall(text), *re.findall(r"\w+", " ".join(both.findall(text)))}
        imported = named & PACKAGES - {package}
        assert {other for one, other in arrows if one == package} <= imported
        reached, found = {package}, {package}
        while found:
            found = {other for one, other in arrows if one in found} - reached
            reached |= found
        assert imported <= reached


def test_nothing_of_it_is_upon_something_else(picture: Any) -> None:
    width, height = picture.size
    boxes = picture.boxes.values()
    for box in boxes:
        assert 0 <= box.x <= width - box.width
        assert 0 <= box.y <= height - box.height
        assert len(box.name) * 9 < box.width
    for one, other in itertools.combinations(boxes, 2):
        assert one.y != other.y or abs(one.x - other.x) >= one.width
    for arrow in picture.arrows:
        for x, y in arrow.through or ():
            assert not any(
                box.x <= x <= box.x + box.width and box.y <= y <= box.y + box.height for box in boxes
            )
    assert width <= 600  # wider ones are unreadable on a telephone


def test_rows_and_what_does_no_io_are_those_of_the_contracts(packages: Any) -> None:
    text = (
        "[importlinter:contract:layers]\nlayers =\n    our.cli\n    our.plan | our.fleet : our.ui\n"
        "[importlinter:contract:pure-core]\nsource_modules =\n    our.plan\n    our.backends.systems\n"
    )
    assert packages.read_contracts(text) == ([["cli"], ["plan", "fleet", "ui"]], {"plan"})


def test_what_follows_from_other_imports_has_no_arrow(packages: Any) -> None:
    imports = {("cli", "agent"), ("cli", "plan"), ("cli", "api"), ("agent", "plan"), ("plan", "api")}
    drawn = packages.draw(ROWS, ["cli", "agent", "plan", "api"], imports, {"plan"})
    assert ends(drawn) == {("cli", "agent"), ("agent", "plan"), ("plan", "api")}
    assert {name for name, box in drawn.boxes.items() if box.kind == "main"} == {"plan"}


@pytest.mark.parametrize(
    ("imports", "said"),
    [
        ({("api", "plan")}, "cannot draw that api imports plan: .importlinter has it no lower"),
        ({("agent", "ui")}, "cannot draw that agent imports ui: .importlinter has it no lower"),
    ],
)
def test_an_import_that_does_not_lead_down_is_named(
    packages: Any, imports: set[tuple[str, str]], said: str
) -> None:
    with pytest.raises(packages.Unplaced, match=said):
        packages.draw(ROWS, ["agent", "api"], imports, ())


def test_a_package_without_a_layer_is_named(packages: Any) -> None:
    with pytest.raises(packages.Unplaced, match=r"cannot draw new: no layer of \.importlinter has it"):
        packages.draw(ROWS, ["agent", "new"], (), ())
