"""Whether an object obeys its schema, told in the words of kube-apiserver.

Objects are validated after pruning and defaulting. Beside faults, every check counts how much of a
schema held: of several alternatives that all failed, the one that held most is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from nodemanager.kube.errors import Cause
from nodemanager.kube.go import text as gotext
from nodemanager.kube.go.regex import TooMuchWork
from nodemanager.kube.schemas.embedded import embedded_faults
from nodemanager.kube.schemas.faults import FaultReport, Path, render
from nodemanager.kube.schemas.formats import STRING_FORMATS
from nodemanager.kube.schemas.list_types import duplicates
from nodemanager.kube.schemas.numbers import check_number, is_whole
from nodemanager.kube.schemas.patterns import Matcher
from nodemanager.kube.schemas.ratcheting import Correlated, repeated
from nodemanager.kube.schemas.structural import Structural

_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
_NATIVE_FORMATS = {"integer": "int64", "number": "float64"}
_TYPE_META = ("apiVersion", "kind")


def validate(value: Any, node: Structural, *, old: Any = None, at: str = "") -> list[Cause]:
    """Return what is wrong with a value, or with a change from `old` to it.

    On update, faults in unchanged parts are forgiven. `at` is the field that the value is in, if
    it is not a whole object.
    """
    causes = schema_faults(value, node, old, at)
    if node.embeds:
        causes += embedded_faults(value, node, at)
    if node.keyed and (old is None or not any(duplicates(old, node))):
        causes += duplicates(value, node, at)
    return causes


def schema_faults(value: Any, node: Structural, old: Any = None, at: str = "") -> list[Cause]:
    """Return what the schema alone says, without embedded resources and lists with an identity."""
    report = FaultReport(at)
    _check(value, node, None, None, report)
    if old is None or not report.found:
        return report.causes()
    report = FaultReport(at)
    _check_child(value, node, None, Correlated(value, old, node), report)
    return report.causes()


def _check_child(
    value: Any, node: Structural, path: Path, old: Correlated | None, report: FaultReport
) -> int:
    before = len(report.found)
    held = _check(value, node, path, old, report)
    if old is not None and len(report.found) > before and old.unchanged():
        del report.found[before:]
    return held


def _check(value: Any, node: Structural, path: Path, old: Correlated | None, report: FaultReport) -> int:
    """Add the faults of a value to the report, and return how many checks Kubernetes would count."""
    if value is None:
        return _check_null(node, path, report)
    kind = type(value)
    name = _NAMES[kind]
    if kind is int and not gotext.is_integer(value):
        name, value = "number", float(value)
    held = 4
    if name in node.types:
        held += 2
    elif node.types or node.format:
        held += _check_type(value, name, node, path, report)
    if node.junctors is not None:
        held += _check_junctors(value, node, path, report)
    if name != "boolean":
        held += _CHECKS[name](value, node, path, old, report)
    if node.enum and not any(_is_choice(value, choice) for choice in node.enum):
        report.not_supported(path, value, node.enum)
    return held


def _check_null(node: Structural, path: Path, report: FaultReport) -> int:
    held = 1
    if node.types and not node.nullable:
        report.wrong_type(path, ",".join(node.types), "null")
        held = 0
    if node.enum:
        report.not_supported(path, None, node.enum)
    return held


def _check_type(value: Any, name: str, node: Structural, path: Path, report: FaultReport) -> int:
    """Judge a value whose type is not literally the one asked for."""
    if name == "number" and "integer" in node.types and is_whole(value):
        return 2
    if name == "integer" and "number" in node.types:
        return 2
    textual = name in ("string", "array")
    if node.format and not textual:
        report.wrong_type(path, node.format, _NATIVE_FORMATS.get(name, ""))
        return 1
    if node.format and not {"number", "integer"} & set(node.types):
        return 2  # Kubernetes leaves this to the check of the format, which looks at strings only.
    report.wrong_type(path, ",".join(node.types), name)
    return 1


def _is_choice(value: Any, choice: Any) -> bool:
    """Compare as Go does after converting the value to the type of the choice."""
    if type(value) is type(choice):
        return bool(value == choice)
    if isinstance(value, bool) or isinstance(choice, bool):
        return False
    if isinstance(value, int | float) and isinstance(choice, int | float):
        return type(choice)(value) == choice
    if isinstance(value, int) and isinstance(choice, str):
        return choice == (chr(value) if 0 <= value < 0x110000 and not 0xD800 <= value < 0xE000 else "\ufffd")
    return False


def _matches(matcher: Matcher, value: str) -> bool:
    """Tell whether a text matches; one that takes too much work to find out does not."""
    try:
        return matcher.search(value)
    except TooMuchWork:
        return False


def _check_text(
    value: str, node: Structural, path: Path, _old: Correlated | None, report: FaultReport
) -> int:
    rules = node.texts
    if rules is not None:
        if rules.max_length is not None and len(value) > rules.max_length:
            report.too_long(path, rules.max_length)
        elif rules.min_length is not None and len(value) < rules.min_length:
            report.invalid(path, value, f"should be at least {rules.min_length} chars long")
        elif rules.matcher is not None and not _matches(rules.matcher, value):
            report.invalid(path, value, f"should match '{rules.pattern}'")
    if node.format:
        holds = STRING_FORMATS.get(node.format.replace("-", ""))
        if holds is not None:
            if not holds(value):
                report.wrong_type(path, node.format, value)
            return 2
    return 1


def _check_numeric(
    value: Any, node: Structural, path: Path, _old: Correlated | None, report: FaultReport
) -> int:
    quick = type(value) is int and node.format != "int32"
    if not quick or (node.numbers is not None and not node.numbers.surely_hold(value)):
        check_number(value, node, path, report)
    return 2


def _check_items(
    value: list[Any], node: Structural, path: Path, old: Correlated | None, report: FaultReport
) -> int:
    held = 2
    if (items := node.items) is not None:
        for index, item in enumerate(value):
            below = None if old is None else old.index(index)
            held += _check_child(item, items, (path, index), below, report)
    size = len(value)
    if node.min_items is not None and size < node.min_items:
        report.invalid(path, size, f"should have at least {node.min_items} items")
    if node.max_items is not None and size > node.max_items:
        report.too_many(path, size, node.max_items)
    if node.unique_items and repeated(value):
        report.invalid(path, "", "shouldn't contain duplicates")
    return held


def _check_fields(
    value: dict[str, Any], node: Structural, path: Path, old: Correlated | None, report: FaultReport
) -> int:
    size = len(value)
    if node.min_properties is not None and size < node.min_properties:
        report.invalid(path, size, f"should have at least {node.min_properties} properties")
    if node.max_properties is not None and size > node.max_properties:
        report.too_many(path, size, node.max_properties)
    held = 1
    properties, additional = node.properties, node.additional
    for name, item in value.items():
        known = properties.get(name, additional)
        if known is None:
            if node.open is False:
                report.forbidden_property(path, name)
            continue
        below = None if old is None or (path is None and name in _TYPE_META) else old.key(name)
        # Kubernetes writes a dot even in front of the first name, if it is a key of a map.
        step = name if path is not None or name in properties else f".{name}"
        held += _check_child(item, known, (path, step), below, report)
    for name in node.required:
        if name not in value:
            report.required(path, name)
    return held


_Check = Callable[[Any, Structural, Path, Correlated | None, FaultReport], int]
_CHECKS: dict[str, _Check] = {
    "string": _check_text,
    "integer": _check_numeric,
    "number": _check_numeric,
    "array": _check_items,
    "object": _check_fields,
}


def _check_junctors(value: Any, node: Structural, path: Path, report: FaultReport) -> int:
    junctors = node.junctors
    if junctors is None:
        return 0
    trial = _Trial(value, path, report)
    held = trial.any_of(junctors.any_of) if junctors.any_of else 0
    held += trial.one_of(junctors.one_of) if junctors.one_of else 0
    held += trial.all_of(junctors.all_of) if junctors.all_of else 0
    if junctors.not_ is not None:
        trial.none_of(junctors.not_)
    return held


class _Outcome(NamedTuple):
    held: int
    faults: list[tuple[str, Cause]]


class _Trial:
    """Tries alternatives on one value and reports only what the junctor lets through.

    Inside, nothing is forgiven for being unchanged; the value as a whole may be.
    """

    def __init__(self, value: Any, path: Path, report: FaultReport) -> None:
        self._value = value
        self._path = path
        self._report = report

    def any_of(self, nodes: tuple[Structural, ...]) -> int:
        outcomes = []
        for node in nodes:
            outcome = self._try(node)
            if not outcome.faults:
                return outcome.held
            outcomes.append(outcome)
        self._fail("must validate at least one schema (anyOf)")
        return self._tell(max(outcomes, key=_held))

    def one_of(self, nodes: tuple[Structural, ...]) -> int:
        outcomes = [self._try(node) for node in nodes]
        valid = [outcome for outcome in outcomes if not outcome.faults]
        if len(valid) == 1:
            return valid[0].held
        found = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
        self._fail(f"must validate one and only one schema (oneOf). {found}")
        return 0 if valid else self._tell(max(outcomes, key=_held))

    def all_of(self, nodes: tuple[Structural, ...]) -> int:
        outcomes = [self._try(node) for node in nodes]
        held = sum(self._tell(outcome) for outcome in outcomes)
        failed = sum(bool(outcome.faults) for outcome in outcomes)
        if failed:
            none = ". None validated" if failed == len(nodes) else ""
            self._fail(f"must validate all the schemas (allOf){none}")
        return held

    def none_of(self, node: Structural) -> None:
        if not self._try(node).faults:
            self._fail("must not validate the schema (not)")

    def _try(self, node: Structural) -> _Outcome:
        report = FaultReport(self._report.at)
        held = _check(self._value, node, self._path, None, report)
        return _Outcome(held, report.found)

    def _tell(self, outcome: _Outcome) -> int:
        self._report.found += outcome.faults
        return outcome.held

    def _fail(self, text: str) -> None:
        self._report.composite(f"{gotext.quote(render(self._path))} {text}")


def _held(outcome: _Outcome) -> int:
    return outcome.held
