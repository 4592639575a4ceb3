"""A host in a folder on which the program of the agent is upgraded: the real guard, among tools that play.

    root/    the disk: the program, the state, the service of the guard
    world/   what no power cut takes back: what was synced last, which program runs, for how long none worked

The guard is the shell script as it is, but for the paths in it. `mv`, `rm`, `sync`, `sleep` and `systemctl`
are scripts that note what happens: a nap is a second of a clock of ours, after which the agent that runs may
do something. Each is a boundary before and after which the guard can be killed.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nodemanager.host.base import HostError, ServiceKey
from nodemanager.host.files.tree import Tree
from nodemanager.host.process.runner import CommandNotFound, Completed
from nodemanager.host.process.threads import in_thread
from nodemanager.host.self_update.guard import Guard, GuardService
from nodemanager.host.self_update.records import UpgradeRecords
from nodemanager.host.self_update.staging import Stager, WantedProgram
from nodemanager.host.self_update.upgrading import UpgradeOrder, Upgrader
from nodemanager.plan.facts import ServiceFact

OLD, GOOD, CRASH, HANG = "old", "good", "crash", "hang"
SECONDS = 6
"""What a program has to prove itself, where the guard is looked at: less than people can say."""
VERSIONS = {OLD: "0.1.0", GOOD: "0.2.0", CRASH: "0.2.0", HANG: "0.2.0", "candidate": "0.2.0rc1"}
_PRELUDE = """\
#!/bin/sh
world=@WORLD@ root=@ROOT@
point() {
    n=$(cat $world/points); echo $((n + 1)) > $world/points
    [ "$n" != "$(cat $world/kill)" ] || kill -KILL 0
}
kind() { sed -n 's/^# nodemanager //p' $root/bin/nodemanager; }
keep() {
    /bin/rm -rf $world/disk.new
    /bin/cp -a $root $world/disk.new
    /bin/rm -rf $world/disk
    /bin/mv $world/disk.new $world/disk
}
point
"""
_TOOLS = {
    "mv": '/bin/mv "$@"; status=$?\npoint\nexit $status\n',
    "rm": '/bin/rm "$@"; status=$?\npoint\nexit $status\n',
    "sync": "keep\npoint\n",
    "timeout": 'shift 3; exec "$@"\n',  # the real one takes what it runs out of our process group
    "sleep": """\
read -r up _ < $world/uptime; up=$((${up%.*} + 1)); echo "$up.00 0" > $world/uptime
running=$(cat $world/running)
case $running in
    old|good) echo 0 > $world/gap ;;
    *) gap=$(($(cat $world/gap) + 1)); echo $gap > $world/gap
       [ $gap -le $(cat $world/longest) ] || echo $gap > $world/longest ;;
esac
since=$(($(cat $world/since) + 1)); echo $since > $world/since
new=$(sed -n 's/^new=//p' $root/state/agent-upgrade/intent 2>/dev/null)
case $running in
    old|good) [ "$(sha256sum < $root/bin/nodemanager | cut -c-64)" = "$new" ] || since=0 ;;
    *) since=0 ;;
esac
[ "$running" = "$(kind)" ] || since=0 # a process proves nothing of a file that it was not started from
if [ $since -ge 2 ]; then
    sed -n 's/^id=//p' $root/state/agent-upgrade/intent > $root/state/agent-upgrade/proof
    keep
fi
point
""",
    "systemctl": """\
case "$*" in
    *reset-failed*) ;;
    *restart*) kind > $world/running; echo 0 > $world/since ;;
    *MainPID*) echo MainPID=0 ;;
    *) echo Job=; echo ActiveState=active
       [ "$(cat $world/running)" != crash ] || echo "NRestarts=$(cat $world/since)" ;;
esac
point
""",
}


class ProgramWorld:
    """The folder of one host."""

    def __init__(self, folder: Path) -> None:
        self.root, self.world, self.tools = folder / "root", folder / "world", folder / "tools"
        self.program = self.root / "bin/nodemanager"
        self.new, self.previous = self.root / "bin/nodemanager.new", self.root / "bin/nodemanager.previous"
        self.state = self.root / "state/agent-upgrade"
        self.arch = "amd64"

    def make(self) -> None:
        """Make it anew, with the old program on it, which runs."""
        for one in (self.root, self.world, self.tools):
            shutil.rmtree(one, ignore_errors=True)
            one.mkdir(parents=True)
        self.program.parent.mkdir()
        (self.root / "etc").mkdir()
        self._program(self.program, OLD)
        for kind in (GOOD, CRASH, HANG):
            self._program(self.world / kind, kind)
        for name, text in (("points", "0"), ("longest", "0"), ("gap", "0"), ("since", "0"), ("kill", "-1")):
            (self.world / name).write_text(f"{text}\n")
        for name, body in _TOOLS.items():
            text = _PRELUDE.replace("@WORLD@", str(self.world)).replace("@ROOT@", str(self.root)) + body
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)
        self.boot()
        self.keep()

    def _program(self, path: Path, kind: str) -> None:
        path.write_text(f"#!/bin/sh\n# nodemanager {kind}\n")
        path.chmod(0o755)

    def kind(self) -> str:
        """Return which program is in place; it is whole, or this fails."""
        first, second = self.program.read_text().splitlines()
        assert first == "#!/bin/sh"
        return second.removeprefix("# nodemanager ")

    def running(self) -> str:
        return (self.world / "running").read_text().strip()

    def longest(self) -> int:
        """Return for how many seconds in a row no agent worked."""
        return int((self.world / "longest").read_text())

    def outcome(self) -> str:
        path = self.state / "outcome"
        lines = path.read_text().splitlines() if path.exists() else []
        return next((line.removeprefix("result=") for line in lines if line.startswith("result=")), "")

    def keep(self) -> None:
        """Have everything on disk."""
        new = self.world / "disk.new"
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(self.root, new, symlinks=True)
        shutil.rmtree(self.world / "disk", ignore_errors=True)
        new.rename(self.world / "disk")

    def cut(self) -> None:
        """Take the power away: what was not synced is gone."""
        shutil.rmtree(self.root)
        shutil.copytree(self.world / "disk", self.root, symlinks=True)
        self.boot()

    def boot(self) -> None:
        """Have init start the program that is in place when the guard has counted; the clock begins anew."""
        (self.world / "uptime").write_text("0.00 0\n")
        boots = self.world / "boot_id"
        number = int(boots.read_text()) if boots.exists() else 0
        boots.write_text(f"{number + 1}\n")
        (self.world / "gap").write_text("0\n")
        (self.world / "since").write_text("0\n")
        self._guard("count")
        (self.world / "running").write_text(f"{self.kind()}\n")

    def guard(self, kill: int = -1, init: str = "systemd") -> int:
        """Run the guard, if init would; it is killed at a point, or lives to its end. Return how it ended."""
        (self.world / "points").write_text("0\n")
        (self.world / "kill").write_text(f"{kill}\n")
        return self._guard("count", init=init) or self._guard(init=init)

    def _guard(self, *mode: str, init: str = "systemd") -> int:
        enabled = (self.root / "etc/enabled").exists() and (self.root / "etc/guard.service").exists()
        if not enabled or not (self.state / "guard.sh").exists():
            return 0
        intent = self.state / "intent"
        if intent.exists():
            intent.write_text(intent.read_text().replace("seconds=20\n", f"seconds={SECONDS}\n"))
        text = (self.state / "guard.sh").read_text()
        text = text.replace("PATH=/usr", f"PATH={self.tools}:/usr", 1)
        script = self.world / "guard.sh"
        text = text.replace("/proc/sys/kernel/random/boot_id", str(self.world / "boot_id"))
        text = text.replace("/var/log/nodemanager.log", str(self.world / "log"))
        script.write_text(text.replace("/proc/uptime", str(self.world / "uptime")))
        argv = ["/bin/sh", str(script), init, *mode]
        done = subprocess.run(argv, capture_output=True, timeout=300, check=False, start_new_session=True)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
        return done.returncode

    def upgrader(self, sync: Callable[[], None] | None = None) -> Upgrader:
        """Return the real thing, on this host."""
        tree = Tree("/")
        records = UpgradeRecords(tree, str(self.root / "state"))
        service = GuardService(
            "systemd", "guard", str(self.root / "etc/guard.service"), 0o644, "guard.service"
        )
        manager: Any = FileInit(self)

        async def run(argv: Sequence[str], **_how: object) -> Completed:
            if argv[0] == "sync":
                await in_thread(sync or self.keep)
                return Completed(tuple(argv), 0, b"", b"")
            return await self._run(argv)

        stager = Stager(tree, str(self.program), run, self.arch)
        return Upgrader(records, stager, Guard(tree, records, service, manager))

    def order(self, kind: str) -> UpgradeOrder:
        """Return an upgrade to one of the programs."""
        return UpgradeOrder("1d", WantedProgram(str(self.world / kind)), "0.1.0", report=True, deadline=30)

    async def _run(self, argv: Sequence[str]) -> Completed:
        if not argv[0].startswith("/"):
            raise CommandNotFound(argv[0])
        kind = await in_thread(lambda: Path(argv[0]).read_text().split()[-1])
        return Completed(tuple(argv), 0, f"nodemanager {VERSIONS[kind]} sh/1 x\n".encode(), b"")


class FileInit:
    """An init system whose links are files; nothing that it writes is synced by itself."""

    name = "files"

    def __init__(self, world: ProgramWorld) -> None:
        self._world = world

    async def observe(self, keys: Iterable[ServiceKey]) -> Mapping[ServiceKey, ServiceFact]:
        return {key: ServiceFact(known=True, running=True) for key in keys}

    async def refresh(self, user: str = "") -> None:
        """Nothing to read."""

    async def enable(self, key: ServiceKey, *, enabled: bool) -> bool:
        (self._world.root / "etc/enabled").write_text(f"{key.name} {enabled}\n")
        return False

    async def restart(self, key: ServiceKey) -> None:
        """The guard is started by whoever looks at what happened; one that is not there cannot be."""
        if not (self._world.root / "etc/guard.service").exists():
            raise HostError(f"cannot restart {key.name}: there is no such service")

    async def stop(self, key: ServiceKey) -> None:
        (self._world.root / "etc/stopped").write_text(f"{key.name}\n")
