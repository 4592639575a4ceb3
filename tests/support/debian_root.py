"""A Debian root directory with systemd and Python in it, made once by mmdebstrap and kept.

    root = debian_root.base_root()                    # the plain one: systemd, dbus, python3
    root = debian_root.base_root("openrc")            # one with more packages
    root = debian_root.bare_root("noble")             # another release, or Ubuntu: systemd, and no Python

What it is made of (suite, mirror, packages) is its name, so that another list gives another tree.
Never write into it: `nspawn.Machine` puts an overlay on top, `overlay()` does so without booting.
Trees are below /var/cache/nodemanager-tests, or wherever NODEMANAGER_TEST_CACHE points to; making
one takes a minute and 300 MiB, and needs root. Tests that run at the same time wait for one
another here; a tree that was not finished is never seen.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import debian_packages

SUITE = "bookworm"
PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "libpam-systemd",
    "python3",
    "iproute2",
    "procps",
    "wireguard-tools",
)
BARE = ("apt", "systemd", "systemd-sysv", "dbus", "iproute2", "procps")
"""What a host has besides the required packages, for the static program, which needs nothing of it.

Of Debian, apt is one of these; of Ubuntu it is not.
"""
UBUNTU = ("jammy", "noble")
UBUNTU_MIRROR = "http://archive.ubuntu.com/ubuntu"
UBUNTU_KEYS = (
    "pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb",
    "0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f",
)
DEFAULT_MIRROR = "http://deb.debian.org/debian"
MAKE_SECONDS = 1200.0
_QUICKLY = (
    "--mode=root", "--variant=minbase", "--dpkgopt=force-unsafe-io", '--aptopt=Acquire::Languages "none"',
)  # fmt: skip
"""A tree that is not finished is thrown away: no file of it has to survive a power cut."""
_RECIPE = "4"
"""To be raised when `_finish` does something else than it did."""


def cache() -> Path:
    """Return where trees are kept."""
    return Path(os.environ.get("NODEMANAGER_TEST_CACHE", "/var/cache/nodemanager-tests"))


def base_root(*packages: str) -> Path:
    """Return a Debian root with these packages besides the usual ones; it is to be read only."""
    return _kept(SUITE, find_mirror(), (*PACKAGES, *sorted(packages)), ())


def bare_root(suite: str, *packages: str) -> Path:
    """Return a root of a release of Debian or Ubuntu, with systemd and without Python; to be read only."""
    wanted = (*BARE, *sorted(packages))
    if suite not in UBUNTU:
        return _kept(suite, find_mirror(), wanted, ())
    return _kept(suite, UBUNTU_MIRROR, wanted, (f"--keyring={_ubuntu_keyring()}",))


def _kept(suite: str, mirror: str, wanted: tuple[str, ...], flags: tuple[str, ...]) -> Path:
    """Return a root; made unless it is there."""
    if os.geteuid() != 0:
        pytest.fail("cannot make a Debian root: only root can; run the tests of hosts as root")
    debian_packages.ensure("mmdebstrap")
    name = hashlib.sha256("\n".join((_RECIPE, suite, mirror, *wanted)).encode()).hexdigest()[:16]
    include = f"--include={','.join(wanted)}"

    def make(tree: Path) -> None:
        _bootstrap(tree, ["mmdebstrap", *_QUICKLY, include, *flags, suite, str(tree), mirror], mirror)

    return kept(f"{suite}-{name}", make)


def kept(name: str, make: Callable[[Path], object]) -> Path:
    """Return a tree of the cache; made in an empty folder unless it is there."""
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    tree = folder / name
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.exists():
            building = Path(tempfile.mkdtemp(prefix="building-", dir=folder))
            building.chmod(0o755)
            try:
                make(building)
                building.rename(tree)
            finally:
                _remove(building)
    return tree


def _remove(tree: Path) -> None:
    """Remove what is left of a tree, and nothing that is mounted there: bootstraps that end leave /proc."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for path in sorted((one for one in mounted if one.startswith(f"{tree}/")), reverse=True):
        subprocess.run(["umount", "--lazy", path], check=False, timeout=60)
    subprocess.run(["rm", "-rf", "--one-file-system", tree], check=False, timeout=600)


def _ubuntu_keyring() -> Path:
    """Return the keys that releases of Ubuntu are signed with, by the digest of the package that has them."""
    path, digest = UBUNTU_KEYS

    def make(tree: Path) -> None:
        try:
            with urllib.request.urlopen(f"{UBUNTU_MIRROR}/{path}", timeout=60) as answer:
                data = answer.read()
        except OSError as error:
            pytest.fail(f"cannot make a root of Ubuntu: {UBUNTU_MIRROR} does not answer: {error}")
        if hashlib.sha256(data).hexdigest() != digest:
            pytest.fail(f"cannot make a root of Ubuntu: {path} has another digest than {digest}")
        (tree / "keyring.deb").write_bytes(data)
        subprocess.run(["dpkg-deb", "-x", tree / "keyring.deb", tree], check=True, timeout=60)

    return kept(f"ubuntu-keyring-{digest[:16]}", make) / "usr/share/keyrings/ubuntu-archive-keyring.gpg"


def find_mirror(sources: Path = Path("/etc/apt")) -> str:
    """Return the Debian mirror this machine uses itself; it is near, or the only one it may reach."""
    files = [sources / "sources.list", *sorted((sources / "sources.list.d").glob("*"))]
    for file in files:
        if file.suffix in (".list", ".sources") and file.is_file():
            found = re.search(
                r"^(?:deb\s.*?|URIs:\s*)(https?://\S+/debian/?)\s", file.read_text(), re.MULTILINE
            )
            if found:
                return found[1].rstrip("/")
    return DEFAULT_MIRROR


def _bootstrap(tree: Path, argv: list[str], mirror: str) -> None:
    environ = {**os.environ, "INITRD": "No"}  # nobody boots the kernel of a tree by one
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=MAKE_SECONDS, check=False, env=environ
    )
    if done.returncode != 0:
        said = f"{done.stdout}{done.stderr}"[-2000:]
        pytest.fail(f"cannot make a Debian root from {mirror}: mmdebstrap failed:\n{said}")
    _finish(tree)


def _finish(root: Path) -> None:
    """Take away what makes machines alike or slow to boot, and what is only weight."""
    (root / "etc/machine-id").write_text("")
    (root / "etc/hostname").unlink(missing_ok=True)
    for archive in (root / "var/cache/apt/archives").glob("*.deb"):
        archive.unlink()
    (root / "etc/systemd/journald.conf.d").mkdir(exist_ok=True)
    (root / "etc/systemd/journald.conf.d/tests.conf").write_text("[Journal]\nStorage=volatile\n")
    (root / "etc/systemd/system.conf.d").mkdir(exist_ok=True)
    (root / "etc/systemd/system.conf.d/tests.conf").write_text("[Manager]\nDefaultTimeoutStopSec=10s\n")
    for unit in ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "getty.target"):
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")


@contextlib.contextmanager
def overlay(base: Path) -> Iterator[Path]:
    """Mount a copy of a tree that takes no time and no space; it is gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="nodemanager-root-"))
    try:
        with mounted(base, folder) as root:
            yield root
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def mounted(base: Path, folder: Path) -> Iterator[Path]:
    """Mount an overlay whose writes go below `folder`, where they stay for a second time."""
    for name in ("upper", "work", "root"):
        (folder / name).mkdir(exist_ok=True)
    options = f"lowerdir={base},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    root = folder / "root"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(root)], check=True, timeout=30)
    try:
        yield root
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=True, timeout=30)
