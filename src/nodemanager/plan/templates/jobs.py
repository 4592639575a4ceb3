"""Renderings as messages: many templates go to another process as one, and come back one by one.

The request is ours. The answers come from a process that read untrusted text: they are decoded as plain
values of known types and sizes, and trusted only for the text of their own template.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from nodemanager.plan.templates.budget import OUTPUT_MAX
from nodemanager.plan.templates.engine import parse, render
from nodemanager.plan.templates.errors import WHY_MAX, NotRendered, TemplateError
from nodemanager.plan.templates.shapes import Data

ANSWER_MAX: Final = 4 * OUTPUT_MAX + 4 * WHY_MAX + 1024
"""Bytes of one answer."""
NO_MEMORY: Final = "it needs more memory than a template may have"

Rendered = str | TemplateError
"""What became of a template; an error is returned, not raised, as it concerns this one only."""


@dataclass(frozen=True, slots=True)
class Job:
    """A template and what it is rendered with."""

    text: str
    data: Data
    engine: str = "gotemplate"
    name: str = "template"
    """What an error calls it."""
    owner: str = ""
    """The owner of the template: templates of one owner cannot use up the time of others."""
    lax: bool = False
    """A missing key is an empty text, not an error."""
    parse_only: bool = False
    """Only whether it can be read is asked; the answer is then an empty text."""


class TemplateAnswer(msgspec.Struct, frozen=True, array_like=True):
    """What became of one template, and what it cost."""

    text: bytes | None = None
    why: str = ""
    line: int | None = None
    exhausted: bool = False
    """It met a limit of the process, which is not to be used any more."""
    seconds: float = 0.0
    """Processor time."""
    peak: int = 0
    """Bytes of memory that the process had at most so far."""
    column: int | None = None

    def of(self, name: str) -> Rendered:
        """Return it as text, or as an error of the template of this name."""
        if self.text is None:
            kind = NotRendered if self.exhausted else TemplateError
            return kind(name, self.why[:WHY_MAX], self.line, self.column)
        try:
            text = self.text.decode(errors="surrogateescape")
        except UnicodeDecodeError:
            return TemplateError(name, "the renderer answered with something that is no text")
        return text if len(text) <= OUTPUT_MAX else TemplateError(name, "the output is too long")


class _Task(msgspec.Struct, frozen=True, array_like=True):
    text: bytes
    engine: str
    data: int
    lax: bool = False
    parse_only: bool = False


class _Request(msgspec.Struct, frozen=True, array_like=True):
    tasks: list[_Task]
    nodes: list[Any]
    """For each data, its own node."""
    peers: list[Any]
    """Which of these lists of other nodes each data sees."""
    seen: list[int]
    values: list[tuple[Any, list[str]]]
    """Which of these values each has as data of the host, with the secret parts."""
    have: list[int]


_REQUEST: Final = msgspec.msgpack.Decoder(_Request)
_ANSWER: Final = msgspec.msgpack.Decoder(TemplateAnswer)


def encoded_request(jobs: Sequence[Job]) -> bytes:
    """Return jobs as one message; data that several of them share is in it once."""
    data: dict[int, int] = {}
    peers: dict[int, int] = {}
    values: dict[int, int] = {}
    request = _Request([], [], [], [], [], [])
    for job in jobs:
        place = data.setdefault(id(job.data), len(request.nodes))
        if place == len(request.nodes):
            request.nodes.append(job.data.node)
            seen = peers.setdefault(id(job.data.nodes), len(request.peers))
            if seen == len(request.peers):
                request.peers.append(job.data.nodes)
            request.seen.append(seen)
            have = values.setdefault(id(job.data.values), len(request.values))
            if have == len(request.values):
                request.values.append((job.data.values, list(job.data.hidden)))
            request.have.append(have)
        text = job.text.encode(errors="surrogatepass")
        request.tasks.append(_Task(text, job.engine, place, job.lax, job.parse_only))
    return msgspec.msgpack.encode(request)


def decoded_request(message: bytes) -> list[Job]:
    """Return the jobs of a message, without their names and owners."""
    request = _REQUEST.decode(message)
    data = [
        Data(node, request.peers[seen], *request.values[have])
        for node, seen, have in zip(request.nodes, request.seen, request.have, strict=True)
    ]
    return [
        Job(
            task.text.decode(errors="surrogatepass"),
            data[task.data],
            task.engine,
            lax=task.lax,
            parse_only=task.parse_only,
        )
        for task in request.tasks
    ]


def answers(jobs: Sequence[Job]) -> Iterator[TemplateAnswer]:
    """Render one after the other; the process that measures fills in the costs."""
    for job in jobs:
        yield _answer(job)


def _answer(job: Job) -> TemplateAnswer:
    """Render. Every error becomes an answer: this is the last frame that a template can reach."""
    try:
        if job.parse_only:
            parse(job.text, engine=job.engine)
            return TemplateAnswer(b"")
        text = render(job.text, job.data, engine=job.engine, lax=job.lax)
        return TemplateAnswer(text.encode(errors="surrogateescape"))
    except TemplateError as error:
        return TemplateAnswer(why=_plain(error.why), line=error.line, column=error.column)
    except UnicodeEncodeError:
        return TemplateAnswer(
            why="the output has half a character in it (a lone surrogate), which no file can hold"
        )
    except MemoryError:
        return TemplateAnswer(why=NO_MEMORY, exhausted=True)
    except Exception as error:  # noqa: BLE001 - a bug of ours or of a library, told without its words
        return TemplateAnswer(why=f"the template failed with {type(error).__name__}")


def _plain(why: str) -> str:
    return why[:WHY_MAX].encode(errors="replace").decode()


def encoded_answer(answer: TemplateAnswer) -> bytes:
    """Return an answer as a message."""
    return msgspec.msgpack.encode(answer)


def decoded_answer(message: bytes) -> TemplateAnswer:
    """Return the answer in a message; raise ValueError if it is none."""
    try:
        return _ANSWER.decode(message)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
