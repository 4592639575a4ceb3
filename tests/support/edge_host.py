"""A host in a folder with a bond, systemd-networkd and a clock; its programs are fakes."""

from __future__ import annotations

import json
import os
import shlex
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
from support.edge_fakes import COMMON, FIELD, IP, RECORD, SYSTEMCTL, SYSTEMD_RUN, TIMEOUT

BOND, CARDS, VLAN = "bondstor", ("eth1", "eth2"), "bondstor.100"
BEFORE, AFTER = "active-backup", "balance-rr"
NETDEV = f"[NetDev]\nName={BOND}\nKind=bond\n\n[Bond]\n# why\nMode={BEFORE}\nMIIMonitorSec=100ms\n"
NETWORKD = ("systemd-networkd.service", "systemd-networkd.socket")
STATE = "/var/lib/nodemanager"
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


class EdgeHost:
    """The folder of one host, and the world around it, which outlives agents."""

    def __init__(self, folder: Path) -> None:
        self.root, self.world, self.bin = folder / "root", folder / "world", folder / "bin"
        self.boot, self.uptime = "boot-1", 1000.0

    def make(self) -> None:
        """Make it anew: a bond of two cards in active-backup."""
        for place in (
            "world/units",
            "world/addresses",
            "bin",
            "root/etc/systemd/network",
            "root/var/lib/nodemanager",
        ):
            (self.root.parent / place).mkdir(parents=True)
        (self.world / "calls").touch()
        for name in NETWORKD:
            (self.world / "units" / name).touch()
        self._sysfs()
        self.file("10-bond.netdev", NETDEV)
        for card in CARDS:
            self.file(f"20-{card}.network", f"[Match]\nName={card}\n\n[Network]\nBond={BOND}\n")
        places = f"world={shlex.quote(str(self.world))} root={shlex.quote(str(self.root))}"
        for name, body in (("ip", IP), ("systemctl", SYSTEMCTL)):
            scripts.write(self.bin / name, places + COMMON + body)
        scripts.write(self.bin / "timeout", places + TIMEOUT)
        scripts.write(self.bin / "sleep", "exit 0")
        run = f"world = {str(self.world)!r}{SYSTEMD_RUN}"
        scripts.write(self.bin / "systemd-run", run, f"{sys.executable} -IS")

    def _sysfs(self, bond: str = BOND, cards: Sequence[str] = CARDS) -> None:
        texts = {
            f"{bond}/uevent": "DEVTYPE=bond", f"{bond}/operstate": "up", f"{bond}/mtu": "9000",
            f"{bond}/flags": "0x1403", f"{bond}/address": "52:54:00:00:00:00",
            f"{bond}/bonding/mode": f"{BEFORE} 1", f"{bond}/bonding/slaves": " ".join(cards),
            f"{bond}/bonding/miimon": "100", f"{bond}/bonding/primary": "",
            f"{bond}/bonding/active_slave": cards[0], f"{bond}/bonding/primary_reselect": "always 0",
            f"{bond}/bonding/arp_validate": "none 0", f"{bond}/bonding/arp_interval": "0",
        }  # fmt: skip
        for number, card in enumerate(cards):
            texts |= {f"{card}/operstate": "up", f"{card}/bonding_slave/mii_status": "up",
                      f"{card}/carrier": "1",
                      f"{card}/bonding_slave/perm_hwaddr": f"52:54:00:00:00:0{number}"}  # fmt: skip
        for name, text in texts.items():
            self.link(name, text)

    def link(self, name: str, text: str) -> None:
        """Have the kernel say something of a link, such as `eth1/carrier`."""
        path = self.root / "sys/class/net" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def bonding(self, name: str) -> str:
        """Return what the kernel says of the bond."""
        return (self.root / f"sys/class/net/{BOND}/bonding" / name).read_text().strip()

    def another(self, bond: str, cards: Sequence[str]) -> None:
        """Have one more bond, and its files."""
        self._sysfs(bond, cards)
        self.file(f"11-{bond}.netdev", NETDEV.replace(BOND, bond))
        for card in cards:
            self.file(f"21-{card}.network", f"[Match]\nName={card}\n\n[Network]\nBond={bond}\n")

    def vlan(self, *addresses: str, said: Sequence[str] = (), lent: bool = False) -> None:
        """Have a VLAN on the bond with addresses, of which files say some."""
        for name, text in (("uevent", "DEVTYPE=vlan"), ("mtu", "9000"), ("flags", "0x1003")):
            self.link(f"{VLAN}/{name}", text)
        (self.root / f"sys/class/net/{BOND}/upper_{VLAN}").symlink_to(f"../{VLAN}")
        self.file("40-vlan.network", "".join(f"[Address]\nAddress={one}\n" for one in said))
        self.addresses(VLAN, *addresses, lent=lent)

    def addresses(self, link: str, *addresses: str, lent: bool = False) -> None:
        """Have a link have addresses."""
        parts = (one.partition("/") for one in addresses)
        found = [{"family": "inet6" if ":" in one else "inet", "local": one, "prefixlen": int(length),
                  **({"dynamic": True} if lent else {})} for one, _, length in parts]  # fmt: skip
        (self.world / "addresses" / link).write_text(json.dumps([{}, {"ifname": link, "addr_info": found}]))

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
        noted = (self.world / "calls").read_text().split(RECORD)[:-1]
        return [words for words in (one.split(FIELD) for one in noted) if program in ("", words[0])]

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

    def fire(self, *, whole: bool = True, within: Sequence[str] = ()) -> None:
        """Have the time of all dead-men come; they run without us, or within what another program makes."""
        for name in self.timers():
            path = self.world / "units" / name
            _seconds, command = json.loads(path.read_text())
            path.unlink()
            argv = [*within, *command]
            done = subprocess.run(argv, env=self.env(), check=False, capture_output=True)
            assert done.returncode == 0 or not whole, done.stderr

    def env(self) -> dict[str, str]:
        """Return what programs of this host see."""
        return {"PATH": f"{self.bin}:{os.environ['PATH']}"}

    async def run(self, argv: Sequence[str], **how: Unpack[How]) -> Completed:
        """Run a program of this host, the fakes before all others."""
        how["env"] = {**(how.get("env") or {}), **self.env()}
        return await runner.run(argv, **how)

    def changes(self) -> BondChanges:
        """Return what an agent that begins now has: nothing but what is on disk."""
        return BondChanges(
            Tree(str(self.root)), STATE, self.run, str(self.root), lambda: self.boot, lambda: self.uptime,
            lambda: NOW,
        )  # fmt: skip
