"""Names of hosts, as the options of several commands take them."""

from __future__ import annotations

from typing import Final

import click

from nodemanager.api.rights import host_rights
from nodemanager.kube.object_names import is_object_name

_MAX: Final = 253 - len("nodemanager--token-refresh")


def hostname(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Check a host name, as a callback of an option."""
    return checked(value)


def checked(value: str) -> str:
    """Return a host name, if it can be part of the names of objects."""
    if len(value) > _MAX:
        raise click.BadParameter(f"{value[:60]!r}... is too long: {_MAX} characters are the most")
    check(value, "an object")
    for suffix in host_rights.SUFFIXES:
        if value.endswith(suffix):  # its Role would be that of the host without the suffix
            raise click.BadParameter(f"names that end with {suffix} are those of roles of other hosts")
    if value in (host_rights.OPERATOR, host_rights.DAEMONSET):
        raise click.BadParameter(f"{value!r} is the name of the {value}'s own ServiceAccount")
    return value


def check(value: str, what: str) -> None:
    """Refuse what cannot be the name of something."""
    if not is_object_name(value):
        raise click.BadParameter(
            f"{value[:60]!r} cannot be the name of {what}: use lower-case letters, digits, '-' and '.'"
        )
