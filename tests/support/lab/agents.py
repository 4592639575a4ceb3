"""Our agent in guests of a lab, joined to an API on this machine by their card to the outside.

    with AgentLab.up(site, folder) as lab:
        node = lab.nodes[0]
        node.does({"name": "arm", "bondArm": {...}})     # a NodeTask, carried out by the agent in the guest
        node.kill()                                      # SIGKILL; nobody starts it again
        node.start()

The agent is the source tree with what it needs, run by Debian's Python as a service of the guest's systemd.
The API is the embedded server, on loopback: guests know this machine as 10.0.2.2.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodemanager.api.rights import host_rights
from nodemanager.client.auth import host_kubeconfig
from nodemanager.client.subresources import request_token
from nodemanager.kube import errors, manifests
from support import fleet_tasks, joined_host
from support.fleet import serving, until
from support.fleet_api import NAMESPACE, FleetApi
from support.lab import networkd
from support.lab.delivery import OUTSIDE, SECONDS, UNIT_NAME
from support.lab.guest import Guest
from support.lab.site import BOND, NICS, VLAN, Site, address

TOKEN_SECONDS = 24 * 3600
STATE = f"/var/lib/nodemanager/bonds/{BOND}"
CGROUP = f"/sys/fs/cgroup/system.slice/{UNIT_NAME}.service"


@dataclass
class AgentNode:
    """A guest with an agent."""

    guest: Guest
    api: FleetApi

    @property
    def name(self) -> str:
        """What it is called in the API."""
        return self.guest.name

    def start(self) -> None:
        """Start the agent, and wait until it tells how its bond is."""
        self.guest.run("systemctl", "start", UNIT_NAME)
        until(self.tells, f"the agent of {self.name} to tell {self.mode()}", SECONDS)

    def tells(self) -> bool:
        """Tell whether its agent says of the bond what is so."""
        told = [one.get("mode") for one in self.edge().get("bonds", []) if one["name"] == BOND]
        return told == [self.mode()]

    def kill(self) -> None:
        """End the agent at once, and see it gone."""
        self.guest.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", UNIT_NAME, check=False)
        until(lambda: not self.runs(), f"the end of the agent of {self.name}", SECONDS)
        # That it was killed is remembered, and would make the guest a degraded one for other tests.
        self.guest.run("systemctl", "reset-failed", UNIT_NAME, check=False)

    def process(self) -> int:
        """Return the number of the agent's process."""
        return int(self.guest.says("systemctl", "show", "--value", "--property=MainPID", UNIT_NAME))

    def runs(self) -> bool:
        """Tell whether the agent runs."""
        return self.guest.run("systemctl", "is-active", "--quiet", UNIT_NAME, check=False).returncode == 0

    def give(self, *steps: Mapping[str, Any]) -> str:
        """Give it a task, and return its name."""
        return fleet_tasks.give(self.api, self.name, *steps)

    def does(self, *steps: Mapping[str, Any]) -> dict[str, Any]:
        """Have it do a task to its end, and return what became of it."""
        return self.ended(self.give(*steps))

    def ended(self, task: str) -> dict[str, Any]:
        """Wait until a task has ended, and return what became of it."""
        return fleet_tasks.ended(self.api, task, SECONDS)

    def step(self, task: str, name: str) -> str:
        """Return the phase of a step of a task; empty as long as the agent has told none."""
        told = self.api.get("NodeTask", task).get("status", {}).get("steps", [])
        return next((str(one.get("phase", "")) for one in told if one["name"] == name), "")

    def edge(self) -> dict[str, Any]:
        """Return what its agent tells in `status.edge`."""
        found: dict[str, Any] = self.api.get("ManagedNode", self.name).get("status", {}).get("edge") or {}
        return found

    def change(self) -> str:
        """Return the phase of the change of its bond, as its agent tells it."""
        return next((str(one["phase"]) for one in self.edge().get("bondChanges", [])), "")

    def mode(self) -> str:
        """Return the mode of its bond, as its kernel has it."""
        return self.guest.says("cat", f"/sys/class/net/{BOND}/bonding/mode").split()[0]

    def cards(self) -> list[str]:
        """Return the cards in its bond."""
        return sorted(self.guest.says("cat", f"/sys/class/net/{BOND}/bonding/slaves").split())

    def sends(self) -> str:
        """Return the card by which its bond sends; empty where all do, or none."""
        return self.guest.says("cat", f"/sys/class/net/{BOND}/bonding/active_slave")

    def send_by(self, nic: str) -> None:
        """Have its bond send by a card, as soon as that has a link."""
        argv = ("ip", "link", "set", "dev", BOND, "type", "bond", "active_slave", nic)
        until(
            lambda: self.guest.run(*argv, check=False).returncode == 0 and self.sends() == nic,
            f"{self.name} to send by {nic}",
            SECONDS,
        )

    def declared(self) -> str:
        """Return the mode that the file of systemd-networkd says."""
        lines = self.guest.read(f"{networkd.FOLDER}/{networkd.NETDEV}").splitlines()
        return next(line.removeprefix("Mode=") for line in lines if line.startswith("Mode="))

    def timers(self) -> list[str]:
        """Return the dead-men that wait."""
        said = self.guest.run(
            "systemctl", "list-units", "--plain", "--no-legend", "nodemanager-deadman-*.timer"
        ).stdout
        return [line.split()[0] for line in said.splitlines() if line.strip()]

    def has_address(self) -> bool:
        """Tell whether it has the address of its VLAN."""
        shown = self.guest.run("ip", "-br", "address", "show", "dev", f"{BOND}.{VLAN}", check=False).stdout
        return address(int(self.name[-1])) in shown

    def is_whole(self, mode: str) -> bool:
        """Tell whether its bond has a mode, all cards, and the VLAN with its address."""
        return (self.mode(), self.cards()) == (mode, sorted(NICS)) and self.has_address()

    def forget(self) -> None:
        """Have nothing left of changes of the bond."""
        self.guest.run("systemctl", "stop", "nodemanager-deadman-*", check=False)
        self.guest.run("rm", "-rf", STATE)

    def make_bond(self, mode: str) -> None:
        """Have systemd-networkd make the bond; where one card sends, it is the first.

        systemd-networkd takes any, and over direct cables both ends have to send by the same.
        """
        number = int(self.name[-1])
        for name, text in networkd.files(number, mode).items():
            self.guest.write(f"{networkd.FOLDER}/{name}", text)
        self.guest.run("networkctl", "reload")
        until(lambda: self.is_whole(mode), f"the bond of {self.name}", SECONDS)
        if mode == "active-backup":
            self.send_by(NICS[0])


@dataclass
class AgentLab:
    """Two guests with agents, and what they are joined to."""

    site: Site
    api: FleetApi
    nodes: list[AgentNode]

    @classmethod
    @contextlib.contextmanager
    def up(cls, site: Site, folder: Path) -> Iterator[AgentLab]:
        """Serve an API, and have both guests joined to it; they have the program, and it is not started."""
        with serving(folder, "127.0.0.1", embedded=True, edge=True) as api:
            nodes = [AgentNode(guest, api) for guest in site.guests]
            for node in nodes:
                _join(node)
            lab = cls(site, api, nodes)
            try:
                yield lab
            finally:
                lab.rest()

    def start(self) -> None:
        """Have both agents running, which know of no change of a bond."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(AgentNode.start, self.nodes))
        until(lambda: not any(node.change() for node in self.nodes), "agents have forgotten", SECONDS)

    def forget(self) -> None:
        """Have nothing left of changes of bonds; agents that run go on, as a start takes them long."""
        for node in self.nodes:
            node.forget()

    def rest(self) -> None:
        """Have no agent running, no dead-man waiting, and nothing in the API of what agents told."""
        for node in self.nodes:
            node.kill()
            node.forget()
            with contextlib.suppress(errors.NotFound):
                self.api.delete("ManagedNode", node.name)


def _join(node: AgentNode) -> None:
    """Let a guest in, with the rights that an administrator gives, and a token of its own."""
    api = node.api
    rights = joined_host.succeeds("rbac", "--hostname", node.name, "-n", NAMESPACE).stdout
    api.apply(*manifests.load_all(rights, "rbac"))
    account = host_rights.account_name(node.name)
    issued = api.call(lambda client: request_token(client, account, NAMESPACE, seconds=TOKEN_SECONDS))
    assert api.server is not None
    admin, server = api.server.config(), f"https://{OUTSIDE}:{api.server.port}"
    seen = dataclasses.replace(admin, server=server, tls_server_name="127.0.0.1")
    config = host_kubeconfig.kubeconfig(seen, node.name, NAMESPACE, issued.token)
    node.guest.write("/etc/nodemanager/kubeconfig", config.decode(), 0o600)
