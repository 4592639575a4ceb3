"""Write everything that follows from the code: CRDs, rights, parts of the chart, the references, pictures.

`python -m tools.generate` writes the files; with `--check` it writes nothing, shows what
differs and fails.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nodemanager.api import crds
from nodemanager.api.rights import host_policy, host_rights
from nodemanager.kube import manifests
from tools import chart, commands, reference
from tools.website import pictures, plots, terminal

ROOT = Path(__file__).resolve().parent.parent
DIFF_LINES = 40

_YAML_HEADER = "# Generated from the types in src/nodemanager/api, do not edit: make generate\n"
_OPERATOR_RIGHTS = """\
# What `nodemanager operator` may do. Secrets and ConfigMaps are here because the API lets nobody grant
# what they have not got themselves: docs/adr/0007-rights-of-the-operator.md.
"""


def render() -> dict[str, str]:
    """Return the content of every generated file, by its path below the root."""
    files: dict[str, str] = {}
    for crd in crds.all_crds():
        names: dict[str, Any] = crd["spec"]["names"]
        files[f"config/crd/{crd['metadata']['name']}.yaml"] = _YAML_HEADER + manifests.dump(crd)
        files[f"docs/reference/{names['singular']}.md"] = reference.page(crd)
    files["docs/reference/commands.md"] = commands.page()
    files["config/policy/hosts.yaml"] = _YAML_HEADER + manifests.dump(host_policy.policies())
    files["config/rbac/node-role.yaml"] = _YAML_HEADER + manifests.dump(host_rights.node_role())
    operator = host_rights.operator_manifests("nodemanager")
    files["config/rbac/operator.yaml"] = _YAML_HEADER + _OPERATOR_RIGHTS + manifests.dump(operator)
    return files | chart.files(_YAML_HEADER) | pictures.files() | plots.files() | terminal.files()


def write(root: Path) -> list[str]:
    """Write the files that differ; return their paths."""
    changed = stale(root)
    for name, content in render().items():
        if name in changed:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    return changed


def stale(root: Path) -> list[str]:
    """Return the paths of the files that are not what the types say."""
    return [name for name, content in render().items() if _current(root / name) != content]


def check(root: Path) -> str:
    """Return what is wrong with the files below a root, as text; empty = nothing."""
    return "".join(_difference(root / name, name, render()[name]) for name in stale(root))


def _current(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _difference(path: Path, name: str, wanted: str) -> str:
    lines = difflib.unified_diff(
        _current(path).splitlines(keepends=True),
        wanted.splitlines(keepends=True),
        name,
        f"{name} (generated)",
    )
    shown = list(itertools.islice(lines, DIFF_LINES + 1))
    more = "...\n" if len(shown) > DIFF_LINES else ""
    return f"{name} is out of date: run make generate\n" + "".join(shown[:DIFF_LINES]) + more


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Generate or check; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is out of date")
    if parser.parse_args(argv).check:
        report = check(root)
        sys.stdout.write(report)
        return 1 if report else 0
    for name in write(root):
        sys.stdout.write(f"wrote {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
