"""Random fleets with maintenances, for tests of what is decided about them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from nodemanager.api.maintenance.nodemaintenance import NodeMaintenanceSpec
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.fleet.simulation.engine import Engine
from nodemanager.fleet.simulation.remembering import RememberingCalendar
from nodemanager.fleet.simulation.world import Behaviour, Dice, SimHost, SimMaintenance

START = datetime(2026, 3, 27, 22, 0, tzinfo=UTC)
"""A Friday, before a night with a change of the clock in Europe."""
ZONES = ("a", "b", "c")
WINDOWS: tuple[dict[str, Any], ...] = (
    {"always": True},
    {
        "schedules": [{"start": "01:00", "duration": "4h", "timeZone": "Europe/Paris"}],
        "onClose": "abortAndUndo",
    },
    {"schedules": [{"start": "22:30", "duration": "3h"}], "minimumTimeLeft": "20m"},
    {"schedules": [{"cron": "0 */6 * * *", "duration": "90m"}], "exclude": [{"weekdays": ["Sun"]}]},
)
STEPS: tuple[dict[str, Any], ...] = (
    {"name": "touch", "execution": {"argv": ["touch", "/x"]}},
    {"name": "upgrade", "packages": {"upgrade": "all"}},
    {"name": "boot", "reboot": {"when": "always"}},
)


def maintenance(name: str, spec: dict[str, Any], created: datetime = START) -> SimMaintenance:
    """Return a maintenance of a spec as YAML has it."""
    typed = msgspec.convert(spec, NodeMaintenanceSpec)
    assert typed.window is not None
    calendar = RememberingCalendar(typed.window)
    return SimMaintenance(name, f"uid-{name}", created, typed, typed.series or SeriesSpec(), calendar)


def host(number: int, rng: random.Random, created: datetime = START - timedelta(days=1)) -> SimHost:
    """Return a host with random labels."""
    labels = {"zone": rng.choice(ZONES), "role": rng.choice(("web", "web", "web", "canary", "control"))}
    uid = f"host-{number}-{created:%j%H%M}"
    return SimHost(f"host-{number:03}", uid, created, labels, is_node=rng.random() < 0.6)


def spec(rng: random.Random) -> dict[str, Any]:
    """Return a random maintenance."""
    operations: list[dict[str, Any]] = []
    if rng.random() < 0.7:
        operations.append({"name": "once", "type": "one-shot", "steps": rng.sample(STEPS, rng.randint(1, 3))})
    if not operations or rng.random() < 0.6:
        cron = {
            "name": "often",
            "type": "cron",
            "schedule": rng.choice(("0 1 * * *", "30 */6 * * *", "15 23 * * *")),
        }
        cron["concurrencyPolicy"] = rng.choice(("Allow", "Forbid", "Replace"))
        operations.append({**cron, "steps": rng.sample(STEPS, rng.randint(1, 2))})
    series: dict[str, Any] = {}
    if rng.random() < 0.5:
        series = {"groupBy": "zone", "order": ["b"]}
    if rng.random() < 0.4:
        series["canaries"] = {"matchLabels": {"role": "canary"}}
    if rng.random() < 0.4:
        series["last"] = {"matchLabels": {"role": "control"}}
    budget: dict[str, Any] = {"maxUnavailable": rng.choice((1, 2, 3, "10%", "50%"))}
    if rng.random() < 0.3:
        budget["perZone"] = {
            "label": "zone",
            "maxUnavailable": rng.choice((1, "50%")),
            "maxZones": rng.randint(1, 2),
        }
    if rng.random() < 0.3:
        budget["perGroup"] = rng.choice((1, "30%"))
    found = {
        "window": rng.choice(WINDOWS), "operations": operations, "series": series, "budget": budget,
        "stopAfter": rng.randint(1, 4), "backoffLimit": rng.randint(0, 2), "activeDeadlineSeconds": 3600,
        "disruption": {"drain": {"timeout": "15m", "onTimeout": rng.choice(("wait", "skip", "stop"))}},
    }  # fmt: skip
    if rng.random() < 0.3:
        found["parallelism"] = rng.randint(1, 3)
    if rng.random() < 0.3:
        found["soak"] = "5m"
    return found


def engine(rng: random.Random, most: int = 8) -> Engine:
    """Return a random fleet with one or two maintenances."""
    hosts = [host(number, rng) for number in range(rng.randint(1, most))]
    maintenances = [maintenance(f"m{number}", spec(rng)) for number in range(rng.choice((1, 1, 2)))]
    behaviour = Behaviour(failures=rng.choice((0.0, 0.05, 0.3)))
    by_name = {one.name: one for one in hosts}
    return Engine(START, by_name, maintenances, Dice(behaviour, rng), tick=timedelta(seconds=20))
