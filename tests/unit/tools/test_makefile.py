"""`make help`, which is where a newcomer begins."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_help_has_no_colours_in_a_pipe_and_no_empty_section() -> None:
    environ = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    done = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "\x1b" not in done.stdout
    lines = done.stdout.rstrip("\n").splitlines()
    assert any(line.startswith("  demo ") for line in lines)
    headings = [at for at, line in enumerate(lines) if line and not line.startswith(" ")]
    assert headings
    assert all(lines[at + 1 :][:1] and lines[at + 1].startswith("  ") for at in headings)
