"""`nodemanager maintenance approve`: say yes to one plan, and to no other."""

from __future__ import annotations

import click

from nodemanager.cli import approvals
from nodemanager.cli.commands.maintenance import planned
from nodemanager.cli.maintenance import identity, objects
from nodemanager.cli.maintenance.judged import Judged
from nodemanager.cli.settings import connect
from nodemanager.cli.views import output
from nodemanager.cli.views.maintenance import plan_table


@click.command(
    epilog="""\b
Examples:
  nodemanager maintenance approve monday                look, then say y
  nodemanager maintenance approve monday --comment "change 4711"
  nodemanager maintenance approve monday --yes --hash 4f1c09d2ab77
\b
The hash is in: nodemanager maintenance plan monday -o json
"""
)
@objects.NAME
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--hash",
    "pinned",
    default="",
    metavar="HASH",
    help=f"Only this plan: its hash, or {approvals.SHORTEST} characters of its beginning.",
)
@click.option("--comment", default="", metavar="TEXT", help="Anything that others should know.")
@connect.options(namespaced=True)
def approve(name: str, yes: bool, pinned: str, comment: str, settings: connect.Settings) -> None:
    """Show the plan of a maintenance and, after a yes, approve it under your name.

    The approval is of this plan: a change of steps, hosts, order, ceilings or window needs another one. What
    operations of type realtime enforce is a plan of its own, and stays approved until it is changed.
    """
    approvals.check(pinned, yes=yes)
    objects.run(_approve(settings, name, pinned, comment, yes=yes))


async def _approve(settings: connect.Settings, name: str, pinned: str, comment: str, *, yes: bool) -> None:
    async with connect.connect(settings) as client:
        shown = await planned.read(client, settings.namespace, name, "approve")
        judged = shown.judged
        plans = _plans(judged, pinned)
        user = await identity.whoami(client, f"approve {name}")
        missing = [one for one, approvers in plans.items() if not approvers]
        if not missing:
            by = ", ".join(dict.fromkeys(one for approvers in plans.values() for one in approvers))
            click.echo(output.one_line(f"{name} is approved already, by {by}"))
            return
        _check_user(judged, user)
        planned.show(shown)
        if not yes and not click.confirm(f"\nApprove this plan as {output.one_line(user)}?"):
            raise click.ClickException(f"{name} was not approved: you said no")
        for found in missing:
            said = await approvals.create(
                client, settings.namespace, approvals.body("maintenance", name, found, user, comment)
            )
            click.echo(output.one_line(said))


def _check_user(judged: Judged, user: str) -> None:
    """Refuse a user who made the request, if another person has to approve."""
    approval, name = judged.maintenance.spec.approval, judged.maintenance.metadata.name
    if approval is not None and approval.different_user and user == approval.requester:
        raise click.ClickException(
            output.one_line(
                f"cannot approve {name}: {user} changed it last, and differentUser asks for somebody else's"
                " yes; ask somebody who may create MaintenanceApprovals"
            )
        )


def _plans(judged: Judged, pinned: str) -> dict[str, tuple[str, ...]]:
    """Return the plans that need an approval, by hash, and their approvers; or refuse.

    A run and what is enforced at all times are two plans: one comes anew with every slot, the other stays.
    """
    name, spec = judged.maintenance.metadata.name, judged.maintenance.spec
    what = f"cannot approve {name}: "
    if spec.approval is None or not spec.approval.required:
        raise click.ClickException(
            f"{what}it needs no approval; to need one, set spec.approval.required: true"
        )
    found = {one: judged.approvers for one in (plan_table.hash_of(judged),) if one}
    if judged.realtime is not None:
        found[judged.realtime.plan.hash] = judged.realtime.approvers
    if not found:
        raise click.ClickException(
            f"{what}there is no plan yet; see what it waits for: nodemanager maintenance plan {name}"
        )
    chosen = {one: approvers for one, approvers in found.items() if one.startswith(pinned)}
    if not chosen:
        there = ", ".join(f"{one[: approvals.SHORTEST]}..." for one in found)
        raise click.ClickException(
            f"{what}its plan is {there}, not {pinned[: approvals.SHORTEST]}...: something has changed "
            f"since; look at it: nodemanager maintenance plan {name}"
        )
    return chosen
