"""What gates of health ask other services, and what an answer means. Pure: the operator asks.

    HealthGate + host  ->  Question  ->  (asked)  ->  Answer  ->  GateFinding, or nothing if the gate holds

A question is a gate with everything filled in, so hosts whose gates are the same ask it once.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from nodemanager.api.maintenance.health_gates import HealthGate, HttpGate, ObjectGate, PrometheusGate
from nodemanager.fleet.maintenance.facts import GateFinding
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.kube import errors, wording
from nodemanager.kube.cel import program, types
from nodemanager.kube.cel.errors import CelError, CompileError
from nodemanager.kube.cel.program import Program

HOST: Final = "$(host)"
OK: Final = 200
FRESH: Final = timedelta(seconds=10)
"""How old an answer may be to let a host begin; until then it is not asked for again."""
STALE: Final = timedelta(minutes=1)
"""From this age on, an answer says nothing about a host in work."""
SKEW: Final = timedelta(seconds=5)
"""How much later than a look a question may have been asked and still count for it."""
MAX_SAID: Final = 240
"""Most characters of the text about a gate."""
CEL_STEPS: Final = 100_000
_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip
Question = ObjectGate | HttpGate | PrometheusGate


class NoAnswer(Exception):
    """There was no answer that can be used; the message says why."""


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """The result of a question."""

    asked: datetime
    why: str = ""
    """Why the gate does not hold; empty = it holds."""
    reason: Reason = Reason.GATE_BEFORE
    no_since: datetime | None = None
    """Since when the answer is no, without a yes since; a question without an answer counts as neither."""

    def following(self, old: GateAnswer | None) -> GateAnswer:
        """Return this answer as the successor of an earlier one, if that is not too old."""
        if not self.why:
            return self
        known = old.no_since if old is not None and old.is_within(STALE, self.asked) else None
        first = self.asked if self.reason is Reason.GATE_BEFORE else None
        return replace(self, no_since=known or first)

    def is_within(self, age: timedelta, now: datetime) -> bool:
        """Tell whether the answer is younger than that.

        One far in the future (the clock was set back) is not.
        """
        return -SKEW <= now - self.asked < age


def question(gate: HealthGate, host: str, namespace: str) -> Question | None:
    """Return the question of a gate about a host; None = watched objects already give the answer."""
    if gate.object is not None:
        named = gate.object.name.replace(HOST, host)
        where = gate.object.namespace or namespace
        return msgspec.structs.replace(gate.object, name=named, namespace=where)
    if gate.http is not None:
        return msgspec.structs.replace(gate.http, url=gate.http.url.replace(HOST, host))
    if gate.prometheus is not None:
        asked = gate.prometheus
        return msgspec.structs.replace(asked, query=asked.query.replace(HOST, host))
    return None


def label(asked: Question) -> str:
    """Return in one line what a question is about."""
    match asked:
        case ObjectGate():
            return f"{asked.kind} {asked.namespace}/{asked.name}"
        case HttpGate():
            return wording.flat(f"http {asked.url}", 100)
        case PrometheusGate():
            return wording.flat(f"prometheus {asked.query}", 100)


def before(answer: GateAnswer | None, now: datetime, age: timedelta | None = None) -> GateFinding | None:
    """Return what keeps a host from being begun with: no counts until it is asked again, yes for a moment.

    `age` is how long that is, where many have to be asked before all that they say counts.
    """
    if answer is None or (not answer.why and not answer.is_within(age or FRESH, now)):
        return _not_asked()
    return GateFinding(answer.why, answer.reason) if answer.why else None


def after(answer: GateAnswer | None, since: datetime | None, now: datetime) -> GateFinding | None:
    """Return what keeps a visit from ending; an answer from before `since` is no proof."""
    if answer is None or not answer.is_within(STALE, now) or (since is not None and answer.asked < since):
        return _not_asked()
    return GateFinding(answer.why, answer.reason) if answer.why else None


def _not_asked() -> GateFinding:
    return GateFinding("not asked yet", Reason.GATE_NOT_ASKED)


# What is wrong with a gate, whatever the answer


def fault(gate: HealthGate) -> str:
    """Return why a gate can never be asked; empty = it can."""
    if gate.object is not None:
        try:
            found = _compiled(gate.object.cel).type
        except CompileError as error:
            return f"object.cel: {wording.flat(error.message, MAX_SAID)}"
        if found not in (types.BOOL, types.DYN):
            return f"object.cel: must be true or false, and is {found}"
        return "object.kind: must not be Secret" if gate.object.kind == "Secret" else ""
    if gate.http is not None:
        return _address_fault("http.url", gate.http.url)
    return _address_fault("prometheus.url", gate.prometheus.url) if gate.prometheus is not None else ""


def _address_fault(field: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isascii() or not url.isprintable() or " " in url:
        return f"{field}: must be an address such as http://web:8080/healthz, in ASCII and without spaces"
    return f"{field}: must have neither user nor password: none is sent" if "@" in parts.netloc else ""


# What an answer means


@functools.lru_cache(maxsize=256)
def _compiled(expression: str) -> Program:
    return program.compile_expression(expression, {"object": types.DYN})


def of_object(asked: ObjectGate, found: Mapping[str, Any]) -> str:
    """Return why an object is not as wanted; empty = it is."""
    try:
        value = _compiled(asked.cel).evaluate({"object": found}, CEL_STEPS)
    except CelError as error:
        return wording.flat(f"{asked.cel}: {error}", MAX_SAID)
    return "" if value is True else wording.flat(f"{asked.cel} is not true", MAX_SAID)


def of_status(asked: HttpGate, status: int) -> str:
    """Return why an address did not answer as wanted; empty = it did."""
    wanted = asked.status or OK
    return "" if status == wanted else f"answered {status}, not {wanted}"


class _Sample(msgspec.Struct):
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")


class _Reply(msgspec.Struct):
    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""
    warnings: list[str] = []


def of_prometheus(asked: PrometheusGate, status: int, body: bytes) -> str:
    """Return why the answer to a query is not as wanted; empty = it is. Raise NoAnswer if it is none."""
    try:
        reply = msgspec.json.decode(body, type=_Reply)
        good = status == OK and reply.status == "success"
        values, is_scalar = _values(reply.data) if good else ([], False)
    except (*errors.UNREADABLE, msgspec.ValidationError, ValueError) as error:
        raise NoAnswer(f"answered {status}, and not as Prometheus does") from error
    if not good:
        raise NoAnswer(wording.flat(f"answered {status}: {reply.error or reply.status}", MAX_SAID))
    if reply.warnings:  # a part of what it should know is away: that says nothing
        raise NoAnswer(wording.flat(f"answered in part: {reply.warnings[0]}", MAX_SAID))
    if asked.operator:
        return _compared(asked, values)
    if not values:
        return "no result"
    return f"is {values[0]:g}" if is_scalar and (values[0] == 0 or math.isnan(values[0])) else ""


def _values(data: _Data) -> tuple[list[float], bool]:
    """Return the numbers of an answer, and whether it is one without a series."""
    if data.result_type == "scalar":
        return [float(msgspec.json.decode(data.result, type=tuple[float, str])[1])], True
    if data.result_type != "vector":
        raise NoAnswer(f"is a {wording.flat(data.result_type, 20)}; write a query whose result is a vector")
    samples = msgspec.json.decode(data.result, type=list[_Sample])
    return [math.nan if one.value is None else float(one.value[1]) for one in samples], False


def _compared(asked: PrometheusGate, values: list[float]) -> str:
    if not values:
        return "" if asked.empty_holds else "no result"
    compare, wanted = _COMPARE[asked.operator], float(asked.value)
    bad = [one for one in values if math.isnan(one) or not compare(one, wanted)]
    if not bad:
        return ""
    return f"{len(bad)} of {len(values)} results are not {asked.operator} {asked.value}, such as {bad[0]:g}"
