"""Whether what a ConfigSet declares can work at all: its condition `Invalid`.

The set is not refused. Hosts that cannot render a template report it, too, but each for itself and later.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from nodemanager.api.common.configset import ConfigSet
from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition
from nodemanager.plan.lint import config_sets, syntax
from nodemanager.plan.lint.findings import Finding
from nodemanager.rendering.renderer import Rendering

INVALID: Final = "Invalid"
"""Condition type: some declarations of the set cannot work on any host."""
NOT_CHECKED: Final = "NotChecked"
"""Reason of Invalid=Unknown: templates cannot be read at the moment; the message says why."""
FINDINGS: Final = "Findings"
"""Reason of Invalid=True; the message says what and where."""
WARNINGS: Final = "Warnings"
"""Reason of Invalid=False: the set can work, but some of it is most likely a mistake."""
NO_FINDINGS: Final = "NoFindings"
"""Reason of Invalid=False."""

MAX_TOLD: Final = 5
MAX_MESSAGE: Final = 400
MAX_KNOWN: Final = 4096


class Validity:
    """Judges ConfigSets; an unchanged one is not read again."""

    def __init__(self, renderer: Rendering) -> None:
        self._renderer = renderer
        self._known: OrderedDict[tuple[object, ...], Condition] = OrderedDict()

    async def condition(self, config_set: ConfigSet) -> Condition:
        """Return the condition of a set."""
        meta = config_set.metadata
        key = (meta.uid, meta.namespace, meta.name, meta.generation, tuple(sorted(meta.labels.items())))
        if (known := self._known.get(key)) is not None:
            return known
        todo = syntax.jobs(config_set)
        answers = await self._renderer.render(todo) if todo else []
        found = [*syntax.findings(config_set, answers), *config_sets.findings(config_set)]
        judged = _condition(found, syntax.unread(answers), meta.generation)
        if judged.status != conditions.UNKNOWN:
            self._known[key] = judged
            while len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        return judged


def _condition(found: Sequence[Finding], unread: str, generation: int) -> Condition:
    errors = [one for one in found if one.severity == "error"]
    if errors:
        status, reason, message = conditions.TRUE, FINDINGS, _told(errors)
    elif unread:
        status, reason, message = conditions.UNKNOWN, NOT_CHECKED, unread[:MAX_MESSAGE]
    else:
        status, reason, message = conditions.FALSE, WARNINGS if found else NO_FINDINGS, _told(found)
    return Condition(
        type=INVALID, status=status, reason=reason, message=message, observed_generation=generation
    )


def _told(found: Sequence[Finding]) -> str:
    said = [one.text if len(one.text) <= MAX_MESSAGE else f"{one.text[:MAX_MESSAGE]}..." for one in found]
    more = len(said) - MAX_TOLD
    return "; ".join(said[:MAX_TOLD]) + (f"; and {more} more" if more > 0 else "")
