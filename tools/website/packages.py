"""The picture of our packages: the rows are those of .importlinter, the arrows what the code imports.

An import that follows from others is left out: of `api` by `agent`, which imports `plan`, and that `api`.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

import grimp

from tools.website import layered
from tools.website.diagrams import Diagram
from tools.website.layered import Edge

_OURS: Final = "nodemanager"
_CONTRACTS: Final = ".importlinter"
_TITLE: Final = (
    "The packages of nodemanager in rows: arrows lead from a package to those of lower rows that it imports"
)
_ACROSS: Final = (
    "store", "server", "ui", "host", "tlog", "fleet", "backends", "agent", "cli", "kube", "api", "client",
    "runtime", "plan", "native", "controllers", "rendering",
)  # fmt: skip
"""From left to right, where the search for few crossings begins; one that is not here is on the right."""

Rows = Sequence[Sequence[str]]


class Unplaced(Exception):
    """A package or an import for which the rows have no place."""


def picture(root: Path) -> Diagram:
    """Return the picture of the packages below a root, and of their imports."""
    rows, pure = read_contracts((root / _CONTRACTS).read_text(encoding="utf-8"))
    packages = {path.parent.name for path in (root / "src" / _OURS).glob("*/__init__.py")}
    return draw(rows, packages, found_imports(packages), pure)


def read_contracts(text: str) -> tuple[Rows, set[str]]:
    """Return the layers of packages, and the packages that do no I/O."""
    read = configparser.ConfigParser()
    read.read_string(text)
    layers = read["importlinter:contract:layers"]["layers"].split("\n")
    rows = [[_package(one) for one in re.split("[|:]", line)] for line in layers if line.strip()]
    pure = read["importlinter:contract:pure-core"]["source_modules"].split()
    return rows, {_package(one) for one in pure if one.count(".") == 1}


def found_imports(packages: Collection[str]) -> set[Edge]:
    """Return which package imports which, as import-linter finds it out."""
    graph = grimp.build_graph(_OURS, cache_dir=None)
    pairs = {
        (_package(module), _package(imported))
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
    }
    return {(one, other) for one, other in pairs if one != other and {one, other} <= set(packages)}


def draw(rows: Rows, packages: Iterable[str], imports: Collection[Edge], pure: Collection[str]) -> Diagram:
    """Return the picture, or raise for what has no place in it."""
    row_of = {name: number for number, row in enumerate(rows) for name in row}
    for name in sorted(packages):
        if name not in row_of:
            raise Unplaced(f"cannot draw {name}: no layer of {_CONTRACTS} has it")
    for one, other in sorted(imports):
        if row_of[one] >= row_of[other]:
            raise Unplaced(f"cannot draw that {one} imports {other}: {_CONTRACTS} has it no lower")
    across = {name: number for number, name in enumerate(_ACROSS)}
    sorted_rows = [sorted(row, key=lambda name: across.get(name, len(across))) for row in rows]
    return layered.diagram(_TITLE, sorted_rows, reduced(imports), dict.fromkeys(pure, "main"))


def reduced(imports: Collection[Edge]) -> list[Edge]:
    """Return the imports that do not follow from others, in the order of their names."""
    below: dict[str, set[str]] = {}
    for one, other in imports:
        below.setdefault(one, set()).add(other)

    def reached(name: str) -> set[str]:
        return set().union(*({other} | reached(other) for other in below.get(name, ())))

    return sorted(
        (one, other) for one, other in imports if not any(other in reached(between) for between in below[one])
    )


def _package(module: str) -> str:
    """Return `plan` of `nodemanager.plan.merge`; nothing for what is in no package."""
    return module.strip().partition(".")[2].partition(".")[0]
