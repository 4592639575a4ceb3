"""Roots with a real package manager each, and a repository of small packages that the test builds.

The programs are this machine's; what they change is below the root. A `Runner` of ours adds the
options that send them there, as `chroot` would on a host that is managed from outside.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from nodemanager.host.base import PackageManager
from nodemanager.host.files.tree import Tree
from nodemanager.host.packages.apt import Apt
from nodemanager.host.packages.common import PackageContext
from nodemanager.host.packages.dnf import Dnf
from nodemanager.host.packages.pacman import Pacman
from nodemanager.host.process import runner
from nodemanager.host.process.environment import ENVIRONMENT


def call(*argv: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a program of the test's own, and fail with what it says."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**ENVIRONMENT, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


class PackageRoot:
    """A root and a repository."""

    debian: tuple[str, ...]
    """Debian packages that bring the tools."""
    env: dict[str, str]

    def __init__(self, path: Path, lock_seconds: float = 0) -> None:
        self.root = path / "root"
        self.repo = path / "repo"
        self.work = path / "work"
        for folder in (self.root, self.repo, self.work):
            folder.mkdir(parents=True)
        self.env = {}
        self.ran: list[list[str]] = []
        self.now = 0.0
        self.prepare()
        self.context = PackageContext(
            Tree(str(self.root)), self.run, clock=lambda: self.now, lock_seconds=lock_seconds
        )

    def prepare(self) -> None:
        """Make an empty root."""

    def translate(self, argv: Sequence[str]) -> list[str]:
        """Return the argv that works below the root."""
        raise NotImplementedError

    def manager(self) -> PackageManager:
        """Return a new adapter for the root."""
        raise NotImplementedError

    def publish(
        self, name: str, version: str, *, needs: str = "", files: Mapping[str, str] | None = None
    ) -> None:
        """Build a package and offer it."""
        raise NotImplementedError

    def withdraw(self, name: str, version: str) -> None:
        """Take a package from the repository, while the index still lists it."""
        for path in self.repo.glob(f"{name}*{version}*"):
            path.unlink()

    def synchronize(self) -> None:
        """Do what the last upgrade of the host did to its indexes, where installing does not."""

    def lock(self) -> None:
        """Hold the lock of the package manager."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what is open."""
        self.context.tree.close()

    def content(self, path: str) -> str:
        """Return the content of a file of the root; an empty string if it is not there."""
        found = self.root / path.lstrip("/")
        return found.read_text() if found.exists() else ""

    def commands(self) -> list[str]:
        """Return the programs that were run."""
        return [" ".join(argv) for argv in self.ran]

    def tree_of(self, name: str, version: str, files: Mapping[str, str] | None) -> Path:
        """Write the files of a package, among them one that tells its version."""
        folder = self.work / f"{name}-{version}"
        for path, text in {f"/usr/share/{name}/version": version, **(files or {})}.items():
            target = folder / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return folder

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout: float,
        max_output: int = runner.MAX_OUTPUT,
        cwd: str | None = None,
        finish: bool = False,
        bounded: bool = False,
    ) -> runner.Completed:
        self.ran.append(list(argv))
        return await runner.run(
            self.translate(argv),
            env={**ENVIRONMENT, **(env or {}), **self.env},
            stdin=stdin,
            timeout=timeout,
            max_output=max_output,
            cwd=cwd,
            finish=finish,
        )


APT_CONF: Final = """\
Dir "{root}/";
Dir::State::status "{root}/var/lib/dpkg/status";
DPkg::Options {{ "--root={root}"; "--force-script-chrootless"; }};
APT::Sandbox::User "root";
"""


class AptRoot(PackageRoot):
    """A root with dpkg's and apt's databases; its packages have no architecture."""

    debian = ("apt", "dpkg-dev")
    holder: IO[str] | None = None

    def prepare(self) -> None:
        for folder in (
            *("etc/apt/apt.conf.d", "etc/apt/preferences.d", "var/lib/dpkg/info", "var/lib/dpkg/updates"),
            *("var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/log/apt"),
        ):
            (self.root / folder).mkdir(parents=True)
        (self.root / "var/lib/dpkg/status").touch()
        (self.root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{self.repo} ./\n")
        (self.root / "apt.conf").write_text(APT_CONF.format(root=self.root))
        self.env = {"APT_CONFIG": str(self.root / "apt.conf")}

    def translate(self, argv: Sequence[str]) -> list[str]:
        if argv[0] == "dpkg":
            return ["dpkg", f"--root={self.root}", "--force-script-chrootless", *argv[1:]]
        return list(argv)

    def manager(self) -> PackageManager:
        return Apt(self.context)

    def publish(
        self,
        name: str,
        version: str,
        *,
        needs: str = "",
        files: Mapping[str, str] | None = None,
        fields: str = "",
        postinst: str = "",
    ) -> None:
        folder = self.tree_of(name, version, files)
        control = folder / "DEBIAN"
        control.mkdir()
        depends = f"Depends: {needs}\n" if needs else ""
        (control / "control").write_text(
            f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@example.org>\n"
            f"{depends}{fields}Description: for a test\n"
        )
        conffiles = [path for path in files or () if path.startswith("/etc/")]
        (control / "conffiles").write_text("".join(f"{path}\n" for path in conffiles))
        if postinst:
            (control / "postinst").write_text(f"#!/bin/sh\n{postinst}\n")
            (control / "postinst").chmod(0o755)
        call(
            "dpkg-deb",
            "--build",
            "--root-owner-group",
            str(folder),
            str(self.repo / f"{name}_{version}_all.deb"),
        )
        self.index()

    def index(self) -> None:
        """Offer all packages that are in the repository."""
        index = call("dpkg-scanpackages", "--multiversion", ".", cwd=self.repo)
        (self.repo / "Packages").write_text(index)

    def lock(self) -> None:
        self.holder = (self.root / "var/lib/dpkg/lock-frontend").open("w")
        fcntl.lockf(self.holder, fcntl.LOCK_EX)

    def close(self) -> None:
        super().close()
        if self.holder is not None:
            self.holder.close()


PACMAN_CONF: Final = """\
[options]
Architecture = auto
SigLevel = Never
[test]
Server = file://{repo}
"""


class PacmanRoot(PackageRoot):
    """A root with pacman's database."""

    debian = ("pacman-package-manager", "makepkg", "libarchive-tools", "zstd")
    published = 0
    cache = "/var/cache/pacman/pkg"

    def prepare(self) -> None:
        for folder in ("var/lib/pacman/local", "var/lib/pacman/sync", self.cache.lstrip("/"), "var/log"):
            (self.root / folder).mkdir(parents=True)
        self.conf = self.work / "pacman.conf"
        self.conf.write_text(PACMAN_CONF.format(repo=self.repo))

    def translate(self, argv: Sequence[str]) -> list[str]:
        where = [
            "--root",
            str(self.root),
            "--config",
            str(self.conf),
            "--cachedir",
            f"{self.root}{self.cache}",
        ]
        rest = [f"{self.root}{word}" if word.startswith(self.cache) else word for word in argv[1:]]
        return ["pacman", *where, *rest]

    def manager(self) -> PackageManager:
        return Pacman(self.context)

    def publish(
        self, name: str, version: str, *, needs: str = "", files: Mapping[str, str] | None = None
    ) -> None:
        folder = self.tree_of(name, version, files)
        depends = f"depend = {needs}\n" if needs else ""
        (folder / ".PKGINFO").write_text(
            f"pkgname = {name}\npkgver = {version}\npkgdesc = for a test\nurl = https://example.org\n"
            f"builddate = 1\npackager = x\nsize = 1\narch = any\n{depends}"
        )
        file = self.repo / f"{name}-{version}-any.pkg.tar.zst"
        entries = sorted(path.name for path in folder.iterdir())
        call("bsdtar", "--zstd", "-cf", str(file), "--uid", "0", "--gid", "0", *entries, cwd=folder)
        call("repo-add", "-q", "test.db.tar.gz", file.name, cwd=self.repo)
        self.published += 2  # pacman asks for what is newer, in whole seconds
        when = time.time() + self.published
        os.utime(self.repo / "test.db.tar.gz", (when, when))

    def synchronize(self) -> None:
        call(*self.translate(["pacman", "-Sy"]))

    def lock(self) -> None:
        (self.root / "var/lib/pacman/db.lck").touch()


DNF_CONF: Final = """\
[main]
gpgcheck=0
reposdir=/nonexistent
plugins=0
metadata_expire=86400
[test]
name=test
baseurl=file://{repo}
"""
SPEC: Final = """\
Name: {name}
Version: {version}
Release: {release}
Summary: for a test
License: none
BuildArch: noarch
{needs}
%description
For a test.
%install
cp -a {folder}/. %{{buildroot}}/
%files
{files}
"""


class RpmRoot(PackageRoot):
    """A root with rpm's database, where Fedora had it before it moved."""

    debian = ("dnf", "rpm", "createrepo-c")

    def prepare(self) -> None:
        (self.root / "var/lib/rpm").mkdir(parents=True)
        self.conf = self.work / "dnf.conf"
        self.conf.write_text(DNF_CONF.format(repo=self.repo))
        (self.work / ".rpmmacros").write_text("%_dbpath /var/lib/rpm\n")
        self.env = {"HOME": str(self.work)}
        call("createrepo_c", "-q", str(self.repo))

    def translate(self, argv: Sequence[str]) -> list[str]:
        if argv[0] == "rpm":
            return ["rpm", "--root", str(self.root), *argv[1:]]
        where = ["--config", str(self.conf), "--installroot", str(self.root), "--releasever", "1"]
        return ["dnf", *where, *argv[1:]]

    def manager(self) -> PackageManager:
        return Dnf(self.context)

    def publish(
        self, name: str, version: str, *, needs: str = "", files: Mapping[str, str] | None = None
    ) -> None:
        folder = self.tree_of(name, version, files)
        number, _, release = version.partition("-")
        spec = self.work / f"{name}-{version}.spec"
        paths = sorted(f"/{path.relative_to(folder)}" for path in folder.rglob("*") if path.is_file())
        text = SPEC.format(
            name=name,
            version=number,
            release=release,
            needs=f"Requires: {needs}" if needs else "",
            folder=folder,
            files="\n".join(paths),
        )
        spec.write_text(text)
        defines = [f"_topdir {self.work}/build", f"_rpmdir {self.repo}"]
        words = [word for define in defines for word in ("--define", define)]
        call("rpmbuild", "-bb", "--quiet", *words, str(spec), env={"HOME": str(self.work)})
        call("createrepo_c", "-q", "--update", str(self.repo))

    def withdraw(self, name: str, version: str) -> None:
        next(self.repo.rglob(f"{name}-{version}.noarch.rpm")).unlink()

    def lock(self) -> None:
        for folder in ("var/cache/dnf", "var/lib/dnf"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
            for name in ("metadata_lock.pid", "download_lock.pid", "rpmdb_lock.pid"):
                (self.root / folder / name).write_text(str(os.getpid()))
