"""What is compiled is kept: in a folder for one build at a time, until what decides it changes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from tools.release import allocator, interpreter, libraries, program, sources, toolchain
from tools.release.sources import CannotBuild
from tools.release.toolchain import Toolchain

LOCK: Final = "lock"
COMPILED: Final = ("libyaml", "openssl", "openssl-patches", "python", "zlib")
"""Sources of all parts but the allocator, which has its own."""
COMPILER: Final = ("ziglang",)


@dataclass(frozen=True, slots=True)
class Part:
    """Something that is compiled for a target."""

    name: str
    recipe: tuple[Path, ...]
    """The files that say how: of this part, and of those that it is compiled with."""
    used: tuple[str, ...] = COMPILED
    """The sources that it is made of."""
    tools: tuple[str, ...] = COMPILER
    """The Python packages that make it."""


def prefix() -> Part:
    """Return the libraries in C."""
    return Part("prefix", (Path(libraries.__file__),))


def python() -> Part:
    """Return the interpreter, which takes headers of the libraries."""
    return Part("python", (Path(interpreter.__file__), *prefix().recipe))


def extensions() -> Part:
    """Return the modules in C that are not Python's, which take headers of all before."""
    own = (program.ROOT / each.source for each in program.EXTENSIONS if not each.package)
    recipe = (Path(program.__file__), program.LOCK, *own, *python().recipe)
    return Part("extensions", recipe, tools=(*COMPILER, "cython"))


def allocator_part() -> Part:
    """Return the allocator of a static target."""
    return Part("allocator", tuple(allocator.inputs()), ("musl",))


def key(tools: Toolchain, part: Part) -> str:
    """Return what is another one when the part would be."""
    inputs = [path.read_bytes() for path in (*part.recipe, Path(toolchain.__file__))]
    pinned = {each: source for each, source in sources.all_pinned().items() if each in part.used}
    inputs += [sources.versions(pinned).encode(), repr(tools.target).encode()]
    inputs += [f"{each} {_version(each)}".encode() for each in part.tools]
    return hashlib.sha256(b"\0".join(inputs)).hexdigest()


def has(tools: Toolchain, part: Part, build: Callable[[], object]) -> bool:
    """Tell whether a part is there that was built from the same sources in the same way; if not, build it."""
    wanted = key(tools, part)
    mark = tools.folder / f"{part.name}.built"
    if mark.is_file() and mark.read_text(encoding="utf-8") == wanted:
        return True
    mark.unlink(missing_ok=True)
    build()
    mark.write_text(wanted, encoding="utf-8")
    return False


@contextlib.contextmanager
def alone(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Keep other builds out of a folder: two at once would mix what they make of different sources."""
    folder.mkdir(parents=True, exist_ok=True)
    with folder.joinpath(LOCK).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{folder}: another build is using it, and is waited for")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError as error:
        raise CannotBuild(
            f"cannot build: there is no {package}; run make .venv/.release, which installs it"
        ) from error
