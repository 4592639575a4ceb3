"""The init systems: where each one needs its file, and the content of that."""

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
"""The line that marks a file as ours."""
_WORD: Final = re.compile(r"[A-Za-z0-9/._+@:=-]+")
_ASSIGNMENT: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=")
_ESCAPED: Final = str.maketrans({char: f"\\{char}" for char in '"\\$`'})


@dataclass(frozen=True, slots=True)
class InstalledService:
    """A part of nodemanager that an init system starts."""

    command: str
    summary: str
    has_kubeconfig: bool = True

    @property
    def is_agent(self) -> bool:
        """Whether it is the agent: root, and the service that has the plain name."""
        return self is AGENT

    def name(self, separator: str) -> str:
        """Return the name of the service; all but the agent's have two words, joined by the `separator`."""
        return SERVICE if self.is_agent else f"{SERVICE}{separator}{self.command}"

    @property
    def user(self) -> str:
        """The user of the service, for init systems without users of their own making."""
        return "root" if self.is_agent else self.name("-")

    @property
    def prefix(self) -> str:
        """How its files begin in a folder that it shares with the others."""
        return "" if self.is_agent else f"{self.command}."


AGENT: Final = InstalledService("agent", "Makes this host what its ConfigSets say.")
OPERATOR: Final = InstalledService("operator", "Decides what concerns more than one host.")
SERVER: Final = InstalledService(
    "server", "Serves a Kubernetes API for hosts without a cluster.", has_kubeconfig=False
)
SERVICES: Final = {service.command: service for service in (AGENT, OPERATOR, SERVER)}


@dataclass(frozen=True, slots=True)
class System:
    """One init system and its way to run a service."""

    name: Name
    service: InstalledService
    unit_name: str
    """Its name for the service."""
    path: str
    """The place of its file for the service."""
    mode: int
    folder: str
    """The folder of our configuration."""
    environment: str
    """The file with the flags, as variables; only the administrator changes it."""
    start: str
    """The command that starts the service, for people."""
    suffix: str
    """The suffix of the templates."""
    add_user: str = ""
    """The command that makes the service's user, for people; empty = none is needed."""
    packaged: tuple[str, ...] = ()
    """Where a package of the operating system would have put such a file."""

    @property
    def kubeconfig(self) -> str:
        """Where the service's own kubeconfig is."""
        return f"{self.folder}/{self.service.prefix}kubeconfig"

    @property
    def state(self) -> tuple[str, ...]:
        """Where the service keeps what stays when it goes."""
        if self.service.is_agent:
            return self.folder, "/var/lib/nodemanager", "/var/cache/nodemanager"
        return (self.kubeconfig,) if self.service.has_kubeconfig else (f"/var/lib/{self.service.user}",)

    def unit(self, executable: str, kubeconfig: str = "", written: str = WRITTEN) -> str:
        """Return the file that starts the service."""
        kubeconfig = kubeconfig or self.kubeconfig
        for what, path in (("executable", executable), ("kubeconfig", kubeconfig)):
            if not _WORD.fullmatch(path) or path != plain(path):
                raise HostError(
                    f"cannot use {what} {path!r}: a service needs the whole path, no blanks, quotes or .."
                )
        values = {"EXEC": executable, "KUBECONFIG": kubeconfig, "WRITTEN": written}
        if self.service.is_agent:
            return self._fill(f"{SERVICE}.{self.suffix}", **values)
        if self.suffix == "service":
            values["COMMON"] = self._fill("common.service").rstrip()
            return self._fill(f"{self.unit_name}.service", **values)
        return self._fill(f"unprivileged.{self.suffix}", **values, **self._unprivileged(kubeconfig))

    def _unprivileged(self, kubeconfig: str) -> dict[str, str]:
        """Return how a script makes what the service's user needs, and starts it with that."""
        user = self.service.user
        made = f'install -d -m 0700 -o "{user}" "/var/cache/{self.unit_name}"'
        if not self.service.has_kubeconfig:
            made += f' && install -d -m 0700 -o "{user}" "/var/lib/{user}"'
            return {"PREPARE": made, "ARGS": f"server --data-dir /var/lib/{user}", "REQUIRED": ""}
        # Where only root can read the kubeconfig, its user gets a copy. The folder is root's, or a link in it
        # would lead root elsewhere.
        run = f"/var/run/{self.unit_name}"
        made += f' && install -d -m 0755 -o root "{run}"'
        made += f' && install -m 0400 -o "{user}" "{kubeconfig}" "{run}/kubeconfig"'
        arguments = f"{self.service.command} --kubeconfig {run}/kubeconfig"
        return {"PREPARE": made, "ARGS": arguments, "REQUIRED": f'required_files="{kubeconfig}"'}

    def variables(self) -> str:
        """Return the file with the flags before any is set."""
        return self._fill(f"{SERVICE if self.service.is_agent else 'unprivileged'}.environment")

    def _fill(self, template: str, **values: str) -> str:
        text = (resources.files(__package__) / template).read_text(encoding="utf-8")
        values |= {
            "ENVIRONMENT": self.environment, "FOLDER": self.folder, "UNIT": self.unit_name,
            "SUMMARY": self.service.summary, "COMMAND": self.service.command, "USER": self.service.user,
            "ADDUSER": self.add_user,
        }  # fmt: skip
        return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], text)


def systems_of(service: InstalledService) -> Mapping[str, System]:
    """Return what each init system makes of a service, by the name of the system."""
    dashed, plain_name, user = service.name("-"), service.name("_"), service.user
    useradd = f"useradd --system --no-create-home --shell /sbin/nologin {user}"
    adduser = f"adduser -S -D -H -s /sbin/nologin {user}"
    folder, freebsd = "/etc/nodemanager", "/usr/local/etc/nodemanager"
    found = (
        System(
            "systemd", service, dashed, f"/etc/systemd/system/{dashed}.service", 0o644, folder,
            f"/etc/default/{dashed}", f"systemctl start {dashed}", "service",
            packaged=tuple(f"{lib}/systemd/system/{dashed}.service" for lib in ("/usr/lib", "/lib")),
        ),
        System(
            "openrc", service, dashed, f"/etc/init.d/{dashed}", 0o755, folder,
            f"/etc/conf.d/{dashed}", f"rc-service {dashed} start", "openrc",
            "" if service.is_agent else f"{useradd} (Alpine: {adduser})",
        ),
        System(
            "rc.d", service, plain_name, f"/usr/local/etc/rc.d/{plain_name}", 0o755, freebsd,
            f"{freebsd}/{service.prefix}environment", f"service {plain_name} start", "rcd",
            "" if service.is_agent else f"pw useradd {user} -d /nonexistent -s /usr/sbin/nologin",
        ),
    )  # fmt: skip
    return {system.name: system for system in found}


SYSTEMS: Final = systems_of(AGENT)


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
