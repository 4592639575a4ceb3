"""How much a template may cost: a hostile one can neither hang the agent nor eat its memory.

Values that templates see are weighed: one unit for each character and each element, counted as often
as it would be printed. A list that holds another list twice weighs twice as much, so the weight also
bounds what walking over the value costs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar

from nodemanager.kube.hints import TEXT_MAX
from nodemanager.plan.templates.errors import FunctionError, MissingKey, TooMuch

_T = TypeVar("_T")

OUTPUT_MAX: Final = TEXT_MAX
"""Characters a template may produce: as many as a literal `content` may have."""
ACTIONS_MAX: Final = 5_000
"""Actions a template may have: compiling is slow enough for more of them to be a way to block a host."""
CODE_MAX: Final = 100_000
"""Characters a template may have inside its actions."""
LOOPS_MAX: Final = 100_000
"""Times that loops may go round in one rendering, all loops together."""
CALLS_MAX: Final = 50_000
"""Functions, filters and macros that one rendering may call."""
DEPTH_MAX: Final = 50
"""How deep templates may call each other, and how deep values may be nested."""
VALUE_MAX: Final = 2_000_000
"""What one value may weigh, on top of the data it was made from."""
WORK_MAX: Final = 16_000_000
"""What the values that functions are given may weigh, all calls together, on top of ten times the data."""


class Items(list[Any]):
    """A list that knows its weight."""

    __slots__ = ("weight",)

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__(items)
        self.weight = 1 + sum(map(weigh, self))


class Entries(dict[str, Any]):
    """A map that knows its weight; what it holds is reached by exact key."""

    __slots__ = ("title", "weight")

    def __init__(
        self, entries: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), title: str = "here"
    ) -> None:
        super().__init__(entries)
        self.title = title
        """Where an error says that a key is missing."""
        self.weight = 1 + sum(len(key) + weigh(value) for key, value in self.items())

    def __gotemplate_lookup__(self, name: str) -> Any:
        found = self.get(name)
        return absent(name, self.title) if found is None else found


class AbsentEntry(Entries):
    """Stands for a key that a map does not have: it is false, and what is looked for in it is absent, too.

    Functions that accept it declare that (`registry.add`); every other use of its content fails.
    """

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why

    def __gotemplate_lookup__(self, name: str) -> Any:
        return self

    def __iter__(self) -> Iterator[str]:
        from gotpl import TemplateExecutionError  # the library adds the line

        raise TemplateExecutionError("missing key") from MissingKey(self.why)


class Blank(str):
    """Stands for a missing key where that is asked for: it is an empty text, and so is all that is in it."""

    __slots__ = ()

    def __gotemplate_lookup__(self, _name: str) -> Blank:
        return self


def absent(key: str, title: str) -> AbsentEntry | Blank:
    """Return what stands for a key that is not in the map of this title."""
    scope = CURRENT.get()
    if scope.lax:
        return Blank()
    return AbsentEntry(f'{missing(key, title)}; where it may be missing, add: | default "..."')


def missing(key: str, title: str) -> str:
    """Report which key is missing where; a key that is not in the template may be data, and is left out."""
    return f"there is no {key if key in CURRENT.get().source else 'such key'} {title}"


def weigh(value: Any, known: dict[int, int] | None = None, depth: int = 0) -> int:
    """Return the weight of a value; plain lists and maps are walked, weighed ones are asked.

    A list that occurs often is walked once (`known` remembers it) and counts each time.
    """
    if isinstance(value, (str, bytes)):
        return len(value) + 1
    if isinstance(value, (Items, Entries)):
        return value.weight
    if not isinstance(value, (list, tuple, dict, set, frozenset)):
        return 1
    if depth > DEPTH_MAX:
        raise TooMuch(f"a value is nested deeper than {DEPTH_MAX} levels")
    known = {} if known is None else known
    total = 1
    for part in itertools.chain(value, value.values()) if isinstance(value, dict) else value:
        weight = known.get(id(part))
        if weight is None:
            weight = weigh(part, known, depth + 1)
            if isinstance(part, (list, tuple, dict)):
                known[id(part)] = weight
        total += weight
        if total > VALUE_MAX:
            raise TooMuch("a value grew too large")
    return total


def owned(value: Any, depth: int = 0) -> Any:
    """Return the value with every list and map in it weighed."""
    if isinstance(value, (Items, Entries)):
        return value
    if not isinstance(value, (list, tuple, Mapping)):
        return value
    if depth > DEPTH_MAX:
        raise TooMuch(f"a value is nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, Mapping):
        return Entries({str(key): owned(each, depth + 1) for key, each in value.items()})
    return Items(owned(each, depth + 1) for each in value)


class Meter:
    """What one rendering has spent so far."""

    __slots__ = ("_calls", "_loops", "_value_max", "_work", "_work_max")

    def __init__(self, data_weight: int) -> None:
        self._calls = 0
        self._loops = 0
        self._work = 0
        self._value_max = VALUE_MAX + data_weight
        self._work_max = WORK_MAX + 10 * data_weight

    def call(self) -> None:
        """Count a call of a function."""
        self._calls += 1
        if self._calls > CALLS_MAX:
            raise TooMuch(f"the template calls functions more than {CALLS_MAX} times")

    def loop(self, cost: int = 0) -> None:
        """Count one turn of a loop, and what it is about to write."""
        self._loops += 1
        if self._loops > LOOPS_MAX:
            raise TooMuch(f"the loops of the template go round more than {LOOPS_MAX} times")
        if cost:
            self.work(cost)

    def work(self, units: int) -> None:
        """Count work before it is done."""
        self._work += units
        if self._work > self._work_max:
            raise TooMuch("the template does more work than a configuration file can need")

    def take(self, result: Any) -> Any:
        """Count a result, and return it with its weight known."""
        result = owned(result)
        weight = weigh(result)
        if isinstance(result, int) and not -(2**63) <= result < 2**63:
            raise FunctionError("the number is too large: it needs more than 64 bits")
        if weight > self._value_max:
            raise TooMuch("a value grew too large")
        if isinstance(result, (str, bytes)):
            self.work(weight)
        return result


@dataclass(slots=True)
class Scope:
    """What the functions of one rendering share; it lives as long as the rendering does."""

    meter: Meter
    root: Any
    source: str = ""
    depth: int = 0
    lax: bool = False
    """A missing key is an empty text, not an error."""
    secretive: bool = False
    """Some of the data is secret."""


def compiled_once(compile_text: Callable[[str], _T]) -> Callable[[str], _T]:
    """Remember what the last few texts compiled to; long ones are not worth the memory.

    What they rendered to is remembered elsewhere; this is for one that is rendered with ever new data.
    """
    remembered = lru_cache(maxsize=16)(compile_text)

    @wraps(compile_text)
    def compiled(text: str) -> _T:
        return remembered(text) if len(text) <= 65_536 else compile_text(text)

    return compiled


CURRENT: ContextVar[Scope] = ContextVar("nodemanager_template_scope")
"""The rendering under way: the template libraries call our functions with nothing but arguments."""
