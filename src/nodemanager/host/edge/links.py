"""Links, bonds and VLANs, as the kernel shows them below /sys.

A process is needed only where /proc does not tell the numbers of VLANs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.common.edge_state import (
    MAX_BONDS,
    MAX_LINK_NAME,
    MAX_LINKS,
    MAX_SLAVES,
    MAX_VLANS,
    MAX_WORD,
    BondSlave,
    BondState,
    LinkState,
    VlanState,
)
from nodemanager.host.base import HostError, Runner

_NAME: Final = re.compile(f"[!-.0-~]{{1,{MAX_LINK_NAME}}}")
"""Names of links that are reported: the kernel accepts any byte in a name, and a status does not."""
_MAC: Final = re.compile(r"[0-9a-f:]{0,59}")
NET: Final = "sys/class/net"
VLANS: Final = "proc/net/vlan/config"
BONDING: Final = "bonding"
_HEX: Final = re.compile(r"0x[0-9a-f]{1,8}")
_UP: Final = 1
_LIMIT: Final = 4096
_DIGITS: Final = 18
_TIMEOUT: Final = 10.0
SHOW_VLANS: Final = ("ip", "-j", "-d", "link", "show", "type", "vlan")


class NetworkState(NamedTuple):
    """The observed network."""

    links: list[LinkState]
    bonds: list[BondState]
    vlans: list[VlanState]


class VlanTag(NamedTuple):
    """The number of a VLAN link, and the link below it."""

    id: int
    link: str


async def observe(root: str | Path, run: Runner) -> NetworkState:
    """Return cards, bonds with their cards, and VLANs; what containers have is left out."""
    folder = Path(root) / NET
    names = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
    kinds = {name: _device_type(folder / name) for name in names if _NAME.fullmatch(name)}
    tagged = [name for name, kind in kinds.items() if kind == "vlan"]
    tags = await _tags(Path(root) / VLANS, run) if tagged else {}
    bonds = [read_bond(root, name) for name, kind in kinds.items() if kind == "bond"][:MAX_BONDS]
    wanted = {*tagged, *(one.name for one in bonds), *(slave.name for one in bonds for slave in one.slaves)}
    links = [_link(folder / name) for name in kinds if name in wanted or (folder / name / "device").exists()]
    vlans = [_vlan(folder / name, tags.get(name)) for name in tagged]
    return NetworkState(links[:MAX_LINKS], bonds, vlans[:MAX_VLANS])


def read_bond(root: str | Path, name: str) -> BondState:
    """Return one bond; raises HostError if there is none of this name."""
    folder = Path(root) / NET / name
    own = folder / BONDING
    if not own.is_dir():
        raise HostError(f"cannot read bond {name}: there is no such bond on this host")
    slaves = _text(own / "slaves").split()
    return BondState(
        name=name, mode=_first(own / "mode"), state=_word(folder / "operstate"), mtu=_number(folder / "mtu"),
        # The kernel looks by one of the two; over direct cables only ARP notices a far port that is dead.
        monitor=_number(own / "miimon") or _number(own / "arp_interval"), active=_text(own / "active_slave"),
        slaves=[_slave(folder.parent / one) for one in slaves[:MAX_SLAVES]],
    )  # fmt: skip


def parse_vlan_config(text: str) -> dict[str, VlanTag]:
    """Return VLANs by name from /proc/net/vlan/config; its two first lines are headers."""
    rows = ([part.strip() for part in line.split("|")] for line in text.splitlines())
    return {row[0]: VlanTag(int(row[1]), row[2]) for row in rows if len(row) == 3 and row[1].isdecimal()}


def parse_ip_vlans(output: bytes) -> dict[str, VlanTag]:
    """Return VLANs by name from what `ip -j -d link show type vlan` prints."""
    found = msgspec.json.decode(output or b"[]", type=list[_IpLink])
    return {one.ifname: VlanTag(one.linkinfo.info_data.id, one.link) for one in found if one.ifname}


class _VlanData(msgspec.Struct, frozen=True):
    id: int = 0


class _LinkInfo(msgspec.Struct, frozen=True):
    info_data: _VlanData = _VlanData()


class _IpLink(msgspec.Struct, frozen=True):
    ifname: str = ""
    link: str = ""
    linkinfo: _LinkInfo = _LinkInfo()


async def _tags(config: Path, run: Runner) -> dict[str, VlanTag]:
    if text := _text(config, 65536):
        return parse_vlan_config(text)
    try:
        return parse_ip_vlans((await run(SHOW_VLANS, timeout=_TIMEOUT)).check().stdout)
    except (OSError, msgspec.MsgspecError):
        return {}  # that there are VLANs is known, their numbers are not


def _device_type(folder: Path) -> str:
    return next((_after(line) for line in _lines(folder / "uevent") if line.startswith("DEVTYPE=")), "")


def _link(folder: Path) -> LinkState:
    return LinkState(
        name=folder.name, mac=_address(folder / "address"), state=_word(folder / "operstate"),
        carrier=_text(folder / "carrier") == "1", mtu=_number(folder / "mtu"),
        speed=_number(folder / "speed"), master=_linked(folder / "master"),
    )  # fmt: skip


def _slave(folder: Path) -> BondSlave:
    own = folder / "bonding_slave"
    return BondSlave(
        name=folder.name, state=_word(own / "state"), mii=_word(own / "mii_status"),
        failures=_number(own / "link_failure_count"),
    )  # fmt: skip


def _vlan(folder: Path, tag: VlanTag | None) -> VlanState:
    below = [one.name.removeprefix("lower_") for one in folder.glob("lower_*")]
    known = tag or VlanTag(0, below[0] if below else "")
    return VlanState(
        name=folder.name, id=known.id, link=known.link[:MAX_LINK_NAME], state=_word(folder / "operstate")
    )


def _address(path: Path) -> str:
    text = _text(path)
    return text if _MAC.fullmatch(text) else ""


def _linked(path: Path) -> str:
    try:
        return path.readlink().name[:MAX_LINK_NAME]
    except OSError:
        return ""


def _text(path: Path, limit: int = _LIMIT) -> str:
    """Return what the kernel says; empty where it says nothing, as of the speed of a card that is down."""
    try:
        with path.open("rb") as file:
            return file.read(limit).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _word(path: Path) -> str:
    return _text(path, MAX_WORD)


def _lines(path: Path) -> Iterable[str]:
    return _text(path).splitlines()


def _after(line: str) -> str:
    return line.partition("=")[2]


def _first(path: Path) -> str:
    return next(iter(_text(path).split()), "")


def _number(path: Path) -> int:
    """Return a number; 0 where there is none, or -1, which the kernel says of an unknown speed."""
    text = _text(path)
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else 0


def primary(root: str | Path, bond: str) -> str:
    """Return the card that a bond prefers; empty = none."""
    return _text(Path(root) / NET / bond / BONDING / "primary")


def address(root: str | Path, link: str) -> str:
    """Return the hardware address of a link; empty = unknown."""
    return _address(Path(root) / NET / link / "address")


def permanent_address(root: str | Path, card: str) -> str:
    """Return the address that a card in a bond had before; within the bond all have the same."""
    folder = Path(root) / NET / card
    return _text(folder / "bonding_slave/perm_hwaddr") or _text(folder / "address")


def is_up(root: str | Path, link: str) -> bool:
    """Tell whether a link is switched on, whatever its cables are."""
    text = _text(Path(root) / NET / link / "flags")
    return bool(_HEX.fullmatch(text)) and bool(int(text, 16) & _UP)


def mtu(root: str | Path, link: str) -> int:
    """Return the MTU of a link; 0 where there is none such."""
    return _number(Path(root) / NET / link / "mtu")


def option(root: str | Path, bond: str, name: str) -> str:
    """Return an option of a bond, such as arp_validate; the kernel may have a number behind the word."""
    return _first(Path(root) / NET / bond / BONDING / name)


def vlans_on(root: str | Path, link: str) -> list[str]:
    """Return the VLANs that are on a link, by name."""
    net = Path(root) / NET
    above = sorted(one.name.removeprefix("upper_") for one in (net / link).glob("upper_*"))
    return [name for name in above if _device_type(net / name) == "vlan"]


def with_link(root: str | Path, found: BondState) -> frozenset[str]:
    """Return the cards of a bond that have a link, as its monitor says; without one, as they say."""
    up = [one.name for one in found.slaves if one.mii == "up"]
    if found.monitor:
        return frozenset(up)
    return frozenset(name for name in up if _text(Path(root) / NET / name / "carrier") == "1")
