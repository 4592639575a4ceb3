"""`nodemanager maintenance plan`: which host comes when, what happens to it, and what it waits for."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

import click

from nodemanager.api.maintenance.nodetask import NodeTask, is_ended
from nodemanager.cli.maintenance import draining, judging, objects, previews, reading
from nodemanager.cli.maintenance.draining import Leaving
from nodemanager.cli.maintenance.judged import Judged
from nodemanager.cli.maintenance.previews import PreviewAnswer
from nodemanager.cli.settings import connect
from nodemanager.cli.settings.durations import Duration
from nodemanager.cli.views import forms, output
from nodemanager.cli.views.maintenance import plan_table, preview_view
from nodemanager.client.verbs import Client
from nodemanager.fleet.maintenance import previews as pure
from nodemanager.fleet.maintenance.facts import HostFacts

EXIT_UNANSWERED: Final = 2
SHOWN: Final = 50
"""Hosts that a person is shown unless he asks for all."""


@click.command(
    "plan",
    epilog="""\b
Examples:
  nodemanager maintenance plan monday
  nodemanager maintenance plan monday --all
  nodemanager maintenance plan monday --preview    what apt would upgrade, too
  nodemanager maintenance plan monday -o json | jq -r .hash
\b
Times are UTC. Ends are expected by how long hosts took before, ten minutes
where nobody knows.
\b
Exit codes:
  0  the plan is shown, and every host that was to has answered
  1  an error
  2  a host did not answer --preview, or could not (also: wrong usage)
""",
)
@objects.NAME
@click.option("-a", "--all", "everything", is_flag=True, help=f"Show all hosts, not only the first {SHOWN}.")
@click.option(
    "--preview", is_flag=True, help="Ask every host what its upgrades would do; nothing is changed."
)
@click.option(
    "--timeout", type=Duration(1), default="5m", show_default=True, metavar="TIME",
    help="How long to wait for the answers to --preview.",
)  # fmt: skip
@connect.options(namespaced=True)
@forms.option("table")
def command(
    name: str, everything: bool, preview: bool, timeout: float, settings: connect.Settings, form: str
) -> None:
    """Show the run under way, or the next one: order of hosts, disruption, expected times, why each waits.

    It is worked out here, by what the operator decides with, from what you may read. Nothing is changed.
    With --preview, the operator has hosts tell what apt would upgrade.
    """
    objects.run(_plan(settings, name, form, 0 if everything else SHOWN, timeout if preview else None))


async def _plan(settings: connect.Settings, name: str, form: str, limit: int, timeout: float | None) -> int:
    answers: dict[str, PreviewAnswer] | None = None
    async with connect.connect(settings) as client:
        found = await read(client, settings.namespace, name, "plan")
        if timeout is not None:
            answers = await _preview(client, settings.namespace, found, timeout)
    code = 0 if all(one.is_good for one in (answers or {}).values()) else EXIT_UNANSWERED
    if form != "table":
        plain = plan_table.plain(found.judged, found.leaving, found.unread)
        if answers is not None:
            plain["preview"] = preview_view.plain(answers)
        click.echo(forms.dump(plain, form), nl=False)
        return code
    show(found, limit)
    if answers is not None:
        click.echo(f"\n{output.wrapped(preview_view.text(answers), output.terminal_width())}")
    return code


async def _preview(client: Client, namespace: str, found: Shown, timeout: float) -> dict[str, PreviewAnswer]:
    """Have hosts asked, and return what they say within the time."""
    name, plan = found.judged.maintenance.metadata.name, found.judged.plan
    what = f"cannot preview {name}: "
    if plan is None:
        raise click.ClickException(
            f"{what}there is no plan; see what it waits for: nodemanager maintenance plan {name}"
        )
    if not pure.steps(plan.work):
        raise click.ClickException(
            f"{what}none of its steps upgrades packages, and nothing else can be told beforehand"
        )
    asked = pure.asked(found.judged.inputs.groups, found.facts)
    if not asked.hosts:
        return previews.answers(asked, [])
    request = await previews.ask(client, namespace, name, plan_table.hash_of(found.judged))
    tasks: list[NodeTask] | None = None
    counter = preview_view.AnswerCounter(sys.stderr)
    with contextlib.suppress(TimeoutError), counter:
        async with asyncio.timeout(timeout):
            async for tasks in previews.follow(client, namespace, name, request):
                counter.show(sum(is_ended(one.status) for one in tasks), len(tasks))
    if tasks is None and await previews.take_back(client, namespace, name, request):
        raise click.ClickException(
            f"{what}no operator took the request within {timeout:g} s; see whether it runs, then ask again"
        )
    if not tasks:
        raise click.ClickException(
            f"{what}the operator asked nobody: the plan is another one by now, or somebody else asked at the "
            f"same time; its Events say which: nodemanager describe nmaint {name}"
        )
    return previews.answers(asked, tasks)


class Shown(NamedTuple):
    """What there is to show of a plan."""

    judged: Judged
    now: datetime
    leaving: Mapping[str, Leaving]
    unread: tuple[str, ...]
    facts: Mapping[str, HostFacts]


async def read(client: Client, namespace: str, name: str, doing: str) -> Shown:
    """Return what is decided about a maintenance, and what its drains would meet."""
    found = await objects.get(client, name, namespace, doing)
    around = await reading.read_maintenances(client, namespace, [found])
    judged = judging.judge(found, around)
    leaving, unread = await draining.leaving(client, judged, around)
    facts = judging.hosts(around.found)
    return Shown(judged, around.now, leaving, (*around.found.unread, *unread), facts)


def show(found: Shown, limit: int = SHOWN) -> None:
    """Print a plan for people."""
    for said in found.unread:
        click.echo(f"warning: {output.one_line(said)}", err=True)
    text = plan_table.text(found.judged, found.now, found.leaving, limit)
    click.echo(output.wrapped(text, output.terminal_width()))
