"""Where the neighbour can write, and what is declared there; the same text on both sides of the host."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

MALLORY: Final = 1200
ODD: Final = 200001
"""A number that is hers, too, and nobody's name: what a user namespace gives her."""
SHES: Final = (MALLORY, ODD)
DAEMON: Final = 1
OWN: Final = "/srv/evil"
BELOW: Final = "/srv/evil/roots"
"""A directory of root's; the one above it is hers, so she can put another in its place."""
SHARED: Final = "/srv/shared"
STICKY: Final = "/tmp/neighbour"
"""On another filesystem (tmpfs) than the rest."""
HOME: Final = "/home/mallory"
PLACES: Final = {
    OWN: (MALLORY, MALLORY, 0o755),
    BELOW: (0, 0, 0o755),
    SHARED: (0, MALLORY, 0o2775),
    STICKY: (0, 0, 0o1777),
    HOME: (MALLORY, MALLORY, 0o700),
}
"""Owner, group and mode of each."""
VAULTS: Final = tuple(f"{place}/vault-{number}" for place in (OWN, HOME) for number in range(4))
"""Directories of root's that nobody else may look into; she can rename them, and that must not help her."""
SHADOW: Final = "/etc/canary-shadow"
CANARIES: Final = (SHADOW, "/etc/canary.d", "/root/canary", "/etc/passwd", "/etc/shadow")
PROOF: Final = "/root/neighbour-was-here"
"""Made by her code if root runs it."""
STAGED: Final = ".nodemanager-"
STATE: Final = "/var/lib/nodemanager"
MARKER: Final = rb"(shadow|secret|vault)-marker-[0-9a-f]{16}"
SET: Final = "neighbour"
SECRET: Final = "neighbour-word"
PERL: Final = {"command": "/usr/bin/perl", "args": ["-c", "${STAGED}"]}
SHELL: Final = {"command": "/bin/sh", "args": ["-n", "${STAGED}"]}
HERS: Final = {"owner": "mallory", "group": "mallory"}

KINDS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "mode": {"mode": "0644"},
    "setuid": {"mode": "04755"},
    "daemon": {"owner": "daemon", "group": "daemon", "mode": "0640"},
    "hers": {**HERS, "mode": "0600"},
    "secret": {"secretRefs": [SECRET]},
    "secret-group": {"secretRefs": [SECRET], "mode": "0640"},
    "template": {"engine": "jinja"},
    "perl": {"validate": PERL},
    "perl-mode": {"validate": PERL, "mode": "0755"},
    "shell": {"validate": SHELL, "mode": "0644"},
    "folder": {"ensure": "directory", "mode": "0750"},
    "folder-hers": {"ensure": "directory", **HERS, "mode": "0755"},
    "purged": {"ensure": "directory", **HERS, "mode": "0755", "purge": True},
    "link": {"ensure": "symlink", "target": "/etc/canary.d/open"},
    "absent": {"ensure": "absent"},
    "once": {"createOnly": True},
    "observed": {"drift": "observe", "mode": "0644"},
}
"""What a declaration says besides its path and content."""


@dataclass(frozen=True)
class Target:
    """A declared path, and what must be there."""

    path: str
    kind: str
    ensure: str = "file"
    content: str = ""
    """What must be in it; of a Secret, not told to her."""
    mode: int | None = None
    uid: int = 0
    gid: int = 0
    link: str = ""
    purge: bool = False

    @property
    def place(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def secret(self) -> bool:
        return self.kind.startswith("secret")

    @property
    def free(self) -> bool:
        """Whether anything may be there: the agent was told to leave it alone."""
        return self.kind in ("once", "observed")

    @property
    def hers(self) -> bool:
        """Whether she may change it, so that nothing is promised of its content."""
        return self.uid == MALLORY


def targets(number: int, word: str, copies: int = 2) -> list[Target]:
    """Return everything that is declared in a round; each round has names of its own.

    A path that is fought over is repaired ever less often. New names are repaired at once.
    """
    made = []
    for place in PLACES:
        for kind, said in KINDS.items():
            for copy in range(copies):
                target = _target(f"{place}/{kind}-{number}-{copy}", kind, said, word)
                made.append(target)
                if target.purge:
                    made.append(_target(f"{target.path}/kept", "kept", {}, word))
    return made


def _target(path: str, kind: str, said: dict[str, Any], word: str) -> Target:
    owner = {"daemon": DAEMON, "mallory": MALLORY}.get(said.get("owner", ""), 0)
    ensure = said.get("ensure", "file")
    mode = int(said["mode"], 8) if "mode" in said else None
    text = _text(path, kind, word) if ensure == "file" else ""
    return Target(path, kind, ensure, text, mode, owner, owner, said.get("target", ""), "purge" in said)


def _text(path: str, kind: str, word: str) -> str:
    if kind.startswith("secret"):
        return f"{word} in {path}\n"
    return f"# {path}\n" + "# padding\n" * 50


def declaration(target: Target) -> dict[str, Any]:
    """Return how a ConfigSet says it."""
    said: dict[str, Any] = {"path": target.path, **KINDS.get(target.kind, {})}
    if target.secret:
        decoded = '{{ index .Node.Secrets "word" | base64.Decode }}'
        said["template"] = f"{decoded} in {target.path}\n"
    elif target.kind == "template":
        said["template"] = target.content.replace(target.path, "{{ '" + target.path + "' }}")
    elif target.ensure == "file":
        said["content"] = target.content
    return said


def dump(made: list[Target], *, secrets: bool) -> str:
    """Return targets as one line; without what she must not know unless `secrets`."""
    kept = [asdict(one) | ({} if secrets or not one.secret else {"content": ""}) for one in made]
    return json.dumps(kept)


def load(line: str) -> list[Target]:
    """Read what `dump` wrote."""
    return [Target(**one) for one in json.loads(line)]
