"""How the command line begins and ends holds: through the API, or on the host itself."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from nodemanager.agent.holds import hold_timer
from nodemanager.agent.holds.hold_timer import BY_HOST, HoldClocks
from nodemanager.agent.report import status_socket
from nodemanager.agent.report.local_status import SOCKET, HeldState
from nodemanager.api.audit.record import Record
from nodemanager.api.common import node_conditions
from nodemanager.api.common.acting import BY_MAX, REASON_MAX, Hold, HoldOrigin
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.cli import by_hand, status_client
from nodemanager.cli.settings import connect
from nodemanager.cli.settings.durations import Duration
from nodemanager.cli.views import output
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.host.files.tree import Tree
from nodemanager.host.state.journal import STATE
from nodemanager.host.state.vault import Vault
from nodemanager.kube import conditions, errors, times

MAX_SECONDS: Final = 7 * 86400.0
"""The longest --for: a longer hold needs a date."""
DEFAULT: Final = "1h"
CONFIRM_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.2

FOR: Final = click.option(
    "--for", "seconds", type=Duration(1), metavar="TIME",
    help=f"How long, such as 2h; at most {MAX_SECONDS / 3600:g}h. Default: {DEFAULT}.",
)  # fmt: skip
UNTIL: Final = click.option(
    "--until", "until", default="", metavar="TIME",
    help="Until when instead, also later than that, such as 2026-03-01T04:00:00Z.",
)  # fmt: skip


def made(reason: str, seconds: float | None, until: str) -> tuple[Hold, float]:
    """Return the hold that the options ask for, and its seconds; or raise what is wrong with them."""
    said = output.one_line(reason.strip())
    if not said or len(said) > REASON_MAX:
        why = f"at most {REASON_MAX} characters" if said else "who finds the host held at night asks why"
        raise click.UsageError(f"give a reason, as --reason TEXT: {why}")
    if seconds is not None and until:
        raise click.UsageError("give --for or --until, not both")
    now = datetime.now(UTC)
    if until:
        end = _moment(until)
        if end <= now:
            raise click.UsageError(f"--until {until} is over: it is {times.rfc3339(now)}")
    else:
        wanted = Duration().convert(DEFAULT, None, None) if seconds is None else seconds
        if wanted > MAX_SECONDS:
            raise click.UsageError(
                f"--for {wanted / 3600:g}h is longer than {MAX_SECONDS / 3600:g}h: what lasts so long is "
                "easily forgotten; if it is meant, say when it ends: --until TIME"
            )
        end = now + timedelta(seconds=wanted)
    hold = Hold(reason=said, until=times.rfc3339(end), by=_who())
    return hold, (end - now).total_seconds()


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise click.UsageError(f"--until {text!r} is no time with its zone, such as 2026-03-01T04:00:00Z")
    return found


def _who() -> str:
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # an unknown user, as in some containers
        user = f"uid {os.getuid()}"
    return output.one_line(f"{user}@{os.uname().nodename}")[:BY_MAX]


def lasting(hold: Hold, seconds: float) -> str:
    """Return in words how long a hold lasts, and why."""
    return f"until {hold.until} ({output.human_duration(seconds)}): {hold.reason}"


# On this host


def begin_here(root: str, hold: Hold, seconds: float) -> bool:
    """Hold this host, and return whether its agent confirms that; if not, it does not run."""

    def write(vault: Vault) -> None:
        hold_timer.save(vault, BY_HOST, _timed(hold, seconds))
        _record(root, Record(verb="hold", aspect="host", to=f"until {hold.until}", message=hold.reason))

    return _here(root, write, HoldOrigin.HOST)


def end_here(root: str) -> tuple[bool, HeldState | None]:
    """End the hold of this host; return whether there was one, and what still holds it."""
    found: list[bool] = []

    def write(vault: Vault) -> None:
        found.append(vault.remove(BY_HOST))
        if found[0]:
            _record(root, Record(verb="unhold", aspect="host"))

    _here(root, write, None)
    try:
        return found[0], status_client.ask(root).hold
    except status_client.NotRunning:
        return found[0], None


def _record(root: str, record: Record) -> None:
    by_hand.recorded(root, "", [msgspec.structs.replace(record, actor=by_hand.actor())])


def _timed(hold: Hold, seconds: float) -> hold_timer.TimedHold:
    return hold_timer.timed(hold, HoldClocks(), seconds)


def _here(root: str, write: Callable[[Vault], object], wanted: HoldOrigin | None) -> bool:
    tree = Tree(root)
    try:
        # A host that joined but never had a declaration has a credential, and nothing to remember yet.
        joined = str(connect.host_kubeconfig_path())
        known = any(Path(tree.outside(one)).exists() for one in (STATE, SOCKET, joined))
    finally:
        tree.close()
    if not known:
        raise click.ClickException(
            "cannot hold this host: no agent was ever here; to hold another, name it: nodemanager hold NODE"
        )
    vault = Vault(root)
    try:
        write(vault)
    except OSError as error:
        raise click.ClickException(f"{error}; only root may, so use sudo") from error
    finally:
        vault.close()
    try:
        found = status_client.ask(root, status_socket.HOLD).hold
    except status_client.NotRunning:
        return False
    return wanted is None or found is not None


# Through the API


async def begin(settings: connect.Settings, node: str, hold: Hold, patience: float) -> bool:
    """Hold a host, and return whether its agent confirms that in time."""
    async with connect.connect(settings) as client:
        await _write(client, settings.namespace, node, msgspec.to_builtins(hold))
        return await _confirmed(
            client, settings.namespace, node, patience, lambda one: hold.until in one.message
        )


async def end(settings: connect.Settings, node: str, patience: float) -> str:
    """End the hold of a host; return what its condition Held says then, empty = it goes on."""
    async with connect.connect(settings) as client:
        before = await _write(client, settings.namespace, node, None)
        found = conditions.get(before.status.conditions, node_conditions.HELD)
        if found is None or found.status != conditions.TRUE:
            return ""
        await _confirmed(
            client, settings.namespace, node, patience,
            lambda one: one.status != conditions.TRUE or one.reason == HoldOrigin.HOST,
        )  # fmt: skip
        after = await client.get(MANAGED_NODES, node, settings.namespace)
        said = conditions.get(after.status.conditions, node_conditions.HELD)
        return said.message if said is not None and said.status == conditions.TRUE else ""


async def _write(client: Client, namespace: str, node: str, hold: Any) -> ManagedNode:
    verb = "hold" if hold else "unhold"
    try:
        return await client.patch(MANAGED_NODES, node, namespace, MergePatch({"spec": {"hold": hold}}))
    except errors.NotFound as error:
        raise click.ClickException(
            f"cannot {verb} {node}: there is no such host in namespace {namespace}; see nodemanager get mn -A"
        ) from error
    except (errors.TransportError, errors.Forbidden) as error:
        here = f"on {node} itself that needs no API, but root: sudo nodemanager {verb}"
        raise click.ClickException(f"{error}; {here}{' --reason TEXT' if hold else ''}") from error


async def _confirmed(
    client: Client,
    namespace: str,
    node: str,
    patience: float,
    holds: Callable[[conditions.Condition], bool],
) -> bool:
    """Wait until the condition Held of a host says something; False if that takes too long."""
    try:
        async with asyncio.timeout(patience):
            while True:
                found = await client.get(MANAGED_NODES, node, namespace)
                said = conditions.get(found.status.conditions, node_conditions.HELD)
                if said is not None and holds(said):
                    return True
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        return False
