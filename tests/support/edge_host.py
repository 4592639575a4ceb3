"""A host in a folder with a bond, systemd-networkd and a clock; `ip`, `systemctl`, `systemd-run` are fakes.

They keep to the kernel's rules (a bond changes its mode only while it is down and empty), note every call,
and kill who runs them at the call that a test says.
"""

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

BOND, CARDS = "bondstor", ("eth1", "eth2")
BEFORE, AFTER = "active-backup", "balance-rr"
NETDEV = f"[NetDev]\nName={BOND}\nKind=bond\n\n[Bond]\n# why\nMode={BEFORE}\nMIIMonitorSec=100ms\n"
NETWORKD = ("systemd-networkd.service", "systemd-networkd.socket")
STATE = "/var/lib/nodemanager"
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)

FIELD, RECORD = "\x1f", "\x1e"
"""What ends a word of a noted call, and a call."""

# In sh, because a flip is dozens of calls, and Python takes thirty times as long to start.
_COMMON = f"""
set -eu
set -- "${{0##*/}}" "$@"
IFS='{FIELD}'
printf '%s{RECORD}' "$*" >>"$world/calls"
unset IFS
shift
if [ -e "$world/kill" ] && [ "$(tr -dc '{RECORD}' <"$world/calls" | wc -c)" -eq "$(cat "$world/kill")" ]; then
    kill -KILL "$PPID"
    exit 1
fi
fail() {{ echo "$1" >&2; exit 1; }}
get() {{ got=; read -r got <"$1" || [ -e "$1" ]; }}
"""
_IP = """
net=$root/sys/class/net
[ "$1 $2 $3" = "link set dev" ] || fail "what is $*?"
name=$4 state=$net/$4/operstate bonding=$net/$4/bonding
shift 4
case $* in
up) echo up >"$state"; echo 0x1403 >"$net/$name/flags" ;;
down) echo down >"$state"; echo 0x1402 >"$net/$name/flags" ;;
nomaster)
    for slaves in "$net"/*/bonding/slaves; do
        get "$slaves"
        left=
        for one in $got; do [ "$one" = "$name" ] || left="${left:+$left }$one"; done
        echo "$left" >"$slaves"
        [ -n "$left" ] || echo 2a:00:00:00:00:01 >"${slaves%/bonding/slaves}/address"
    done ;;
"master "*)
    get "$state"
    [ "$got" != up ] || fail "RTNETLINK answers: Operation not permitted"
    get "$net/$2/bonding/slaves"
    have=$got
    if [ -z "$have" ]; then get "$net/$name/bonding_slave/perm_hwaddr"; echo "$got" >"$net/$2/address"; fi
    case " $have " in *" $name "*) ;; *) have="${have:+$have }$name" ;; esac
    echo "$have" >"$net/$2/bonding/slaves"
    echo up >"$state" ;;
"type bond mode "*)
    get "$bonding/slaves"
    [ -z "$got" ] || fail "RTNETLINK answers: Directory not empty"
    get "$state"
    [ "$got" != up ] || fail "RTNETLINK answers: Device or resource busy"
    echo "$4 9" >"$bonding/mode" ;;
"address "*) echo "$2" >"$net/$name/address" ;;
"type bond primary "*) echo "$4" >"$bonding/primary" ;;
*) fail "what is $name $*?" ;;
esac
"""
_SYSTEMCTL = """
cd "$world/units"
verb=$1 seen=
shift
IFS= # patterns are expanded, and nothing is split
for one in "$@"; do
    case $one in -*) continue ;; esac
    seen=1
    case $verb in
    is-active) [ -e "$one" ] || exit 3 ;;
    stop) rm -f -- $one ;;
    start) : >>"$one" ;;
    esac
done
[ -n "$seen" ] || [ "$verb" = is-active ] || fail "Too few arguments."
"""
_SYSTEMD_RUN = f"""
import json, os, sys
argv = sys.argv[1:]
with open(world + "/calls", "a") as file:
    file.write({FIELD!r}.join(["systemd-run", *argv]) + {RECORD!r})
if os.path.exists(world + "/kill"):
    with open(world + "/calls") as calls, open(world + "/kill") as kill:
        if calls.read().count({RECORD!r}) == int(kill.read()):
            os.kill(os.getppid(), 9)
            sys.exit(1)
options = dict(one[2:].partition("=")[::2] for one in argv if one.startswith("--"))
timer = world + "/units/" + options["unit"] + ".timer"
if os.path.exists(timer):
    sys.exit("unit was already loaded")
command = argv[[n for n, one in enumerate(argv) if not one.startswith("--")][0]:]
with open(timer, "w") as file:
    file.write(json.dumps([int(options["on-active"]), command]))
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
        places = f"world={shlex.quote(str(self.world))} root={shlex.quote(str(self.root))}"
        for name, body in (("ip", _IP), ("systemctl", _SYSTEMCTL)):
            scripts.write(self.bin / name, places + _COMMON + body)
        run = f"world = {str(self.world)!r}{_SYSTEMD_RUN}"
        scripts.write(self.bin / "systemd-run", run, f"{sys.executable} -IS")

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
            done = subprocess.run(argv, env=self._env(), check=False, capture_output=True)
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
