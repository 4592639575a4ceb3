"""The work that hosts are given to compare who does it how fast: files, templates and packages.

1,000 files of 1 KiB in 20 directories, 50 templates with facts of the host, 20 packages that are
installed. Everything is generated, and the same everywhere.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDERS = 20
TEMPLATES = 50
BASE = "/etc/bench"
FOLDER_MODE, FILE_MODE = 0o755, 0o640
PACKAGES = (
    "bash", "coreutils", "dash", "debconf", "diffutils", "dpkg", "e2fsprogs", "findutils", "grep", "gzip",
    "hostname", "libc-bin", "login", "mount", "ncurses-base", "passwd", "perl-base", "procps", "sed", "tar",
)  # fmt: skip
OTHER_PACKAGES = 380
STATUS = "/var/lib/dpkg/status"
FACTS = {
    "name": "{{ .Node.Name }}",
    "system": '{{ index .Node.Labels "kubernetes.io/os" }}',
    "arch": '{{ index .Node.Labels "kubernetes.io/arch" }}',
    "os": '{{ index .Node.Labels "nodemanager.io/os" }}',
}
"""How a template asks for each fact."""


@dataclass(frozen=True, slots=True)
class Work:
    """So many files, and whether packages are part of it."""

    files: int = 1000
    packages: bool = True

    def folders(self) -> list[str]:
        """Return the directories, parents first."""
        return [BASE, *(f"{BASE}/d{number:02}" for number in range(FOLDERS)), f"{BASE}/templates"]

    def contents(self) -> Iterator[tuple[str, str]]:
        """Yield path and text of every literal file."""
        for number in range(self.files):
            path = f"{BASE}/d{number % FOLDERS:02}/f{number:04}.conf"
            yield path, _text(path)

    def templates(self, asks: dict[str, str]) -> Iterator[tuple[str, str]]:
        """Yield path and text of every template, in a language that asks for facts like this."""
        for number in range(TEMPLATES):
            lines = [f"# template {number:02}", *(f"{fact} = {ask}" for fact, ask in asks.items())]
            yield f"{BASE}/templates/t{number:02}.conf", "\n".join([*lines, f"index = {number}", ""])

    def config_sets(self) -> list[dict[str, Any]]:
        """Return the work as ConfigSets: one per directory, one for templates, one for packages."""
        by_folder: dict[str, list[dict[str, Any]]] = {}
        for path, text in self.contents():
            by_folder.setdefault(path.rpartition("/")[0], []).append(_file(path, content=text))
        by_folder[f"{BASE}/templates"] = [_file(path, template=text) for path, text in self.templates(FACTS)]
        sets = []
        for folder, files in by_folder.items():
            directory = {"path": folder, "ensure": "directory", "mode": f"{FOLDER_MODE:04o}"}
            sets.append(_config_set(folder.rpartition("/")[2], files=[directory, *files]))
        if self.packages:
            sets.append(_config_set("packages", packages=[{"name": name} for name in PACKAGES]))
        return sets

    def packed(self) -> bytes:
        """Return the work as the floor reads it: kind, sizes, SHA-256, path and text, one after the other."""
        records = [("F", path, text) for path, text in self.contents()]
        records += [("T", path, text) for path, text in self.templates({fact: f"@{fact}@" for fact in FACTS})]
        packed = bytearray()
        for kind, path, text in records:
            name, data = path.encode(), text.encode()
            packed += struct.pack("<cBHI", kind.encode(), 0, len(name), len(data))
            packed += hashlib.sha256(data).digest() + name + data
        for package in PACKAGES if self.packages else ():
            packed += struct.pack("<cBHI", b"P", 0, len(package), 0) + bytes(32) + package.encode()
        return bytes(packed)


def make_root(root: Path) -> None:
    """Make a folder look enough like a Debian host for somebody who only looks."""
    (root / "etc").mkdir(parents=True)
    (root / "etc/os-release").write_text('ID=debian\nVERSION_ID="12"\n', encoding="ascii")
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/apt-get").touch(0o755)
    status = root / STATUS.lstrip("/")
    status.parent.mkdir(parents=True)
    others = (f"libexample{number}" for number in range(OTHER_PACKAGES))
    status.write_text("\n".join(map(_stanza, sorted((*PACKAGES, *others)))), encoding="ascii")


def empty(root: Path) -> None:
    """Take all of the work back."""
    shutil.rmtree(root / BASE.lstrip("/"), ignore_errors=True)


def spoil(root: Path) -> None:
    """Change one file as somebody else would."""
    (root / f"{BASE}/d07/f0007.conf".lstrip("/")).write_text("somebody else was here\n", encoding="ascii")


def missing(root: Path, work: Work, facts: dict[str, str]) -> list[str]:
    """Return the paths that are not as they should be; a tool that fails silently is not fast."""
    wrong = []
    for path, text in (*work.contents(), *work.templates(facts)):
        there = root / path.lstrip("/")
        if (
            not there.is_file()
            or there.read_text(encoding="utf-8") != text
            or there.stat().st_mode & 0o7777 != FILE_MODE
        ):
            wrong.append(path)
    return wrong


def _file(path: str, **what: str) -> dict[str, Any]:
    return {"path": path, "ensure": "file", "mode": f"{FILE_MODE:04o}", **what}


def _config_set(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "common.nodemanager/v1",
        "kind": "ConfigSet",
        "metadata": {"name": name, "namespace": "nodemanager", "labels": {"kubernetes.io/os": "linux"}},
        "spec": spec,
    }


def _text(path: str) -> str:
    """Return about 1 KiB that looks like configuration and is like no other file."""
    lines, size = [f"# {path}"], len(path)
    while size < 960:
        digest = hashlib.sha256(f"{path}:{len(lines)}".encode()).hexdigest()
        lines.append(f"key_{len(lines):03} = {digest[:40]}")
        size += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def _stanza(name: str) -> str:
    """Return what dpkg records of an installed package, in its usual size."""
    files = "".join(f" /etc/{name}/{part} {hashlib.md5(part.encode()).hexdigest()}\n" for part in "abcdefgh")
    fields = {
        "Package": name,
        "Status": "install ok installed",
        "Priority": "optional",
        "Section": "admin",
        "Installed-Size": "512",
        "Maintainer": "Nobody <nobody@example.org>",
        "Architecture": "amd64",
        "Version": "1.2.3-4",
        "Depends": "libc6 (>= 2.36), libexample0 (= 1.2.3-4), " + json.dumps("x" * 300),
        "Conffiles": f"\n{files}".rstrip(),
        "Description": f"the package {name}\n " + "\n ".join("words " * 10 for _ in range(6)),
    }
    return "".join(f"{field}: {value}\n" for field, value in fields.items())
