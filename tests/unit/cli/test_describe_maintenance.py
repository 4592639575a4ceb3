"""What `describe` says of a maintenance that is under way, and of what it is made of."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from nodemanager.api.maintenance.maintenanceapproval import MaintenanceApproval
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.api.maintenance.nodeoperationtemplate import NodeOperationTemplate
from nodemanager.cli.views.describe import maintenanceapproval, nodemaintenance, nodeoperationtemplate

NOW = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
STATUS = {
    "observedGeneration": 1,
    "phase": "Running",
    "window": {"open": True, "closesAt": "2026-11-16T09:00:00Z", "text": "open"},
    "hosts": {"total": 10, "running": 1, "succeeded": 3, "failed": 1, "text": "3/10"},
    "operations": [{"name": "up", "nextRun": "2026-11-23T06:00:00Z", "skipped": 4}],
    "plan": {"hash": "ab" * 32, "hosts": 10},
    "escalated": {"hosts": 7, "first": ["web1", "web2"]},
    "waiting": [
        {
            "reason": "BudgetSpent",
            "hosts": 5,
            "since": "2026-11-16T06:00:00Z",
            "remedy": "Nothing to do.\nReally.",
        }
    ],
    "history": [{"id": "r0", "operations": ["up"], "outcome": "Failed", "endedAt": "2026-11-09T07:00:00Z"}],
}


def test_a_maintenance_under_way_says_how_far_it_is_and_why_hosts_wait() -> None:
    operation = {
        "name": "up",
        "type": "cron",
        "schedule": "0 6 * * 1",
        "templateRef": {"name": "package-upgrade"},
    }
    spec = {"windowRef": {"name": "office"}, "operations": [operation], "parallelism": 2, "paused": True}
    one = msgspec.convert({"metadata": {"name": "monday"}, "spec": spec, "status": STATUS}, NodeMaintenance)
    text = nodemaintenance.render(one, [], NOW)
    for said in (
        "Running", "MaintenanceWindow office", "all hosts of the namespace",
        "at most 1 unavailable, 2 in work", "3/10 done, 1 in work, 1 failed", "template package-upgrade",
        "cron 0 6 * * 1", "2026-11-23T06:00:00Z", "BudgetSpent", "30m", "Failed", "nothing is begun",
        "drift on 7 hosts: web1, web2 and 5 more",
    ):  # fmt: skip
        assert said in text, said
    assert "\nReally" not in text, "what others wrote stays on its line"


def test_a_template_says_what_it_does_and_what_may_be_filled_in() -> None:
    spec = {
        "description": "Boots it.",
        "version": "1.0",
        "parameters": [{"name": "keep", "type": "integer", "default": "2"}, {"name": "to", "required": True}],
        "steps": [{"name": "boot", "reboot": {"when": "always"}, "onFailure": "undo"}],
    }
    one = msgspec.convert({"metadata": {"name": "t"}, "spec": spec}, NodeOperationTemplate)
    text = nodeoperationtemplate.render(one, [], NOW)
    for said in ("Boots it.", "keep", "integer", "required", "boot", "reboot", "undo"):
        assert said in text, said


def test_an_approval_says_who_approves_what() -> None:
    spec = {"maintenance": "monday", "planHash": "ab" * 32, "approver": "jane", "comment": "fine\nby me"}
    one = msgspec.convert({"metadata": {"name": "a"}, "spec": spec}, MaintenanceApproval)
    text = maintenanceapproval.render(one, [], NOW)
    assert "monday" in text
    assert "jane" in text
    assert "\nby me" not in text
