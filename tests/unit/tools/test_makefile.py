"""`make help`, which is where a newcomer begins, and the image that others run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support import scripts

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


def release(tmp_path: Path, base: str) -> subprocess.CompletedProcess[str]:
    """Build an image for others with a docker that only says how it was called."""
    scripts.write(tmp_path / "docker", 'printf "%s\\n" "$@"')
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    return subprocess.run(
        ["make", "--no-print-directory", "release-image", f"BASE={base}"],
        cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "base",
    ["", "python:3.11", "python@sha256:", f"python@sha256:{'0' * 63}", f"@sha256:{'0' * 64}",
     f"a b@sha256:{'0' * 64}", f"python@sha256:{'0' * 64}x", f"python:3@sha512:{'0' * 64}"],
)  # fmt: skip
def test_an_image_for_others_is_built_on_a_digest_only(tmp_path: Path, base: str) -> None:
    done = release(tmp_path, base)
    assert done.returncode != 0
    assert done.stdout == ""
    assert f"BASE='{base}' has no digest" in done.stderr


def test_an_image_for_others_gets_the_base_that_was_named(tmp_path: Path) -> None:
    base = f"registry.example/python:3.11@sha256:{'0a' * 32}"
    done = release(tmp_path, base)
    assert done.returncode == 0, done.stderr
    assert f"--build-arg\nBASE={base}\n" in done.stdout
