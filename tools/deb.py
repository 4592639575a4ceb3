"""Build a Debian package of bin/manager, with nothing but dpkg-deb.

    python -m tools.deb bin/manager dist

The same program gives the same bytes: all times in the package are SOURCE_DATE_EPOCH, which is that of the
last commit unless it is set. DEBFULLNAME and DEBEMAIL say who answers for it, as for all of Debian's tools.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Final

from nodemanager import __version__
from nodemanager.cli.commands import completion
from nodemanager.cli.main import COMMANDS, cli
from nodemanager.host.init.systems import SYSTEMS
from tools import binary

PARTS: Final = Path(__file__).resolve().parent / "debian"
ROOT: Final = PARTS.parent.parent
SCRIPTS: Final = ("postinst", "prerm", "postrm")
WRITTEN: Final = "Part of the package nodemanager."
MANUAL: Final = "Documentation=man:nodemanager(8)"
COMPLETIONS: Final = {
    "bash": "usr/share/bash-completion/completions/nodemanager",
    "zsh": "usr/share/zsh/vendor-completions/_nodemanager",
    "fish": "usr/share/fish/vendor_completions.d/nodemanager.fish",
}
"""Where Debian's shells look for the completion of a command."""
SECONDS: Final = 120.0
_VERSION: Final = re.compile(r"[0-9][A-Za-z0-9.+~]*")
_NEEDS: Final = re.compile(rb"needs Python (3)\.(\d+);")


class CannotBuild(Exception):
    """The package cannot be built; the message says why and what to do."""


def build(program: Path, folder: Path, version: str = __version__) -> Path:
    """Build the package and return where it is."""
    if shutil.which("dpkg-deb") is None:
        raise CannotBuild("cannot build a package: there is no dpkg-deb; install dpkg")
    if not _VERSION.fullmatch(version):
        raise CannotBuild(f"cannot build a package: {version!r} is no version of one")
    epoch = source_date_epoch()
    architecture = _run("dpkg", "--print-architecture")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"nodemanager_{version}_{architecture}.deb"
    with tempfile.TemporaryDirectory(prefix="nodemanager-deb-") as name:
        tree = Path(name) / "tree"
        tree.mkdir()
        for path, (data, mode) in contents(program, version, epoch).items():
            _write(tree / path, data, mode)
        _write_control(tree, program, version, architecture)
        _settle(tree, epoch)
        _run("dpkg-deb", "--root-owner-group", "--threads-max=1", "-Zxz", "--build", str(tree), str(target),
             SOURCE_DATE_EPOCH=str(epoch))  # fmt: skip
    return target


def source_date_epoch() -> int:
    """Return the time of everything in the package."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    try:
        return int(_run("git", "-C", str(ROOT), "log", "-1", "--format=%ct"))
    except CannotBuild:  # an archive of the sources
        return 315532800


def contents(program: Path, version: str, epoch: int) -> dict[str, tuple[bytes, int]]:
    """Return the files of the package with their modes."""
    systemd = SYSTEMS["systemd"]
    documents = "usr/share/doc/nodemanager"
    unit = systemd.unit("/usr/bin/nodemanager", written=WRITTEN)
    texts = {
        "lib/systemd/system/nodemanager.service": unit.replace("[Unit]\n", f"[Unit]\n{MANUAL}\n"),
        systemd.environment.lstrip("/"): systemd.variables(),
        f"{documents}/copyright": _part("copyright"),
        "usr/share/lintian/overrides/nodemanager": _part("lintian-overrides"),
        **{path: completion.script(cli, shell) for shell, path in COMPLETIONS.items()},
    }
    files = {path: (text.encode(), 0o644) for path, text in texts.items()}
    files["usr/bin/nodemanager"] = (program.read_bytes(), 0o755)
    files["usr/share/man/man8/nodemanager.8.gz"] = (_gzipped(man_page(version)), 0o644)
    files[f"{documents}/changelog.gz"] = (_gzipped(_changelog(version, epoch)), 0o644)
    for name, data in licences(program).items():
        files[f"{documents}/licenses/{name}"] = (data, 0o644)
    return files


def man_page(version: str) -> str:
    """Return the manual page."""
    entries = [f".TP\n.B {name.replace('-', chr(92) + '-')}\n{one.help}" for name, one in COMMANDS.items()]
    return _fill(_part("nodemanager.8"), {"VERSION": version, "COMMANDS": "\n".join(entries)})


def licences(program: Path) -> dict[str, bytes]:
    """Return the licences of what is in the program, by the name of the package that each is of."""
    found = {}
    with (
        zipfile.ZipFile(program) as packed,
        packed.open(binary.SITE) as compressed,
        tarfile.open(fileobj=compressed, mode="r|xz") as site,
    ):
        for entry in site:
            package, _, name = entry.name.partition(".dist-info/")
            words = name.rpartition("/")[2].upper()
            if words.startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE", "THIRD_PARTY")):
                read = site.extractfile(entry)
                if read is not None and not package.startswith("nodemanager-"):
                    found[f"{package}.{words.partition('.')[0]}"] = read.read()
    return found


def _write_control(tree: Path, program: Path, version: str, architecture: str) -> None:
    needs = _NEEDS.search(program.read_bytes()[:4096])
    if needs is None:
        raise CannotBuild(f"cannot build a package: {program} is not made by make build")
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    size = sum(-(-path.stat().st_size // 1024) for path in files)
    major, minor = int(needs[1]), int(needs[2])
    values = {
        "VERSION": version, "ARCHITECTURE": architecture, "MAINTAINER": maintainer(), "SIZE": str(size),
        "PYTHON": f"{major}.{minor}", "NEXT_PYTHON": f"{major}.{minor + 1}",
    }  # fmt: skip
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n"  # noqa: S324 - dpkg's
            for path in files if path.relative_to(tree).parts[0] != "etc"]  # fmt: skip
    conffiles = [f"/{path.relative_to(tree)}\n" for path in files if path.relative_to(tree).parts[0] == "etc"]
    _write(tree / "DEBIAN/control", _fill(_part("control"), values).encode(), 0o644)
    _write(tree / "DEBIAN/md5sums", "".join(sums).encode(), 0o644)
    _write(tree / "DEBIAN/conffiles", "".join(conffiles).encode(), 0o644)
    for script in SCRIPTS:
        _write(tree / "DEBIAN" / script, _part(script).encode(), 0o755)


def maintainer() -> str:
    """Return who answers for the package."""
    name = os.environ.get("DEBFULLNAME", "nodemanager authors")
    return f"{name} <{os.environ.get('DEBEMAIL', 'nodemanager@packages.invalid')}>"


def _changelog(version: str, epoch: int) -> str:
    date = format_datetime(datetime.fromtimestamp(epoch, UTC))
    return f"""nodemanager ({version}) stable; urgency=medium

  * Built from the sources of nodemanager {__version__}.

 -- {maintainer()}  {date}
"""


def _gzipped(text: str) -> bytes:
    return gzip.compress(text.encode(), 9, mtime=0)


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


def _fill(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], text)


def _write(path: Path, data: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def _settle(tree: Path, epoch: int) -> None:
    """Give every file the same time, and every folder the same mode."""
    for path in (*tree.rglob("*"), tree):
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (epoch, epoch))


def _run(*argv: str, **variables: str) -> str:
    done = subprocess.run(  # noqa: S603 - an argv
        argv, env={**os.environ, **variables}, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode != 0:
        raise CannotBuild(f"cannot build a package: {argv[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()


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
