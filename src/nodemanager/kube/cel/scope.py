"""What an evaluation carries along: the variables, and how much work is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nodemanager.kube.cel.errors import CostExceeded

PER_CALL_LIMIT = 1_000_000
"""Steps one evaluation may take, the number that Kubernetes has for its own unit of cost."""


class EvaluationScope:
    """The variables of one evaluation, and its remaining steps."""

    __slots__ = ("left", "variables")

    def __init__(self, variables: Mapping[str, Any], limit: int = PER_CALL_LIMIT) -> None:
        self.variables = dict(variables)
        self.left = limit

    def spend(self, steps: int) -> None:
        """Count work; end the evaluation when it is too much."""
        self.left -= steps
        if self.left < 0:
            raise CostExceeded


Code = Callable[[EvaluationScope], Any]


def size_cost(values: Iterable[Any], *, product: bool = False) -> int:
    """Return what a call on these values costs: one, and more for long texts and lists."""
    sizes = [
        len(value) // 10 if isinstance(value, str | bytes) else len(value)
        for value in values
        if isinstance(value, str | bytes | list | dict)
    ]
    if product and sizes:
        first = sizes[0]
        return 1 + first * (sizes[1] if len(sizes) > 1 else first)
    return 1 + sum(sizes)
