"""What a folder needs so that programs can run in it, as on a host."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


def furnish(root: Path) -> None:
    """Give a folder a shell and what that needs, and the pipe that its program reads."""
    for tool in ("/bin/sh", "/bin/mv"):
        listed = subprocess.run(["ldd", tool], check=True, capture_output=True, text=True).stdout
        needed = [word for line in listed.splitlines() for word in line.split() if word.startswith("/")]
        for path in (tool, *needed):
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    (root / "dev").mkdir(exist_ok=True)
    (root / "dev/null").touch()
    os.mkfifo(root / "go-on")
