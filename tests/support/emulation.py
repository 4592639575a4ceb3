"""Programs of other processors on this one: qemu-user, which the kernel starts by itself (binfmt_misc).

The kernel keeps the emulator open (F), so that it works in every root and namespace, and for a program that
starts itself by /proc/self/exe.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import debian_packages, static_program

FOLDER = Path("/proc/sys/fs/binfmt_misc")
MAGIC = {"linux-arm64": ("aarch64", 2, 183), "linux-arm": ("arm", 1, 40)}
"""By target: what qemu calls the processor, and how ELF numbers word size and processor."""


@contextlib.contextmanager
def registered(target: str) -> Iterator[None]:
    """Have the kernel run programs of a target; nothing is left at the end."""
    if os.geteuid() != 0:
        pytest.fail("cannot register an emulator: only root can; run the tests of hosts as root")
    processor, size, number = MAGIC[target]
    debian_packages.ensure("qemu-user-static")
    if not (FOLDER / "register").exists():
        done = subprocess.run(
            ["mount", "-t", "binfmt_misc", "none", FOLDER],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode != 0:
            why = done.stderr.strip()
            static_program.lacks(f"the kernel has no binfmt_misc, which starts emulators: {why}")
    name = f"nodemanager-{secrets.token_hex(4)}"
    magic = b"\x7fELF" + bytes([size, 1, 1]) + bytes(9) + b"\x02\x00" + bytes([number, 0])
    mask = (
        b"\xff" * 7 + b"\x00" + b"\xff" * 8 + b"\xfe\xff\xff\xff"
    )  # any ABI; executables, also at any address
    fields = (name, "M", "", *("".join(f"\\x{byte:02x}" for byte in each) for each in (magic, mask)))
    (FOLDER / "register").write_text(f":{':'.join(fields)}:/usr/bin/qemu-{processor}-static:F")
    try:
        yield
    finally:
        (FOLDER / name).write_text("-1")
