"""Build what others install: `python -m tools.release [TARGET...]`, or make release.

Sources are fetched once and checked against their digests; what was compiled is kept, and compiled again
when its recipe or its sources change. Only the last steps, a minute or two per target, are done every time:
the program is linked, and packages are made of it (tools/packages).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nodemanager import __version__
from tools.packages import formats, making
from tools.packages.contents import CannotBuild as CannotPack
from tools.packages.contents import Program
from tools.release import (
    allocator,
    elf,
    interpreter,
    keeping,
    libraries,
    licences,
    program,
    revision,
    sbom,
    signing,
    sources,
    sums,
    toolchain,
)
from tools.release.keeping import Part
from tools.release.sbom import Component
from tools.release.sources import CannotBuild
from tools.release.targets import TARGETS, Target, native
from tools.release.toolchain import Toolchain

MIB: Final = 1024 * 1024
TOOLS: Final = {"make": "make", "perl": "perl", "patch": "patch", "nice": "coreutils"}
PACKAGE_TOOLS: Final = {"dpkg-deb": "dpkg", "rpmbuild": "rpm"}
"""What is run, and the package that has it."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where things are made and kept."""

    cache: Path
    epoch: int
    jobs: int

    @property
    def archives(self) -> Path:
        """Sources as they were fetched."""
        return self.cache / "archives"

    def tools(self, target: Target) -> Toolchain:
        """Return how to compile for a target."""
        return Toolchain(target, self.cache / target.name, self.jobs)

    def interpreter(self, target: Target) -> Path:
        """Return the folder of the Python of a target; built with its libraries unless they are there."""
        tools = self.tools(target)
        tools.prepare()
        locked = sources.all_pinned()
        prefix = tools.folder / "prefix"
        _once(tools, keeping.prefix(), lambda: libraries.build(tools, locked, self.archives, prefix))
        builder = None if target.is_native else self.interpreter(native()) / "python"
        source = locked["python"]
        _once(tools, keeping.python(), lambda: interpreter.build(tools, source, self.archives, builder))
        return tools.folder / "python"

    def extensions(self, target: Target) -> None:
        """Have the extensions of a target, built unless they are there."""
        tools = self.tools(target)
        _once(tools, keeping.extensions(), lambda: program.build_extensions(tools, self.archives))

    def allocator(self, target: Target) -> None:
        """Have the allocator of a static target, built unless it is there."""
        tools = self.tools(target)
        if target.is_static:
            source = sources.all_pinned()["musl"]
            _once(tools, keeping.allocator_part(), lambda: allocator.build(tools, source, self.archives))


def _once(tools: Toolchain, part: Part, build: Callable[[], object]) -> None:
    """Build a part unless it is there, and say how long that took."""
    began = time.monotonic()
    if not keeping.has(tools, part, build):
        _say(f"{tools.target.name}: {part.name} built in {time.monotonic() - began:.0f} s")


def build(
    shop: Workshop, targets: Sequence[Target], output: Path, key: Path | None, *, packages: bool = True
) -> None:
    """Build the programs of a release and all that goes with them, alone in the cache."""
    if key is not None:
        signing.check(key)
    with keeping.alone(shop.cache, _say):
        _build(shop, targets, output, key, packages=packages)


def _build(
    shop: Workshop, targets: Sequence[Target], output: Path, key: Path | None, *, packages: bool
) -> None:
    output.mkdir(parents=True, exist_ok=True)
    begun = revision.of_tree()
    before = sums.earlier(output, begun)  # before any of it is made anew
    if not sums.is_of(output, begun) and output.joinpath(sums.NAME).is_file():
        _say(f"{output}: what is there is of other sources, and is not listed any more; it stays")
    site, packed = shop.cache / "site", shop.cache / "packed"
    builder = shop.interpreter(native()) / "python"
    program.install_site(site, begun)
    shop.extensions(native())
    shop.allocator(native())
    found = program.prepare(shop.tools(native()), builder, site, packed)
    program.pack(shop.tools(native()), builder, site, packed, found)
    # None is released unless all are fit to be: what dist/ has belongs together.
    made = {target: _build_program(shop, target, packed) for target in targets}
    revision.check(made.values(), begun, revision.of_tree())
    parts = _parts(shop, site)
    programs: list[Path] = []
    packed_programs: list[Path] = []
    for target, fit in made.items():
        file = output / fit.name
        shutil.copy(fit, file)
        programs.append(file)
        if packages:
            packed_programs += _build_packages(
                shop, target, licences.collect(shop.tools(target), site, parts), file
            )
    files = [*programs, *packed_programs]
    others = [
        output / name for name in before if sbom.lists(name, __version__) and output / name not in files
    ]
    files.append(_write_sbom(shop, [*files, *others], parts, output))
    listed = sums.write(output, files, before, begun)
    if key is not None:
        signing.sign([*files, listed], key, __version__, shop.epoch)
    sys.stdout.write(listed.read_text(encoding="utf-8"))


def _build_program(shop: Workshop, target: Target, packed: Path) -> Path:
    """Build the program of a target, and return it if it may be released."""
    shop.interpreter(target)
    shop.extensions(target)
    shop.allocator(target)
    began = time.monotonic()
    file = shop.tools(target).folder / f"nodemanager-{__version__}-{target.name}"
    program.build(shop.tools(target), packed, file)
    elf.check(file, target)
    _say_made(file, began)
    return file


def _build_packages(shop: Workshop, target: Target, texts: dict[str, bytes], file: Path) -> list[Path]:
    """Build the packages of a program, beside it, with the licences of what is in it."""
    made_of = Program(file, target.name, __version__, shop.epoch, texts)
    made = []
    for each in formats.of(target.name):
        began = time.monotonic()
        made.append(each(made_of, file.parent))
        _say_made(made[-1], began)
    return made


def _say_made(file: Path, began: float) -> None:
    _say(f"{file}: {file.stat().st_size / MIB:.1f} MiB, made in {time.monotonic() - began:.0f} s")


def _parts(shop: Workshop, site: Path) -> list[Component]:
    """Return what of the programs others wrote."""
    return [
        *sbom.of_sources(sources.all_pinned().values()),
        *sbom.of_interpreter(shop.tools(native()).folder / "python"),
        *sbom.of_compiler(toolchain.zig_version()),
        *sbom.of_site(site),
    ]


def _write_sbom(shop: Workshop, files: Sequence[Path], parts: Sequence[Component], output: Path) -> Path:
    path = output / f"nodemanager-{__version__}{sbom.SUFFIX}"
    digests = {file.name: sources.digest(file) for file in files}
    path.write_text(sbom.document(__version__, shop.epoch, parts, digests), encoding="utf-8")
    return path


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def default_cache() -> Path:
    """Return where sources and compiled parts are kept: not in the sources, where a clean would take them."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nodemanager-release"


def main(argv: Sequence[str] | None = None) -> int:
    """Build."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.release", description="Build static programs for hosts."
    )
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help=f"of {', '.join(TARGETS)}; all of them unless named",
    )
    parser.add_argument("--output", type=Path, default=Path("dist"), help="the folder to write to")
    parser.add_argument(
        "--cache", type=Path, default=default_cache(), help="where sources and compiled parts are kept"
    )
    parser.add_argument("--jobs", type=int, default=toolchain.JOBS, help="how many compilers at once")
    parser.add_argument("--sign", type=Path, metavar="KEY", help="a secret key of minisign")
    parser.add_argument(
        "--no-packages",
        dest="packages",
        action="store_false",
        help="build programs only, no deb, rpm, apk, pkg, tar",
    )
    options = parser.parse_args(argv)
    unknown = [name for name in options.targets if name not in TARGETS]
    if unknown:
        parser.error(f"there is no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    targets = [TARGETS[name] for name in options.targets or TARGETS]
    shop = Workshop(options.cache.absolute(), making.source_date_epoch(), options.jobs)
    try:
        for tool, package in {**TOOLS, **(PACKAGE_TOOLS if options.packages else {})}.items():
            if shutil.which(tool) is None:
                other = ", or use --no-packages" if tool in PACKAGE_TOOLS else ""
                raise CannotBuild(f"cannot build: there is no {tool}; install {package}{other}")
        build(shop, targets, options.output, options.sign, packages=options.packages)
    except (CannotBuild, LookupError, CannotPack) as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
