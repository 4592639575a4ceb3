"""`nodemanager rollout approve`: say yes to one change of a ConfigSet, and to no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from nodemanager.api.common import choosing
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import ConfigSetRevisionSpec
from nodemanager.api.common.rollout import Rollout, is_staged
from nodemanager.api.common.rolloutpolicy import DEFAULT, ROLLOUT_POLICIES
from nodemanager.cli import approvals, rollout_objects
from nodemanager.cli.commands.rollout.looking import show_diff
from nodemanager.cli.maintenance import identity
from nodemanager.cli.settings import connect
from nodemanager.cli.views import output
from nodemanager.client.verbs import Client
from nodemanager.fleet.rollout import approving
from nodemanager.kube import errors


@click.command(
    epilog="""\b
Examples:
  nodemanager rollout approve web                look at the change, then say y
  nodemanager rollout approve web --comment "change 4711"
  nodemanager rollout approve web --yes --hash 4f1c09d2ab77
\b
The hash is in the message of: nodemanager rollout status web --no-watch
"""
)
@rollout_objects.NAME
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--hash",
    "pinned",
    default="",
    metavar="HASH",
    help=f"Only this change: its hash, or {approvals.SHORTEST} characters of its beginning.",
)
@click.option("--comment", default="", metavar="TEXT", help="Anything that others should know.")
@connect.options(namespaced=True)
def approve(name: str, yes: bool, pinned: str, comment: str, settings: connect.Settings) -> None:
    """Show the newest change of a ConfigSet and, after a yes, approve it under your name.

    The approval is of this content: any change of it needs another one.
    """
    approvals.check(pinned, yes=yes)
    asyncio.run(_approve(settings, name, pinned, comment, yes=yes))


async def _approve(settings: connect.Settings, name: str, pinned: str, comment: str, *, yes: bool) -> None:
    async with connect.connect(settings) as client:
        found = await rollout_objects.known(client, settings, name, "approve")
        rollout, newest = await _rollout(client, settings, found.config_set), found.newest
        if rollout is None or not is_staged(rollout) or not approving.is_needed(rollout):
            raise click.ClickException(
                f"cannot approve {name}: it needs no approval; to need one, set"
                " spec.rollout.approval.required: true, or that of the default of the namespace"
            )
        if newest is None or not found.says(newest):
            raise click.ClickException(
                f"cannot approve {name}: no operator has seen its last change; see whether one runs"
            )
        wanted = _hash(name, rollout, newest.spec, pinned)
        user = await identity.whoami(client, f"approve {name}")
        if rollout.approval is not None and rollout.approval.different_user:
            _check_user(name, rollout.approval.requester, approving.requesters(rollout, newest.spec), user)
        show_diff(name, found.before(newest.spec.revision), newest)
        if not yes and not click.confirm(f"\nApprove this change as {output.one_line(user)}?"):
            raise click.ClickException(f"{name} was not approved: you said no")
        body = approvals.body("configSet", name, wanted, user, comment)
        click.echo(output.one_line(await approvals.create(client, settings.namespace, body)))


async def _rollout(client: Client, settings: connect.Settings, config_set: ConfigSet) -> Rollout | None:
    """Return how a set is rolled out: as it says, or as its namespace does."""
    if config_set.spec.rollout is not None or not choosing.in_stages(config_set):
        return config_set.spec.rollout
    try:
        return (await client.get(ROLLOUT_POLICIES, DEFAULT, settings.namespace)).spec
    except errors.NotFound:
        return None


def _hash(name: str, rollout: Rollout, revision: ConfigSetRevisionSpec, pinned: str) -> str:
    wanted = approving.hash_of(rollout, revision)
    if not wanted.startswith(pinned):
        raise click.ClickException(
            f"cannot approve {name}: its change is {wanted[: approvals.SHORTEST]}..., not"
            f" {pinned[: approvals.SHORTEST]}...: something has changed since; look at it: nodemanager"
            f" rollout diff {name}"
        )
    return wanted


def _check_user(name: str, requester: str, requesters: Sequence[str], user: str) -> None:
    """Refuse a user who made the request: another person has to approve."""
    if not requester:
        raise click.ClickException(
            f"cannot approve {name}: nobody knows who changed it last; set spec.rollout.approval.requester"
        )
    if user in requesters:
        raise click.ClickException(
            output.one_line(
                f"cannot approve {name}: {user} asked for this change, or changed the set last, and"
                " differentUser asks for somebody else's yes; ask somebody who may create"
                " MaintenanceApprovals"
            )
        )
