"""Asks the questions of health gates beside the decisions, so that a hanging service delays no look.

    a look wants questions  ->  those without a fresh answer are asked, each for a few seconds at most
    an answer comes         ->  the object that wanted it is looked at again: a maintenance, or a rollout

Answers are kept only in memory. The next operator asks anew, and begins no work before it has answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote, urlsplit
from weakref import WeakValueDictionary

from nodemanager.api.maintenance.health_gates import HttpGate, ObjectGate, PrometheusGate
from nodemanager.client import discovery
from nodemanager.client.http import elsewhere
from nodemanager.client.verbs import Client
from nodemanager.fleet.maintenance import questions
from nodemanager.fleet.maintenance.questions import GateAnswer, NoAnswer, Question
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.kube import errors, wording
from nodemanager.kube.objects import ObjectKey, Resource, Untyped

log = logging.getLogger("nodemanager.operator")
ASK_SECONDS: Final = 5.0
AT_ONCE: Final = 4
"""Questions of one object to one address at once: a hanging address delays only its own questions."""
MOST: Final = 100
"""The most questions of one look."""
KEPT: Final = timedelta(minutes=10)


@dataclass
class Asker:
    """Asks questions, and keeps the last answers."""

    client: Client
    now: Callable[[], datetime]
    wake: Callable[[ObjectKey], None]
    """Wakes an object."""
    answers: dict[Question, GateAnswer] = field(default_factory=dict)
    _asking: dict[Question, asyncio.Task[None]] = field(default_factory=dict)
    _waiting: dict[Question, set[ObjectKey]] = field(default_factory=dict)
    _room: WeakValueDictionary[tuple[ObjectKey, str], asyncio.Semaphore] = field(
        default_factory=WeakValueDictionary
    )
    _kinds: dict[tuple[str, str], Resource[Untyped]] = field(default_factory=dict)

    def want(self, key: ObjectKey, wanted: Iterable[Question]) -> bool:
        """Ask the questions of an object that have no fresh answer; tell whether it has any."""
        now = self.now()
        for old in [one for one, answer in self.answers.items() if not answer.is_within(KEPT, now)]:
            del self.answers[old]
        found = dict.fromkeys(wanted)
        due = [one for one in found if not self._is_fresh(one, now)]
        for one in sorted(due, key=self._age)[:MOST]:
            self._waiting.setdefault(one, set()).add(key)
            if one not in self._asking:
                self._asking[one] = asyncio.create_task(self._ask(one, key), name="gate of health")
        return bool(found)

    def _is_fresh(self, asked: Question, now: datetime) -> bool:
        answer = self.answers.get(asked)
        return answer is not None and answer.is_within(questions.FRESH, now)

    def _age(self, asked: Question) -> float:
        """Return the sort key: questions that were never asked come first, then the oldest."""
        answer = self.answers.get(asked)
        return answer.asked.timestamp() if answer is not None else 0.0

    async def _ask(self, asked: Question, key: ObjectKey) -> None:
        room = self._room.setdefault((key, _place(asked)), asyncio.Semaphore(AT_ONCE))
        try:
            async with room:
                began = self.now()
                why, reason = await self._answer(asked)
            old = self.answers.get(asked)
            new = self.answers[asked] = GateAnswer(began, why, reason).following(old)
        finally:
            del self._asking[asked]
            waiting = self._waiting.pop(asked, set())
        if old is None or not new.why or (old.why, old.reason) != (new.why, new.reason):
            for one in waiting:
                self.wake(one)

    async def _answer(self, asked: Question) -> tuple[str, Reason]:
        """Return why a gate does not hold, empty if it does, with the kind of reason."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return await self._look(asked), Reason.GATE_BEFORE
        except errors.Forbidden as error:
            return wording.flat(str(error), questions.MAX_SAID), Reason.GATE_FORBIDDEN
        except TimeoutError:
            return f"no answer within {ASK_SECONDS:g} s", Reason.GATE_UNANSWERED
        except (NoAnswer, errors.KubeError) as error:
            return wording.flat(str(error), questions.MAX_SAID), Reason.GATE_UNANSWERED
        except Exception:  # any error: a gate without an answer would be waited for in silence
            log.exception("cannot ask %s", questions.label(asked))
            return "cannot be asked: see the log of the operator", Reason.GATE_UNANSWERED

    async def _look(self, asked: Question) -> str:
        match asked:
            case ObjectGate():
                return await self._look_at(asked)
            case HttpGate():
                found = await elsewhere.fetch(asked.url, timeout=ASK_SECONDS, wants_body=False)
                return questions.of_status(asked, found.status)
            case PrometheusGate():
                url = f"{asked.url.rstrip('/')}/api/v1/query?query={quote(asked.query, safe='')}"
                found = await elsewhere.fetch(url, timeout=ASK_SECONDS)
                return questions.of_prometheus(asked, found.status, found.body)

    async def _look_at(self, asked: ObjectGate) -> str:
        kind = asked.api_version, asked.kind
        resource = self._kinds.get(kind)
        if resource is None:
            resource = self._kinds[kind] = await discovery.find(self.client, *kind)
        namespace = asked.namespace if resource.namespaced else ""
        try:
            found = await self.client.get(resource, asked.name, namespace)
        except errors.NotFound:
            self._kinds.pop(kind, None)  # or the kind itself does not exist any more
            return "there is none"
        except errors.Forbidden as error:
            whose = ObjectKey(namespace, asked.name)
            raise errors.Forbidden(
                f"cannot read {resource.qualified_name} {whose}: let the operator get"
                f" {resource.qualified_name}"
            ) from error
        return await asyncio.to_thread(questions.of_object, asked, found)


def _place(asked: Question) -> str:
    """Return the address that is asked."""
    return "" if isinstance(asked, ObjectGate) else urlsplit(asked.url).netloc
