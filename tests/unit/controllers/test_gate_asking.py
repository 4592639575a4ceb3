"""Who asks gates: when again, whom it wakes, and that nothing is left without an answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from nodemanager.api.maintenance.health_gates import HttpGate, ObjectGate, PrometheusGate
from nodemanager.client.verbs import Client
from nodemanager.controllers import gate_asking
from nodemanager.controllers.gate_asking import Asker
from nodemanager.fleet.maintenance.questions import Question
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.kube.objects import ObjectKey
from support.scripted_server import Exchange, serve, until

MONDAY = ObjectKey("ns", "monday")


@dataclass
class Asking:
    """An asker with a clock that a test moves."""

    now: datetime = datetime(2026, 11, 16, 6, tzinfo=UTC)
    woken: list[ObjectKey] = field(default_factory=list)
    client: Any = None

    def __post_init__(self) -> None:
        self.asker = Asker(cast("Client", self.client), lambda: self.now, self.woken.append)

    async def answer(self, asked: Question) -> tuple[str, Reason]:
        """Want one answer, and wait until nobody is being asked any more."""
        assert self.asker.want(MONDAY, [asked])
        await until(lambda: not self.asker._asking)
        found = self.asker.answers[asked]
        return found.why, found.reason


async def test_it_asks_again_when_the_answer_is_old_and_wakes_for_what_is_news() -> None:
    codes = [503, 503, 200, 200]

    async def answer(asked: Exchange) -> None:
        await asked.answer(codes.pop(0), b"")

    asking_ = Asking()
    async with serve(answer) as server:
        gate = HttpGate(url=server.url)
        assert (await asking_.answer(gate))[0] == "answered 503, not 200"
        assert await asking_.answer(gate) == ("answered 503, not 200", Reason.GATE_BEFORE)
        assert (len(codes), asking_.woken) == (3, [MONDAY])
        first = asking_.now
        for why, woken in (("answered 503, not 200", 1), ("", 2), ("", 3)):  # a yes counts anew each time
            asking_.now += timedelta(seconds=11)
            assert (await asking_.answer(gate), len(asking_.woken)) == ((why, Reason.GATE_BEFORE), woken)
            assert asking_.asker.answers[gate].no_since == (first if why else None)
    asking_.now += timedelta(hours=1)
    assert not asking_.asker.want(MONDAY, [])
    assert asking_.asker.answers == {}


async def test_whatever_goes_wrong_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        async def send(self, _call: object) -> bytes:
            raise RuntimeError("a fault of ours")

    gate = ObjectGate(api_version="v1", kind="Pod", name="x", cel="true")
    said = await Asking(client=Broken()).answer(gate)
    assert said == ("cannot be asked: see the log of the operator", Reason.GATE_UNANSWERED)

    async def hang(asked: Exchange) -> None:
        await asked.hang()

    monkeypatch.setattr(gate_asking, "ASK_SECONDS", 0.1)
    async with serve(hang) as server:
        said = await Asking().answer(PrometheusGate(url=server.url, query="up"))
    assert said == ("no answer within 0.1 s", Reason.GATE_UNANSWERED)


async def test_one_address_is_asked_a_few_at_once_and_no_look_asks_for_all() -> None:
    most, now = 0, 0
    gate = asyncio.Event()

    async def answer(asked: Exchange) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        if now >= gate_asking.AT_ONCE:
            gate.set()
        await gate.wait()
        now -= 1
        await asked.answer(200, b"")

    asking_ = Asking()
    async with serve(answer) as server:
        asking_.asker.want(
            MONDAY, [HttpGate(url=f"{server.url}/{one}") for one in range(gate_asking.MOST + 9)]
        )
        await until(lambda: not asking_.asker._asking)
    assert most == gate_asking.AT_ONCE
    assert len(asking_.asker.answers) == gate_asking.MOST
