"""The package of FreeBSD: a tar archive with a manifest in front, compressed by xz."""

from __future__ import annotations

import hashlib
import json
import lzma
from pathlib import Path
from typing import Any, Final

from nodemanager.host.init.systems import SYSTEMS
from tools.packages import archives, contents, making
from tools.packages.contents import PLAIN, Files, Layout, Program

PREFIX: Final = "usr/local"
RELEASE: Final = 14
"""The oldest that the program runs on; the libraries that it needs have kept their interfaces since."""
ARCHITECTURES: Final = {"freebsd-amd64": ("amd64", "x86:64"), "freebsd-arm64": ("aarch64", "aarch64:64")}
"""As pkg says it now, and as it did."""
SCRIPTS: Final = Path(__file__).resolve().parent / "freebsd"
LAYOUT: Final = Layout(
    SYSTEMS["rc.d"], f"{PREFIX}/bin/nodemanager", f"{PREFIX}/etc/rc.d/nodemanager",
    f"{PREFIX}/share/man/man8", f"{PREFIX}/share/licenses/nodemanager", f"{PREFIX}/share/zsh/site-functions",
    f"{PREFIX}/share",
)  # fmt: skip


def build(program: Program, folder: Path) -> Path:
    """Build the package, and return where it is."""
    version = program.spelled(".a", ".b", ".r")
    files = _with_sample(LAYOUT.files(program))
    manifest = _manifest(program, version, files)
    compact = {key: value for key, value in manifest.items() if key not in ("files", "scripts")}
    special: Files = {
        "+COMPACT_MANIFEST": (_json(compact), PLAIN), "+MANIFEST": (_json(manifest), PLAIN),
    }  # fmt: skip
    rooted: Files = {f"/{path}": content for path, content in files.items()}
    data = archives.tar({**special, **rooted}, program.epoch, group="wheel", with_folders=False)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"nodemanager-{version}-{program.target}.pkg"
    target.write_bytes(lzma.compress(data, preset=program.effort))
    return target


def _with_sample(files: Files) -> Files:
    """Return files with flags as a sample, as pkg would replace what somebody wrote into the real one."""
    flags = LAYOUT.init.environment.lstrip("/")
    return {f"{path}.sample" if path == flags else path: content for path, content in files.items()}


def _manifest(program: Program, version: str, files: Files) -> dict[str, Any]:
    current, former = ARCHITECTURES[program.target]
    return {
        "name": "nodemanager", "origin": "sysutils/nodemanager", "version": version,
        "comment": contents.SUMMARY, "maintainer": making.maintainer(), "www": "https://nodemanager.invalid/",
        "abi": f"FreeBSD:{RELEASE}:{current}", "arch": f"freebsd:{RELEASE}:{former}",
        "prefix": f"/{PREFIX}", "flatsize": sum(len(data) for data, _ in files.values()),
        "licenselogic": "single", "licenses": ["APACHE20"], "desc": _encoded(contents.DESCRIPTION),
        "categories": ["sysutils"],
        "files": {f"/{path}": f"1${hashlib.sha256(data).hexdigest()}" for path, (data, _) in files.items()},
        "scripts": {
            each.name: _encoded(each.read_text(encoding="utf-8")) for each in sorted(SCRIPTS.iterdir())
        },
    }  # fmt: skip


def _encoded(text: str) -> str:
    """Return a text as manifests have it; pkg takes what follows a % for the number of a character."""
    return text.replace("%", "%25")


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
