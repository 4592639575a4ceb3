"""`nodemanager run`: do something once, on some hosts, and watch."""

from __future__ import annotations

import asyncio
import functools
import sys
from typing import Any, Final

import click

from nodemanager.api.maintenance.maintenance_status import HostCounts
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.api.maintenance.nodeoperationtemplate import NODE_OPERATION_TEMPLATES
from nodemanager.cli import completing
from nodemanager.cli.maintenance import ad_hoc, following
from nodemanager.cli.maintenance.ad_hoc import AdHocWork
from nodemanager.cli.maintenance.following import Progressed
from nodemanager.cli.settings import connect
from nodemanager.cli.settings.durations import Duration
from nodemanager.cli.views import forms, output
from nodemanager.cli.views.maintenance import live, progress
from nodemanager.kube import selectors
from nodemanager.kube.wording import plural

TTL_SECONDS: Final = 86400
"""A day: the user can look at its history tomorrow, and nobody has to clean up."""
EXIT_FAILED: Final = 1
EXIT_TIMEOUT: Final = 3
EXIT_INTERRUPTED: Final = 130


@click.command(
    epilog="""\b
Examples:
  nodemanager run reboot-if-needed --on role=web --now
  nodemanager run package-upgrade --host web1 --host web2 --now
  nodemanager run security-updates --all-hosts --window sunday --no-wait
  nodemanager run journal-cleanup --on role=db --set maxAge=7d --now
  nodemanager run fstrim --all-hosts --now --max-unavailable 10%
\b
Exit codes:
  0    done on every host
  1    a host failed or was left out, or an error
  3    --timeout is over; the run goes on
  130  Ctrl-C; the run goes on
\b
Which templates there are: nodemanager get notmpl
""",
)
@click.argument(
    "template", shell_complete=functools.partial(completing.names, NODE_OPERATION_TEMPLATES.plural)
)
@click.option(
    "--on",
    "selector",
    default="",
    metavar="SELECTOR",
    help='Hosts with these labels, such as "role=web,env!=test".',
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    shell_complete=completing.hosts,
    metavar="NAME",
    help="This host; may be given again.",
)
@click.option("--all-hosts", "everywhere", is_flag=True, help="All hosts of the namespace.")
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the template; may be given again.",
)
@click.option("--now", "at_once", is_flag=True, help="At once, whatever the time.")
@click.option("--window", default="", metavar="NAME",
              shell_complete=functools.partial(completing.names, MAINTENANCE_WINDOWS.plural),
              help="While this MaintenanceWindow is open.")  # fmt: skip
@click.option(
    "--max-unavailable",
    default="",
    metavar="N|N%",
    help="How many of the hosts may be away at once; default 1.",
)
@click.option(
    "--stop-after",
    type=click.IntRange(1, 10000),
    help="How many hosts may fail before it is stopped; default 1.",
)
@click.option(
    "--drain/--no-drain",
    default=None,
    help="Whether Kubernetes Nodes are emptied before. Default: if it may reboot.",
)
@click.option(
    "--timeout", type=Duration(1), metavar="TIME", help="How long to watch, such as 1h. Default: to the end."
)
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Whether to watch until it has ended."
)
@click.option(
    "--keep", is_flag=True, help="Keep the NodeMaintenance for ever; without it, it goes a day after its end."
)
@click.option("--dry-run", is_flag=True, help="Print the NodeMaintenance that would be made, and make none.")
@connect.options(namespaced=True)
def command(
    settings: connect.Settings, timeout: float | None, wait: bool, dry_run: bool, **given: Any
) -> None:
    """Do what TEMPLATE says once on some hosts, within budget and window, and watch every host.

    It makes a NodeMaintenance with one operation of type one-shot. Without a window nothing runs, so say
    --now, or --window NAME.
    """
    wanted = _wanted(**given)
    made: list[str] = []
    try:
        code = asyncio.run(_run(settings, wanted, made, timeout, wait=wait, dry_run=dry_run))
    except KeyboardInterrupt:
        if not made:
            raise
        click.echo(f"\n{made[0]} goes on without you. {_later(made[0])}", err=True)
        code = EXIT_INTERRUPTED
    raise click.exceptions.Exit(code)


def _wanted(
    template: str,
    selector: str,
    hosts: tuple[str, ...],
    everywhere: bool,
    values: tuple[str, ...],
    at_once: bool,
    window: str,
    **limits: Any,
) -> AdHocWork:
    """Return what the options ask for; or raise what is wrong with them."""
    if sum((bool(selector), bool(hosts), everywhere)) != 1:
        raise click.UsageError(
            "say which hosts are meant: --on SELECTOR, --host NAME or --all-hosts, one of them"
        )
    if at_once == bool(window):
        raise click.UsageError("say when: --now, or --window NAME; without a window nothing runs")
    try:
        selectors.parse_selector(selector)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--on'") from None
    return AdHocWork(template, _values(values), selector, hosts, everywhere, window, _limits(**limits))


def _values(given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="'--set'")
        if name in found:
            raise click.BadParameter(f"{name} is given twice", param_hint="'--set'")
        found[name] = value
    return found


def _limits(max_unavailable: str, stop_after: int | None, drain: bool | None, keep: bool) -> dict[str, Any]:
    """Return the fields of the spec that options are about."""
    found: dict[str, Any] = {} if keep else {"ttlSecondsAfterFinished": TTL_SECONDS}
    if max_unavailable:
        number = max_unavailable.removesuffix("%")
        percent = number != max_unavailable
        if not number.isdecimal() or int(number) < 1 or (percent and int(number) > 100):
            raise click.BadParameter(
                f"{max_unavailable!r} is neither a number of hosts nor 1% to 100%",
                param_hint="'--max-unavailable'",
            )
        found["budget"] = {"maxUnavailable": f"{int(number)}%" if percent else int(number)}
    if stop_after is not None:
        found["stopAfter"] = stop_after
    if drain is not None:
        found["disruption"] = {"cordon": drain}
    return found


async def _run(
    settings: connect.Settings,
    wanted: AdHocWork,
    made: list[str],
    timeout: float | None,
    *,
    wait: bool,
    dry_run: bool,
) -> int:
    async with connect.connect(settings) as client:
        hosts = await ad_hoc.check(client, settings.namespace, wanted)
        if dry_run:
            click.echo(forms.dump(_whole(wanted, settings.namespace), "yaml"), nl=False)
            return 0
        found = await ad_hoc.create(client, settings.namespace, wanted)
        name = found.metadata.name
        made.append(name)
        click.echo(f"{name}: {wanted.template} on {plural(len(hosts), 'host')}")
        if not wait:
            click.echo(_later(name))
            return 0
        last: Progressed | None = None
        show = live.of(sys.stdout)
        try:
            async with asyncio.timeout(timeout):
                async for last in following.follow(client, name, settings.namespace):
                    show.show(last)
        except TimeoutError:
            show.end()
            click.echo(f"{name} has not ended within {timeout:g} s, and goes on. {_later(name)}", err=True)
            return EXIT_TIMEOUT
    return _ended(name, last)


def _whole(wanted: AdHocWork, namespace: str) -> dict[str, Any]:
    from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES

    body = ad_hoc.body(wanted)
    about = {"apiVersion": NODE_MAINTENANCES.api_version, "kind": NODE_MAINTENANCES.kind}
    return {**about, **body, "metadata": {**body["metadata"], "namespace": namespace}}


def _ended(name: str, last: Progressed | None) -> int:
    """Sum up a run, and return the exit code."""
    status = last.maintenance.status if last is not None else None
    counts = (status.hosts if status is not None else None) or HostCounts()
    click.echo(output.one_line(f"{name}: {status.phase if status else 'gone'}: {progress.summary(counts)}"))
    for host, state in (last.hosts if last is not None else {}).items():
        if state.state in live.BAD:
            click.echo(output.one_line(f"  {host}: {state.state}: {state.message or 'see its NodeTask'}"))
    if last is not None and last.went_well:
        return 0
    if status is not None and status.phase == following.STOPPED:
        click.echo(f"Repair what failed, then: nodemanager maintenance retry {name}", err=True)
        click.echo(f"Or end it: nodemanager maintenance abort {name}", err=True)
    click.echo(f"What each host did: nodemanager maintenance history {name}", err=True)
    return EXIT_FAILED


def _later(name: str) -> str:
    return f"To look: nodemanager maintenance history {name}; to end it: nodemanager maintenance abort {name}"
