"""One program in one file, in all the forms that it could have; made of what bin/manager unpacks to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools import binary

from bench import processes

MANAGER = processes.ROOT / "bin" / "manager"
BUILD_SECONDS = 1800.0
_START = """\
import sys
sys.path[:0] = [{site!r}, {compiled!r}]
from nodemanager.cli.main import main
main()
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A form: how it is run, and what it puts on a disk."""

    name: str
    argv: list[str]
    file: Path | None = None
    """The one file; None for what is compared with it."""
    caches: tuple[Path, ...] = ()
    """What it leaves behind at its first start, which is taken away to measure another first start."""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where candidates are made, and of what."""

    folder: Path
    site: Path
    python: str

    def environment(self) -> dict[str, str]:
        """Return an environment in which launchers find the Python that is measured, and no old cache."""
        kept = {
            k: v for k, v in processes.environment().items() if not k.startswith(("PYTHON", "NODEMANAGER"))
        }
        path = f"{Path(self.python).parent}{os.pathsep}{kept.get('PATH', '')}"
        return {
            **kept,
            "PATH": path,
            "HOME": str(self.folder),
            "NODEMANAGER_CACHE": str(self.folder / "ours"),
        }


def system_python() -> str:
    """Return the Python that hosts have; ours where there is none of its version."""
    name = "python{}.{}".format(*sys.version_info)
    return shutil.which(name, path="/usr/bin:/usr/local/bin") or sys.executable


def unpacked(folder: Path) -> Path:
    """Return what bin/manager is made of."""
    cache = folder / "unpacked"
    env = {**processes.environment(), "NODEMANAGER_CACHE": str(cache)}
    processes.run([str(MANAGER), "version"], env)
    site = next(cache.iterdir())
    (site / "__main__.py").unlink()  # each form has a start of its own
    return site


def module(bench: Bench) -> Candidate:
    """Return the program as folders: what a virtual environment has."""
    env = {"PYTHONPATH": str(bench.site)}
    return Candidate("python -m nodemanager", [bench.python, "-m", "nodemanager"], environment=env)


def ours(bench: Bench) -> Candidate:
    """Return bin/manager."""
    return Candidate("bin/manager: unpacked once", [str(MANAGER)], MANAGER, (bench.folder / "ours",))


def _zipped(name: str, compression: int, bench: Bench) -> Candidate:
    """Return a zip that is imported from, but for packages with machine code, which no zip can hold."""
    compiled = bench.folder / "compiled"
    with_code = {path.relative_to(bench.site).parts[0] for path in bench.site.rglob("*.so")} | {"_yaml"}
    for package in with_code:
        shutil.copytree(bench.site / package, compiled / package, dirs_exist_ok=True)
    target = bench.folder / f"{name.replace(' ', '-')}.pyz"
    start = _START.format(site=str(target), compiled=str(compiled))
    files = {"__main__.py": start.encode()}
    for path in sorted(bench.site.rglob("*")):
        inside = path.relative_to(bench.site)
        if inside.parts[0] in with_code or inside.name == "__pycache__":
            continue
        if path.is_dir():  # without these, a package that has no __init__.py is not found
            files[f"{inside.as_posix()}/"] = b""
        else:
            files[_name_in_zip(inside)] = path.read_bytes()
    target.write_bytes(b"#!" + bench.python.encode() + b" -IS\n" + binary.zip_of(files, compression))
    target.chmod(0o755)
    return Candidate(name, [bench.python, "-IS", str(target)], target)


def _name_in_zip(path: Path) -> str:
    """Return where Python looks for a file in a zip: compiled modules are beside their sources there."""
    if path.parent.name == "__pycache__":
        return (path.parent.parent / f"{path.name.partition('.')[0]}.pyc").as_posix()
    return path.as_posix()


def zip_deflated(bench: Bench) -> Candidate:
    """Return a compressed zip, compiled."""
    return _zipped("zip, imported in place", zipfile.ZIP_DEFLATED, bench)


def zip_stored(bench: Bench) -> Candidate:
    """Return a zip that is not compressed, compiled."""
    return _zipped("zip, stored, imported in place", zipfile.ZIP_STORED, bench)


def shiv(bench: Bench) -> Candidate:
    """Return what shiv makes: it unpacks itself, too, but starts with Python from the zip every time."""
    target = bench.folder / "shiv.pyz"
    _build(
        ["shiv", "--compressed", "--reproducible", "--compile-pyc", "--site-packages", str(bench.site)],
        ["--entry-point", "nodemanager.cli.main:main", "--output-file", str(target)],
    )
    return Candidate("shiv", [bench.python, "-IS", str(target)], target, (bench.folder / ".shiv",))


def pex(bench: Bench) -> Candidate:
    """Return what pex makes of the same files."""
    target = bench.folder / "nodemanager.pex"
    _build(
        ["pex", "--sources-directory", str(bench.site), "--python", bench.python, "--compile"],
        ["--entry-point", "nodemanager.cli.main:main", "--output-file", str(target), "--venv"],
    )
    return Candidate(
        "pex", [bench.python, str(target)], target, (bench.folder / ".pex", bench.folder / ".cache")
    )


def pyinstaller(bench: Bench) -> Candidate:
    """Return what PyInstaller makes: the interpreter is in it, and it unpacks itself at every start."""
    start = bench.folder / "start.py"
    start.write_text("from nodemanager.cli.main import main\nmain()\n")
    names = ["nodemanager", "gotpl", "jinja2", "jeepney", "tzdata", "click", "msgspec", "yaml", "cronsim"]
    collect = [word for name in names for word in ("--collect-all", name)]
    _build(
        ["pyinstaller", "--onefile", "--name", "installed", "--paths", str(bench.site), *collect],
        ["--distpath", str(bench.folder), "--workpath", str(bench.folder / "work")],
        ["--specpath", str(bench.folder), "--log-level", "ERROR", str(start)],
    )
    target = bench.folder / "installed"
    return Candidate("PyInstaller", [str(target)], target)


def _build(*argv: list[str]) -> None:
    words = [word for part in argv for word in part]
    done = subprocess.run(words, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    if done.returncode != 0:
        raise processes.ChildFailed(f"cannot build with {words[0]}: {done.stderr.strip()[-2000:]}")


FORMS: Sequence[tuple[Callable[[Bench], Candidate], str]] = (
    (module, ""), (ours, ""), (zip_deflated, ""), (zip_stored, ""),
    (shiv, "shiv"), (pex, "pex"), (pyinstaller, "pyinstaller"),
)  # fmt: skip
"""How each is made, and the program that is needed for it."""
