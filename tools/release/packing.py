"""Pack the modules of the program, and its data files, into what program.c takes in.

    python packing.py SITE LIB TARGET_FOLDER [PREPARED]    (by the Python that was built, and nothing else)

Modules are those that nodemanager can reach by import statements. All but those of commands and kinds are
without docstrings, which nobody reads here and every host would keep in memory. The same sources give the
same bytes. PREPARED is what the first of two builds wrote (recording.py); without it, this is the first.
"""

import _imp
import ast
import hashlib
import marshal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

FIRST = ("encodings", "encodings.aliases", "encodings.utf_8", "prepared", "boot")
"""What Python needs before boot.py can find the rest."""
BY_NAME = (
    "encodings.ascii", "encodings.latin_1", "encodings.utf_8_sig", "encodings.utf_16",
    "encodings.utf_16_le", "encodings.utf_16_be", "encodings.utf_32", "encodings.unicode_escape",
    "encodings.raw_unicode_escape", "encodings.idna", "encodings.punycode", "encodings.cp437",
    "encodings.cp1252", "encodings.iso8859_1", "encodings.iso8859_15", "encodings.hex_codec",
    "encodings.base64_codec", "_strptime", "gotpl.runtime.gofmt",
)  # fmt: skip
"""Modules that are imported by a name that no import statement has."""
WHOLE = ("jinja2", "nodemanager", "tzdata")
"""Packages that import parts of themselves by name, or are asked for them by data."""
LEFT_OUT = (
    "_pydatetime", "_pydecimal", "_pyrepl", "aiohttp", "argparse", "asyncio.windows_events",
    "asyncio.windows_utils", "bz2", "click._winconsole", "concurrent.futures.process", "cryptography",
    "ctypes", "curses", "dateutil.zoneinfo.rebuild", "doctest", "email._header_value_parser",
    "email.contentmanager", "email.headerregistry", "email.policy", "ensurepip", "ftplib",
    "http.cookiejar", "icalendar.tests", "idlelib", "importlib._bootstrap",
    "importlib._bootstrap_external", "importlib.metadata", "jeepney.bindgen", "jwt", "lzma", "msvcrt",
    "multiprocessing", "nodemanager.native.by_ctypes", "nodemanager.native.openssl", "nodemanager.server",
    "nodemanager.store", "numpy", "pdb", "plistlib", "pydoc", "pytest", "pytz", "recurring_ical_events.test",
    "smtplib", "sqlite3", "statistics", "tkinter", "turtle", "typing_extensions", "tzlocal.win32",
    "unittest", "venv", "webbrowser", "winreg", "xml", "zipfile",
)  # fmt: skip
"""What others can reach, and the agent has no use for; whoever needs one of them says so."""
REPLACED = {
    "boot": "boot.py", "prepared": "prepared.py", "gotpl.pythonic.compression": "no_compression.py",
    "sysconfig": "sysconfig.py",
}  # fmt: skip
"""Modules that are in files beside this one."""
RECORDING = "recording"
UNREAD = (".py", ".pyc", ".c", ".pyi", ".zi", ".tab")
"""Files that are modules, or that nobody reads."""
DATA = ("nodemanager", "tzdata")
"""Packages whose other files are read, too."""
DOCUMENTED = (
    "nodemanager.api.", "nodemanager.cli.commands.", "nodemanager.cli.main", "nodemanager.kube.conditions",
    "nodemanager.kube.core", "nodemanager.kube.objects", "nodemanager.kube.selectors",
)  # fmt: skip
"""Modules whose docstrings are read: they are the help of commands, and descriptions in CRDs."""
BUILD = "nodemanager/BUILD"
"""Under which boot.py finds what tells this build from every other."""


class Module(NamedTuple):
    """Where a module is."""

    path: Path
    name: str
    is_package: bool

    def tree(self) -> ast.Module:
        """Return its code as it was written."""
        return ast.parse(b"" if self.path.is_dir() else self.path.read_bytes())


class Entry(NamedTuple):
    """What is packed under a name."""

    name: str
    content: bytes
    is_package: bool = False


def module_name(path: Path) -> str:
    """Return what a file is called when it is imported."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def locate(name: str, places: Sequence[Path]) -> Module | None:
    """Return a module, or None if it is in none of the places."""
    parts = name.split(".")
    for place in places:
        package = place.joinpath(*parts, "__init__.py")
        if package.is_file():
            return Module(package, name, is_package=True)
        plain = place.joinpath(*parts).with_suffix(".py")
        if plain.is_file():
            return Module(plain, name, is_package=False)
    for place in places:
        folder = place.joinpath(*parts)
        if any(folder.glob("*/*.py")) or any(folder.glob("*.py")):  # a package that has no code of its own
            return Module(folder, name, is_package=True)
    return None


def reachable(roots: Sequence[str], places: Sequence[Path]) -> dict[str, Module]:
    """Return the modules that these can reach, and themselves."""
    found: dict[str, Module] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found or is_left_out(name):
            continue
        module = locate(name, places)
        if module is None:
            continue
        found[name] = module
        waiting += [".".join(name.split(".")[:count]) for count in range(1, name.count(".") + 1)]
        waiting += imported(module.tree(), module)
    return found


def is_left_out(name: str) -> bool:
    """Tell whether nobody needs it."""
    return any(name == left or name.startswith(f"{left}.") for left in LEFT_OUT)


def imported(tree: ast.AST, module: Module) -> Iterator[str]:
    """Return the names that import statements have; of `from a import b`, b may be a module or not."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and any(name_in(each) == "TYPE_CHECKING" for each in ast.walk(node.test)):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.name.split(".")
                above = above[: len(above) - node.level + module.is_package]
                base = ".".join([*above, base]) if base else ".".join(above)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        inner = (ast.stmt, ast.ExceptHandler, ast.match_case)  # an expression has no statements in it
        waiting += [each for each in ast.iter_child_nodes(node) if isinstance(each, inner)]


def name_in(node: ast.AST) -> str:
    """Return the name that an expression ends with."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def compiled(module: Module) -> bytes:
    """Return the code of a module as bytes that depend on nothing but its source."""
    tree = module.tree()
    if not module.name.startswith(DOCUMENTED):
        strip(tree)
    name = module.name.replace(".", "/") + ("/__init__.py" if module.is_package else ".py")
    code = marshal.dumps(compile(tree, name, "exec", dont_inherit=True))
    return marshal.dumps(marshal.loads(code))  # noqa: S302 - how often objects are shared differs the first time


def strip(tree: ast.AST) -> None:
    """Remove the docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                if isinstance(node, ast.ClassDef) and is_dataclass(node):
                    first.value.value = "-"  # without any, dataclasses would spend time to write one
                elif len(node.body) > 1 or isinstance(node, ast.Module):
                    del node.body[0]
                else:
                    node.body[0] = ast.copy_location(ast.Pass(), first)


def is_dataclass(node: ast.ClassDef) -> bool:
    """Tell whether a class is decorated as one."""
    calls = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    return any(name_in(each) == "dataclass" for each in calls)


def entries(
    site: Path, library: Path, own: Path, prepared: Sequence[tuple[str, bytes]] | None = None
) -> list[Entry]:
    """Return all that is packed, in the order of program.c; without what is prepared, what finds it out."""
    whole = [module_name(path.relative_to(site)) for name in WHOLE for path in site.glob(f"{name}/**/*.py")]
    places = [site, library]
    modules = reachable([*whole, *BY_NAME, *FIRST], places)
    for name, file in REPLACED.items():
        modules[name] = Module(own / file, name, is_package=False)
    if prepared is None:
        modules[RECORDING] = Module(own / f"{RECORDING}.py", RECORDING, is_package=False)
    frozen: list[str] = _imp._frozen_module_names()  # type: ignore[attr-defined]  # noqa: SLF001 - no other way
    built_in = {*sys.builtin_module_names, *frozen}
    found = [
        Entry(name, compiled(each), each.is_package)
        for name, each in modules.items()
        if name in FIRST or name not in built_in
    ]
    for package in DATA:
        found += [
            Entry(path.relative_to(site).as_posix(), path.read_bytes())
            for path in site.glob(f"{package}/**/*")
            if path.is_file()
            and path.suffix not in UNREAD
            and not is_left_out(".".join(path.relative_to(site).parent.parts))
        ]
    found += [Entry(name, content) for name, content in prepared or ()]
    found.sort(key=lambda entry: entry.name.encode())
    return sorted([*found, stamp(found)], key=lambda entry: entry.name.encode())


def stamp(packed: Sequence[Entry]) -> Entry:
    """Return what tells a program with these modules from every other; those in C have versions."""
    digest = hashlib.sha256(sys.version.encode())
    for entry in packed:
        digest.update(f"{entry.name}\0{len(entry.content)}\0".encode() + entry.content)
    return Entry(BUILD, digest.hexdigest().encode())


def write(packed: Sequence[Entry], target: Path) -> None:
    """Write the bytes, and the table that tells where they are."""
    names, table = [], []
    places: dict[bytes, int] = {}  # many time zones are the same under several names
    start = offset = 0
    for entry in packed:
        place = places.setdefault(entry.content, offset)
        names.append(f'    "{entry.name}\\0"')
        table.append(f"    {{{start}, {place}, {len(entry.content)}, {int(entry.is_package)}}},")
        start += len(entry.name.encode()) + 1
        offset += len(entry.content) if place == offset else 0
    first = ", ".join(f'"{name}"' for name in FIRST)
    lines = [
        "struct packed { unsigned name, offset, size; int is_package; };",
        "static const char packed_names[] =", *names, "    ;",
        "static const struct packed packed[] = {", *table, "};",
        f"static const size_t packed_count = {len(packed)};",
        f"#define FIRST {first}",
        f"#define FIRST_COUNT {len(FIRST)}",
        "",
    ]  # fmt: skip
    target.joinpath("packed.bin").write_bytes(b"".join(places))
    target.joinpath("packed.h").write_text("\n".join(lines), encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """Pack."""
    site, library, target, *more = map(Path, arguments)
    prepared = marshal.loads(more[0].read_bytes()) if more else None  # noqa: S302 - the first build wrote it
    write(entries(site, library, Path(__file__).parent, prepared), target)


if __name__ == "__main__":
    main(sys.argv[1:])
