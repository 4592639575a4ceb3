"""The page of reason codes and of the states of a visit, from the enumerations that decide."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nodemanager.fleet.maintenance.reasons import REMEDIES, Reason
from nodemanager.fleet.maintenance.states import STATES
from nodemanager.fleet.rollout import reasons as rollout_reasons

FILE: Final = "docs/reference/reason-codes.md"
_HEAD: Final = """\
<!-- Generated from src/nodemanager/fleet, do not edit: make generate -->

# Reason codes

Why a [maintenance](../maintenance.md) or a host waits, how the visit of a host ended, and why a slot was
skipped. The code is the same in the status, in Events and in metrics. And why a [rollout](../rollouts.md) is
where it is.
"""
_SECTIONS: Final = (
    ("What a whole maintenance waits for", Reason.NOTHING_DUE),
    ("What a host waits for before it is begun with", Reason.HOST_SILENT),
    ("Where a host is that was begun with", Reason.CORDONING),
    ("How a visit has ended", Reason.SUCCEEDED),
    ("Why a slot was skipped", Reason.SLOT_OUTSIDE_WINDOW),
)
"""Each goes on until the first code of the next one."""


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    codes = list(Reason)
    starts = [codes.index(first) for _, first in _SECTIONS]
    for (title, _), begin, end in zip(_SECTIONS, starts, [*starts[1:], len(codes)], strict=True):
        rows = ([f"`{code}`", REMEDIES[code]] for code in codes[begin:end])
        parts.append(f"## {title}\n\n{_table(['Code', 'What to do'], rows)}")
    told = ([f"`{code}`", remedy] for code, remedy in rollout_reasons.REMEDIES.items())
    parts.append(f"## Rollouts\n\n{_table(['Code', 'What to do'], told)}")
    states = (
        [f"`{state}`", rules.gate, rules.order.value, rules.evidence, rules.compensation]
        for state, rules in STATES.items()
    )
    heads = ["State", "Entered when", "Order", "Ends when", "Otherwise"]
    parts.append(f"## States of a visit\n\n{_table(heads, states)}")
    return "\n".join(parts)


def _table(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
