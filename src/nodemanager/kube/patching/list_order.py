"""The order of a merged list: items of the patch in the order of the patch, the others where they were."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from nodemanager.kube.json_values import compact


def identity(item: Any, key: str) -> str:
    """Return what tells an item from others: the text of its key field or, without a key, its own."""
    return compact(item.get(key) if key and isinstance(item, dict) else item)


def positions(items: Iterable[Any], key: str) -> dict[str, int]:
    """Return where each identity is found first."""
    found: dict[str, int] = {}
    for index, item in enumerate(items):
        found.setdefault(identity(item, key), index)
    return found


def in_order(merged: list[Any], patch_order: list[Any], live_order: list[Any], key: str) -> list[Any]:
    """Return the merged items in the order that both lists ask for."""
    wanted, before = positions(patch_order, key), positions(live_order, key)
    named = [(identity(item, key), item) for item in merged]
    ours = [pair for pair in named if pair[0] in wanted]
    rest = [pair for pair in named if pair[0] not in wanted]
    ours.sort(key=lambda pair: wanted[pair[0]])
    rest.sort(key=lambda pair: before.get(pair[0], len(before)))
    return _interleaved(deque(rest), deque(ours), before)


def _interleaved(
    rest: deque[tuple[str, Any]], ours: deque[tuple[str, Any]], before: dict[str, int]
) -> list[Any]:
    """Put what the patch does not name in front of what followed it in the live list."""
    result: list[Any] = []
    while rest and ours:
        left, right = before.get(rest[0][0]), before.get(ours[0][0])
        is_before = left is not None and right is not None and left < right
        result.append((rest if is_before else ours).popleft()[1])
    return [*result, *(item for _, item in rest), *(item for _, item in ours)]
