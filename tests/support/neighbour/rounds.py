"""The run, seen from outside of the host: she races, she rests, everything is checked, and again."""

from __future__ import annotations

import json
import queue
import random
import re
import secrets
import signal
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from nodemanager.agent.report.heartbeat import lease_name
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from support.fleet import Host, until
from support.fleet_api import NAMESPACE, resource_of
from support.neighbour import places
from support.neighbour.puppets import INSIDE, Escape, Puppet

HERE: Final = Path(__file__).parent
PLAYERS: Final = {
    "racer-0": places.MALLORY,
    "racer-1": places.MALLORY,
    "racer-2": places.ODD,
    "swapper-3": places.MALLORY,
    "reader-4": places.MALLORY,
}
"""Her processes, and as whom each of them runs."""
ROUND_SECONDS: Final = 10.0
PATIENCE: Final = 30.0
"""Seconds without any progress after which the agent is not expected to put right what is wrong."""
ENOUGH_PASSES: Final = 8
"""So many answers of its loop; some of them only write the status."""
SETTLE_SECONDS: Final = 600.0
ASK_METRICS: Final = (
    "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080/metrics').read().decode())"
)
LIMITS: Final = {"rss": 512 << 20, "apparent": 1 << 30, "allocated": 1 << 30, "foreign": 0}
"""Bytes of memory, and of the state folder, with holes and without; files in it that are not root's."""
SILENT_SECONDS: Final = 60.0
SHOWN: Final = 3
"""So many escapes of a family are told with all that led to them."""


class Neighbourhood:
    """A host with an agent, and the neighbour."""

    def __init__(self, host: Host, seed: int) -> None:
        self.host, self.seed = host, seed
        self.dice = random.Random(seed)
        self.escapes: list[Escape] = []
        self.families: Counter[str] = Counter()
        """All escapes; of each family, only a few are kept."""
        self._told: set[tuple[str, str]] = set()
        self.tricks: Counter[str] = Counter()
        self.rounds = self.strikes = self.looks = 0
        self.worst: Counter[str] = Counter()
        self.cries: queue.Queue[dict[str, Any]] = queue.Queue()
        self.puppets: list[Puppet] = []
        self._word = f"secret-marker-{secrets.token_hex(8)}"
        self._pid = ""
        self._began = time.monotonic()

    def prepare(self) -> None:
        """Make the neighbour, her places, and what she must not touch; then let the agent in."""
        machine = self.host.machine
        machine.run("groupadd", "--gid", str(places.MALLORY), "mallory")
        ids = ("--uid", str(places.MALLORY), "--gid", str(places.MALLORY))
        machine.run("useradd", *ids, "--no-create-home", "--home-dir", places.HOME, "mallory")
        for path, (uid, gid, mode) in places.PLACES.items():
            self._folder(path, uid, gid, mode)
        for vault in places.VAULTS:
            self._folder(vault, 0, 0, 0o700)
            machine.write(f"{vault}/inner", f"vault-marker-{secrets.token_hex(8)}\n", 0o644)
        shadow = f"shadow-marker-{secrets.token_hex(8)}"
        machine.write(places.SHADOW, f'root:"{shadow}" "{shadow}"\n', 0o600)
        machine.write("/etc/canary.d/open", "everybody may read this\n")
        machine.write("/root/canary/below/closed", "nobody may read this\n", 0o600)
        machine.write(f"{places.BELOW}/.keep", "so that she cannot remove the directory\n")
        machine.copy(HERE, f"{INSIDE}/support/neighbour")
        machine.copy(HERE.parent / "__init__.py", f"{INSIDE}/support/__init__.py")
        self.host.api.secret(places.SECRET, word=self._word)
        self.host.join()

    def _folder(self, path: str, uid: int, gid: int, mode: int) -> None:
        owner = (f"--owner={uid}", f"--group={gid}", f"--mode={mode:04o}")
        self.host.machine.run("install", "--directory", *owner, path)

    def start(self) -> None:
        """Start her processes, and root's; watch first."""
        watch = ("python3", "-m", "support.neighbour.watch")
        self.puppets.append(Puppet(self.host.machine, "watch", self.cries, *watch))
        for name, uid in PLAYERS.items():
            user = ("setpriv", f"--reuid={uid}", f"--regid={places.MALLORY}", "--clear-groups")
            program = ("python3", "-m", "support.neighbour.mallory", name.partition("-")[0])
            argv = (*user, *program, f"{self.seed}/{name}")
            self.puppets.append(Puppet(self.host.machine, name, self.cries, *argv))
        self._pid = self.host.shows("nodemanager", "MainPID")
        self._began = time.monotonic()

    @property
    def watch(self) -> Puppet:
        return self.puppets[0]

    @property
    def players(self) -> list[Puppet]:
        return self.puppets[1:]

    def round(self) -> None:
        """Race, rest, check."""
        self.rounds += 1
        self.watch.ask("tidy")
        made = places.targets(self.rounds, self._word)
        self.watch.ask("race", targets=json.loads(places.dump(made, secrets=True)))
        known = json.loads(places.dump(made, secrets=False))
        for one in self.players:
            one.ask("race", targets=known)
        self.host.api.config_set(places.SET, self.host.name, files=[places.declaration(one) for one in made])
        over = time.monotonic() + ROUND_SECONDS
        while (rest := over - time.monotonic()) > 0:
            time.sleep(min(rest, self.dice.uniform(0.3, 2.0)))
            self.host.look_again()  # a pass repairs what a fight has made the realtime watch wait for
        self._all("rest")
        rested = time.monotonic()
        self._settle()
        self._strike()
        self._look()
        self._take()
        took = time.monotonic() - rested
        say(f"round {self.rounds}: {self.tricks.total()} tricks so far; checked in {took:.1f} s")

    def _all(self, do: str) -> list[Any]:
        for one in self.players:
            one.tell(do)
        return [one.hear() for one in self.players]

    def _settle(self) -> None:
        """Wait until everything is as declared; what stays otherwise is an escape, too.

        That it stays is known only after passes that looked at it: on a busy machine one takes its time.
        """
        began = moved = time.monotonic()
        passes = 0
        faults: dict[str, str] = {"": ""}
        while faults:
            self.watch.ask("clear")
            self.host.look_again()
            time.sleep(0.5)
            found = self.watch.ask("check")
            if found != faults:
                moved, passes = time.monotonic(), self._passes()
            faults, now = found, time.monotonic()
            looked = now > moved + PATIENCE and self._passes() >= passes + ENOUGH_PASSES
            if looked or now > began + SETTLE_SECONDS:
                for path, fault in faults.items():
                    self._escaped(path, f"is not put right: it {fault}")
                return
        self.worst["settle ms"] = max(self.worst["settle ms"], int((time.monotonic() - began) * 1000))

    def _passes(self) -> int:
        """Return how often the agent has ended what it was asked for."""
        text = self.host.machine.run("python3", "-c", ASK_METRICS).stdout
        found = re.findall(
            r'^controller_runtime_reconcile_total{controller="host",.*} (\d+)', text, re.MULTILINE
        )
        return sum(map(int, found))

    def _strike(self) -> None:
        """Let her write through all that she holds while nobody can mend it."""
        before = self.watch.ask("struck")
        self.host.machine.run("kill", "-STOP", self._pid)
        try:
            self.strikes += sum(self._all("strike"))
            after = self.watch.ask("struck")
        finally:
            self.host.machine.run("kill", "-CONT", self._pid)
        for path, fault in after.items():
            if before.get(path) != fault:
                self._escaped(path, f"was changed through a descriptor or mapping: it {fault}")

    def _look(self) -> None:
        """Look at the agent, and at what it told the world."""
        if self.host.shows("nodemanager", "MainPID") != self._pid:
            self._escaped("agent", "has ended, and was started again")
            self._pid = self.host.shows("nodemanager", "MainPID")
        health = self.watch.ask("health", pid=int(self._pid))
        for what, taken in health.items():
            self.worst[what] = max(self.worst[what], taken)
            if taken > LIMITS.get(what, taken):
                self._escaped("agent", f"takes too much: {what} is {taken}")
        if self._silence() > SILENT_SECONDS:
            self._escaped("agent", f"is silent for {self._silence():.0f} s")
        for where, text in (*self._published(), ("journal", self.host.log())):
            if found := re.search(places.MARKER, text.encode()):
                at = max(found.start() - 300, 0)
                self._escaped(where, f"has {found[1].decode()} content: {text[at : found.end()]!r}")

    def _silence(self) -> float:
        renewed = self.host.api.get("Lease", lease_name(self.host.name))["spec"]["renewTime"]
        return (datetime.now(UTC) - datetime.fromisoformat(renewed)).total_seconds()

    def _published(self) -> list[tuple[str, str]]:
        """Return everything that the agent can have written to the API since the last time."""

        async def read(client: Client) -> list[tuple[str, str]]:
            kinds = ("ManagedNode", "Event", "ConfigSet", "Lease")
            found = [(kind, json.dumps((await client.list(resource_of(kind))).items)) for kind in kinds]
            await client.delete_collection(resource_of("Event"), Selection(NAMESPACE))
            return found

        return self.host.api.call(read)

    def _take(self) -> None:
        """Take what was cried meanwhile, and what was done."""
        while True:
            try:
                said = self.cries.get_nowait()
            except queue.Empty:
                break
            self._escaped(said["path"], said["escape"], said["at"])
        self.tricks = Counter()
        for answer in self._all("rest"):
            self.tricks.update(answer["tricks"])
        self.looks = self.tricks.pop("look", 0)

    def _escaped(self, path: str, what: str, at: float | None = None) -> None:
        if (path, what) in self._told:
            return
        self._told.add((path, what))
        made = Escape(path, what, (at or time.monotonic()) - self._began, self.rounds)
        self.families[made.family] += 1
        if self.families[made.family] <= SHOWN:
            made.tail = {one.name: one.ask("tail", path=path) for one in self.players}
            self.escapes.append(made)
            say(f"escape after {made}")

    def finish(self) -> None:
        """Start the agent anew, which sweeps, and look for what is left."""
        self.host.machine.run("systemctl", "restart", "nodemanager")
        until(self._hears, "an agent that can be asked for a pass")
        self._settle()
        for path in self.watch.ask("left"):
            self._escaped(path, "is left")
        self._look()
        self._take()

    def _hears(self) -> bool:
        """Tell whether the agent catches SIGHUP, which ends a process that does not yet."""
        # Asked for each time: systemd sometimes finds no cgroup for it (219), and has to start it twice.
        self._pid = self.host.shows("nodemanager", "MainPID")
        status = self.host.text(f"/proc/{self._pid}/status")
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
        return caught is not None and bool(int(caught[1], 16) >> (signal.SIGHUP - 1) & 1)

    def end(self) -> None:
        for one in self.puppets:
            one.end()

    def report(self) -> str:
        """Return what was done, and what came of it."""
        drift = self.host.status().get("drift", {})
        told = drift.get("sequence", 0)
        lines = [
            f"seed {self.seed}: {self.rounds} rounds, {self.tricks.total()} tricks, {self.looks} looks",
            f"{told} drifts told, {self.strikes} strikes, {self.families.total()} escapes",
            f"tricks: {dict(self.tricks.most_common())}",
            f"at worst: {dict(self.worst)}",
        ]
        for name, times in self.families.most_common():
            first = min(one.after for one in self.escapes if one.family == name)
            lines.append(f"{times} x {name}, first after {first:.1f} s")
        return "\n".join((*lines, *map(str, self.escapes)))


def say(text: str) -> None:
    """Tell whoever waits for the end."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
