"""Tasks of shipped templates on a real host, made in the name of the operator."""

from __future__ import annotations

from typing import Any

import msgspec

from nodemanager.fleet.maintenance import steps
from support import fleet_tasks
from support.fleet import Host
from support.template_scripts import operation, shipped

SECONDS = 240.0


def do(host: Host, template: str, **parameters: str) -> dict[str, Any]:
    """Have a host do the steps of a template, and return its status once it has ended."""
    wanted = msgspec.to_builtins(steps.work([operation(template, parameters)], shipped()).steps)
    return fleet_tasks.ended(host.api, fleet_tasks.give(host.api, host.name, *wanted), SECONDS)
