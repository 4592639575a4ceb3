"""The program itself: modules are packed, extensions in C compiled, and all is linked."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from tools.release import allocator, interpreter, linking, revision, sources, symbols
from tools.release.revision import Revision
from tools.release.sources import CannotBuild
from tools.release.toolchain import Toolchain

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
LOCK: Final = ROOT / "requirements/runtime.txt"


class Extension(NamedTuple):
    """A module in C, built in: its name, the function that makes it, and its source below a folder."""

    module: str
    function: str
    source: str
    package: str = ""
    """The Python package whose sources have it; ours if empty."""


EXTENSIONS: Final = (
    Extension("_nodemanager", "PyInit__nodemanager", "src/nodemanager/native/_nodemanager.c"),
    Extension("_sealing", "PyInit__sealing", "src/nodemanager/native/_sealing.c"),
    Extension("markupsafe._speedups", "PyInit__speedups", "src/markupsafe/_speedups.c", "markupsafe"),
    Extension("msgspec._core", "PyInit__core", "src/msgspec/_core.c", "msgspec"),
    Extension("yaml._yaml", "PyInit__yaml", "yaml/_yaml.pyx", "pyyaml"),
)


def install_site(site: Path, made_of: Revision) -> None:
    """Install nodemanager and what it needs into a folder; the modules in it are for every target."""
    shutil.rmtree(site, ignore_errors=True)
    shutil.rmtree(
        ROOT / "build" / "lib", ignore_errors=True
    )  # setuptools takes what is there from before, too
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--target",
        str(site),
    ]
    for more in (["--require-hashes", "-r", str(LOCK)], ["--no-build-isolation", str(ROOT)]):
        done = subprocess.run([*pip, *more], capture_output=True, text=True, check=False)  # noqa: S603 - an argv
        if done.returncode != 0:
            raise CannotBuild(f"cannot install what is packed: {done.stderr.strip()}")
    check_modules(site / "nodemanager", ROOT / "src" / "nodemanager")
    (site / "nodemanager" / revision.NAME).write_bytes(made_of.packed())


def check_modules(installed: Path, source: Path) -> None:
    """Raise unless the same modules are in both: others would be in the program, and in its digest."""
    here, there = (
        {one.relative_to(each).as_posix() for one in each.rglob("*.py")} for each in (installed, source)
    )
    if here != there:
        odd = min(here ^ there)
        where = "installed, and not in src" if odd in here else "in src, and was not installed"
        raise CannotBuild(
            f"cannot install what is packed: nodemanager/{odd} is {where}; remove build/, and try again"
        )


def prepare(tools: Toolchain, builder: Path, site: Path, packed: Path) -> Path:
    """Build a program that finds out what it compiles at its start; return the file with what it found."""
    pack(tools, builder, site, packed)
    recorder, found = packed / "recorder", packed / "prepared"
    build(tools, packed, recorder)
    done = subprocess.run([recorder], env={}, capture_output=True, timeout=600, check=False)  # noqa: S603 - ours
    if done.returncode != 0:
        raise CannotBuild(f"cannot find out what is compiled at a start: {done.stderr.decode().strip()}")
    found.write_bytes(done.stdout)
    return found


def pack(tools: Toolchain, builder: Path, site: Path, target: Path, prepared: Path | None = None) -> None:
    """Have the Python that was built pack the modules: bytecode is its own affair."""
    target.mkdir(parents=True, exist_ok=True)
    library = builder.parent / "Lib"
    tools.run(
        [
            str(builder),
            "-I",
            "-X",
            "no_debug_ranges",
            str(HERE / "packing.py"),
            str(site),
            str(library),
            str(target),
            *([str(prepared)] if prepared is not None else []),
        ],
        target,
    )


def build(tools: Toolchain, packed: Path, output: Path) -> None:
    """Compile and link the program, of which all else is there."""
    folder = _fresh(tools.folder / "program")
    python, prefix = tools.folder / "python", tools.folder / "prefix"
    for file in (packed / "packed.h", packed / "packed.bin", HERE / "program.c"):
        shutil.copy(file, folder)
    with folder.joinpath("packed.h").open("a", encoding="utf-8") as header:
        calls = " ".join(f'EXTENSION("{each.module}", {each.function})' for each in EXTENSIONS)
        header.write(f"#define EXTENSIONS {calls}\n")
    tools.run(["cc", "-std=c23", "-O2", *_include(tools), "-c", "program.c"], folder)
    objects = [f"../extensions/{each.module}.o" for each in EXTENSIONS]
    objects += allocator.objects(tools) if tools.target.is_static else []
    interpreted = [str(python / name) for name in (interpreter.LIBRARY, *interpreter.PARTS)]
    libraries = [str(prefix / "lib" / name) for name in ("libssl.a", "libcrypto.a", "libyaml.a", "libz.a")]
    kind = ["-static"] if tools.target.is_static else []
    link = ["cc", *kind, "-O2", "-s", "-Wl,--gc-sections", "program.o", *objects, *interpreted, *libraries]
    system = ["-lm", "-lpthread", *([] if tools.target.is_static else ["-lutil"])]
    libraries_of_system = linking.link(tools, [*link, *system], folder, "nodemanager")
    if not tools.target.is_static:
        symbols.check(folder / "nodemanager", libraries_of_system)
    output.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / "nodemanager", output)


def build_extensions(tools: Toolchain, archives: Path) -> None:
    """Compile the modules in C that are not Python's."""
    folder = _fresh(tools.folder / "extensions")
    for extension in EXTENSIONS:
        _extension(tools, extension, folder, archives)


def _extension(tools: Toolchain, extension: Extension, folder: Path, archives: Path) -> None:
    """Compile one, in the folder of its sources so that no path of this machine is in it."""
    place = folder / (extension.package or "own")
    source = extension.source
    if extension.package:
        _, hashes = sources.locked_packages(LOCK.read_text(encoding="utf-8"))[extension.package]
        sources.unpack(sources.fetch_package(extension.package, hashes, archives), place)
    else:
        place.joinpath(source).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, place / source)
    if source.endswith(".pyx"):
        made = source.replace(".pyx", ".c")
        tools.run([sys.executable, "-m", "cython", "-I", ".", source, "-o", made], place)
        source = made
    argv = ["cc", "-O2", "-fno-strict-aliasing", "-DNDEBUG", *_include(tools), "-c", source]
    tools.run([*argv, "-o", str(folder / f"{extension.module}.o")], place)


def _include(tools: Toolchain) -> list[str]:
    python = tools.folder / "python"
    return [f"-I{path}" for path in (python / "Include", python, tools.folder / "prefix/include")]


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
