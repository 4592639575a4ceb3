"""The init systems: where each wants its file, and what is in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

from nodemanager.host.base import HostError
from nodemanager.host.init.executable import plain
from nodemanager.host.services.choose import Name

SERVICE: Final = "nodemanager"
WRITTEN: Final = "Written by nodemanager install-service; written anew by it, so do not edit."
"""The line that tells a file of ours from one that somebody else wrote."""
_WORD: Final = re.compile(r"[A-Za-z0-9/._+@:=-]+")
_ASSIGNMENT: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=")
_ESCAPED: Final = str.maketrans({char: f"\\{char}" for char in '"\\$`'})


@dataclass(frozen=True, slots=True)
class System:
    """One init system."""

    name: Name
    template: str
    path: str
    """Where its file for the agent goes."""
    mode: int
    folder: str
    """Where the configuration of the agent is."""
    environment: str
    """The file with the agent's flags, as variables; nobody but the administrator changes it."""
    start: str
    """The command that starts the agent, for people."""
    packaged: tuple[str, ...] = ()
    """Where a package of the operating system would have put such a file."""

    @property
    def kubeconfig(self) -> str:
        """Where the host's own kubeconfig is."""
        return f"{self.folder}/kubeconfig"

    def unit(self, executable: str, kubeconfig: str = "", written: str = WRITTEN) -> str:
        """Return the file that starts the agent."""
        kubeconfig = kubeconfig or self.kubeconfig
        for what, path in (("executable", executable), ("kubeconfig", kubeconfig)):
            if not _WORD.fullmatch(path) or path != plain(path):
                raise HostError(
                    f"cannot use {what} {path!r}: a service needs the whole path, no blanks, quotes or .."
                )
        return self._fill(self.template, EXEC=executable, KUBECONFIG=kubeconfig, WRITTEN=written)

    def variables(self) -> str:
        """Return the file with the agent's flags as it is before anybody set one."""
        return self._fill("environment")

    def _fill(self, template: str, **values: str) -> str:
        text = (resources.files(__package__) / template).read_text(encoding="utf-8")
        values |= {"ENVIRONMENT": self.environment, "FOLDER": self.folder}
        return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], text)


SYSTEMS: Final[Mapping[str, System]] = {
    one.name: one
    for one in (
        System(
            "systemd", "nodemanager.service", "/etc/systemd/system/nodemanager.service", 0o644,
            "/etc/nodemanager", "/etc/default/nodemanager", "systemctl start nodemanager",
            ("/usr/lib/systemd/system/nodemanager.service", "/lib/systemd/system/nodemanager.service"),
        ),
        System(
            "openrc", "nodemanager.openrc", "/etc/init.d/nodemanager", 0o755,
            "/etc/nodemanager", "/etc/conf.d/nodemanager", "rc-service nodemanager start",
        ),
        System(
            "rc.d", "nodemanager.rcd", "/usr/local/etc/rc.d/nodemanager", 0o755,
            "/usr/local/etc/nodemanager", "/usr/local/etc/nodemanager/environment",
            "service nodemanager start",
        ),
    )
}  # fmt: skip


def with_variables(text: str, variables: Mapping[str, str]) -> str:
    """Return a file of variables in which these are set; all else stays as it is.

    What is written means the same to systemd and to a shell.
    """
    left = dict(variables)
    lines = []
    for line in text.removesuffix("\n").split("\n"):  # splitlines knows ends of lines that no shell does
        found = _ASSIGNMENT.match(line)
        if found is None or found[1] not in variables:
            lines.append(line)
        elif found[1] in left:  # a second line for the same variable would win
            lines.append(_assignment(found[1], left.pop(found[1])))
    lines += [_assignment(name, value) for name, value in left.items()]
    return "".join(f"{line}\n" for line in lines if line or text)


def _assignment(name: str, value: str) -> str:
    if not value.isprintable():
        raise HostError(f"cannot set {name}: {value!r} has characters that no file of variables can hold")
    return f'{name}="{value.translate(_ESCAPED)}"'
