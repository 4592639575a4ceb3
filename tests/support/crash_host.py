"""A host to be killed: files of all kinds below a folder, and tools whose state and history are on disk."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nodemanager.agent.passes.converge import Converger
from nodemanager.agent.passes.host_records import HostRecords
from nodemanager.api.common.configset import ConfigSet
from nodemanager.host.apply import Tools
from nodemanager.host.base import HostError, ServiceKey, WantedPackage
from nodemanager.host.files.bucket import Bucket
from nodemanager.host.files.tree import Tree
from nodemanager.host.observe import Observer
from nodemanager.host.process import environment
from nodemanager.host.process.runs import Runs
from nodemanager.host.results import Result
from nodemanager.host.state.journal import Journal
from nodemanager.plan import merge
from nodemanager.plan.facts import ServiceFact
from support.fake_tools import MemoryLocks
from support.root_tree import config_set, literal_contents

SUBSCRIPTIONS = {
    "web": ["etc/app.conf", "etc/conf.d"],
    "db": ["etc/same.conf"],
    "cache": ["etc/link"],
    "never": ["etc/bad.conf"],
}
MANY = 12
"""Files beyond what is synced one by one."""


def prepare(folder: Path) -> None:
    """Make the host as it is before the pass."""
    etc = folder / "etc"
    for name in ("conf.d", "empty", "many"):
        (etc / name).mkdir(parents=True)
    for name in ("app.conf", "plain.conf", "same.conf", "valid.conf", "bad.conf", "gone", "conf.d/old",
                 "conf.d/keep", *(f"many/{number}" for number in range(0, MANY, 2))):  # fmt: skip
        (etc / name).write_text(f"old {name}")
    (etc / "same.conf").write_text("same")
    (etc / "link").symlink_to("old")
    (folder / "tools").mkdir()
    (folder / "ran").mkdir()


def declared(folder: Path) -> ConfigSet:
    """Return what the host shall be."""
    etc = folder / "etc"
    files: list[dict[str, Any]] = [
        {"path": f"{etc}/app.conf", "content": "new app\n" * 500},
        {"path": f"{etc}/plain.conf", "content": "new plain", "owner": "7", "group": "8", "mode": "0640"},
        {"path": f"{etc}/same.conf", "content": "same", "owner": "7", "mode": "04750"},
        {"path": f"{etc}/deep/er/x", "content": "deep"},
        {"path": f"{etc}/valid.conf", "content": "good",
         "validate": {"command": "grep", "args": ["-q", "good", "${STAGED}"]}},
        {"path": f"{etc}/bad.conf", "content": "bad", "validate": {"command": "false"}},
        {"path": f"{etc}/link", "ensure": "symlink", "target": "new", "owner": "7"},
        {"path": f"{etc}/new-link", "ensure": "symlink", "target": "app.conf"},
        {"path": f"{etc}/gone", "ensure": "absent"},
        {"path": f"{etc}/empty", "ensure": "absent"},
        {"path": f"{etc}/conf.d", "ensure": "directory", "purge": True},
        {"path": f"{etc}/conf.d/keep", "content": "kept"},
        {"path": f"{etc}/made", "ensure": "directory", "owner": "7", "mode": "02750"},
        {"path": f"{etc}/simple", "ensure": "directory"},
        *({"path": f"{etc}/many/{number}", "content": f"new {number}"} for number in range(MANY)),
    ]  # fmt: skip
    return config_set(
        "mixed",
        packages=[{"name": "tool"}],
        files=files,
        services=[
            {"name": name, "ensure": "running", "subscribe_files": [f"{folder}/{path}" for path in paths]}
            for name, paths in SUBSCRIPTIONS.items()
        ],
        executions=[
            _execution(folder, "on-change", {"subscribe_files": [f"{etc}/app.conf", f"{etc}/gone"]}),
            _execution(folder, "once", {"creates": f"{folder}/ran/once"}),
        ],
    )


def _execution(folder: Path, name: str, when: dict[str, Any]) -> dict[str, Any]:
    """A program that talks, takes a moment, and says at its end that it ran."""
    line = 'echo working; sleep 0.02; echo "still at it"; echo ran >> "$0"'
    return {"command": "sh", "args": ["-c", line, f"{folder}/ran/{name}"], **when}


def packages(folder: Path) -> dict[str, str]:
    """Return the packages that are installed."""
    found: dict[str, str] = json.loads((folder / "tools" / "state").read_text())["packages"]
    return found


class DiskTools:
    """Packages and services of which one file holds the state, and another every deed."""

    name = "disk"
    databases = ("/var/lib/disk",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state = folder / "tools" / "state"

    def _load(self) -> dict[str, Any]:
        if self._state.exists():
            found: dict[str, Any] = json.loads(self._state.read_text())
            return found
        return {"packages": {}, "running": ["web", "db", "never"], "enabled": ["web", "db", "never"]}

    def _did(self, deed: str, name: str, state: dict[str, Any]) -> None:
        new = self._state.with_suffix(".new")
        new.write_text(json.dumps(state))
        try:
            os.rename(new, self._state)  # noqa: PTH104 - this is the deed: it can fail, and be the last
        except OSError as error:
            raise HostError(f"cannot {deed} {name}: {error}") from error
        with (self._folder / "tools" / "log").open("a") as log:
            log.write(f"{deed} {name} {picture(self._folder, SUBSCRIPTIONS.get(name, []))}\n")

    async def installed(self) -> Mapping[str, str]:
        return dict(self._load()["packages"])

    async def candidates(self, names: Sequence[str]) -> Mapping[str, str]:
        return dict.fromkeys(names, "1")

    async def rehearse(self, install: Sequence[WantedPackage], remove: Sequence[str]) -> Mapping[str, str]:
        del install, remove
        return {}

    async def install(self, wanted: Sequence[WantedPackage]) -> None:
        state = self._load()
        state["packages"].update({one.name: "1" for one in wanted})
        self._did("install", " ".join(one.name for one in wanted), state)

    async def remove(self, names: Sequence[str]) -> None:
        state = self._load()
        for name in names:
            state["packages"].pop(name, None)
        self._did("remove", " ".join(names), state)

    async def upgrade_all(self, hold: Sequence[WantedPackage] = ()) -> None:
        raise NotImplementedError

    async def reboot_needed(self) -> str:
        return ""

    async def observe(self, keys: Iterable[ServiceKey]) -> Mapping[ServiceKey, ServiceFact]:
        state = self._load()
        return {
            key: ServiceFact(
                known=True, running=key.name in state["running"], enabled=key.name in state["enabled"]
            )
            for key in keys
        }

    async def refresh(self, user: str = "") -> None:
        """Do nothing: there are no units that could be out of date."""

    async def enable(self, key: ServiceKey, *, enabled: bool) -> bool:
        state = self._load()
        others = [name for name in state["enabled"] if name != key.name]
        state["enabled"] = [*others, *([key.name] if enabled else [])]
        self._did("enable" if enabled else "disable", key.name, state)
        return True

    async def set_arguments(self, key: ServiceKey, arguments: str) -> None:
        raise NotImplementedError

    async def start(self, key: ServiceKey) -> None:
        state = self._load()
        state["running"].append(key.name)
        self._did("start", key.name, state)

    async def stop(self, key: ServiceKey) -> None:
        state = self._load()
        state["running"].remove(key.name)
        self._did("stop", key.name, state)

    async def restart(self, key: ServiceKey) -> None:
        self._did("restart", key.name, self._load())

    async def reload(self, key: ServiceKey) -> bool:
        raise NotImplementedError


def picture(folder: Path, paths: Iterable[str]) -> str:
    """Return a digest of paths: what is there, whose it is, and what is in it."""
    hasher = hashlib.sha256()
    for path in paths:
        hasher.update(repr(entry(folder / path)).encode())
    return hasher.hexdigest()


def entry(path: Path) -> tuple[object, ...]:
    """Return everything about a path that matters."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return ("absent",)
    if path.is_symlink():
        what: object = str(path.readlink())
    elif path.is_dir():
        what = tuple(sorted(one.name for one in path.iterdir() if not one.name.startswith(".nodemanager-")))
    else:
        what = hashlib.sha256(path.read_bytes()).hexdigest()
    return (oct(found.st_mode), found.st_uid, found.st_gid, what)


async def converge(folder: Path, before: Callable[[], None]) -> list[Result]:
    """Do one pass, as a process of its own would; `before` is called when everything is set up."""
    tree = Tree("/")
    tools, run, state = DiskTools(folder), environment.host_runner(), f"{folder}/state"
    try:
        journal = Journal(tree, state)
        runs = Runs(tree, journal, run, f"{state}/runs")
        hands = Tools(tools, tools, runs, journal, MemoryLocks())
        bucket = Bucket(tree, f"{state}/filebucket")
        converger = Converger(Observer(tree, tools, tools, run), hands, HostRecords(bucket))
        desired = merge.merge([declared(folder)])
        before()
        return await converger.run(desired, literal_contents(desired))
    finally:
        tree.close()
