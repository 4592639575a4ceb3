"""Programs to upgrade an agent to, signed by minisign: another version of bin/manager, and bad ones.

release = Release(folder)                       # with a key of its own
good = release.version("0.2.0")                 # what bin/manager is, under another version
bad = release.script("crashes", "0.3.0", CRASH) # answers --version, and else does something else
"""

from __future__ import annotations

import io
import lzma
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from support import debian_packages, static_program
from support.fleet import MANAGER, ROOT

sys.path.append(str(ROOT))  # tools are no part of what is installed
from tools import binary

ANSWER = """\
#!/bin/sh
# This stands for a nodemanager that does not work.
if [ "$1" = --version ]; then
    echo "nodemanager {version} sh/1 linux/amd64"
    {after}
    exit 0
fi
{body}
"""
CRASH = "exit 1"
USAGE = "exit 2"
SIGNAL = "kill -SEGV $$"
HANG = "exec sleep infinity"
DOWN = "exec systemctl reboot --force --force"
"""Takes the host down as soon as it runs."""
DEAF = "trap '' TERM HUP INT\nwhile :; do sleep 1; done"
LIAR = """exec python3 -c 'import os, socket, time
out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
out.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
while True: time.sleep(60); out.sendto(b"WATCHDOG=1", os.environ["NOTIFY_SOCKET"])'"""
"""Says that it is up, and does nothing."""


class Release:
    """A folder of programs, and the key that they are signed with."""

    def __init__(self, folder: Path) -> None:
        debian_packages.ensure("minisign")
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key, self.public = folder / "release.key", folder / "release.pub"
        _run("minisign", "-G", "-W", "-p", str(self.public), "-s", str(self._key))

    def version(self, version: str) -> Path:
        """Return bin/manager as it would be in another version."""
        made = self.folder / f"nodemanager-{version}"
        files = _unpacked(MANAGER)
        name, source = "nodemanager/__init__.py", self.folder / "source.py"
        text = files[name].decode()
        start = text.index('__version__ = "')
        source.write_text(f'{text[:start]}__version__ = "{version}"\n')
        files[name] = source.read_bytes()
        compiled = binary.compile_file(source, "nodemanager/source.py")
        assert compiled is not None
        files["nodemanager/__pycache__/__init__.cpython-311.pyc"] = compiled[1]
        binary.pack(files, made, preset=0)
        return self.signed(made, version)

    def renamed(self, program: Path, version: str) -> Path:
        """Return the static program of a release as it would be in another version."""
        return self.signed(static_program.renamed(program, version, self.folder), version)

    def script(self, name: str, version: str, body: str, after: str = "") -> Path:
        """Return a program that says it is a version, and then does something else than an agent."""
        made = self.folder / name
        made.write_text(ANSWER.format(version=version, after=after or ":", body=body))
        made.chmod(0o755)
        return self.signed(made, version)

    def signed(self, file: Path, version: str) -> Path:
        """Sign a file, as `make release` does."""
        comment = f"timestamp:1\tfile:{file.name}\tversion:{version}"
        _run("minisign", "-S", "-s", str(self._key), "-m", str(file), "-t", comment)
        return file


def _unpacked(manager: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(manager) as archive:
        site = lzma.decompress(archive.read(binary.SITE))
    with tarfile.open(fileobj=io.BytesIO(site)) as files:
        members = [one for one in files if one.isfile() and one.name != "__main__.py"]
        return {one.name: found.read() for one in members if (found := files.extractfile(one)) is not None}


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
