"""Kairos: which of its images was booted, by what it leaves in /run/cos."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from nodemanager.api.common.edge_state import BootState

SENTINELS: Final = "run/cos"
RELEASES: Final = ("etc/kairos-release", "etc/os-release")
ENTRIES: Final = ("active", "passive", "recovery", "livecd", "autoreset")
UNKNOWN: Final = "unknown"
_LIMIT: Final = 65536


def observe(root: str | Path) -> BootState | None:
    """Return what was booted; None on a host that is no Kairos."""
    version = _version(Path(root))
    folder = Path(root) / SENTINELS
    if version is None and not folder.is_dir():
        return None
    found = [one for one in ENTRIES if (folder / f"{one}_mode").exists()]
    entry = found[0] if len(found) == 1 else UNKNOWN  # two of them contradict each other
    return BootState(entry=entry, uki=(folder / "uki_boot_mode").exists(), version=version or "")


def parse_version(text: str) -> str | None:
    """Return the version of the image in a release file; None = it is not of Kairos."""
    said = dict(line.partition("=")[::2] for line in text.splitlines())
    found = said.get("KAIROS_VERSION") or said.get("KAIROS_RELEASE")
    return None if found is None else found.strip("\"' ")[:256]


def _version(root: Path) -> str | None:
    for name in RELEASES:
        try:
            with (root / name).open("rb") as file:
                found = parse_version(file.read(_LIMIT).decode("ascii", "replace"))
        except OSError:
            continue
        if found is not None:
            return found
    return None
