"""Build bin/manager: one file that unpacks itself once, and is a plain Python program from then on.

    python -m tools.binary SITE FILE

SITE is a folder with nodemanager and all that it needs, as pip --target makes it. The same SITE gives the
same bytes. Why it is none of the other things that it could be: docs/benchmarks.md, `python -m bench binary`.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import lzma
import py_compile
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
LEFT_OUT: Final = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
"""Files of dist-info that say how it was installed here."""
SITE: Final = "site.tar.xz"
"""What the program itself is called in the archive."""
EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_DIGEST_LENGTH: Final = 24


def build(site: Path, output: Path) -> None:
    """Write the file."""
    pack(contents(site), output)


def pack(files: Mapping[str, bytes], output: Path, preset: int = lzma.PRESET_DEFAULT) -> None:
    """Write the file of what is to be in it; 0 is quick, and a third larger."""
    start = (HERE / "unpacker.py").read_bytes()
    site = tar_of({**files, "__main__.py": start})
    packed = zip_of({"__main__.py": start, SITE: lzma.compress(site, preset=preset)}, zipfile.ZIP_STORED)
    digest = hashlib.sha256(packed).hexdigest()[:_DIGEST_LENGTH]
    version = "{}.{}".format(*sys.version_info)
    launcher = (HERE / "launcher.sh").read_text(encoding="utf-8")
    for name, value in (("@PYTHON@", version), ("@DIGEST@", digest)):
        launcher = launcher.replace(name, value)
    output.parent.mkdir(parents=True, exist_ok=True)
    new = output.with_name(f"{output.name}.new")
    new.write_bytes(launcher.encode() + packed)
    new.chmod(0o755)
    new.rename(output)


def contents(site: Path) -> dict[str, bytes]:
    """Return the files of the program by name: what is in the folder, and the modules compiled as well."""
    files = {}
    for path in sorted(site.rglob("*")):
        name = path.relative_to(site).as_posix()
        if path.is_dir() or _is_unwanted(path, name):
            continue
        files[name] = path.read_bytes()
        if path.suffix == ".py":
            compiled = compile_file(path, name)
            if compiled is not None:
                files[compiled[0]] = compiled[1]
    return files


def _is_unwanted(path: Path, name: str) -> bool:
    if "__pycache__" in path.parts or name.startswith("bin/"):
        return True
    return path.parent.suffix == ".dist-info" and path.name in LEFT_OUT


def compile_file(path: Path, name: str) -> tuple[str, bytes] | None:
    """Return the compiled form of a module: what it is called, and what is in it; None if it is no module."""
    target = path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.pyc"
    try:
        py_compile.compile(
            str(path), str(target), dfile=name, doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )  # fmt: skip
    except py_compile.PyCompileError:  # as templates of modules are
        return None
    return f"{Path(name).parent.as_posix()}/__pycache__/{target.name}".removeprefix("./"), target.read_bytes()


def tar_of(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files, like beside like, so that it can be compressed well."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files, key=lambda name: (name.rpartition(".")[2], name)):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            archive.addfile(entry, io.BytesIO(files[name]))
    return written.getvalue()


def zip_of(files: Mapping[str, bytes], compression: int) -> bytes:
    """Return an archive that Python can run."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", compression, compresslevel=9) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = compression
            archive.writestr(entry, data)
    return written.getvalue()


def main(argv: Sequence[str] | None = None) -> int:
    """Build."""
    parser = argparse.ArgumentParser(prog="python -m tools.binary", description="Build bin/manager.")
    parser.add_argument("site", type=Path, help="a folder with nodemanager and all that it needs")
    parser.add_argument("output", type=Path, help="the file to write")
    options = parser.parse_args(argv)
    build(options.site, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
