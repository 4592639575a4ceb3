"""Our code and what it needs, for the Python of a test machine: `Machine.boot(binds=host_python.binds())`.

    machine.run(*host_python.COMMAND, "-m", "nodemanager", "version", env=host_python.ENVIRONMENT)

The source tree is bound as it is, so there is nothing to build. Its requirements are installed once
for the Python of Debian, whatever Python runs the tests, and kept beside the roots by content.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support import debian_root

VERSION = "3.11"
"""The Python of Debian 12."""
COMMAND = ("python3",)
ENVIRONMENT = {
    "PYTHONPATH": "/opt/nodemanager/src:/opt/nodemanager/site:/opt/nodemanager/tests",
    "PYTHONPYCACHEPREFIX": "/var/tmp/pyc",  # the binds are read-only
}
_ROOT = Path(__file__).parents[2]
_REQUIREMENTS = _ROOT / "requirements" / "runtime.txt"


def binds() -> dict[Path, str]:
    """Return what a machine has to see of this one."""
    return {
        _ROOT / "src": "/opt/nodemanager/src",
        _ROOT / "tests": "/opt/nodemanager/tests",
        site(): "/opt/nodemanager/site",
    }


def site() -> Path:
    """Return a directory of the packages that we need at run time."""
    name = hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()[:16]
    folder = debian_root.cache()
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"site-{VERSION}-{name}"
    with (folder / f"{kept.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            _install(kept)
    return kept


def _install(kept: Path) -> None:
    building = Path(tempfile.mkdtemp(prefix="building-", dir=kept.parent))
    building.chmod(0o755)
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    argv += ["--require-hashes", "--only-binary=:all:", f"--python-version={VERSION}"]
    argv += [f"--target={building}", f"--requirement={_REQUIREMENTS}"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            pytest.fail(f"cannot install what the agent needs into a test machine:\n{done.stderr[-2000:]}")
        building.rename(kept)
    finally:
        shutil.rmtree(building, ignore_errors=True)
