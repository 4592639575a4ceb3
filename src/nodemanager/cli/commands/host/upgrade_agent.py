"""`nodemanager upgrade-agent`: another version of the program on this host, or the old one if that fails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
from pathlib import Path
from typing import Any

import click

from nodemanager import __version__
from nodemanager.api.audit.record import FileChange, Record
from nodemanager.cli import by_hand, status_client
from nodemanager.cli.commands.host.install_service import START_DELAY
from nodemanager.cli.settings.durations import Duration
from nodemanager.host.base import HostError
from nodemanager.host.files.tree import Tree
from nodemanager.host.init import executable
from nodemanager.host.inventory import identity
from nodemanager.host.process import environment
from nodemanager.host.self_update import assembly, trust
from nodemanager.host.self_update.records import PROVEN, STRANDED, Intent
from nodemanager.host.self_update.staging import WantedProgram
from nodemanager.host.self_update.upgrading import DEADLINE, LEAST, MOST, RESERVE, UpgradeOrder
from nodemanager.host.services import choose
from nodemanager.host.services.choose import Name
from nodemanager.host.state.journal import STATE
from nodemanager.tlog.minisign import PublicKey

_ALONE = ("alone", "refused", "unasked")
"""How an agent stands with the API that does not reach it: the next one need not, either."""


def _digest(_context: click.Context, _option: click.Parameter, value: str | None) -> str:
    """Return a digest, empty if none was given; one that came to nothing, as of a missing file, is none."""
    if value is not None and not re.fullmatch("[0-9A-Fa-f]{64}", value):
        raise click.BadParameter(f"{value[:80]!r} is no SHA-256: it has 64 hexadecimal digits")
    return (value or "").lower()


@click.command(
    epilog="""\b
Examples:
  nodemanager upgrade-agent --file /tmp/nodemanager-0.2.0-linux-amd64
  nodemanager upgrade-agent --url https://example.org/nodemanager-0.2.0-linux-amd64 --deadline 5m
  nodemanager upgrade-agent --file /tmp/manager --sha256 "$(cut -c-64 manager.sha256)" --unsigned
  nodemanager upgrade-agent --file /usr/local/bin/nodemanager.previous --downgrade --unsigned
""",
)
@click.option("--file", "file", type=click.Path(path_type=Path), metavar="PATH", help="The new program.")
@click.option("--url", default="", metavar="URL", help="Where the new program is, http or https.")
@click.option("--sha256", default=None, callback=_digest, metavar="DIGEST",
              help="What its digest has to be.")  # fmt: skip
@click.option("--signature", default="", metavar="PATH|URL",
              help="Its signature, of minisign. Default: beside it, with .minisig at the end of its"
              " path.")  # fmt: skip
@click.option("--public-key", "key", default="", metavar="KEY|PATH",
              help="Whose signature is accepted. Default: the keys in /etc/nodemanager/release.pub (FreeBSD:"
              " below /usr/local), which nobody but root may write.")  # fmt: skip
@click.option("--unsigned", is_flag=True, help="Take a program that nobody signed.")
@click.option("--downgrade", is_flag=True, help="Also one that is older than the one that runs.")
@click.option("--deadline", type=Duration(LEAST, MOST), default=f"{DEADLINE:g}s", show_default=True,
              metavar="TIME", help="How long the host may be without an agent that works.")  # fmt: skip
@click.option("--exec", "program", default="", metavar="PATH",
              help="The program that the service starts. Default: this one.")  # fmt: skip
@click.option("--no-wait", is_flag=True, help="Return when the upgrade has begun.")
def command(file: Path | None, url: str, **options: Any) -> None:
    """Replace the program of the agent on this host, and come back to the old one if the new one fails.

    The new program is put beside the old one; digest, signature, kind of processor and version are checked.
    Then a guard, which is a small service of its own, has it take the old one's place and restarts the agent.
    When the new agent has read its state, been over the host once and told the API so (where the old one
    reaches it), it is proven. If that does not happen in time, the guard puts back the old program, which is
    kept as NAME.previous. Reboots and power cuts in between change nothing of this.

    A program that a package brought is upgraded by its package manager, one in an image by another image.
    """
    if (file is None) == (not url):
        raise click.UsageError("give either --file or --url")
    if os.geteuid() != 0:
        raise HostError("cannot upgrade: only root can; run it with sudo")
    source = url or str(Path(file or "").absolute())
    with contextlib.closing(Tree("/")) as tree:
        asyncio.run(_upgrade(tree, source, options))


async def _upgrade(tree: Tree, source: str, options: dict[str, Any]) -> None:
    init, run = assembly.init_of(tree), environment.host_runner()
    manager = choose.choose(tree, identity.identify(tree), run, START_DELAY)
    upgrader = assembly.upgrader(tree, STATE, options["program"] or executable.own_path(), manager, run)
    wanted = WantedProgram(
        source, sha256=options["sha256"], keys=_keys(init, options), signature=options["signature"],
        downgrade=options["downgrade"],
    )  # fmt: skip
    running, report = _running()
    order = UpgradeOrder(secrets.token_hex(8), wanted, running, report, options["deadline"])
    intent = await upgrader.upgrade(order)
    record("begin", intent)
    click.echo(
        f"from {intent.before} to {intent.after}: the agent restarts, and has {intent.seconds} s for it"
    )
    if options["no_wait"]:
        return
    ended = await upgrader.ended(intent.id, options["deadline"] + RESERVE)
    if ended is None:
        raise HostError("cannot tell how it ended: nothing was heard of it in time; look at the guard's log")
    record("end", intent, ended.result)
    if ended.result != PROVEN:
        back = "" if ended.result == STRANDED else f"; {intent.before} is back"
        raise HostError(f"cannot upgrade to {intent.after}: {ended.message}{back}")
    click.echo(f"upgraded: {intent.after} works; {intent.before} is kept as {intent.program}.previous")


def record(verb: str, intent: Intent, result: str = "", root: str = "/") -> None:
    """Record that an upgrade by hand began or ended, in the chain of this host."""
    program = FileChange(path=intent.program, before=intent.old, after=intent.new)
    done = Record(
        actor=by_hand.actor(), verb=verb, aspect="agent", from_=intent.before, to=intent.after,
        reason=result, files=[program],
    )  # fmt: skip
    by_hand.recorded(root, "", [done])


def _keys(init: Name, options: dict[str, Any]) -> list[PublicKey]:
    """Return the keys whose signatures are accepted; none only if the user said so."""
    if options["unsigned"]:
        if options["key"] or options["signature"]:
            raise click.UsageError("--unsigned goes neither with --public-key nor with --signature")
        return []
    path = trust.path_of(init)
    keys = trust.given(options["key"]) if options["key"] else trust.trusted(path)
    if not keys:
        raise HostError(
            f"cannot tell whose program it is: there is no {path}; put the public key of whoever makes your"
            " releases there, give --public-key, or --unsigned if you trust the file as it is"
        )
    return keys


def _running() -> tuple[str, bool]:
    """Return the version of the agent that runs, and whether it reaches the API; if in doubt, it does."""
    try:
        now = status_client.ask("/")
    except (status_client.NotRunning, OSError):
        return __version__, True
    return now.version or __version__, now.api.state not in _ALONE
