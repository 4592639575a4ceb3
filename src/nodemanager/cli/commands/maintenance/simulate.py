"""`nodemanager simulate`: what a maintenance would do to a fleet, on a virtual clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from nodemanager.api import manifest_checks
from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.maintenance.maintenancewindow import MAINTENANCE_WINDOWS
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES
from nodemanager.api.maintenance.nodeoperationtemplate import NODE_OPERATION_TEMPLATES
from nodemanager.api.maintenance.nodeseries import NODE_SERIES
from nodemanager.cli.manifests import manifest_files
from nodemanager.cli.settings import host_options
from nodemanager.fleet.simulation import gantt, scenario, svg
from nodemanager.fleet.simulation.scenario import Scenario, SimulationSettings
from nodemanager.kube import manifests
from nodemanager.kube.manifests import ManifestError
from nodemanager.kube.objects import Resource

MOST_HOSTS = 20_000


class CannotSimulate(click.ClickException):
    """The manifests cannot be simulated."""


class _Percentage(click.ParamType[float]):
    name = "percentage"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).removesuffix("%")
        try:
            number = float(text)
        except ValueError:
            number = -1
        if not 0 <= number <= 100:
            self.fail(f"{value!r} is no percentage from 0% to 100%, such as 2%", param, ctx)
        return number / 100


@click.command(
    epilog="""\b
Examples:
  nodemanager simulate -f monday.yaml --hosts 1000 --failures 2% --seed 7
  nodemanager simulate -f monday.yaml --hosts 40 --svg monday.svg
  kubectl get nmaint,mw,nser,notmpl,mn -o yaml > all.yaml && nodemanager simulate -f all.yaml

\b
The same seed and the same start give the same answer.
""",
)
@host_options.manifests("File or folder with manifests.", required=True)
@click.option(
    "--hosts", type=click.IntRange(0, MOST_HOSTS), default=0, metavar="COUNT",
    help="How many hosts there are; made up beyond the ManagedNodes of the files.",
)  # fmt: skip
@click.option(
    "--failures", type=_Percentage(), default="0%", show_default=True, metavar="PERCENT",
    help="How many tries go wrong.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Which fate the hosts have.")
@click.option(
    "--start", type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%SZ"]), default=None,
    help="When it begins, in UTC. Default: now.",
)  # fmt: skip
@click.option(
    "--days", type=click.IntRange(1, 366), default=60, show_default=True,
    help="How long is looked at most; it ends when every maintenance has had one run.",
)  # fmt: skip
@click.option(
    "--svg", "picture", type=click.Path(path_type=Path, dir_okay=False), default=None, metavar="FILE",
    help="Write the timeline as a picture.",
)  # fmt: skip
def command(
    paths: tuple[Path, ...], hosts: int, failures: float, seed: int, start: datetime | None, days: int,
    picture: Path | None,
) -> None:  # fmt: skip
    """See what a NodeMaintenance would do, without an API and without a host.

    The decisions are those of the operator, on a clock that runs by itself: when hosts begin, how long all of
    it takes, how many are away at once, and what they wait for.
    """
    begin = (start or datetime.now(UTC).replace(second=0, microsecond=0)).replace(tzinfo=UTC)
    try:
        engine, remarks = scenario.build(_read(paths), SimulationSettings(begin, hosts, failures, seed))
        engine.run_until(begin + timedelta(days=days), rounds=1)
    except (ManifestError, ValueError, LookupError, OSError) as error:
        raise CannotSimulate(str(error)) from error
    for remark in remarks:
        click.echo(f"Note: {remark}.", err=True)
    for line in gantt.lines(engine):
        click.echo(line.rstrip())
    if picture is not None:
        try:
            picture.write_text(svg.picture(engine), encoding="utf-8")
        except OSError as error:
            raise CannotSimulate(f"cannot write {picture}: {error.strerror}; choose another file") from error
        click.echo(f"Wrote {picture}.", err=True)


def _read(paths: tuple[Path, ...]) -> Scenario:
    found: dict[str, dict[str, Any]] = {}
    kinds: tuple[Resource[Any], ...] = (
        NODE_MAINTENANCES, MAINTENANCE_WINDOWS, NODE_SERIES, NODE_OPERATION_TEMPLATES, MANAGED_NODES,
    )  # fmt: skip
    for path in manifest_files.files(paths):
        for obj in manifests.load_all(manifest_files.text(path), str(path)):
            for resource in kinds:
                if (obj["apiVersion"], obj["kind"]) == (resource.api_version, resource.kind):
                    typed = manifest_checks.typed(obj, resource, str(path))
                    found.setdefault(resource.kind, {})[typed.metadata.name] = typed

    def specs(kind: str) -> dict[str, Any]:
        return {name: one.spec for name, one in found.get(kind, {}).items()}

    return Scenario(
        found.get(NODE_MAINTENANCES.kind, {}),
        specs(MAINTENANCE_WINDOWS.kind),
        specs(NODE_SERIES.kind),
        specs(NODE_OPERATION_TEMPLATES.kind),
        found.get(MANAGED_NODES.kind, {}),
    )
