"""What the static program runs first: from here on, modules and data files are those that are packed into it.

It is compiled into the program as the module `boot`; `_packed` is a part of program.c.
"""

import gc
import sys
from _frozen_importlib import ModuleSpec
from _thread import RLock
from marshal import loads

import _packed  # type: ignore[import-not-found]
import prepared  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, ModuleType
    from typing import IO

START_THRESHOLD = 250_000
"""Objects more than there were before somebody looks for cycles."""
LATE = frozenset((
    "ast", "difflib", "dis", "inspect", "ipaddress", "locale", "msgspec.inspect", "stringprep", "tokenize",
    "traceback",
))  # fmt: skip
"""Modules that others import and hardly ever use: run when somebody asks for something in them."""
BUILD = "nodemanager/BUILD"
"""As packing.py calls it."""
REVISION = "nodemanager/REVISION"
"""As revision.py calls it."""
RENDER = "-render"
"""How nodemanager.rendering.process asks for it."""


class Entry:
    """A file or folder in the program, as importlib.resources hands it out."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self._path.rpartition("/")[2]

    def joinpath(self, *parts: str) -> "Entry":
        """Return what is there below it."""
        return Entry("/".join((self._path, *parts)))

    __truediv__ = joinpath

    def is_file(self) -> bool:
        """Tell whether it is there, as a file."""
        return _packed.find(self._path) is not None

    def is_dir(self) -> bool:
        """Tell whether there are files below it."""
        return bool(_packed.below(f"{self._path}/"))

    def iterdir(self) -> "Iterator[Entry]":
        """Return what is in it; files only, as nobody walks deeper."""
        start = len(self._path) + 1
        below = (path[start:] for path in _packed.below(f"{self._path}/"))
        return (Entry(f"{self._path}/{name}") for name in below if "/" not in name)

    def read_bytes(self) -> bytes:
        """Return what is in it."""
        return bytes(_packed.read(self._path))

    def read_text(self, encoding: str | None = "utf-8", errors: str = "strict") -> str:
        """Return what is in it, as text."""
        return self.read_bytes().decode(encoding or "utf-8", errors)

    def open(
        self, mode: str = "r", encoding: str | None = "utf-8", errors: str = "strict"
    ) -> "IO[str] | IO[bytes]":
        """Return it as a file that can be read."""
        import io

        return io.BytesIO(self.read_bytes()) if "b" in mode else io.StringIO(self.read_text(encoding, errors))


class LateModule(type(sys)):  # type: ignore[misc]
    """A module that is run when it is first asked for something that it does not have yet."""

    lock = RLock()
    running = False

    def __getattr__(self, name: str) -> object:
        # What the import system itself asks for is no reason to run it.
        if name[:2] == "__" and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with LateModule.lock:  # not the lock of an import: whoever asks is in none
            if type(self) is LateModule and not self.running:
                self.running = True  # what it imports may ask for what it does not have yet
                try:
                    Importer.run(self)
                    self.__class__ = type(sys)  # type: ignore[assignment]
                finally:
                    del self.running
        return getattr(self, name) if type(self) is not LateModule else object.__getattribute__(self, name)


class Importer:
    """Finds modules in the program: finder, loader and reader of data files in one."""

    hook = staticmethod(prepared.hook)
    """Told of modules that compile something, once they were run."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Return how to load a module, or None if it is not here."""
        is_package = _packed.find(name)
        if is_package is None:
            return None
        return ModuleSpec(name, Importer, origin="packed", is_package=is_package)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> "ModuleType | None":
        """Let Python make it, unless it is to be run later."""
        return LateModule(spec.name) if spec.name in LATE else None

    @staticmethod
    def exec_module(module: "ModuleType") -> None:
        """Run it, or let it be."""
        if type(module) is not LateModule:
            Importer.run(module)

    @staticmethod
    def run(module: "ModuleType") -> None:
        """Run it."""
        name = module.__name__
        exec(loads(_packed.read(name)), module.__dict__)  # noqa: S102, S302 - they are part of the program
        if name in prepared.HOOKED:
            Importer.hook(name, module.__dict__)

    @staticmethod
    def get_code(name: str) -> "CodeType":
        """Return the code of a module."""
        code: CodeType = loads(_packed.read(name))  # noqa: S302
        return code

    @staticmethod
    def get_source(_name: str) -> None:
        """Return None: the source is not here."""

    @staticmethod
    def is_package(name: str) -> bool:
        """Tell whether a module has others below it."""
        return bool(_packed.find(name))

    @staticmethod
    def get_resource_reader(name: str) -> "Reader":
        """Return where the data files of a package are."""
        return Reader(name)


class Reader:
    """The data files of one package."""

    def __init__(self, package: str) -> None:
        self._folder = package.replace(".", "/")

    def files(self) -> Entry:
        """Return the folder of the package."""
        return Entry(self._folder)


def main() -> None:
    """Run nodemanager, or the part of it that renders templates."""
    # What is built in comes after: for most names it would be searched in vain. No file is ever looked at.
    sys.meta_path[:] = [
        Importer,
        *(each for each in sys.meta_path if getattr(each, "__name__", "") != "PathFinder"),
    ]
    sys.frozen = True  # type: ignore[attr-defined]
    sys.build = bytes(_packed.read(BUILD)).decode()  # type: ignore[attr-defined]
    sys.revision = bytes(_packed.read(REVISION)).decode()  # type: ignore[attr-defined]
    # Modules make many objects that stay, and hardly a cycle: who runs for long sets a limit of their own.
    gc.set_threshold(START_THRESHOLD)
    if _packed.find("recording") is not None:  # the first of two builds, which nobody gets
        import recording  # type: ignore[import-not-found]

        recorder = recording.Recorder()
        Importer.hook = recorder.hook
        recording.main(recorder)
        return
    if sys.argv[1:2] == [RENDER]:
        del sys.argv[1]
        from nodemanager.rendering.child import main as render

        render()
        return
    from nodemanager.cli.main import main as run
    from nodemanager.runtime import ending

    ending.leave(run)


main()
