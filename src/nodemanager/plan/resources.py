"""The unit that the agent thinks in: one file, package, service or execution of a host."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.common.declarations import Execution, Service

PACKAGE: Final = "package"
FILE: Final = "file"
SERVICE: Final = "service"
EXEC: Final = "exec"


class ResourceId(NamedTuple):
    """Kind and name; written `file:/etc/motd`, `package:nginx`, `service:nginx`, `exec:web/nginx#1f0c`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def parse_id(text: str) -> ResourceId:
    """Return the resource in a text such as `file:/etc/motd`, of any kind."""
    kind, _, name = text.partition(":")
    if not name or not kind.isascii() or not kind.isalpha() or not kind.islower():
        raise ValueError(f"cannot read resource {text[:80]!r}: write it like file:/etc/motd or service:nginx")
    return ResourceId(kind, name)


def shown(path: str) -> str:
    """Return a path in a form for JSON, logs and terminals, whatever bytes it contains."""
    if path.isprintable():
        return path
    text = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def package_id(name: str) -> ResourceId:
    """Return the resource of a package."""
    return ResourceId(PACKAGE, name)


def file_id(path: str) -> ResourceId:
    """Return the resource of a path; a slash at its end means nothing."""
    return ResourceId(FILE, shown(path.rstrip("/") or "/"))


def service_id(service: Service) -> ResourceId:
    """Return the resource of a service; units of a user are others than the system's of the same name."""
    return ResourceId(SERVICE, f"{service.user}/{service.name}" if service.user else service.name)


def exec_id(config_set: str, execution: Execution) -> ResourceId:
    """Return the resource of an execution, which has no name of its own.

    The digest is of everything that decides what runs and why, so that a pending run of a
    declaration that was changed since is not taken for one of the new declaration.
    """
    digest = hashlib.sha256(msgspec.json.encode(execution)).hexdigest()[:8]
    program = execution.command.rpartition("/")[2]
    return ResourceId(EXEC, f"{config_set}/{program}#{digest}")
