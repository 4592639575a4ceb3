"""Rendering for tests of what is around it."""

from __future__ import annotations

from collections.abc import Sequence

from nodemanager.plan.templates import Job, Rendered, TemplateError, jobs


class Inline:
    """Renders here and now, through the same messages as the process that does it otherwise.

    For tests of templates that are known to be kind. It notes what it was asked for.
    """

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.failing: TemplateError | None = None
        """What becomes of every template, in place of being rendered."""

    async def render(self, todo: Sequence[Job]) -> list[Rendered]:
        """Return what became of each job."""
        self.asked.append([job.text for job in todo])
        if self.failing is not None:
            return [self.failing] * len(todo)
        answers = jobs.answers(jobs.decoded_request(jobs.encoded_request(todo)))
        return [
            jobs.decoded_answer(jobs.encoded_answer(answer)).of(job.name)
            for job, answer in zip(todo, answers, strict=True)
        ]
