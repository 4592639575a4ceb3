"""Hosts that say the same about their upgrades are told together; who says nothing is named."""

from __future__ import annotations

from nodemanager.api.maintenance.nodetask import NodeTask, NodeTaskSpec, NodeTaskStatus, TaskStepStatus
from nodemanager.cli.maintenance import previews
from nodemanager.cli.views.maintenance import preview_view
from nodemanager.fleet.maintenance.previews import Asked
from nodemanager.fleet.maintenance.reasons import Reason


def task(host: str, phase: str = "Succeeded", message: str = "", total: int = 0, **found: str) -> NodeTask:
    said = f"{total or len(found)} packages would be upgraded\n"
    step = TaskStepStatus(name="preview", phase=phase, evidence=found, output=said)
    return NodeTask(
        spec=NodeTaskSpec(node_name=host), status=NodeTaskStatus(phase=phase, message=message, steps=[step])
    )


def test_equal_answers_are_one_line() -> None:
    hosts = tuple(f"web{number}" for number in range(1, 8))
    many = {f"p{number}": "1 -> 2" for number in range(7)}
    tasks = [task(host, openssl="3.0.15 -> 3.0.16") for host in hosts[:4]]
    tasks += [task("web5"), task("web6", total=134, **many), task("web7", "Failed", "no apt\x1b[2J here")]
    asked = Asked((*hosts, "web8", "web9"), {"db1": Reason.HOST_SILENT}, ("z",))
    found = previews.answers(asked, [*tasks, task("web8", "Running", "it waits")])
    assert preview_view.text(found).splitlines() == [
        "What upgrades would do:",
        "  4 hosts: 1 package (openssl 3.0.15 -> 3.0.16)",
        "    web1, web2, web3, web4",
        "  1 host: nothing to upgrade",
        "    web5",
        "  1 host: 134 packages (p0 1 -> 2, p1 1 -> 2, p2 1 -> 2, p3 1 -> 2, p4 1 -> 2, ...)",
        "    web6",
        "  1 host said nothing, Failed: no apt?[2J here",
        "    web7",
        "  1 host said nothing, Unanswered: it waits",
        "    web8",
        "  1 host said nothing, NotAsked: the operator did not ask it: it is at work there, or held",
        "    web9",
        "  1 host said nothing, HostSilent",
        "    db1",
        "  1 host said nothing, NotAsked: only the first 100 hosts are asked",
        "    z",
    ]
    plain = {one["host"]: one for one in preview_view.plain(found)}
    assert plain["web1"] == {
        "host": "web1", "state": "Succeeded", "total": 1, "packages": {"openssl": "3.0.15 -> 3.0.16"},
        "message": "",
    }  # fmt: skip
    assert (plain["db1"]["state"], plain["db1"]["total"]) == ("HostSilent", None)
