"""The kernel and the root that guests boot: Debian's packages in one archive for the kernel to unpack.

    kernel, archive = image.find()         # made once, and kept

The root lives in memory: a guest is as new as the first time whenever it is switched on, and needs no
disk to boot. Of programs and modules of the kernel only those are there that guests use: without KVM,
a guest takes seconds to unpack what it has.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support import debian_packages, debian_root

PACKAGES = ("drbd-utils", "iputils-ping", "kmod", "linux-image-amd64", "udev")
MODULES = (
    "virtio_pci", "virtio_net", "virtio_blk", "virtio_console", "virtio_rng",
    "bonding", "8021q", "drbd", "crc32c_generic", "loop", "autofs4",
)  # fmt: skip
LEFT_OUT = (
    "boot", "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info",
    "usr/share/initramfs-tools", "usr/bin/perl", "usr/bin/perl5.36.0", "usr/lib/apt",
    "usr/share/zoneinfo", "usr/share/perl", "usr/lib/x86_64-linux-gnu/perl", "usr/share/perl5",
    "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/x86_64-linux-gnu/perl-base", "usr/lib/udev/hwdb.bin",
    "usr/lib/udev/hwdb.d", "usr/lib/python3.11/test", "usr/lib/python3/dist-packages",
    "var/lib/apt", "var/lib/dpkg", "var/cache", "var/log", "proc", "sys", "dev", "run", "tmp",
)  # fmt: skip
"""What no guest looks at; of the last five it mounts its own."""
PROGRAM = Path(__file__).parent / "inside.py"
UNIT = """\
[Unit]
Description=Commands of the test
DefaultDependencies=no
After=systemd-udevd.service

[Service]
ExecStart=/usr/bin/python3 -I /usr/local/sbin/lab-inside
OOMScoreAdjust=-1000

[Install]
WantedBy=basic.target
"""
SWITCHED_OFF = (
    "drbd.service", "systemd-networkd-wait-online.service", "e2scrub_reap.service", "e2scrub_all.timer",
    "systemd-logind.service", "systemd-pcrphase.service", "systemd-pcrphase-sysinit.service",
    "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service", "systemd-random-seed.service",
    "systemd-binfmt.service", "systemd-journal-flush.service", "systemd-boot-system-token.service",
    "modprobe@drm.service", "modprobe@fuse.service", "modprobe@efi_pstore.service",
    "modprobe@configfs.service",
    "sys-fs-fuse-connections.mount", "sys-kernel-config.mount", "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount", "dev-hugepages.mount", "dev-mqueue.mount", "fstrim.timer",
)  # fmt: skip
"""What costs a guest time and is of no use to it."""
LINK = "[Match]\nMACAddress={macs}\n\n[Link]\nName={name}\nMACAddressPolicy=none\n"
OUTSIDE = "[Match]\nName=outside\n\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\nIPv6AcceptRA=no\n"
BOND_LINK = "[Match]\nType=bond\n\n[Link]\nMACAddressPolicy=none\n"
"""A bond has the address of its first card; udev would give it one of its own a moment later."""
MODPROBE = "options bonding max_bonds=0\noptions drbd usermode_helper=/bin/true\n"
NODES = 3
NICS = ("outside", "data0", "data1")
MAKE_SECONDS = 600.0


class Image(NamedTuple):
    """What QEMU is told to boot."""

    kernel: Path
    archive: Path


def mac(node: int, nic: str) -> str:
    """Return the address of a card; its name in the guest follows from it."""
    return f"52:54:00:4e:{node:02x}:{NICS.index(nic):02x}"


def find() -> Image:
    """Return what guests boot; made in a minute or two unless it is there."""
    debian_packages.ensure("cpio")
    base = debian_root.base_root(*PACKAGES)
    recipe = hashlib.sha256(
        b"\n".join((base.name.encode(), Path(__file__).read_bytes(), PROGRAM.read_bytes()))
    )

    def make(folder: Path) -> None:
        kernel = _newest(base / "boot")
        (folder / "vmlinuz").write_bytes(kernel.read_bytes())
        with debian_root.overlay(base) as root:
            _furnish(root)
            _thin_out(root, kernel.name.removeprefix("vmlinuz-"))
            _pack(root, folder / "root.cpio")

    folder = debian_root.kept(f"lab-{recipe.hexdigest()[:16]}", make)
    return Image(folder / "vmlinuz", folder / "root.cpio")


def _newest(boot: Path) -> Path:
    found = sorted(boot.glob("vmlinuz-*"))
    if not found:
        pytest.fail(f"cannot boot guests: there is no kernel in {boot}")
    return found[-1]


def _furnish(root: Path) -> None:
    """Put in what makes it a guest of ours."""
    files = {
        "usr/local/sbin/lab-inside": PROGRAM.read_text(),
        "etc/systemd/system/lab-inside.service": UNIT,
        "etc/systemd/network/05-outside.network": OUTSIDE,
        "etc/systemd/network/05-bond.link": BOND_LINK,
        "etc/modprobe.d/lab.conf": MODPROBE,
        "etc/fstab": "",
        "etc/.updated": "",  # or it would rebuild caches of what is new, which is all of it, at every boot
        "var/.updated": "",
    }
    for nic in NICS:
        macs = " ".join(mac(node, nic) for node in range(NODES))
        files[f"etc/systemd/network/05-{nic}.link"] = LINK.format(macs=macs, name=nic)
    for path, text in files.items():
        (root / path).write_text(text)
    (root / "init").symlink_to("usr/lib/systemd/systemd")
    units = root / "etc/systemd/system"
    (units / "basic.target.wants").mkdir(exist_ok=True)
    (units / "basic.target.wants/lab-inside.service").symlink_to("../lab-inside.service")
    for unit in SWITCHED_OFF:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    subprocess.run(
        ["systemctl", f"--root={root}", "enable", "systemd-networkd.service"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip


def _thin_out(root: Path, version: str) -> None:
    """Leave the modules that guests use, with those that these need."""
    shown = subprocess.run(
        ["chroot", root, "modprobe", "--all", "--show-depends", f"--set-version={version}", *MODULES],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    wanted = {line.split()[1] for line in shown.stdout.splitlines() if line.startswith("insmod ")}
    modules = root / "usr/lib/modules" / version
    for path in list(modules.rglob("*.ko*")):
        if f"/lib/modules/{version}/{path.relative_to(modules)}" not in wanted:
            path.unlink()
    subprocess.run(["chroot", root, "depmod", version], check=True, timeout=60)


def _pack(root: Path, archive: Path) -> None:
    names = b"\0".join(os.fsencode(path) for path in _paths(root))
    with archive.open("wb") as file:
        subprocess.run(
            ["cpio", "--quiet", "--null", "--create", "--format=newc"],
            input=names, stdout=file, cwd=root, check=True, timeout=MAKE_SECONDS,
        )  # fmt: skip


def _paths(root: Path) -> Iterator[str]:
    """Name all that belongs in the archive, a folder before what is in it."""
    for folder, folders, files in os.walk(root):
        here = os.path.relpath(folder, root)
        if here in LEFT_OUT:
            yield here  # the empty folder, to mount something on, or for a program that wants it
            folders.clear()
            continue
        yield here
        links = [one for one in folders if (Path(folder) / one).is_symlink()]
        yield from (
            os.path.normpath(f"{here}/{one}") for one in (*files, *links) if f"{here}/{one}" not in LEFT_OUT
        )
