"""What docs/architecture.md says of the packages: each of them is in its table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/architecture.md").read_text()
SOURCE = ROOT / "src/nodemanager"
ROW = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \|(.*)$", re.MULTILINE)
ROWS = {name: match[2] for match in ROW.finditer(PAGE) for name in re.findall(r"`(\w+)`", match[1])}
"""The first cell of a row names packages, the second says what they are."""
WORDY = {
    "api": "the registry of kinds has a section of its own",
    "controllers": "one for each controller; `assembly` is their list",
    "kube": "it has a table of its own",
}
"""Packages whose own packages are named elsewhere, and why."""


def packages(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/__init__.py"))


@pytest.mark.parametrize("package", packages(SOURCE))
def test_every_package_is_in_the_table(package: str) -> None:
    assert package in ROWS, "give it a row in the table of docs/architecture.md"
    if package not in WORDY:
        missing = [one for one in packages(SOURCE / package) if f"`{one}`" not in ROWS[package]]
        assert not missing, f"say in the row of {package} in docs/architecture.md what lives there"


def test_every_package_of_kube_is_in_its_table() -> None:
    assert set(packages(SOURCE / "kube")) <= ROWS.keys()


@pytest.mark.parametrize("package", packages(SOURCE))
def test_every_package_is_in_the_layout_of_contributing(package: str) -> None:
    layout = (ROOT / "CONTRIBUTING.md").read_text().partition("## Layout")[2].partition("## Recipes")[0]
    assert f"`{package}`" in layout


def test_no_sentence_of_it_has_more_than_60_words() -> None:
    """Such a sentence is read twice; cells of tables are lists, and may be longer."""
    prose = "\n".join("" if line.startswith(("|", "!", "#")) else line for line in PAGE.splitlines())
    sentences = re.split(r"[.:;!?](?=\s)|\n\s*\n|\n\s*(?:\d+\.|-) ", prose)
    long = [" ".join(one.split())[:80] for one in sentences if len(one.split()) > 60]
    assert not long
