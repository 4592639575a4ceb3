"""What docs/architecture.md says of packages, files, classes and functions: all are in it, or there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
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
SECTIONS = re.split(r"^##+ ", PAGE, flags=re.MULTILINE)
FILE = re.compile(r"`([\w/]+\.(?:py|sh|c))`")
PATH = re.compile(r"`(\w+(?:/\w+)+)/?[.`]")
EXAMPLES = {"api/GROUP/kinds.py"}
FIELDS = {"spec", "status"}
"""What a dotted name may begin with that is a field of an object, and no module."""


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


@pytest.mark.parametrize("section", SECTIONS, ids=lambda text: text.partition("\n")[0])
def test_every_file_is_where_its_section_says(section: str) -> None:
    """One that is named without a folder is in one that the section names."""
    folders = {"", *packages(SOURCE)}
    for path in PATH.findall(section):
        folders.update(path[: match.start()] for match in re.finditer(r"/|$", path))
    places = [root / folder for root in (ROOT, SOURCE) for folder in sorted(folders)]
    named = set(FILE.findall(section)) - EXAMPLES
    assert not [one for one in sorted(named) if not any((place / one).is_file() for place in places)]


def test_every_class_and_function_is_there() -> None:
    classes: dict[str, set[str]] = {}
    globals_: set[tuple[str, str]] = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_bytes())
        globals_.update((path.stem, name) for name in defined(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, set()).update(defined(node), of_self(node))
    missing = []
    for name in set(re.findall(r"`([A-Za-z_]+(?:\.[a-z_]+)?)`", PAGE)):
        first, _, second = name.partition(".")
        if re.match("[A-Z].*[a-z]", name):
            there = first in classes and (not second or second in classes[first])
        elif second and first not in FIELDS and not name.endswith((".py", ".sh", ".c")):
            there = (first, second) in globals_
        else:
            there = not first.isupper() or first in {each for _, each in globals_}
        missing += [] if there else [name]
    assert not missing


def defined(node: ast.Module | ast.ClassDef) -> Iterator[str]:
    """Return the names of functions, constants and fields of a module or a class."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield each.name
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id


def of_self(node: ast.ClassDef) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
            yield each.attr
