"""`nodemanager why`: what a host waits for, since when, and what ends it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.cli import completing
from nodemanager.cli.maintenance import (
    draining,
    judging,
    objects,
    reading,
    reasons_of_drift,
    reasons_of_host,
)
from nodemanager.cli.settings import connect
from nodemanager.cli.views import forms, output
from nodemanager.cli.views.maintenance import wait_view
from nodemanager.cli.views.maintenance.wait_view import Why
from nodemanager.fleet.maintenance.reasons import Reason


@click.command(
    epilog="""\b
Examples:
  nodemanager why web1
  nodemanager why web1 -o json | jq -r '.reasons[].reason'
\b
All hosts of a maintenance: nodemanager maintenance plan NAME
""",
)
@click.argument("node", shell_complete=completing.hosts)
@connect.options(namespaced=True)
@forms.option("table")
def command(node: str, settings: connect.Settings, form: str) -> None:
    """Tell why NODE waits, or what happens to it: reason code, object, since when, next check, what to do.

    It decides as the operator does, from what you may read; of every maintenance that means the host, and of
    what else keeps it: a hold, silence, an upgrade of its own, a cordon; and of drifts that are not put back.
    """
    objects.run(_why(settings, node, form))


async def _why(settings: connect.Settings, node: str, form: str) -> None:
    async with connect.connect(settings) as client:
        found = await reading.maintenances(client, settings.namespace)
        around = await reading.read_maintenances(client, settings.namespace, found)
        host = next((one for one in around.found.hosts if one.metadata.name == node), None)
        if host is None:
            raise click.ClickException(
                f"cannot tell why {node} waits: there is no such host in namespace {settings.namespace}; see "
                f"nodemanager get {MANAGED_NODES.plural} -A"
            )
        judged = [judging.judge(one, around) for one in found]
        reasons = reasons_of_host.of_host(host, around.found, judged)
        sets = await reading.config_sets(client, settings.namespace) if reasons_of_drift.asks(host) else []
        reasons += reasons_of_drift.of_host(host, around, found, sets)
        if any(one.code == Reason.DRAINING for one in reasons):
            left = await draining.left_on(client, node)
            reasons = [one._replace(message=left) if one.code == Reason.DRAINING else one for one in reasons]
    for said in around.found.unread:
        click.echo(f"warning: {output.one_line(said)}", err=True)
    if form != "table":
        whole = {
            "host": node,
            "reasons": [wait_view.plain(one) for one in reasons],
            "unread": [*around.found.unread],
        }
        click.echo(forms.dump(whole, form), nl=False)
        return
    click.echo(output.wrapped(text(node, reasons, around.now), output.terminal_width()))


def text(node: str, reasons: Sequence[Why], now: datetime) -> str:
    """Return all reasons below each other."""
    if not reasons:
        return f"{output.one_line(node)} waits for nothing: no maintenance means it, and nothing keeps it."
    parts = []
    for one in reasons:
        report = output.Report()
        wait_view.add(report, one, now)
        parts.append(report.text())
    return "\n\n".join(parts)
