"""A QEMU guest: a host with a kernel of its own, and therefore with bonds, VLANs and DRBD.

    with Guest.resume(folder, 0, {"data0": card, "data1": other}) as guest:
        guest.run("ip", "link")                  # as root, through a port that needs no network
        guest.set_carrier("data0", up=False)     # the cable is pulled out of the card, and the card notices

Without KVM, which is not everywhere: one guest takes one core while it computes. To boot takes it a quarter
of a minute; so one is booted once and kept as it was then (`booted`), and others go on from there.
"""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from support import debian_root
from support.lab import image
from support.lab.channel import Answer, Channel, Qmp
from support.lab.wires import Card, Relay

BOOT_SECONDS = 1200.0
"""Ten seconds of a core that it has for itself; a guard against hanging, where it has not."""
RUN_SECONDS = 300.0
CHUNK = 512 * 1024
MEMORY = 1024
FAST = 10 * 1024**3
"""Bytes per second, for a guest that is saved: more than there are."""
DISK = 64 * 1024 * 1024
COMMAND_LINE = (
    "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr random.trust_cpu=on no_timer_check"
    " systemd.show_status=false systemd.unit=multi-user.target systemd.hostname=node SYSTEMD_SECCOMP=0"
)
"""The last one is for systemd: without KVM, it takes a second for each service to put a filter together."""


class Failed(AssertionError):
    """A guest did not do what a test asked of it."""


class Guest:
    """A host of the lab."""

    def __init__(self, name: str, folder: Path, channel: Channel, qmp: Qmp) -> None:
        self.name = name
        self.folder = folder
        self._channel = channel
        self._qmp = qmp
        self.ready_in = 0.0
        """Seconds that it took."""

    @property
    def disk(self) -> Path:
        """Its disk, as a file of this machine; the guest calls it /dev/vda."""
        return self.folder / "disk"

    @classmethod
    @contextlib.contextmanager
    def resume(cls, folder: Path, number: int, cards: Mapping[str, Card]) -> Iterator[Guest]:
        """Have a guest that has just booted, and is this node; it is off at the end, and nothing is left."""
        started, saved = time.monotonic(), booted()
        with cls._started(folder, number, cards, "-incoming", f"exec:cat {shlex.quote(str(saved))}") as guest:
            guest._await("paused")
            guest._qmp.execute("cont")
            guest._become(number)
            guest.ready_in = time.monotonic() - started
            yield guest

    @classmethod
    @contextlib.contextmanager
    def boot(cls, folder: Path, cards: Mapping[str, Card]) -> Iterator[Guest]:
        """Switch a guest on, and wait until it is up."""
        started = time.monotonic()
        with cls._started(folder, 0, cards) as guest:
            try:
                guest.run("systemctl", "is-system-running", "--wait", check=False, timeout=BOOT_SECONDS)
            except (OSError, TimeoutError) as error:
                raise Failed(f"cannot boot {guest.name}: {error}:\n{guest.console()}") from error
            guest.ready_in = time.monotonic() - started
            yield guest

    @classmethod
    @contextlib.contextmanager
    def _started(cls, folder: Path, number: int, cards: Mapping[str, Card], *flags: str) -> Iterator[Guest]:
        name = f"node{number}"
        folder.mkdir(parents=True)
        with (folder / "disk").open("wb") as disk:
            disk.truncate(DISK)
        with (folder / "console").open("wb") as console:
            process = subprocess.Popen(
                [*_argv(folder, cards), *flags],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )
        with contextlib.ExitStack() as stack:
            stack.callback(process.wait, 60)
            stack.callback(process.kill)
            channel = stack.enter_context(contextlib.closing(Channel(folder / "channel.sock", process)))
            qmp = stack.enter_context(contextlib.closing(Qmp(folder / "qmp.sock", process)))
            yield cls(name, folder, channel, qmp)

    def save(self, path: Path) -> None:
        """Keep it as it is now, and stop it."""
        self._qmp.execute("migrate-set-parameters", {"max-bandwidth": FAST})
        self._qmp.execute("stop")
        self._qmp.execute("migrate", {"uri": f"exec:cat > {shlex.quote(str(path))}"})
        self._await("postmigrate")

    def _await(self, state: str) -> None:
        """Wait for a state of QEMU: it loads and saves by itself."""
        deadline = time.monotonic() + BOOT_SECONDS
        while (now := self._qmp.execute("query-status")["status"]) != state:
            if time.monotonic() > deadline:
                raise Failed(f"{self.name} is {now}, and not {state}:\n{self.console()}")
            time.sleep(0.05)

    def _become(self, number: int) -> None:
        """Be this node, now; all were one when they booted."""
        self.run("date", "--set", f"@{time.time():.3f}")
        self.write("/etc/hostname", f"{self.name}\n")
        self.run("hostname", self.name)
        for nic in image.NICS[1:]:
            self.run("ip", "link", "set", nic, "address", image.mac(number, nic))

    def run(
        self, *argv: str, check: bool = True, stdin: str = "", timeout: float = RUN_SECONDS,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Run a command in the guest as root, and return what it said."""
        answer = self._channel.ask(
            {"argv": argv, "stdin": stdin.encode(), "env": dict(env or {}), "timeout": timeout}, timeout
        )
        done = _completed(argv, answer)
        if check and done.returncode != 0:
            said = f"{done.stdout}{done.stderr}"
            raise Failed(f"{' '.join(argv)} failed in {self.name} with {done.returncode}:\n{said}")
        return done

    def says(self, *argv: str) -> str:
        """Run a command, and return what it printed without the end of the line."""
        return self.run(*argv).stdout.strip()

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file of the guest, with the directories above it."""
        self._put(path, text.encode(), mode)

    def copy(self, source: Path, target: str) -> None:
        """Copy a file of this machine into the guest."""
        self._put(target, source.read_bytes(), source.stat().st_mode & 0o777)

    def _put(self, path: str, data: bytes, mode: int) -> None:
        self.run("rm", "-f", path)
        for start in range(0, max(len(data), 1), CHUNK):
            chunk = data[start : start + CHUNK]
            self._channel.ask({"path": path, "data": chunk, "mode": mode}, RUN_SECONDS)

    def read(self, path: str) -> str:
        """Return the content of a file of the guest."""
        return self.run("cat", path).stdout

    def journal(self, *argv: str, lines: int = 200) -> str:
        """Return the end of its journal; `argv` narrows it down, such as `-u x`."""
        return self.run("journalctl", "--no-pager", f"--lines={lines}", *argv, check=False).stdout

    def console(self) -> str:
        """Return what it wrote to its console."""
        return (self.folder / "console").read_text(errors="replace")[-4000:]

    def set_carrier(self, nic: str, *, up: bool) -> None:
        """Plug a cable into a card, or pull it out; the card notices, as a real one does."""
        self._qmp.execute("set_link", {"name": nic, "up": up})


def booted() -> Path:
    """Return a guest that has booted; made unless it is there, and made anew by another QEMU."""
    version = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, check=True, timeout=60)
    recipe = hashlib.sha256(version.stdout + "\n".join(_argv(Path(), {})).encode())

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="nm-lab-") as short, Relay() as relay:
            cards = {nic: relay.card() for nic in image.NICS[1:]}
            with Guest.boot(Path(short) / "0", cards) as guest:
                guest.save(folder / "state")
                (folder / "seconds").write_text(f"{guest.ready_in:.1f}\n")

    return debian_root.kept(f"lab-booted-{recipe.hexdigest()[:16]}", make) / "state"


def _argv(folder: Path, cards: Mapping[str, Card]) -> list[str]:
    kernel, archive = image.find()
    argv = ["qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "1", "-m", str(MEMORY)]
    argv += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"]
    argv += ["-kernel", str(kernel), "-initrd", str(archive), "-append", COMMAND_LINE]
    argv += ["-device", "virtio-rng-pci", "-device", "virtio-serial-pci"]
    argv += ["-chardev", f"socket,id=lab,path={folder / 'channel.sock'},server=on,wait=off"]
    argv += ["-device", "virtserialport,chardev=lab,name=lab"]
    argv += ["-qmp", f"unix:{folder / 'qmp.sock'},server=on,wait=off"]
    argv += ["-drive", f"file={folder / 'disk'},format=raw,if=virtio,cache=writeback"]
    argv += ["-netdev", "user,id=outside,ipv6=off"]
    for nic, card in cards.items():
        argv += ["-netdev", card.netdev(nic)]
    for nic in ("outside", *cards):
        argv += ["-device", f"virtio-net-pci,netdev={nic},mac={image.mac(0, nic)},romfile="]
    return argv


def _completed(argv: tuple[str, ...], answer: Answer) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(
        list(argv),
        answer.code,
        answer.stdout.decode(errors="replace"),
        answer.stderr.decode(errors="replace"),
    )
