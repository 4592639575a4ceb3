"""Records what somebody does on this host by hand, in the host's own chain: who that is, is a claim."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from pathlib import Path

import click

from nodemanager.agent.audit import trail_records
from nodemanager.api.audit.record import HOST, Actor, Record
from nodemanager.cli.views import output
from nodemanager.host.results import Result
from nodemanager.host.state.host_chain import ChainError, HostChain

NOBODY = 2**32 - 1
"""The login uid of a process without a login."""


def actor() -> Actor:
    """Return who runs this: the user of the process; the user according to sudo and the login, as a claim."""
    login = _login()
    claims = [f"sudo by {name}" for name in (os.environ.get("SUDO_USER", ""),) if name]
    claims += [f"SUDO_UID {uid}" for uid in (os.environ.get("SUDO_UID", ""),) if uid.isdigit()]
    claims += [f"loginuid {login}"] if login is not None else []
    try:
        name = getpass.getuser() if os.getuid() else "root"
    except (KeyError, OSError):  # an unknown user, as in some containers
        name = f"uid {os.getuid()}"
    return Actor(name=output.one_line(name), known=HOST, claimed=output.one_line(", ".join(claims)))


def _login() -> int | None:
    try:
        found = int(Path("/proc/self/loginuid").read_text())
    except (OSError, ValueError):
        return None
    return None if found == NOBODY else found


def recorded(root: str, host: str, new: Sequence[Record]) -> None:
    """Record what was done; where that is not possible, only say so, as it is done already."""
    if not new:
        return
    chain = HostChain(root, host=host or os.uname().nodename)
    try:
        try:
            chain.append(new)
        except ChainError as error:
            click.echo(output.one_line(f"warning: {error}"), err=True)
            chain.lose(len(new))
    except OSError:  # that was said
        pass
    finally:
        chain.close()


def applied(root: str, host: str, results: Sequence[Result]) -> None:
    """Record what `apply` changed."""
    recorded(root, host, trail_records.of_results((), results, actor()))
