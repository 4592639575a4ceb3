"""Files of systemd-networkd that make a bond: found, and edited for another mode. Pure except for reading."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from nodemanager.host.base import HostError

ETC: Final = "/etc/systemd/network"
FOLDERS: Final = (ETC, "/run/systemd/network", "/usr/local/lib/systemd/network", "/usr/lib/systemd/network",
                  "/lib/systemd/network")  # fmt: skip
"""If several folders have a file of one name, the one in the first folder counts."""
WITH_PRIMARY: Final = ("active-backup", "balance-tlb", "balance-alb")
_NAME: Final = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_.@:-]{0,120}\.(netdev|network)")
_MAX_FILES: Final = 512
_MAX_BYTES: Final = 65536
_NETDEV, _NETWORK = ".netdev", ".network"


class Setting(NamedTuple):
    """One line of a file."""

    section: str
    key: str
    value: str


class Found(NamedTuple):
    """A file that takes effect."""

    path: str
    text: str


def read(root: str | Path) -> dict[str, Found]:
    """Return the files that count, by name; drop-ins have the name of their folder before theirs."""
    found: dict[str, Found] = {}
    for folder in FOLDERS:
        here = Path(root) / folder.lstrip("/")
        for path in sorted(here.glob("*")) if here.is_dir() else ():
            if len(found) >= _MAX_FILES:
                raise HostError(f"cannot read {folder}: there are more than {_MAX_FILES} files")
            if _NAME.fullmatch(path.name) and path.is_file():
                found.setdefault(path.name, Found(f"{folder}/{path.name}", _text(path)))
            for one in sorted(path.glob("*.conf")) if path.name.endswith((".netdev.d", ".network.d")) else ():
                name = f"{path.name}/{one.name}"
                found.setdefault(name, Found(f"{folder}/{name}", _text(one)))
    return found


def settings(text: str) -> Iterator[Setting]:
    """Yield what a file says, line by line."""
    section = ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("[") and stripped.endswith("]"):
            section = stripped[1:-1]
        elif "=" in stripped and not stripped.startswith(("#", ";")):
            key, _, value = stripped.partition("=")
            yield Setting(section, key.strip(), value.strip())


def values(text: str, section: str, key: str) -> list[str]:
    """Return all values of a key."""
    return [one.value for one in settings(text) if (one.section, one.key) == (section, key)]


def edited(text: str, section: str, key: str, value: str | None) -> str:
    """Return a file in which a key has one value, or is not there; all other lines stay as they are."""
    lines, at, here, done = [], "", None, value is None
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("[") and stripped.endswith("]"):
            at = stripped[1:-1]
        if at == section and stripped.partition("=")[0].strip() == key and "=" in stripped:
            if not done:
                lines.append(f"{key}={value}")
                done = True
            continue
        lines.append(line)
        if at == section and stripped:
            here = len(lines)
    if not done:
        if here is None:
            lines += ["", f"[{section}]"]
            here = len(lines)
        lines.insert(here, f"{key}={value}")
    return "\n".join(lines) + "\n"


def changes(
    found: Mapping[str, Found], bond: str, mode: str, primary: str, macs: Mapping[str, str]
) -> dict[str, str]:
    """Return the files that have to be other ones for a bond to have a mode, by name; raises HostError.

    `macs` are the addresses of its cards, by name: a file may choose a card by either.
    """
    wanted: dict[str, str] = {}
    name = _netdev(found, bond)
    wanted[name] = edited(found[name].text, "Bond", "Mode", mode)
    for other in _cards(found, bond):
        text = edited(found[other].text, "Network", "ActiveSlave", None)
        if mode not in WITH_PRIMARY:
            wanted[other] = edited(text, "Network", "PrimarySlave", None)
        elif primary:
            mine = _chooses(found[other].text, primary, macs.get(primary, ""))
            wanted[other] = edited(text, "Network", "PrimarySlave", "yes" if mine else None)
    if primary and not any("yes" in values(text, "Network", "PrimarySlave") for text in wanted.values()):
        raise HostError(
            f"cannot make {primary} the primary card of {bond}: no .network file chooses it alone, by Name="
            " or MACAddress="
        )
    return {one: text for one, text in wanted.items() if not _equal(text, found[one].text)}


def of_bond(found: Mapping[str, Found], bond: str) -> dict[str, Found]:
    """Return the files that make a bond, by name: its own, those of its cards, and their drop-ins."""
    names = (_netdev(found, bond), *_cards(found, bond))
    return {one: file for one, file in found.items() if one in names or one.partition(".d/")[0] in names}


def mode_of(files: Mapping[str, Found]) -> str:
    """Return the mode that the files of a bond say; empty = none."""
    said = [
        one
        for name, file in files.items()
        if name.endswith(_NETDEV)
        for one in values(file.text, "Bond", "Mode")
    ]
    return said[-1] if said else ""


def in_order(names: Iterable[str], mode: str) -> list[str]:
    """Return files of a bond in the order in which they are replaced for a mode; pure.

    Should the power go between two, none names a primary card for a mode that knows none: systemd-networkd
    would fail that card at the next boot, and leave it out of the bond.
    """
    cards_first = mode not in WITH_PRIMARY
    return sorted(names, key=lambda name: (name.endswith(_NETDEV) == cards_first, name))


def _netdev(found: Mapping[str, Found], bond: str) -> str:
    names = [name for name, file in found.items()
             if name.endswith(_NETDEV) and values(file.text, "NetDev", "Name")[-1:] == [bond]
             and values(file.text, "NetDev", "Kind")[-1:] == ["bond"]]  # fmt: skip
    if len(names) != 1:
        said = f"{', '.join(names)} do" if names else "no .netdev file does"
        raise HostError(
            f"cannot change the mode of {bond}: {said} declare it as a bond, and one file of systemd-networkd"
            " has to"
        )
    for name, file in found.items():
        if name.startswith(f"{names[0]}.d/") and values(file.text, "Bond", "Mode"):
            raise HostError(f"cannot change the mode of {bond}: {file.path} sets Mode=, too; remove it there")
    return names[0]


def _cards(found: Mapping[str, Found], bond: str) -> Sequence[str]:
    return [name for name, file in found.items()
            if name.endswith(_NETWORK) and values(file.text, "Network", "Bond")[-1:] == [bond]]  # fmt: skip


def _chooses(text: str, card: str, mac: str) -> bool:
    """Tell whether a file is about one card and no other."""
    names = [one for said in values(text, "Match", "Name") for one in said.split()]
    addresses = [one.lower() for key in ("MACAddress", "PermanentMACAddress")
                 for said in values(text, "Match", key) for one in said.split()]  # fmt: skip
    if names:
        return names == [card]
    return bool(mac) and addresses == [mac.lower()]


def _equal(one: str, other: str) -> bool:
    """Tell whether two files say the same: how their last line ends does not matter."""
    return one.rstrip("\n") == other.rstrip("\n")


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror or error}; remove it") from error
    if len(data) > _MAX_BYTES:
        raise HostError(f"cannot read {path}: it has more than {_MAX_BYTES} bytes")
    return data.decode("utf-8", "replace")
