"""The package of Fedora, RHEL, openSUSE and their like, made by rpmbuild."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from tools.packages import contents, making
from tools.packages.contents import CannotBuild, Files, Program

SPEC: Final = Path(__file__).resolve().parent / "nodemanager.spec"
ARCHITECTURES: Final = {"linux-amd64": "x86_64", "linux-arm64": "aarch64", "linux-arm": "armv7hl"}
LAYOUT: Final = contents.of_linux(
    "systemd", "usr/lib/systemd/system/nodemanager.service", "usr/share/licenses/nodemanager",
    "usr/share/zsh/site-functions",
)  # fmt: skip
PRESET: Final = "usr/lib/systemd/system-preset/80-nodemanager.preset"
"""Has the service enabled where it is installed, as it does nothing before the host has a credential."""
DEFINES: Final = (
    ("_buildhost", "localhost"), ("use_source_date_epoch_as_buildtime", "1"),
    ("clamp_mtime_to_source_date_epoch", "1"), ("source_date_epoch_from_changelog", "0"),
    ("optflags", "none"),
)  # fmt: skip
"""Nothing of the machine that builds is in the package."""


def build(program: Program, folder: Path) -> Path:
    """Build the package, and return where it is."""
    if shutil.which("rpmbuild") is None:
        raise CannotBuild("cannot build an rpm: there is no rpmbuild; install rpm (Fedora: rpm-build)")
    version, architecture = program.spelled("~a", "~b", "~rc"), ARCHITECTURES[program.target]
    name = f"nodemanager-{version}-1.{architecture}.rpm"
    with tempfile.TemporaryDirectory(prefix="nodemanager-rpm-") as temporary:
        top = Path(temporary)
        files = files_of(program)
        making.write_tree(files, top / "tree")
        making.settle(top / "tree", program.epoch)
        spec = top / "nodemanager.spec"
        spec.write_text(_spec(version, files, top / "tree"), encoding="utf-8")
        payload = ("_binary_payload", f"w{program.effort}.xzdio")  # which every rpm since 2009 can unpack
        defines = (*DEFINES, payload, ("_topdir", str(top / "build")), ("_rpmdir", str(top / "rpms")))
        words = [word for define in defines for word in ("--define", " ".join(define))]
        making.run(
            "rpmbuild", "-bb", "--quiet", "--target", f"{architecture}-linux", *words, str(spec),
            SOURCE_DATE_EPOCH=str(program.epoch), HOME=temporary,
        )  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(top / "rpms" / architecture / name, folder / name))


def files_of(program: Program) -> Files:
    """Return the files of the package."""
    return {**LAYOUT.files(program), PRESET: (b"enable nodemanager.service\n", contents.PLAIN)}


def _spec(version: str, files: Files, tree: Path) -> str:
    values = {
        "VERSION": version, "SUMMARY": contents.SUMMARY.capitalize(), "MAINTAINER": making.maintainer(),
        "DESCRIPTION": contents.DESCRIPTION, "TREE": str(tree),
        "FILES": "\n".join(_line(path, mode) for path, (_, mode) in files.items()),
    }  # fmt: skip
    return making.fill(SPEC.read_text(encoding="utf-8"), values)


def _line(path: str, mode: int) -> str:
    """Return how a file is listed: with its owner, and what rpm shall do when somebody changed it."""
    kind = "%config(noreplace) " if path.startswith("etc/") else ""
    kind = "%license " if path.startswith(f"{LAYOUT.licences}/") else kind
    kind = "%doc " if path.startswith(f"{LAYOUT.manuals}/") else kind
    return f"%attr({mode:04o}, root, root) {kind}/{path}"
