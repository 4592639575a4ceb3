"""Fails where a folder has kinds or a controller that no registry knows: `python -m tools.registered`."""

from __future__ import annotations

import sys
from pathlib import Path

from nodemanager.api import kinds
from nodemanager.controllers import assembly

_API, _CONTROLLERS = "src/nodemanager/api", "src/nodemanager/controllers"


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


def main() -> None:
    """Say what was forgotten."""
    found = forgotten(Path())
    sys.stderr.write("".join(f"{line}\n" for line in found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
