"""DRBD 8.4 on the nodes of a lab: one resource on their disks, replicated over the VLAN of the bond.

pair = Pair(site)
pair.create()                          # metadata on both sides, up, connected, and of no use yet
pair.node(0).drbd("primary", "--force")
pair.moments("syncing")                # what each side says: /proc/drbd, drbdsetup status, events2
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec
import yaml

from nodemanager.api.common.edge_state import DrbdResource
from nodemanager.fleet.edge.hosts import replication
from nodemanager.host.edge import drbd, drbd_84
from support.fleet import until
from support.lab import drbd_words, figures
from support.lab.guest import Failed, Guest
from support.lab.site import NODES, Site, address

NAME, MINOR, PORT = "r0", 0, 7789
DEVICE, DISK = f"/dev/drbd{MINOR}", "/dev/vda"
STATUS = ("drbdsetup", "status", "all", "--verbose", "--statistics", "--color=never")
EVENTS = ("drbdsetup", "events2", "--now", "--statistics", "all")
FILE = f"/etc/drbd.d/{NAME}.res"
_ROW = re.compile(rf"^ *{MINOR}: cs:(\w+) ro:(\w+)/(\w+) ds:(\w+)/(\w+) [ABC ]? ?(\S{{6}})", re.MULTILINE)
_OUT_OF_SYNC = re.compile(r"\boos:(\d+)")
SLOW, FAST = "100k", "200M"
"""Bytes per second of a resync: one takes two minutes at the first rate, long enough to look at it."""
SIZE_KIB = 12 * 1024
_LOOKS = 3


class Row(NamedTuple):
    """What /proc/drbd says of a side."""

    connection: str
    role: str
    peer_role: str
    disk: str
    peer_disk: str
    flags: str
    out_of_sync: int


class Moment(NamedTuple):
    """What a side says, in its own words."""

    proc: str
    names: str
    events: str

    @property
    def row(self) -> Row:
        """Return what /proc/drbd says, in columns."""
        found, amount = _ROW.search(self.proc), _OUT_OF_SYNC.search(self.proc)
        if found is None or amount is None:
            raise Failed(f"cannot read /proc/drbd: {self.proc}")
        connection, role, peer_role, disk, peer_disk, flags = found.groups()
        return Row(connection, role, peer_role, disk, peer_disk, flags, int(amount[1]))

    @property
    def model(self) -> DrbdResource:
        """Return what our agent makes of it."""
        (found,) = drbd_84.parse(self.proc, drbd_84.parse_names(self.names))
        return found

    def told(self) -> str:
        """Return our model, what is wrong with it by a host, and what is by the operator."""
        model = self.model
        said = {
            "unclean": drbd.unclean(model),
            "faults": list(replication.faults_here(model)),
            "model": msgspec.to_builtins(model),
        }
        return yaml.safe_dump(said, sort_keys=False, width=1000)


class Side:
    """The resource on one node."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest

    def drbd(self, verb: str, *flags: str, check: bool = True) -> int:
        """Have drbdadm do something with the resource; return its exit status."""
        return self.guest.run("drbdadm", verb, *flags, NAME, check=check).returncode

    def moment(self) -> Moment:
        """Return how it is now; the three are read one after the other, and again if it changed meanwhile."""
        for _ in range(_LOOKS):
            proc = self.guest.read("/proc/drbd")
            found = Moment(proc, self.guest.run(*STATUS).stdout, self.guest.run(*EVENTS).stdout)
            if found.row[:-1] == self.row()[:-1]:  # how much is out of sync may move
                break
        return found

    def row(self) -> Row:
        """Return what /proc/drbd says."""
        return Moment(self.guest.read("/proc/drbd"), "", "").row

    def fill(self, start: int, count: int) -> None:
        """Write blocks of 4 KiB through DRBD, which cannot be told from what was there."""
        self.guest.run(
            "dd", "if=/dev/urandom", f"of={DEVICE}", "bs=4k", f"seek={start}", f"count={count}",
            "oflag=direct", "status=none",
        )  # fmt: skip

    def corrupt(self, start: int, count: int) -> None:
        """Change blocks on the disk behind the back of everybody in the guest."""
        with self.guest.disk.open("r+b") as disk:
            disk.seek(start * 4096)
            disk.write(bytes([0xA5]) * (count * 4096))


class Pair:
    """The resource on both nodes."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.sides = [Side(guest) for guest in site.guests]

    def create(self) -> None:
        """Make it anew on both sides, and wait until these are connected."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._create_on, NODES))
        self.wait("Connected")

    def _create_on(self, node: int) -> None:
        side = self.sides[node]
        side.guest.run("drbdsetup", "down", NAME, check=False)
        side.guest.write(FILE, _config())
        side.drbd("create-md", "--force")
        side.drbd("up")

    def sync(self) -> None:
        """Make the first side Primary, and wait until the second one has all that it has."""
        self.sides[0].drbd("primary", "--force")
        self.rate(FAST)
        self.wait_clean()

    def down(self) -> None:
        """Take it away on both sides."""
        for side in self.sides:
            side.guest.run("drbdsetup", "down", NAME, check=False)
            side.guest.run("rm", "-f", FILE)

    def rate(self, rate: str) -> None:
        """Resync at a rate from now on."""
        for side in self.sides:
            side.guest.run(
                "drbdsetup", "disk-options", str(MINOR), f"--resync-rate={rate}", "--c-plan-ahead=0"
            )

    def wait(self, *connections: str) -> list[Row]:
        """Wait until both sides say one of these of their connection; return what they say then."""
        return self._until(lambda row: row.connection in connections, " or ".join(connections))

    def wait_clean(self) -> list[Row]:
        """Wait until both sides are in sync."""
        return self._until(_clean, "in sync")

    def _until(self, holds: Callable[[Row], bool], what: str) -> list[Row]:
        def look() -> list[Row]:
            rows = self.rows()
            return rows if all(map(holds, rows)) else []

        return until(look, f"both sides are {what}; now {self.rows()}")

    def rows(self) -> list[Row]:
        """Return what /proc/drbd of both sides says."""
        return [side.row() for side in self.sides]

    def moments(self, name: str) -> list[Moment]:
        """Return what both sides say, and keep it for who wants to know what real ones say.

        What our agent makes of it is kept, too, and has to be what drbdsetup says.
        """
        with ThreadPoolExecutor() as pool:
            found = list(pool.map(Side.moment, self.sides))
        for node, one in zip(NODES, found, strict=True):
            text = yaml.safe_dump(one._asdict(), sort_keys=False, default_style="|", width=1000)
            figures.keep(f"drbd84/{name}.node{node}.yaml", text)
            figures.keep(f"drbd84_model/{name}.node{node}.yaml", one.told())
        if wrong := [text for one in found for text in drbd_words.differences(one.names, one.model)]:
            raise Failed(f"{name}: {', '.join(wrong)}")
        return found


def _clean(row: Row) -> bool:
    return (row.connection, row.disk, row.peer_disk, row.out_of_sync) == (
        "Connected",
        "UpToDate",
        "UpToDate",
        0,
    )


def _config() -> str:
    where = f"device {DEVICE}; disk {DISK}; meta-disk internal;"
    on = "\n".join(f"  on node{node} {{ {where} address {address(node)}:{PORT}; }}" for node in NODES)
    return f"""\
resource {NAME} {{
  net {{ protocol C; verify-alg crc32c; ping-timeout 30; timeout 150; }}
  disk {{ c-plan-ahead 0; resync-rate {SLOW}; size {SIZE_KIB}K; }}
{on}
}}
"""
