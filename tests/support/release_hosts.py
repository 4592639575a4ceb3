"""Hosts of many kinds for the packages of a release, and how each installs, upgrades and removes one.

Roots of Debian and Ubuntu are made by mmdebstrap, without Python but where dnf needs it. There is no mirror
of Fedora or Arch that mmdebstrap can use: their package managers run on Debian, with the os-release of the
other, as in tests/hosts/test_package_managers.py. Alpine is the real one where NODEMANAGER_TEST_CACHE has its
root as alpine-minirootfs-*.tar.gz. `busybox` is a root with nothing but busybox.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # tools/ is not installed

from bench import work
from tools import deb
from tools.packages import apk, rpm, tarball
from tools.packages.contents import Program

from support import debian_packages, debian_root
from support.nspawn import Box, Machine

SECONDS = 300.0
FEDORA = 'ID=fedora\nNAME="Fedora Linux"\nVERSION_ID=42\nPRETTY_NAME="Fedora Linux 42"\n'
ARCH = 'ID=arch\nNAME="Arch Linux"\nPRETTY_NAME="Arch Linux"\n'
SHELL = """\
Name: nm-shell
Version: 1
Release: 1
Summary: A shell
License: None
BuildArch: noarch
Provides: /bin/sh
%description
A shell.
%files
"""


class Driver:
    """What a package manager does with a file of ours."""

    suffix = ""
    """Of the file."""
    build: Callable[[Program, Path], Path]
    """Makes it."""
    machine: type[Machine] = Machine

    def prepare(self, machine: Machine) -> None:
        """Make a machine fit for it."""

    def install(self, machine: Machine, file: Path) -> None:
        """Install a version, in the place of any other."""
        raise NotImplementedError

    def remove(self, machine: Machine) -> None:
        """Remove it."""
        raise NotImplementedError

    def _copy(self, machine: Machine, file: Path) -> str:
        """Copy a file to a place that the machine sees while it runs."""
        inside = f"/srv/packages/{file.name}"
        machine.copy(file, inside)
        return inside


class Dpkg(Driver):
    """A host with dpkg; what the package depends on is there."""

    suffix = ".deb"
    build = staticmethod(deb.build_static)

    def install(self, machine: Machine, file: Path) -> None:
        machine.run(
            "dpkg", "--force-confold", "--install", self._copy(machine, file), timeout=SECONDS,
            env={"DEBIAN_FRONTEND": "noninteractive"},
        )  # fmt: skip

    def remove(self, machine: Machine) -> None:
        machine.run("dpkg", "--remove", "nodemanager", timeout=SECONDS)

    def purge(self, machine: Machine) -> None:
        """Remove it with all that is its own."""
        machine.run("dpkg", "--purge", "nodemanager", timeout=SECONDS)


class Rpm(Driver):
    """A host with dnf. That it has a shell, which our package asks for, is all that rpm's database says."""

    suffix = ".rpm"
    build = staticmethod(rpm.build)

    def prepare(self, machine: Machine) -> None:
        (machine.root / "etc/os-release").unlink()
        (machine.root / "etc/os-release").write_text(FEDORA)
        machine.write("/etc/rpm/macros", "%_dbpath /var/lib/rpm\n")  # Debian's rpm has it in a home
        machine.run("rpm", "--initdb")
        with tempfile.TemporaryDirectory(prefix="nodemanager-rpm-") as folder:
            machine.run("rpm", "--install", self._copy(machine, _shell_package(Path(folder))))

    def install(self, machine: Machine, file: Path) -> None:
        inside, ask = self._copy(machine, file), ("rpm", "--query", "--queryformat", "%{VERSION}")
        before = machine.run(*ask, "nodemanager", check=False)
        verb = "install"
        if before.returncode == 0:  # versions of tests are of one length
            verb = "upgrade" if before.stdout < machine.run(*ask, "--package", inside).stdout else "downgrade"
        machine.run("dnf", "--assumeyes", verb, inside, timeout=SECONDS)

    def remove(self, machine: Machine) -> None:
        machine.run("dnf", "--assumeyes", "remove", "nodemanager", timeout=SECONDS)


def _shell_package(folder: Path) -> Path:
    """Return a package that says what dpkg knows here, and rpm does not: there is a shell."""
    (folder / "shell.spec").write_text(SHELL)
    defines = ("--define", f"_topdir {folder}", "--define", f"_rpmdir {folder}")
    argv = ["rpmbuild", "-bb", "--quiet", *defines, str(folder / "shell.spec")]
    subprocess.run(argv, check=True, timeout=60, env={**os.environ, "HOME": str(folder)})
    return next(folder.rglob("*.rpm"))


class Apk(Driver):
    """Alpine without a network and without an init system."""

    suffix = ".apk"
    build = staticmethod(apk.build)
    machine = Box

    def install(self, machine: Machine, file: Path) -> None:
        machine.run("apk", "add", "--no-network", "--allow-untrusted", self._copy(machine, file))

    def remove(self, machine: Machine) -> None:
        machine.run("apk", "del", "--no-network", "nodemanager")


class Tar(Driver):
    """A host that has no package for it."""

    suffix = ".tar.gz"
    build = staticmethod(tarball.build)

    def __init__(self, os_release: str = "", machine: type[Machine] = Machine) -> None:
        self.os_release = os_release
        self.machine = machine

    def prepare(self, machine: Machine) -> None:
        if self.os_release:
            (machine.root / "etc/os-release").unlink(missing_ok=True)
            (machine.root / "etc/os-release").write_text(self.os_release)

    def install(self, machine: Machine, file: Path) -> None:
        inside = self._copy(machine, file)
        machine.run("mkdir", "-p", "/usr/local")
        script = 'gunzip -c "$0" | tar -x -f - -C /var && cp -a /var/nodemanager-*/. /usr/local/'
        machine.run("rm", "-f", "/usr/local/bin/nodemanager")  # a program that runs cannot be written to
        machine.run("sh", "-c", f"{script} && rm -r /var/nodemanager-*", inside)

    def remove(self, machine: Machine) -> None:
        machine.run("rm", "-f", "/usr/local/bin/nodemanager")


@dataclass(frozen=True)
class Kind:
    """A kind of host."""

    base: Callable[[], Path]
    driver: Driver

    @property
    def has_systemd(self) -> bool:
        """Whether its agent is a service."""
        return self.driver.machine is Machine


def busybox() -> Path:
    """Return a root that has busybox, and no other program, library or configuration."""
    debian_packages.ensure("busybox-static")
    return debian_root.kept("busybox", _make_busybox)


def _make_busybox(tree: Path) -> None:
    for folder in ("bin", "usr/bin", "etc", "tmp", "var", "run", "proc", "sys", "dev", "root"):
        (tree / folder).mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin/busybox")
    subprocess.run(["chroot", tree, "/bin/busybox", "--install", "-s", "/bin"], check=True, timeout=60)
    (tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (tree / "etc/group").write_text("root:x:0:\n")
    (tree / "etc/os-release").write_text("ID=busybox\n")


def alpine() -> Path:
    """Return the root of Alpine that somebody put into the cache."""
    machine, folder = platform.machine(), debian_root.cache()
    found = sorted(folder.glob(f"alpine-minirootfs-*-{machine}.tar.gz"))
    if not found:
        name = f"alpine-minirootfs-VERSION-{machine}.tar.gz"
        pytest.skip(f"no root of Alpine: put {name} of Alpine's downloads into {folder}")

    def make(tree: Path) -> None:
        with tarfile.open(found[-1]) as archive:
            archive.extractall(tree, filter="tar")

    return debian_root.kept(found[-1].name.removesuffix(".tar.gz"), make)


def _debian(suite: str) -> Callable[[], Path]:
    """Return what makes a root that has the packages of the work: hosts have no archive to get any from."""
    return lambda: debian_root.bare_root(suite, *work.PACKAGES)


def with_pacman() -> Path:
    """Return a root of Debian 12 that also has the package manager of Arch."""
    return debian_root.bare_root("bookworm", "pacman-package-manager")


def with_dnf() -> Path:
    """Return a root of Debian 12 with dnf, and so with Python, as Fedora and RHEL have it, too."""
    return debian_root.bare_root("bookworm", "dnf", "rpm")


KINDS = {
    "debian-11": Kind(_debian("bullseye"), Dpkg()),
    "debian-12": Kind(_debian("bookworm"), Dpkg()),
    "debian-13": Kind(_debian("trixie"), Dpkg()),
    "ubuntu-22.04": Kind(_debian("jammy"), Dpkg()),
    "ubuntu-24.04": Kind(_debian("noble"), Dpkg()),
    "rpm": Kind(with_dnf, Rpm()),
    "pacman": Kind(with_pacman, Tar(ARCH)),
    "alpine": Kind(alpine, Apk()),
    "busybox": Kind(busybox, Tar(machine=Box)),
}
