"""The package of Alpine, in the format of apk-tools 2: two tar archives, one after the other.

The first has what apk wants to know and the scripts, the second the files, each with its SHA-1 in a header.
It is not signed: `apk add --allow-untrusted`, or sign an index of your own with abuild-sign.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Final

from tools.packages import archives, contents, making
from tools.packages.contents import EXECUTABLE, PLAIN, Files, Program

ARCHITECTURES: Final = {"linux-amd64": "x86_64", "linux-arm64": "aarch64", "linux-arm": "armv7"}
SCRIPTS: Final = Path(__file__).resolve().parent / "alpine"
LAYOUT: Final = contents.of_linux(
    "openrc", "etc/init.d/nodemanager", "usr/share/licenses/nodemanager", "usr/share/zsh/site-functions"
)
CHECKSUM: Final = "APK-TOOLS.checksum.SHA1"


def build(program: Program, folder: Path) -> Path:
    """Build the package, and return where it is."""
    version, architecture = f"{program.spelled('_alpha', '_beta', '_rc')}-r0", ARCHITECTURES[program.target]
    files = LAYOUT.files(program)
    tar = archives.tar(files, program.epoch, headers=lambda data: {CHECKSUM: _sha1(data)})
    data = gzip.compress(tar, program.effort, mtime=0)
    about = {
        "pkgname": "nodemanager", "pkgver": version, "pkgdesc": contents.SUMMARY,
        "url": "", "builddate": str(program.epoch), "packager": making.maintainer(),
        "size": str(sum(len(content) for content, _ in files.values())), "arch": architecture,
        "origin": "nodemanager", "license": "Apache-2.0", "datahash": hashlib.sha256(data).hexdigest(),
    }  # fmt: skip
    control: Files = {
        ".PKGINFO": ("".join(f"{key} = {value}\n" for key, value in about.items() if value).encode(), PLAIN)
    }
    for script in sorted(SCRIPTS.iterdir()):
        control[f".{script.name}"] = (script.read_bytes(), EXECUTABLE)
    first = gzip.compress(archives.tar(control, program.epoch, with_folders=False, is_part=True), mtime=0)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"nodemanager-{version}.{architecture}.apk"
    target.write_bytes(first + data)
    return target


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()  # noqa: S324 - what apk compares installed files with
