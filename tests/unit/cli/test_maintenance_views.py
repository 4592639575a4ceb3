"""How maintenances look: bars, tables, waits; on a terminal and elsewhere. No API, no operator."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.maintenance_status import HostCounts, WindowState
from nodemanager.api.maintenance.nodemaintenance import NodeMaintenance
from nodemanager.api.maintenance.nodetask import NOT_DONE, VISIT, NodeTask
from nodemanager.cli.commands.maintenance import listing, why
from nodemanager.cli.maintenance import following, judging, reading, reasons_of_host, tries
from nodemanager.cli.maintenance.following import FollowedHost, Progressed
from nodemanager.cli.maintenance.judged import Judged
from nodemanager.cli.maintenance.reading import NamespaceObjects
from nodemanager.cli.views import output
from nodemanager.cli.views.maintenance import history_view, live, plan_table, progress
from nodemanager.fleet.maintenance import claims, reasons
from nodemanager.fleet.maintenance.claims import Claim, State
from nodemanager.fleet.maintenance.reasons import Reason

NOW = datetime(2026, 3, 2, 6, 10, tzinfo=UTC)
EVIL = "a\x1b]0;owned\x07\x9b31m\u2028x\u202eevil\rb"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]")


class Terminal(io.StringIO):
    """Where somebody reads along."""

    def isatty(self) -> bool:
        return True


def moment(**later: float) -> str:
    return (NOW + timedelta(**later)).isoformat()


def maintenance(status: dict[str, Any] | None = None, name: str = "monday", **spec: Any) -> NodeMaintenance:
    once = {"name": "note", "type": "one-shot", "steps": [{"name": "t", "execution": {"argv": ["true"]}}]}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "lab", "uid": name, "creationTimestamp": moment(days=-1)},
            "spec": {"window": {"always": True}, "operations": [once], **spec},
            "status": status or {},
        },
        NodeMaintenance,
    )


def host(name: str, alive: str = "True", **meta: Any) -> ManagedNode:
    said = [{"type": "Alive", "status": alive, "lastTransitionTime": moment(minutes=-3)}]
    return msgspec.convert(
        {
            "metadata": {"name": name, "uid": name, "creationTimestamp": moment(days=-9), **meta},
            "status": {"conditions": said, "heartbeat": {"leaseName": name}},
        },
        ManagedNode,
    )


def judge(one: NodeMaintenance, *hosts: ManagedNode, tasks: Sequence[NodeTask] = ()) -> Judged:
    """Return what is decided about a maintenance that needs nothing else of an API."""
    found = NamespaceObjects(NOW, hosts, tasks)
    around = asyncio.run(reading.understood(cast("Any", None), found, [one]))
    return judging.judge(one, around)


# Bars and counts


@pytest.mark.parametrize(
    ("counts", "bar"),
    [
        (HostCounts(), "[..........]"),
        (HostCounts(total=10, succeeded=3, failed=1, running=1), "[###!>.....]"),
        (HostCounts(total=1000, succeeded=998, failed=1, running=1), "[########!>]"),
        (HostCounts(total=3, succeeded=3), "[##########]"),
        (HostCounts(total=3, succeeded=2, skipped=1), "[######....]"),
        (HostCounts(total=1, failed=1), "[!!!!!!!!!!]"),
    ],
)
def test_a_bar_hides_nothing(counts: HostCounts, bar: str) -> None:
    assert progress.bar(counts, 10) == bar
    assert len(click_unstyled(progress.bar(counts, 10, output.Style(colour=True)))) == 12


def click_unstyled(text: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", text)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (None, "-"),
        (WindowState(), "shut"),
        (WindowState(opens_at=moment(hours=5)), "opens in 5h"),
        (WindowState(open=True), "open"),
        (WindowState(open=True, closes_at=moment(minutes=30)), "open, 30m left"),
        (WindowState(open=True, closes_at=moment(minutes=-1)), "open, 0s left"),
    ],
)
def test_a_window_in_few_words(state: WindowState | None, words: str) -> None:
    assert progress.window(state, NOW) == words


def test_a_list_has_bars_on_a_terminal_only() -> None:
    found = [maintenance({"phase": "Running", "hosts": {"total": 4, "succeeded": 2, "running": 1}})]
    assert "[######>" not in "\n".join(listing.lines(found, NOW))
    shown = listing.lines(found, NOW, bars=True)
    assert "[######>>>...] 2/4" in shown[1] or "[######>" in shown[1]
    assert max(map(len, shown)) <= 80
    assert listing.lines(found, NOW, namespaces=True)[1].startswith("lab ")


# Waits


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_says_what_to_do_with_the_names_that_are_meant(reason: Reason) -> None:
    said = reasons.remedy(reason, "monday", "web1", "nodetask/web1-4f1c")
    assert said.endswith(".")
    assert not re.search(r"\b(NAME|HOST|TASK)\b", said), said
    for command in re.findall("`nodemanager ([^`]+)`", said):
        assert re.match(
            r"(maintenance (resume|approve|retry|plan|abort) monday|unhold web1|describe |audit verify$)",
            command,
        ), command


def test_why_tells_each_reason_in_80_columns() -> None:
    hosts = [host("web1", "False"), host("web2")]
    one = judge(maintenance(), *hosts)
    found = reasons_of_host.of_host(hosts[0], NamespaceObjects(NOW, hosts), [one])
    text = output.wrapped(why.text("web1", found, NOW), 80)
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("Reason:")] == [
        "HostSilent"
    ] * 2
    assert "Since:          2026-03-02T06:07:00" in text
    assert max(map(len, text.splitlines())) <= 80
    (second,) = reasons_of_host.concerning("web2", [one])
    assert (second.code, second.run != "") == ("BudgetSpent", True), "a silent host counts"


@pytest.mark.parametrize(
    ("state", "reason", "code", "remedy"),
    [
        (State.DRAINING, None, "Draining", "See which pods are left"),
        (State.UNDONE, Reason.DRAIN_TIMED_OUT, "DrainTimedOut", "The next slot of its spec.upgrade"),
    ],
)  # fmt: skip
def test_why_tells_of_an_upgrade_that_the_operator_began(
    state: State, reason: Reason | None, code: str, remedy: str
) -> None:
    claim = Claim("managednode/web1", "u", "u", "upgrade-1", 0, state, NOW, NOW, NOW, reason=reason)
    web = host("web1", annotations={VISIT: claims.encode(claim)})
    (found,) = reasons_of_host.of_host(web, NamespaceObjects(NOW, [web]), [])
    assert (found.code, found.remedy.startswith(remedy)) == (code, True)


def test_what_the_operator_alone_can_ask_is_taken_from_the_status() -> None:
    waiting = [
        {"reason": "GateBefore", "hosts": 1, "first": ["web1"], "object": "http/https://x", "remedy": "r"}
    ]
    status = {
        "run": {"id": "r1", "operations": ["note"], "startedAt": moment(minutes=-2)},
        "waiting": waiting,
    }
    one = judge(maintenance(status), host("web1"))
    assert one.hosts.starts == {"web1"}, "as far as can be told from here"
    (found,) = reasons_of_host.concerning("web1", [one])
    assert (found.code, found.object) == ("GateBefore", "http/https://x")


def test_a_pod_that_asks_for_time_is_why_a_host_waits_also_if_the_budget_is_spent() -> None:
    said = {"reason": "PodProtected", "hosts": 1, "first": ["web2"], "object": "pod/lab/job: not-before"}
    run = {"id": "r1", "operations": ["note"], "startedAt": moment(minutes=-2)}
    one = judge(maintenance({"run": run, "waiting": [said]}), host("web1", "False"), host("web2"))
    assert one.hosts.waits["web2"].reason is Reason.BUDGET_SPENT, "as far as can be told from here"
    (found,) = reasons_of_host.concerning("web2", [one])
    assert (found.code, found.object) == ("PodProtected", "pod/lab/job: not-before")


RUN = {"id": "r", "operations": ["note"], "startedAt": moment(minutes=-1)}
FRIDAY = {"schedules": [{"weekdays": ["Fri"], "start": "06:00", "duration": "1h"}]}


@pytest.mark.parametrize(
    ("spec", "status", "code"),
    [
        ({"paused": True}, {"run": RUN}, "Paused"),
        ({"approval": {"required": True}}, {"run": RUN}, "NotApproved"),
        ({}, {"run": {**RUN, "stoppedAt": moment()}}, "Stopped"),
        ({"window": FRIDAY}, {}, "WindowClosed"),
        ({"window": None, "windowRef": {"name": "x"}}, {}, "WindowNotFound"),
        ({"series": {"selector": {"matchLabels": {"a": "b"}}}}, {}, ""),
        (
            {},
            {"conditions": [{"type": "Valid", "status": "False", "reason": "NodesUnknown"}]},
            "NodesUnknown",
        ),
        ({}, {}, "Begins"),
    ],
)
def test_what_a_host_waits_for(spec: dict[str, Any], status: dict[str, Any], code: str) -> None:
    found = [*reasons_of_host.concerning("web1", [judge(maintenance(status, **spec), host("web1"))])]
    assert [one.code for one in found] == ([code] if code else [])


# Plans


def test_a_plan_follows_the_groups_and_keeps_those_in_work_and_done() -> None:
    hosts = [host(f"web{n}", labels={"zone": "ab"[n % 2]}) for n in range(4)]
    status = {"run": {"id": "r", "operations": ["note"], "startedAt": moment(minutes=-30)}}
    task = {
        "metadata": {
            "name": "t", "labels": {"maintenance.nodemanager/run": "r"},
            "creationTimestamp": moment(minutes=-9),
        },
        "spec": {"nodeName": "web0", "reason": {"uid": "monday"}},
        "status": {
            "phase": "Succeeded", "finishedAt": moment(minutes=-5), "claim": {"time": moment(minutes=-9)}
        },
    }  # fmt: skip
    made = maintenance(status, series={"groupBy": "zone"})
    judged = judge(made, *hosts, tasks=[msgspec.convert(task, NodeTask)])
    found = plan_table.hosts(judged)
    assert [(one.host, one.state, one.reason) for one in found] == [
        ("web0", "succeeded", "Succeeded"), ("web2", "waiting", "Begins"),
        ("web1", "waiting", "EarlierGroup"), ("web3", "waiting", "EarlierGroup"),
    ]  # fmt: skip
    assert found[0].starts_at is None
    assert found[1].starts_at == NOW
    assert found[1].ends_at == NOW + timedelta(minutes=4), "as long as others took"
    text = output.wrapped(plan_table.text(judged, NOW, limit=2), 80)
    assert "... and 2 hosts more (all of them: --all)" in text
    assert max(map(len, text.splitlines())) <= 80


def test_nobody_says_when_a_host_begins_that_cannot_be_begun_with() -> None:
    found = plan_table.hosts(
        judge(maintenance(budget={"maxUnavailable": 2}), host("web1", "False"), host("web2"))
    )
    assert [(one.host, one.reason, one.starts_at) for one in found] == [
        ("web1", "HostSilent", None), ("web2", "Begins", NOW),
    ]  # fmt: skip


def test_a_plan_has_one_hash_for_the_same_and_another_for_anything_else() -> None:
    one, same = judge(maintenance(), host("web1")), judge(maintenance(paused=True), host("web1"))
    other = judge(maintenance(), host("web1"), host("web2"))
    assert plan_table.hash_of(one) == plan_table.hash_of(same) != plan_table.hash_of(other)
    old = judge(maintenance({"plan": {"hash": "f" * 64}}), host("web1"))
    assert plan_table.hash_of(old) == plan_table.hash_of(one), "that of an earlier run does not count"
    told = maintenance({"plan": {"hash": "f" * 64}, "run": RUN})
    assert plan_table.hash_of(judge(told, host("web1"))) == "f" * 64, "the operator's word counts"


# Terminals


def progressed(phase: str, **hosts: str) -> Progressed:
    counts = {"total": 30, "succeeded": 1, "running": 2}
    found = maintenance({"phase": phase, "hosts": counts})
    return Progressed(found, {name: FollowedHost(state, EVIL) for name, state in hosts.items()})


def test_a_terminal_is_drawn_over_and_a_pipe_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    terminal, pipe = Terminal(), io.StringIO()
    shows = [live.of(terminal), live.of(pipe)]
    many = {f"h{n:02}": "Running" for n in range(20)}
    for show in shows:
        show.show(progressed("Running", web1="Working", web2="Failed"))
        show.show(progressed("Running", web1="Succeeded", web2="Failed", **many))
        show.end()
    first, second = terminal.getvalue().split("\x1b[3A\r\x1b[J")
    assert first.startswith("[#>")
    assert first.splitlines()[1].startswith("  web2  Failed"), "what failed comes first"
    assert second.splitlines()[-1] == "  ... and 9 hosts more"
    assert "web1" not in second, "who is done needs no line"
    assert not STEERS.search(first + second)
    lines = pipe.getvalue().splitlines()
    assert lines[0] == "monday: Running"
    assert sum(line.startswith("web2:") for line in lines) == 1, "only what is new"
    assert sum(line.startswith("web1:") for line in lines) == 2
    assert not STEERS.search(pipe.getvalue())


@pytest.mark.parametrize(
    ("undo", "not_done", "phase", "message"),
    [
        ("", "", "Succeeded", "done"),
        ("", "NotProven", "Halted", "its steps succeeded, its visit did not: NotProven: done"),
        ("Running", "", "Undoing", "not proven afterwards, and taken back by h-1-undo: done"),
        ("Succeeded", "NotProven", "Undone", "not proven afterwards, and taken back by h-1-undo: done"),
        ("Failed", "NotProven", "Halted", "not proven afterwards, and taken back by h-1-undo: done"),
    ],
)
def test_who_was_taken_back_or_not_proven_has_not_succeeded(
    undo: str, not_done: str, phase: str, message: str
) -> None:
    def task(name: str, phase: str, at: str) -> NodeTask:
        meta = {"name": name, "creationTimestamp": at, "annotations": {NOT_DONE: not_done}}
        said = {"phase": phase, "message": "done"}
        return msgspec.convert({"metadata": meta, "spec": {"nodeName": "h"}, "status": said}, NodeTask)

    tasks = [task("h-1", "Succeeded", moment(hours=-1))]
    tasks += [task("h-1-undo", undo, moment())] if undo else []
    assert following.states(maintenance(), tasks) == {"h": FollowedHost(phase, message)}
    (one,) = tries.tries(tasks)
    assert (one.phase, one.message) == (phase, message)
    assert one.went_wrong == (phase != "Succeeded")


def test_what_hosts_say_steers_no_terminal() -> None:
    task = msgspec.convert(
        {
            "metadata": {"name": EVIL},
            "spec": {"nodeName": EVIL},
            "status": {"phase": "Failed", "message": EVIL},
        },
        NodeTask,
    )
    found = maintenance({"run": {"id": EVIL, "operations": [EVIL]}, "history": [{"id": EVIL}]}, name=EVIL)
    assert not STEERS.search(history_view.text(found, EVIL, tries.tries([task]), NOW))
    judged = judge(found, host(EVIL))
    assert not STEERS.search(plan_table.text(judged, NOW))
    assert not STEERS.search(why.text(EVIL, [*reasons_of_host.concerning(EVIL, [judged])], NOW))
    assert not STEERS.search("\n".join(listing.lines([found], NOW, bars=True)))
