"""The C libraries that the interpreter and its extensions are linked with, as archives in one prefix."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tools.release import sources
from tools.release.sources import Source
from tools.release.toolchain import Toolchain

OPENSSL_OPTIONS: Final = (
    "--prefix=/usr", "--openssldir=/etc/ssl", "--libdir=lib",
    # What a static program cannot have, or must not read: libraries, /etc/ssl/openssl.cnf, the terminal.
    "no-shared", "no-module", "no-dso", "no-engine", "no-async", "no-autoload-config", "no-ui-console",
    "no-tests", "no-apps", "no-docs",
    # What nobody asks of a client of an API server.
    "no-legacy", "no-comp", "no-cmp", "no-cms", "no-dtls", "no-quic", "no-ts", "no-ct", "no-srp",
    "no-srtp", "no-ocsp", "no-ssl3", "no-weak-ssl-ciphers", "no-idea", "no-seed", "no-camellia",
    "no-aria", "no-sm2", "no-sm3", "no-sm4", "no-bf", "no-cast", "no-rc2", "no-rc4", "no-md4",
    "no-mdc2", "no-rmd160", "no-whirlpool", "no-gost",
    "-Os",
)  # fmt: skip
ZLIB: Final = (
    "adler32", "compress", "crc32", "deflate", "gzclose", "gzlib", "gzread", "gzwrite", "infback",
    "inffast", "inflate", "inftrees", "trees", "uncompr", "zutil",
)  # fmt: skip
LIBYAML: Final = ("api", "dumper", "emitter", "loader", "parser", "reader", "scanner", "writer")


def build(tools: Toolchain, locked: dict[str, Source], archives: Path, prefix: Path) -> None:
    """Build all of them."""
    for name in ("include", "lib"):
        prefix.joinpath(name).mkdir(parents=True, exist_ok=True)
    _zlib(tools, sources.fetch(locked["zlib"], archives), prefix)
    _libyaml(tools, sources.fetch(locked["libyaml"], archives), prefix, locked["libyaml"].version)
    _openssl(
        tools, [sources.fetch(locked[name], archives) for name in ("openssl", "openssl-patches")], prefix
    )


def _zlib(tools: Toolchain, archive: Path, prefix: Path) -> None:
    folder = _fresh(tools.folder / "zlib")
    sources.unpack(archive, folder)
    _archive(
        tools,
        folder,
        [f"{name}.c" for name in ZLIB],
        ["-DHAVE_UNISTD_H", "-D_LARGEFILE64_SOURCE=1"],
        prefix / "lib/libz.a",
    )
    for name in ("zlib.h", "zconf.h"):
        shutil.copy(folder / name, prefix / "include")


def _libyaml(tools: Toolchain, archive: Path, prefix: Path, version: str) -> None:
    folder = _fresh(tools.folder / "libyaml")
    sources.unpack(archive, folder)
    numbers = dict(zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True))
    flags = [
        "-Iinclude",
        f'-DYAML_VERSION_STRING="{version}"',
        *(f"-DYAML_VERSION_{name}={value}" for name, value in numbers.items()),
    ]
    _archive(tools, folder, [f"src/{name}.c" for name in LIBYAML], flags, prefix / "lib/libyaml.a")
    shutil.copy(folder / "include/yaml.h", prefix / "include")


def _openssl(tools: Toolchain, archives: list[Path], prefix: Path) -> None:
    folder = _fresh(tools.folder / "openssl")
    sources.unpack(archives[0], folder, left_out="fuzz/corpora/")
    sources.unpack(archives[1], folder / "debian")
    series = folder.joinpath("debian/patches/series").read_text(encoding="utf-8").split()
    for patch in series:
        tools.run(["patch", "--silent", "-p1", "-i", f"debian/patches/{patch}"], folder)
    tools.run(["perl", "./Configure", tools.target.openssl, *OPENSSL_OPTIONS], folder)
    tools.make(folder, "build_libs")
    for name in ("libssl.a", "libcrypto.a"):
        shutil.copy(folder / name, prefix / "lib")
    shutil.copytree(folder / "include/openssl", prefix / "include/openssl", dirs_exist_ok=True)


def _archive(tools: Toolchain, folder: Path, files: list[str], flags: list[str], archive: Path) -> None:
    objects = [str(Path(file).with_suffix(".o")) for file in files]
    for file, made in zip(files, objects, strict=True):
        tools.run(["cc", "-O2", "-c", *flags, file, "-o", made], folder)
    archive.unlink(missing_ok=True)
    tools.run(["ar", "rcs", str(archive), *objects], folder)


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
