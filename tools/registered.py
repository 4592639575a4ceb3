"""Fails where a folder has something that no registry knows: `python -m tools.registered`.

A package of the API has kinds, one of controllers has a controller, and a module of fleet or of controllers
that decides something has tests of which is known what they notice, or a reason why not.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path
from typing import Final

from nodemanager.api import kinds
from nodemanager.controllers import assembly

_API, _CONTROLLERS = "src/nodemanager/api", "src/nodemanager/controllers"
_ENGINES, _TABLE = ("src/nodemanager/fleet", _CONTROLLERS), "tools/mutants.toml"
DECIDES: Final = 10
"""With so many branches, a module decides something."""


def forgotten(root: Path) -> list[str]:
    """Return what is there and not registered, with the file to edit."""
    known = {kind.file for kind in kinds.KINDS}
    entries = [f"{_API}/{path.parent.name}/kinds.py" for path in sorted((root / _API).glob("*/kinds.py"))]
    built = {entry.build.__module__.split(".")[2] for entry in (*assembly.ENTRIES, *assembly.EDGE_ENTRIES)}
    packages = [path.parent.name for path in sorted((root / _CONTROLLERS).glob("*/__init__.py"))]
    return [
        *(
            f"{one} is not in the registry: add its KINDS in {_API}/kinds.py"
            for one in entries
            if one not in known
        ),
        *(
            f"{_CONTROLLERS}/{one} is not run: add its REGISTRATION to ENTRIES in {_CONTROLLERS}/assembly.py"
            for one in packages
            if one not in built
        ),
    ]


def branches(source: str) -> int:
    """Return at how many places a module goes one way or another."""
    kinds_of = (ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.Compare, ast.match_case)
    nodes = list(ast.walk(ast.parse(source)))
    filters = sum(len(node.ifs) for node in nodes if isinstance(node, ast.comprehension))
    return filters + sum(isinstance(node, kinds_of) for node in nodes)


def untried(root: Path) -> list[str]:
    """Return which modules decide something that `make mutate` does not know; and who is spared in vain."""
    table = tomllib.loads((root / _TABLE).read_text())
    tried, spared = table["modules"], table["spared"]
    counts = {
        path.relative_to(root / "src/nodemanager").with_suffix("").as_posix(): branches(path.read_text())
        for folder in _ENGINES
        for path in sorted((root / folder).rglob("*.py"))
    }
    engines = {name: count for name, count in counts.items() if count >= DECIDES}
    return [
        *(
            f"{name} has {count} branches, and nobody knows what its tests notice: name them in [modules] of"
            f" {_TABLE}, or in [spared] the reason why not"
            for name, count in engines.items()
            if name not in tried and name not in spared
        ),
        *(
            f"{name} is spared in vain: take it out of [spared] of {_TABLE}"
            for name, reason in spared.items()
            if name in tried or name not in engines or not reason
        ),
    ]


def main() -> None:
    """Say what was forgotten."""
    found = [*forgotten(Path()), *untried(Path())]
    sys.stderr.write("".join(f"{line}\n" for line in found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
