"""A host in a folder with a bond, systemd-networkd and a clock; `ip`, `systemctl`, `systemd-run` are fakes.

They keep to the kernel's rules (a bond changes its mode only while it is down and empty), note every call,
and kill who runs them at the call that a test says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Unpack

from nodemanager.host.base import How
from nodemanager.host.edge.bond_changes import BondChanges
from nodemanager.host.files.tree import Tree
from nodemanager.host.process import runner
from nodemanager.host.process.runner import Completed
from support import scripts

BOND, CARDS = "bondstor", ("eth1", "eth2")
BEFORE, AFTER = "active-backup", "balance-rr"
NETDEV = f"[NetDev]\nName={BOND}\nKind=bond\n\n[Bond]\n# why\nMode={BEFORE}\nMIIMonitorSec=100ms\n"
NETWORKD = ("systemd-networkd.service", "systemd-networkd.socket")
STATE = "/var/lib/nodemanager"
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)

_COMMON = """
import json, os, signal, sys
from pathlib import Path
world, root = Path(world), Path(root)
argv = sys.argv[1:]
with (world / "calls").open("a") as file:
    file.write(json.dumps([Path(sys.argv[0]).name, *argv]) + "\\n")
count = len((world / "calls").read_text().splitlines())
kill = world / "kill"
if kill.exists() and int(kill.read_text()) == count:
    os.kill(os.getppid(), signal.SIGKILL)
    sys.exit(1)
"""
_IP = """
net = root / "sys/class/net"
def bond_of(name):
    return net / name / "bonding"
def fail(why):
    sys.exit(f"RTNETLINK answers: {why}")
assert argv[:3] == ["link", "set", "dev"], argv
name, verb = argv[3], argv[4:]
bonding = bond_of(name)
state = net / name / "operstate"
if verb in (["up"], ["down"]):
    state.write_text(verb[0] + "\\n")
    (net / name / "flags").write_text("0x1403\\n" if verb == ["up"] else "0x1402\\n")
elif verb == ["nomaster"]:
    for one in net.iterdir():
        slaves = one / "bonding/slaves"
        if slaves.exists():
            left = [x for x in slaves.read_text().split() if x != name]
            slaves.write_text(" ".join(left) + "\\n")
            if not left:
                (one / "address").write_text("2a:00:00:00:00:01\\n")
elif verb[0] == "master":
    if state.read_text().strip() == "up":
        fail("Operation not permitted")
    slaves = bond_of(verb[1]) / "slaves"
    have = slaves.read_text().split()
    if not have:
        own = (net / name / "bonding_slave/perm_hwaddr").read_text()
        (net / verb[1] / "address").write_text(own)
    slaves.write_text(" ".join([*have, name] if name not in have else have) + "\\n")
    state.write_text("up\\n")
elif verb[:3] == ["type", "bond", "mode"]:
    if bonding.joinpath("slaves").read_text().split():
        fail("Directory not empty")
    if state.read_text().strip() == "up":
        fail("Device or resource busy")
    bonding.joinpath("mode").write_text(verb[3] + " 9\\n")
elif verb[0] == "address":
    (net / name / "address").write_text(verb[1] + "\\n")
elif verb[:3] == ["type", "bond", "primary"]:
    bonding.joinpath("primary").write_text(verb[3] + "\\n")
else:
    sys.exit(f"what is {argv}?")
"""
_SYSTEMCTL = """
units = world / "units"
verb, names = argv[0], [one for one in argv[1:] if not one.startswith("-")]
if verb == "is-active":
    sys.exit(0 if all((units / one).exists() for one in names) else 3)
if not names:
    sys.exit("Too few arguments.")
for one in names:
    if verb == "stop":
        for found in units.glob(one):
            found.unlink()
    elif verb == "start":
        (units / one).touch()
"""
_SYSTEMD_RUN = """
options = dict(one[2:].partition("=")[::2] for one in argv if one.startswith("--"))
timer = world / "units" / (options["unit"] + ".timer")
if timer.exists():
    sys.exit("unit was already loaded")
command = argv[[n for n, one in enumerate(argv) if not one.startswith("--")][0]:]
timer.write_text(json.dumps([int(options["on-active"]), command]))
"""


class EdgeHost:
    """The folder of one host, and the world around it, which outlives agents."""

    def __init__(self, folder: Path) -> None:
        self.root, self.world, self.bin = folder / "root", folder / "world", folder / "bin"
        self.boot, self.uptime = "boot-1", 1000.0

    def make(self) -> None:
        """Make it anew: a bond of two cards in active-backup."""
        for one in (self.world / "units", self.bin, self.root / "etc/systemd/network",
                    self.root / "var/lib/nodemanager"):  # fmt: skip
            one.mkdir(parents=True)
        (self.world / "calls").touch()
        for name in NETWORKD:
            (self.world / "units" / name).touch()
        self._sysfs()
        self.file("10-bond.netdev", NETDEV)
        for card in CARDS:
            self.file(f"20-{card}.network", f"[Match]\nName={card}\n\n[Network]\nBond={BOND}\n")
        places = f"world, root = {str(self.world)!r}, {str(self.root)!r}\n"
        for name, body in (("ip", _IP), ("systemctl", _SYSTEMCTL), ("systemd-run", _SYSTEMD_RUN)):
            scripts.write(self.bin / name, places + _COMMON + body, f"{sys.executable} -IS")

    def _sysfs(self) -> None:
        net = self.root / "sys/class/net"
        texts = {
            f"{BOND}/uevent": "DEVTYPE=bond", f"{BOND}/operstate": "up", f"{BOND}/mtu": "9000",
            f"{BOND}/flags": "0x1403", f"{BOND}/address": "52:54:00:00:00:00",
            f"{BOND}/bonding/mode": f"{BEFORE} 1", f"{BOND}/bonding/slaves": " ".join(CARDS),
            f"{BOND}/bonding/miimon": "100", f"{BOND}/bonding/primary": "",
        }  # fmt: skip
        for number, card in enumerate(CARDS):
            texts |= {f"{card}/operstate": "up", f"{card}/bonding_slave/mii_status": "up",
                      f"{card}/bonding_slave/perm_hwaddr": f"52:54:00:00:00:0{number}"}  # fmt: skip
        for name, text in texts.items():
            (net / name).parent.mkdir(parents=True, exist_ok=True)
            (net / name).write_text(f"{text}\n")

    def file(self, name: str, text: str) -> None:
        (self.root / "etc/systemd/network" / name).write_text(text)

    def files(self) -> dict[str, str]:
        return {one.name: one.read_text() for one in (self.root / "etc/systemd/network").iterdir()}

    def mode(self) -> str:
        return (self.root / f"sys/class/net/{BOND}/bonding/mode").read_text().split()[0]

    def cards(self) -> list[str]:
        return sorted((self.root / f"sys/class/net/{BOND}/bonding/slaves").read_text().split())

    def is_up(self) -> bool:
        return (self.root / f"sys/class/net/{BOND}/flags").read_text().strip() == "0x1403"

    def units(self) -> list[str]:
        return sorted(one.name for one in (self.world / "units").iterdir())

    def timers(self) -> list[str]:
        return [one for one in self.units() if one.endswith(".timer")]

    def calls(self, program: str = "") -> list[list[str]]:
        lines = [json.loads(line) for line in (self.world / "calls").read_text().splitlines()]
        return [one for one in lines if program in ("", one[0])]

    def kill_at(self, number: int) -> None:
        """Have the caller of a program killed, so many calls from now."""
        (self.world / "kill").write_text(str(len(self.calls()) + number))

    def reboot(self) -> None:
        """Boot: timers are gone, and the bond is what the files say."""
        self.boot = "boot-2"
        for one in self.timers():
            (self.world / "units" / one).unlink()
        for name in NETWORKD:
            (self.world / "units" / name).touch()
        said = next(line for line in self.files()["10-bond.netdev"].splitlines() if line.startswith("Mode="))
        bonding = self.root / f"sys/class/net/{BOND}/bonding"
        (bonding / "mode").write_text(f"{said.removeprefix('Mode=')} 1\n")
        (bonding / "slaves").write_text(" ".join(CARDS) + "\n")
        (bonding.parent / "flags").write_text("0x1403\n")
        (bonding.parent / "operstate").write_text("up\n")

    def fire(self, *, whole: bool = True) -> None:
        """Have the time of all dead-men come; they run without us."""
        for name in self.timers():
            path = self.world / "units" / name
            _seconds, command = json.loads(path.read_text())
            path.unlink()
            done = subprocess.run(command, env=self._env(), check=False, capture_output=True)
            assert done.returncode == 0 or not whole, done.stderr

    def _env(self) -> dict[str, str]:
        return {"PATH": f"{self.bin}:{os.environ['PATH']}"}

    async def run(self, argv: Sequence[str], **how: Unpack[How]) -> Completed:
        """Run a program of this host, the fakes before all others."""
        how["env"] = self._env()
        return await runner.run(argv, **how)

    def changes(self) -> BondChanges:
        """Return what an agent that begins now has: nothing but what is on disk."""
        return BondChanges(
            Tree(str(self.root)), STATE, self.run, str(self.root), lambda: self.boot, lambda: self.uptime,
            lambda: NOW,
        )  # fmt: skip
