"""Build a Debian package, with nothing but dpkg-deb.

    python -m tools.deb bin/manager dist

The same program gives the same bytes: all times in the package are SOURCE_DATE_EPOCH, which is that of the
last commit unless it is set. DEBFULLNAME and DEBEMAIL say who answers for it, as for all of Debian's tools.
That of bin/manager is for the Debian that it is built on; that of the static program for any.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Final

from nodemanager import __version__
from tools import binary
from tools.packages import making
from tools.packages.contents import CannotBuild, Files, Program, gzipped, of_linux

PARTS: Final = Path(__file__).resolve().parent / "debian"
SCRIPTS: Final = ("postinst", "prerm", "postrm")
ARCHITECTURES: Final = {"linux-amd64": "amd64", "linux-arm64": "arm64", "linux-arm": "armhf"}
"""What Debian calls the targets of a release."""
DOCUMENTS: Final = "usr/share/doc/nodemanager"
_VERSION: Final = re.compile(r"[0-9][A-Za-z0-9.+~]*")
_NEEDS: Final = re.compile(rb"needs Python (3)\.(\d+);")


@dataclass(frozen=True, slots=True)
class Edition:
    """What differs between the packages of the two programs."""

    unpacks: bool
    """Whether the program unpacks itself at its first start."""
    needs: str
    overrides: str
    """The file with what lintian is wrong about."""
    suggests: str = ""


STATIC: Final = Edition(
    unpacks=False, needs="init-system-helpers (>= 1.54~)", overrides="lintian-overrides-static"
)


def build(program: Path, folder: Path, version: str = __version__) -> Path:
    """Build the package of bin/manager and return where it is."""
    needs = _NEEDS.search(program.read_bytes()[:4096])
    if needs is None:
        raise CannotBuild(f"cannot build a package: {program} is not made by make build")
    major, minor = int(needs[1]), int(needs[2])
    python = f"python3 (>= {major}.{minor}), python3 (<< {major}.{minor + 1})"
    edition = Edition(
        True, f"{python}, libc6 (>= 2.28), {STATIC.needs}", "lintian-overrides", "python3-cryptography"
    )
    made_of = Program(program, "", version, making.source_date_epoch(), licences(program))
    return _build(made_of, edition, making.run("dpkg", "--print-architecture"), folder)


def build_static(program: Program, folder: Path) -> Path:
    """Build the package of the static program and return where it is."""
    made_of = replace(program, version=program.spelled("~a", "~b", "~rc"))
    return _build(made_of, STATIC, ARCHITECTURES[program.target], folder)


def _build(program: Program, edition: Edition, architecture: str, folder: Path) -> Path:
    if shutil.which("dpkg-deb") is None:
        raise CannotBuild("cannot build a package: there is no dpkg-deb; install dpkg")
    if not _VERSION.fullmatch(program.version):
        raise CannotBuild(f"cannot build a package: {program.version!r} is no version of one")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"nodemanager_{program.version}_{architecture}.deb"
    with tempfile.TemporaryDirectory(prefix="nodemanager-deb-") as name:
        tree = Path(name) / "tree"
        making.write_tree(contents(program, edition), tree)
        _write_control(tree, program, edition, architecture)
        making.settle(tree, program.epoch)
        making.run(
            "dpkg-deb", "--root-owner-group", "--threads-max=1", "-Zxz", f"-z{program.effort}",
            "--build", str(tree), str(target), SOURCE_DATE_EPOCH=str(program.epoch),
        )  # fmt: skip
    return target


def contents(program: Program, edition: Edition = STATIC) -> Files:
    """Return the files of the package with their modes."""
    layout = of_linux(
        "systemd", "lib/systemd/system/nodemanager.service", f"{DOCUMENTS}/licenses",
        "usr/share/zsh/vendor-completions", unpacks=edition.unpacks,
    )  # fmt: skip
    texts = {
        f"{DOCUMENTS}/copyright": _part("copyright").encode(),
        "usr/share/lintian/overrides/nodemanager": _part(edition.overrides).encode(),
        f"{DOCUMENTS}/changelog.gz": gzipped(_changelog(program.version, program.epoch)),
    }
    return {**layout.files(program), **{path: (data, 0o644) for path, data in texts.items()}}


def licences(program: Path) -> dict[str, bytes]:
    """Return the licences of what is in bin/manager, by the name of the package that each is of."""
    found = {}
    with (
        zipfile.ZipFile(program) as packed,
        packed.open(binary.SITE) as compressed,
        tarfile.open(fileobj=compressed, mode="r|xz") as site,
    ):
        for entry in site:
            name = licence_name(entry.name)
            if name and (read := site.extractfile(entry)) is not None:
                found[name] = read.read()
    return found


def licence_name(path: str) -> str:
    """Return what a licence of a Python package is called in ours; empty if a file is none, or is our own."""
    package, _, name = path.partition(".dist-info/")
    words = name.rpartition("/")[2].upper()
    is_licence = words.startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE", "THIRD_PARTY"))
    return (
        f"{package}.{words.partition('.')[0]}"
        if is_licence and not package.startswith("nodemanager-")
        else ""
    )


def _write_control(tree: Path, program: Program, edition: Edition, architecture: str) -> None:
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    size = sum(-(-path.stat().st_size // 1024) for path in files)
    values = {
        "VERSION": program.version, "ARCHITECTURE": architecture, "MAINTAINER": making.maintainer(),
        "SIZE": str(size), "NEEDS": edition.needs,
        "SUGGESTS": f"Suggests: {edition.suggests}\n" if edition.suggests else "",
        "UNPACK": _part("unpack") if edition.unpacks else "",
    }  # fmt: skip
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n"  # noqa: S324 - dpkg's
            for path in files if path.relative_to(tree).parts[0] != "etc"]  # fmt: skip
    conffiles = [f"/{path.relative_to(tree)}\n" for path in files if path.relative_to(tree).parts[0] == "etc"]
    making.write(tree / "DEBIAN/control", making.fill(_part("control"), values).encode(), 0o644)
    making.write(tree / "DEBIAN/md5sums", "".join(sums).encode(), 0o644)
    making.write(tree / "DEBIAN/conffiles", "".join(conffiles).encode(), 0o644)
    for script in SCRIPTS:
        making.write(tree / "DEBIAN" / script, making.fill(_part(script), values).encode(), 0o755)


def _changelog(version: str, epoch: int) -> str:
    date = format_datetime(datetime.fromtimestamp(epoch, UTC))
    return f"""nodemanager ({version}) stable; urgency=medium

  * Built from the sources of nodemanager {__version__}.

 -- {making.maintainer()}  {date}
"""


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Build, and print where the package is."""
    parser = argparse.ArgumentParser(prog="python -m tools.deb", description="Build a Debian package.")
    parser.add_argument("program", type=Path, help="bin/manager")
    parser.add_argument("folder", type=Path, help="where to put the package")
    parser.add_argument("--version", default=__version__, help="of the package; default: the program's")
    options = parser.parse_args(argv)
    try:
        print(build(options.program, options.folder, options.version))  # noqa: T201
    except CannotBuild as error:
        sys.exit(f"error: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
