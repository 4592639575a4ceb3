"""How the status of this host looks: a few labelled lines, and a table of what there may be many of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from nodemanager.agent.link import api_reachability
from nodemanager.agent.report.local_status import (
    AS_DECLARED,
    UNKNOWN,
    Api,
    HeldState,
    Owed,
    SetState,
    Snapshot,
    TaskState,
)
from nodemanager.agent.report.status_sources import CLOCK_SLACK
from nodemanager.api.common.acting import HoldOrigin
from nodemanager.cli.views import output
from nodemanager.client.http.server_clock import OUR_CLOCK
from nodemanager.kube.wording import plural
from nodemanager.plan.stages import KINDS, HostKinds

WIDTH: Final = 14
MAX_DRIFTS: Final = 10
MAX_ROWS: Final = 40
MAX_MESSAGE: Final = 400
"""As in `describe`: enough for two or three faults with what to do about them."""
_API_COLOURS: Final = {"connected": "green", "alone": "yellow", "refused": "red", "unasked": "red"}


def text(
    snapshot: Snapshot, now: datetime, style: output.Style = output.PLAIN, kinds: HostKinds = KINDS
) -> str:
    """Return a snapshot for people."""
    faults = snapshot.faults()
    colour = {AS_DECLARED: "green", UNKNOWN: "yellow"}.get(snapshot.state, "red")
    lines = [
        _line("Host", output.one_line(f"{snapshot.host} in namespace {snapshot.namespace}{_root(snapshot)}")),
        _line("Agent", output.one_line(_agent(snapshot, now))),
        _line("State", style.paint(snapshot.state, colour)),
        *(" " * WIDTH + output.one_line(fault) for fault in faults),
        *([_line("Held", _hold(snapshot.hold, style))] if snapshot.hold else []),
        _line("API", _api(snapshot.api, now, style)),
        *([" " * WIDTH + output.one_line(snapshot.api.why)] if snapshot.api.why else []),
    ]
    if snapshot.token is not None:
        lines.append(_line("Token", _token(snapshot, now, style)))
    lines += [
        _line("Last pass", _passes(snapshot, now)),
        _line("Managed", _managed(snapshot, kinds)),
        _line("Drift", _drift(snapshot, now)),
    ]
    if (task := snapshot.tasks.running) is not None:
        lines.append(_line("Task", output.one_line(_task(task, now))))
        lines += [" " * WIDTH + output.one_line(task.message)] if task.message else []
    lines += [
        _line("Not watched" if first else "", output.one_line(one))
        for first, one in _marked(snapshot.unwatched)
    ]
    lines += _sets(snapshot.config_sets, now, style)
    lines += _owed(snapshot.owed, now, style)
    lines += _recent(snapshot, now, style)
    lines += _tasks(snapshot.tasks.recent, now, style)
    return "\n".join(lines)


def fitting(text: str, width: int) -> str:
    """Return it in so many columns, but for lines with a label: values may be coloured, and are short."""
    lines, gap, tables = text.partition("\n\n")
    head = [output.wrapped(line, width) if line.startswith(" ") else line for line in lines.splitlines()]
    return "\n".join(head) + gap + output.wrapped(tables, width)


def known_from_disk(owed: Sequence[Owed], backups: int, now: datetime, style: output.Style) -> str:
    """Return what is known of a host whose agent does not run."""
    lines = [_line("Backups", f"{backups}, see nodemanager backups" if backups else "none")]
    if not owed:
        lines.append(_line("Owed", "nothing"))
    return "\n".join(lines + _owed(owed, now, style)).lstrip("\n")


def _line(label: str, value: str) -> str:
    return f"{label + ':' if label else '':<{WIDTH}}{value}"


def _marked(texts: Sequence[str]) -> list[tuple[bool, str]]:
    return [(number == 0, one) for number, one in enumerate(texts[:MAX_ROWS])]


# Times on disk are those of a clock that may have been set since: such a time says nothing about an age.


def _age(timestamp: str | None, now: datetime) -> str:
    """Return how long ago a time was; if that is unknown, the time itself."""
    if _of_another_clock(timestamp, now):
        return output.one_line(timestamp or "")
    return output.age(timestamp, now)


def _ago(timestamp: str | None, now: datetime) -> str:
    if _of_another_clock(timestamp, now):
        return f"at {_age(timestamp, now)} by a clock that was set since"
    return f"{output.age(timestamp, now)} ago"


def _lasting(timestamp: str | None, now: datetime) -> str:
    return f"{'since' if _of_another_clock(timestamp, now) else 'for'} {_age(timestamp, now)}"


def _of_another_clock(timestamp: str | None, now: datetime) -> bool:
    """Tell whether a time that is over has yet to come, or was taken before the clock was ever set."""
    moment = output.parse_time(timestamp)
    if moment is None:
        return False
    never_set = moment.timestamp() < api_reachability.SANE <= now.timestamp()
    return never_set or (moment - now).total_seconds() >= CLOCK_SLACK


def _root(snapshot: Snapshot) -> str:
    return "" if snapshot.root == "/" else f", root {snapshot.root}"


def _agent(snapshot: Snapshot, now: datetime) -> str:
    memory = f", {snapshot.memory / 2**20:.0f} MiB" if snapshot.memory else ""
    up = _age(snapshot.started, now)
    return f"nodemanager {snapshot.version}, process {snapshot.pid}, up {up}{memory}"


def _hold(hold: HeldState, style: output.Style) -> str:
    lasting = style.paint(f"for {output.human_duration(hold.seconds)} more", "yellow")
    where = "on this host" if hold.origin == HoldOrigin.HOST else "through the API"
    by = f", by {hold.by}" if hold.by else ""
    return f"{lasting}, {output.one_line(f'until {hold.until}, {where}{by}: {hold.reason}')}"


def _api(api: Api, now: datetime, style: output.Style) -> str:
    words = {
        "connected": "connected", "alone": "no answer", "refused": "refuses our credential",
        "unasked": "not asked for want of a credential",
    }.get(api.state, "not asked yet")  # fmt: skip
    shown = style.paint(words, _API_COLOURS.get(api.state, ""))
    since = f" {_lasting(api.since, now)}" if api.since else ""
    last = api.last_contact
    heard = f", the last one {_ago(last, now)}" if last and api.state != "connected" else ""
    return f"{shown}{since}{heard} ({output.one_line(api.server)})"


def _token(snapshot: Snapshot, now: datetime, style: output.Style) -> str:
    token = snapshot.token
    expires = output.parse_time(token.expires) if token else None
    if token is None or expires is None:
        return output.UNKNOWN
    rest = (expires - now).total_seconds()
    if rest <= 0:
        doubt = OUR_CLOCK in snapshot.api.why
        todo = f"if {OUR_CLOCK} is right: set it first" if doubt else "run nodemanager bootstrap again"
        gone = f"expired {output.human_duration(-rest)} ago; {todo}"
        return style.paint(gone, "red")
    renewal = output.parse_time(token.renewal)
    due = (renewal - now).total_seconds() if renewal else 0.0
    renews = (
        f"renewed in {output.human_duration(due)}" if due > 0 else style.paint("renewal is due", "yellow")
    )
    return f"expires in {output.human_duration(rest)} ({output.one_line(token.expires)}), {renews}"


def _passes(snapshot: Snapshot, now: datetime) -> str:
    passes = snapshot.passes
    parts = []
    if passes.last:
        took = f"{passes.seconds * 1000:.0f} ms" if passes.seconds < 10 else f"{passes.seconds:.0f} s"
        parts.append(f"{_ago(passes.last, now)}, took {took}")
    if passes.running_since:
        parts.append(f"one has been running {_lasting(passes.running_since, now)}")
    elif upcoming := output.parse_time(passes.next):
        parts.append(f"next in {output.human_duration(max(0.0, (upcoming - now).total_seconds()))}")
    return ", ".join(parts) or "none yet"


def _managed(snapshot: Snapshot, kinds: HostKinds) -> str:
    # An agent of another version may know kinds that we do not; those are named as it names them.
    words = {kind.name: kind.words for kind in kinds}
    counts = [
        f"{count} {output.one_line(words.get(kind, (kind, kind))[count != 1])}"
        for kind, count in snapshot.managed.items()
    ]
    return ", ".join(counts) or "nothing"


def _drift(snapshot: Snapshot, now: datetime) -> str:
    drift = snapshot.drift
    if not drift.repaired and not drift.observed:
        return "none so far"
    parts = [f"{drift.repaired} repaired"]
    if drift.observed:
        parts.append(f"{drift.observed} left alone")
    if drift.last_time:
        parts.append(f"last {_ago(drift.last_time, now)}: {output.one_line(drift.last_resource)}")
    if drift.unreported:
        parts.append(f"{drift.unreported} not reported yet")
    return ", ".join(parts)


def _sets(sets: Sequence[SetState], now: datetime, style: output.Style) -> list[str]:
    rows = []
    for one in sets:
        result, said = _result(one)
        rows.append([one.name, result, _age(one.last_applied, now), output.one_line(said, MAX_MESSAGE)])
    return _table(["CONFIGSET", "RESULT", "APPLIED", "MESSAGE"], rows, style)


def _result(one: SetState) -> tuple[str, str]:
    """Return how a set stands, the worst that is true of it, and why."""
    if one.error:
        return "fails", one.error
    if one.conflicts:
        return "conflict", "; ".join(one.conflicts)
    if one.waiting:
        return "waits", one.waiting
    if one.held:
        return "held", f"{plural(one.held, 'resource')} as before, until the end of the hold"
    return "holds", ""


def _owed(owed: Sequence[Owed], now: datetime, style: output.Style) -> list[str]:
    rows = [
        [one.resource, _age(one.since, now), output.one_line(", ".join(one.causes), MAX_MESSAGE)]
        for one in owed
    ]
    return _table(["OWED", "SINCE", "BECAUSE OF"], rows, style)


def _recent(snapshot: Snapshot, now: datetime, style: output.Style) -> list[str]:
    newest = snapshot.drift.recent[::-1][:MAX_DRIFTS]
    named = any(one.by for one in newest)  # not every host can tell
    rows = [
        [
            _age(one.time, now),
            one.outcome,
            one.took,
            one.resource,
            output.one_line(one.message, MAX_MESSAGE),
            *([one.by] if named else ()),
        ]
        for one in newest
    ]
    headers = ["DRIFT", "OUTCOME", "TOOK", "RESOURCE", "MESSAGE", *(["BY"] if named else ())]
    return _table(headers, rows, style)


def _task(task: TaskState, now: datetime) -> str:
    """Return how far the task is that is being done."""
    at = f"step {task.place} of {task.steps}, {task.step}" if task.step else "no step has begun"
    return f"{task.name} of {task.owner or 'nobody'}, {_lasting(task.since, now)}: {at}"


def _tasks(tasks: Sequence[TaskState], now: datetime, style: output.Style) -> list[str]:
    rows = []
    for one in tasks:
        said = output.one_line(one.message, MAX_MESSAGE)
        rows.append([one.name, one.owner or "-", _age(one.since, now), one.phase, said])
    return _table(["TASK", "OF", "ENDED", "PHASE", "MESSAGE"], rows, style)


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], style: output.Style) -> list[str]:
    """Return a table below an empty line; nothing where there is nothing to show."""
    if not rows:
        return []
    shown = [[output.one_line(cell) for cell in row] for row in rows[:MAX_ROWS]]
    lines = ["", *output.TableWriter(headers, style).lines(shown)]
    if len(rows) > MAX_ROWS:
        lines.append(f"... and {len(rows) - MAX_ROWS} more (all of them: -o yaml)")
    return lines
