"""Other tools at the same work, where they are installed: nobody's benchmark installs them."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import processes, work
from bench.report import Row
from bench.work import BASE, FILE_MODE, Work

TIMEOUT = 1800.0
TURNS = 3
LEFT_OUT = "a quick run leaves other tools out: some take minutes, and keep things below /var"
_MODE = f"{FILE_MODE:04o}"


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool: what it is called, how it is told what to do, and how it is run on that."""

    program: str
    write: Callable[[Path, Path, Path], list[str]]
    """Given a folder for its own files, the sources, and where they shall be: its arguments."""


def measure(wanted: Work, folder: Path) -> tuple[list[Row], str]:
    """Return cold and no-op runs of every tool that is there, and a note about those that are not.

    They get the files only, as one resource each: templates and packages differ too much between
    them to be called the same. So it is less than what our agent does.
    """
    rows, absent = [], []
    sources = folder / "sources"
    for path, text in wanted.contents():
        target = sources / path.removeprefix(BASE + "/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="ascii")
    for name, peer in PEERS.items():
        if shutil.which(peer.program) is None:
            absent.append(name)
            continue
        root = folder / f"root-of-{name}"
        target = root / BASE.lstrip("/")
        target.mkdir(parents=True)
        (folder / name).mkdir()
        argv = [peer.program, *peer.write(folder / name, sources, target)]
        rows += _rows(name, argv, root, wanted, TURNS)
    return rows, f"not installed: {', '.join(absent)}" if absent else ""


def _rows(name: str, argv: Sequence[str], root: Path, wanted: Work, turns: int) -> list[Row]:
    cold = _seconds(argv)
    literal = {path for path, _ in wanted.contents()}
    wrong = [path for path in work.missing(root, wanted, {}) if path in literal]
    if wrong:  # a tool that fails may well say that it succeeded
        raise processes.ChildFailed(
            f"cannot measure {name}: {len(wrong)} files are wrong, such as {wrong[0]}"
        )
    noop = statistics.median(_seconds(argv) for _ in range(turns))
    return [
        Row(f"{name}, no-op, files only, whole process", noop * 1000, "ms"),
        Row(f"{name}, cold, files only, whole process", cold * 1000, "ms"),
    ]


def _seconds(argv: Sequence[str]) -> float:
    began = time.monotonic()
    done = subprocess.run(
        argv, env=processes.environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    # puppet, told so, says 2 when it changed something
    if done.returncode not in (0, 2):
        said = (done.stderr or done.stdout).strip()[-1000:]
        raise processes.ChildFailed(f"cannot measure {argv[0]}: status {done.returncode}: {said}")
    return time.monotonic() - began


def _pairs(sources: Path, target: Path) -> Mapping[Path, Path]:
    return {file: target / file.relative_to(sources) for file in sorted(sources.glob("*/*"))}


def _folders(pairs: Mapping[Path, Path]) -> list[str]:
    return sorted({str(there.parent) for there in pairs.values()})


def _cfengine(folder: Path, sources: Path, target: Path) -> list[str]:
    policy = folder / "files.cf"
    promises = "".join(
        f'  "{there}" create => "true", perms => given, content => "{_escaped(file.read_text())}";\n'
        for file, there in _pairs(sources, target).items()
    )
    policy.write_text(
        'body common control { bundlesequence => { "files_" }; }\n'
        'body agent control { ifelapsed => "0"; }\n'
        f'body perms given {{ mode => "{_MODE}"; rxdirs => "false"; owners => {{ "root" }}; }}\n'
        f"bundle agent files_ {{\n files:\n{promises}}}\n"
    )
    policy.chmod(0o600)
    for there in _folders(_pairs(sources, target)):
        Path(there).mkdir(exist_ok=True)  # it makes no parents of its own accord
    return ["--no-lock", "--file", str(policy)]


def _escaped(text: str) -> str:
    """Return a text as CFEngine has it between quotes: lines end as they do, and no \\n is one."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _salt(folder: Path, sources: Path, target: Path) -> list[str]:
    states = {
        str(there): {"file.managed": [
            {"source": f"salt://{file.relative_to(sources)}"}, {"user": "root"}, {"mode": _MODE},
            {"makedirs": True},
        ]}
        for file, there in _pairs(sources, target).items()
    }  # fmt: skip
    shutil.copytree(sources, folder / "states")
    (folder / "states/files.sls").write_text("#!json\n" + json.dumps(states))
    minion = {
        "file_client": "local", "master_type": "disable", "id": "bench", "root_dir": str(folder / "root"),
        "file_roots": {"base": [str(folder / "states")]}, "enable_fqdns_grains": False,
    }  # fmt: skip
    (folder / "minion").write_text(json.dumps(minion))  # JSON is YAML
    return [
        "--local",
        "--config-dir",
        str(folder),
        "--retcode-passthrough",
        "-l",
        "error",
        "state.apply",
        "files",
    ]


def _puppet(folder: Path, sources: Path, target: Path) -> list[str]:
    pairs = _pairs(sources, target)
    manifest = "".join(f"file {{ '{there}': ensure => directory }}\n" for there in _folders(pairs))
    manifest += "".join(
        f"file {{ '{there}': ensure => file, owner => 'root', mode => '{_MODE}', source => '{file}' }}\n"
        for file, there in pairs.items()
    )
    (folder / "files.pp").write_text(manifest)
    return ["apply", "--detailed-exitcodes", str(folder / "files.pp")]


def _ansible(folder: Path, sources: Path, target: Path) -> list[str]:
    """One task per file takes it a quarter of an hour; it is given one recursive copy instead."""
    copy = {
        "src": f"{sources}/",
        "dest": f"{target}/",
        "owner": "root",
        "mode": _MODE,
        "directory_mode": "0755",
    }
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [{"copy": copy}]}
    (folder / "files.yml").write_text(json.dumps([play]))
    return ["-i", "localhost,", str(folder / "files.yml")]


def _pyinfra(folder: Path, sources: Path, target: Path) -> list[str]:
    (folder / "deploy.py").write_text(
        "from pyinfra.operations import files\n"
        f"files.sync(src={str(sources)!r}, dest={str(target)!r}, user='root', mode='{_MODE[1:]}')\n"
    )
    return ["@local", "-y", str(folder / "deploy.py")]


PEERS = {
    "cfengine": Peer("cf-agent", _cfengine),
    "salt": Peer("salt-call", _salt),
    "puppet": Peer("puppet", _puppet),
    "ansible": Peer("ansible-playbook", _ansible),
    "pyinfra": Peer("pyinfra", _pyinfra),
}
