"""`tools/readonly.sh`, by which the tests are run where they cannot leave anything behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "readonly.sh"


def may_mount() -> bool:
    """Tell whether we are root, and not in a container that may not mount."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0


def run(*argv: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(
        [str(TOOL), *argv], env=environ, capture_output=True, text=True, timeout=50, check=False
    )


@pytest.mark.skipif(not may_mount(), reason="only root can mount")
def test_only_the_temporary_folder_can_be_written_and_it_is_gone_afterwards(tmp_path: Path) -> None:
    ours, outside = tmp_path / "our folder", tmp_path / "outside"
    ours.mkdir()
    places = ["/", "/etc", "/run", "/dev/shm", "/var/lib", str(TOOL.parent), str(outside), str(ours)]
    outside.mkdir()
    script = 'for place; do touch "$place/it" 2>&1; done; echo it > "$TMPDIR/it"; cat "$TMPDIR/it"; exit 7'
    done = run("sh", "-c", script, "sh", *places, folder=ours)
    assert done.returncode == 7, done.stderr
    assert done.stdout.count("Read-only file system") == len(places), done.stdout
    assert done.stdout.endswith("\nit\n")
    assert list(ours.iterdir()) == []
    assert list(outside.iterdir()) == []
    (outside / "it").touch()  # nothing has changed for us


def test_without_a_command_it_says_how_to_use_it(tmp_path: Path) -> None:
    done = run(folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"usage: {TOOL} COMMAND [ARGUMENT]...\n")
