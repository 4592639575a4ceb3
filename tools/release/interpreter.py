"""Python as an archive to link with: no shared library, no module that is not part of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tools.release import sources, targets
from tools.release.sources import CannotBuild, Source
from tools.release.toolchain import Toolchain

LEFT_OUT: Final = (
    "_bz2", "_codecs_cn", "_codecs_hk", "_codecs_iso2022", "_codecs_jp", "_codecs_kr", "_codecs_tw",
    "_ctypes", "_ctypes_test", "_curses", "_curses_panel", "_dbm", "_elementtree", "_gdbm",
    "_interpchannels", "_interpqueues", "_interpreters", "_lsprof", "_lzma", "_multibytecodec",
    "_multiprocessing", "_posixshmem", "_sqlite3", "_statistics", "_testbuffer", "_tkinter", "_uuid",
    "_xxtestfuzz", "cmath", "pyexpat", "readline", "syslog", "xxlimited", "xxlimited_35", "xxsubtype",
)  # fmt: skip
"""Modules in C that the agent does not use; most need a library that a host may not have."""
OPTIONS: Final = (
    "--prefix=/usr", "--disable-shared", "--without-ensurepip", "--disable-test-modules",
    "--without-readline", "--enable-ipv6", "--with-ssl-default-suites=openssl",
)  # fmt: skip
TRIED: Final = {
    "ac_cv_broken_nice": "no", "ac_cv_computed_gotos": "yes", "ac_cv_posix_semaphores_enabled": "yes",
}  # fmt: skip
"""What configure would try on the machine that builds, or take for missing where it cannot.

There, nice(2) seems broken to whom is at 19 already. It is given, and the bytes are the same, whoever builds.
"""
THREAD_STACK: Final = 8 * 1024 * 1024
"""As glibc has it; musl's 128 KiB are too little for Python."""
LIBRARY: Final = "libpython3.13.a"
FREEBSD: Final = {"MACHDEP": "freebsd14", "ac_sys_system": "FreeBSD", "ac_sys_release": "14"}
"""What configure finds out by uname, and not where the system is another one."""
_KNOWN: Final = "\t*-*-cygwin*)\n\t\t_host_ident=\n"
_ADDED: Final = "\t*-*-freebsd*)\n\t\t_host_ident=$host_cpu\n\t\t;;\n"
PARTS: Final = ("Modules/_hacl/libHacl_Hash_SHA2.a", "Modules/_decimal/libmpdec/libmpdec.a")
"""What is linked with it, as it is not in it."""
BILL: Final = "Misc/sbom.spdx.json"
"""Where its sources say what of them others wrote."""
BUNDLED: Final = {"hacl-star": "MIT", "libb2": "CC0-1.0", "mpdecimal": "BSD-2-Clause"}
"""What of that is in the program, and under which licence, which is not said there."""


def build(tools: Toolchain, source: Source, archives: Path, builder: Path | None) -> Path:
    """Build it, and return its folder; `builder` is the Python that this machine runs, None to build that."""
    folder = tools.folder / "python"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sources.unpack(sources.fetch(source, archives), folder)
    if not tools.target.is_static:
        _admit_freebsd(folder / "configure")
    prefix = tools.folder / "prefix"
    host = tools.target.host
    cross = (
        [f"--build={host}"]
        if builder is None
        else [f"--build={targets.native().host}", f"--with-build-python={builder}"]
    )
    tools.run(
        ["./configure", *OPTIONS, f"--host={host}", *cross, f"--with-openssl={prefix}"], folder,
        **dict.fromkeys((f"py_cv_module_{name}" for name in LEFT_OUT), "n/a"),
        MODULE_BUILDTYPE="static", ac_cv_file__dev_ptmx="yes", ac_cv_file__dev_ptc="no",
        ac_cv_buggy_getaddrinfo="no", LINKFORSHARED=" ",
        CFLAGS=f"-DTHREAD_STACK_SIZE={THREAD_STACK:#x}", LDFLAGS="-static" if tools.target.is_static else "",
        ZLIB_CFLAGS=f"-I{prefix}/include", ZLIB_LIBS=f"-L{prefix}/lib -lz",
        **TRIED, **({} if tools.target.is_static else FREEBSD),
    )  # fmt: skip
    tools.make(folder, *(["python"] if builder is None else [LIBRARY, *PARTS]))
    return folder


def _admit_freebsd(configure: Path) -> None:
    """Let configure build for FreeBSD elsewhere; all that it lacks is what to call the processor."""
    text = configure.read_text(encoding="utf-8")
    if text.count(_KNOWN) != 1:
        raise CannotBuild(
            "cannot build python for FreeBSD: its configure is another one; look at interpreter.py"
        )
    configure.write_text(text.replace(_KNOWN, _ADDED + _KNOWN), encoding="utf-8")
