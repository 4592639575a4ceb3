"""Small real programs for tests: the boundary to fake is the process, not our code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def write(path: Path, body: str, interpreter: str = "/bin/sh") -> str:
    """Write an executable script and return its path as a string."""
    path.write_text(f"#!{interpreter}\n{body}\n")
    path.chmod(0o755)
    return str(path)


def write_python(path: Path, body: str) -> str:
    """Write an executable Python script and return its path as a string."""
    return write(path, body, f"{sys.executable} -I")


def exec_credential(version: str = "v1", **status: Any) -> str:
    """Return the JSON that a credential plugin prints."""
    return json.dumps(
        {"apiVersion": f"client.authentication.k8s.io/{version}", "kind": "ExecCredential", "status": status}
    )


def write_plugin(path: Path, answer: str, *, before: str = "") -> str:
    """Write a credential plugin that counts its runs in a file `runs` beside it."""
    answers = path.with_suffix(".json")
    answers.write_text(answer)
    runs = path.parent / "runs"
    return write(path, f"{before}\necho run >> '{runs}'\ncat '{answers}'")


def runs_of(plugin: str) -> int:
    """Return how often a plugin of `write_plugin` ran to its end."""
    runs = Path(plugin).parent / "runs"
    return len(runs.read_text().splitlines()) if runs.exists() else 0
