"""The sources of what is not ours: pinned by digest, fetched once, kept in the cache."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
SECONDS: Final = 120.0
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FIELDS: Final = frozenset({"version", "path", "sha256", "licence", "purl"})


class CannotBuild(Exception):
    """The program cannot be built; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Source:
    """One archive of sources."""

    name: str
    version: str
    path: str
    sha256: str
    licence: str
    purl: str

    @property
    def file(self) -> str:
        """What it is called in the cache."""
        return self.path.rpartition("/")[2]


def pinned(text: str) -> dict[str, Source]:
    """Return the sources that a lock file names."""
    found = {}
    for name, fields in tomllib.loads(text).items():
        if not isinstance(fields, dict) or fields.keys() != _FIELDS:
            raise CannotBuild(
                f"cannot read sources.toml: {name} needs {', '.join(sorted(_FIELDS))}, and no more"
            )
        source = Source(name, **fields)
        if not _DIGEST.fullmatch(source.sha256):
            raise CannotBuild(
                f"cannot read sources.toml: sha256 of {name} is {source.sha256!r}; give 64 hexadecimal digits"
            )
        if "://" in source.path or source.path.startswith("/"):
            raise CannotBuild(
                f"cannot read sources.toml: path of {name} is {source.path!r}; begin it below an archive"
            )
        found[name] = source
    return found


def all_pinned() -> dict[str, Source]:
    """Return the sources of our lock file."""
    return pinned(HERE.joinpath("sources.toml").read_text(encoding="utf-8"))


def fetch(source: Source, cache: Path) -> Path:
    """Return the archive, from the cache or from one of apt's archives."""
    addresses = (f"{site}/{urllib.parse.quote(source.path)}" for site in apt_sites())
    return _fetch(source.file, {source.sha256}, addresses, cache)


def fetch_package(name: str, hashes: Iterable[str], cache: Path) -> Path:
    """Return the sources of a Python package, from the cache or from pip's index, by the lock's digests."""
    wanted = set(hashes)
    known = next((path for path in cache.glob(f"{name}-*.tar.gz") if digest(path) in wanted), None)
    if known is not None:
        return known
    page = _get(f"{pip_index()}/{name}/")
    for address, found in re.findall(r'href="([^"#]+\.tar\.gz)#sha256=([0-9a-f]{64})"', page.decode()):
        if found in wanted:
            whole = urllib.parse.urljoin(f"{pip_index()}/{name}/", address)
            return _fetch(whole.rpartition("/")[2], {found}, [whole], cache)
    raise CannotBuild(
        f"cannot fetch the sources of {name}: the index has none of the digests of requirements/runtime.txt"
    )


def locked_packages(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return version and digests by name, of a lock file of pip."""
    found = {}
    for block in re.split(r"\n(?=[a-z0-9])", text):
        match = re.match(r"([a-z0-9-]+)==([^ ;\\\n]+)", block)
        if match:
            found[match[1]] = (match[2], tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", block)))
    return found


def _fetch(name: str, wanted: set[str], addresses: Iterable[str], cache: Path) -> Path:
    target = cache / name
    if target.is_file() and digest(target) in wanted:
        return target
    cache.mkdir(parents=True, exist_ok=True)
    tried = []
    for address in addresses:
        try:
            content = _get(address)
        except (urllib.error.URLError, OSError) as error:
            tried.append(f"{address}: {error}")
            continue
        if hashlib.sha256(content).hexdigest() not in wanted:
            tried.append(f"{address}: another digest")
            continue
        new = target.with_name(f"{name}.new")
        new.write_bytes(content)
        return new.rename(target)
    raise CannotBuild(
        f"cannot fetch {name}: {'; '.join(tried) or 'apt knows no archive'}; put a file of that name"
        f" with sha256 {' or '.join(sorted(wanted))} into {cache}"
    )


def _get(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=SECONDS) as answer:  # noqa: S310 - of apt's or pip's configuration
        content: bytes = answer.read()
    return content


def apt_sites() -> list[str]:
    """Return the addresses of the archives that apt uses on this machine."""
    if shutil.which("apt-get") is None:
        return []
    said = _output(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"])
    return list(dict.fromkeys(line.rstrip("/") for line in said.splitlines() if line.startswith("http")))


def pip_index() -> str:
    """Return the index that pip uses on this machine."""
    from pip._internal.models.index import PyPI

    said = _output([sys.executable, "-m", "pip", "config", "get", "global.index-url"])
    return (said.strip() or PyPI.simple_url).rstrip("/")


def _output(argv: list[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False).stdout  # noqa: S603 - an argv


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(archive: Path, folder: Path, left_out: str = "") -> None:
    """Unpack an archive without the folder that all of it is in."""
    with tarfile.open(archive) as packed:
        for member in packed:
            _, _, rest = member.name.partition("/")
            if rest and not (left_out and rest.startswith(left_out)):
                packed.extract(member.replace(name=rest, deep=False), folder, filter="tar")


def versions(sources: Mapping[str, Source]) -> str:
    """Return a text that changes with any of the sources."""
    return "\n".join(f"{name} {source.sha256}" for name, source in sorted(sources.items()))
