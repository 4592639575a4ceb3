"""The evil author: templates that a grammar makes up, in both languages, through the real process.

No crash, no foreign code, no address and no Python in what comes out, bounded time and memory, a clear error.
A few by default; NODEMANAGER_AUTHOR_CASES=100000 NODEMANAGER_AUTHOR_SEED=7 for more; -s prints their costs.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, field

import pytest

from nodemanager.host.process import runner
from nodemanager.plan.templates import Data, Job, NotRendered, Rendered, TemplateError
from nodemanager.plan.templates.budget import OUTPUT_MAX
from nodemanager.plan.templates.errors import WHY_MAX
from nodemanager.plan.templates.jobs import TemplateAnswer
from nodemanager.rendering.limits import FILES, MIB
from nodemanager.rendering.renderer import Renderer
from support.author_go import GoAuthor
from support.author_jinja import JinjaAuthor
from support.author_words import CANARY
from support.template_cases import data

CASES = int(os.environ.get("NODEMANAGER_AUTHOR_CASES", "300"))
SEED = int(os.environ.get("NODEMANAGER_AUTHOR_SEED", "1"))
BATCH = 100
pytestmark = pytest.mark.timeout(120 + CASES)
BASE_MEMORY = 64 * MIB
"""What the process has before the first template, at most."""
OUT_OF_THE_BOX = re.compile(r"<(?:class|module|function|built-in|bound method|code) |object at 0x|Traceback")
OURS = re.compile(r"failed with (?:Import|Module|OS|Name|System|Memory|Buffer|Permission|File)\w*")
"""Errors that no template should be able to cause: a module that was not imported in time, a bug of ours."""


@dataclass
class Ledger:
    """What was seen."""

    seconds: float = 0.0
    peak: int = 0
    slowest: str = ""
    ends: Counter[str] = field(default_factory=Counter)
    limited: list[str] = field(default_factory=list)
    """Templates that met a limit of the process: each shows something that is not counted well enough."""
    violations: list[str] = field(default_factory=list)
    latest: list[TemplateAnswer] = field(default_factory=list)

    def judge(self, job: Job, made: Rendered) -> None:
        """Note what became of one template, and what must not be."""
        text = made if isinstance(made, str) else str(made)
        if isinstance(made, NotRendered):
            self.ends[made.why.partition(";")[0]] += 1
            self.limited.append(f"{job.engine}: {job.text}")
            if "crash" in made.why or "nonsense" in made.why or "status" in made.why:
                self._violated("it ended the process", job, text)
        else:
            self.ends["error" if isinstance(made, TemplateError) else "text"] += 1
        if isinstance(made, TemplateError) and ("hunter22" in text or "aHVudGVyMjI" in text):
            self._violated("an error tells a secret", job, text)
        if len(text) > (OUTPUT_MAX if isinstance(made, str) else WHY_MAX + 200):
            self._violated("it is too long", job, text)
        for pattern in (OUT_OF_THE_BOX, OURS):
            if (found := pattern.search(text)) and found[0] not in job.text:
                self._violated("something of Python shows", job, text)
        if CANARY in text or "root:x:0:" in text:
            self._violated("something of the host shows", job, text)

    def _violated(self, what: str, job: Job, text: str) -> None:
        self.violations.append(f"{what}: {job.name} ({job.engine}): {job.text[:500]!r} -> {text[:300]!r}")


async def test_no_template_of_the_evil_author_does_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CANARY", CANARY)
    authors: dict[str, GoAuthor | JinjaAuthor] = {"gotemplate": GoAuthor(SEED), "jinja": JinjaAuthor(SEED)}
    ledger, shared = Ledger(), data()
    worlds = [shared, Data(node=shared.node), Data(node={"Name": "x", "Labels": {}})]
    async with Renderer(runner.companion, answered=ledger.latest.append) as renderer:
        for first in range(0, CASES, BATCH):
            batch = [
                Job(
                    authors[engine].template(), worlds[number // 2 % 3], engine, f"case {number}", str(number)
                )
                for number in range(first, min(first + BATCH, CASES))
                for engine in [("gotemplate", "jinja")[number % 2]]
            ]
            made = await renderer.render(batch)
            _note_costs(ledger, batch, made)
            for job, one in zip(batch, made, strict=True):
                ledger.judge(job, one)
    report = (
        f"{CASES} templates of seed {SEED}: at most {ledger.seconds:.2f} s and {ledger.peak / MIB:.0f} MiB,"
        f" {renderer.starts} processes; {dict(ledger.ends.most_common(9))}; slowest: {ledger.slowest[:200]!r}"
    )
    sys.stdout.write("\n".join([report, *ledger.limited[:20], ""]))
    assert not ledger.violations, "\n".join([report, *ledger.violations[:20]])
    assert ledger.seconds <= FILES.cpu + 1
    assert ledger.peak <= BASE_MEMORY + FILES.memory
    assert ledger.ends["text"] > CASES / 20, "a grammar that makes nothing but mistakes tests little"


def _note_costs(ledger: Ledger, batch: list[Job], made: list[Rendered]) -> None:
    answered = [job for job, one in zip(batch, made, strict=True) if not isinstance(one, NotRendered)]
    costs = [answer for answer in ledger.latest if not answer.exhausted]
    for job, answer in zip(answered, costs, strict=False):
        if answer.seconds > ledger.seconds:
            ledger.seconds, ledger.slowest = answer.seconds, job.text
    ledger.peak = max([ledger.peak, *(answer.peak for answer in ledger.latest)])
    ledger.latest.clear()
