"""Which objects are meant: label selectors, typed, as text, and matched against labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar

from nodemanager.kube.hints import NAME_MAX, Rule, meta
from nodemanager.kube.objects import Struct

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"

MAX_SHOWN = 200
"""Most characters of a selector that a message repeats."""
MAX_TEXT = 16384
"""Longest selector text we look at."""

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SET = re.compile(r"(?P<key>[^\s(),!=]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^\s(),!=]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s(),!=]*)")
_PRESENCE = re.compile(r"(?P<not>!?)\s*(?P<key>[^\s(),!=]+)")


class Requirement(Struct):
    """One test of one label."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
            "values must be given for In and NotIn, and left out for Exists and DoesNotExist",
            ".values",
        ),
    )

    key: Annotated[
        str,
        meta("The label to look at, such as kubernetes.io/os.", required=True, min_length=1, max_length=317),
    ] = ""
    operator: Annotated[
        str,
        meta(
            "In and NotIn compare with values; Exists and DoesNotExist ask whether the label is there at "
            "all. NotIn also matches what has no such label.",
            required=True,
            enum=(IN, NOT_IN, EXISTS, DOES_NOT_EXIST),
        ),
    ] = ""
    values: Annotated[
        list[Annotated[str, meta("A label value.", max_length=63)]],
        meta("The values In and NotIn compare with.", max_items=1024),
    ] = []


class LabelSelector(Struct):
    """Chooses objects by their labels; everything given must hold, and nothing given chooses all."""

    match_labels: Annotated[
        dict[str, Annotated[str, meta("The value the label must have.", max_length=63)]],
        meta("Labels that must be there with exactly these values.", max_properties=256),
    ] = {}
    match_expressions: Annotated[
        list[Requirement], meta("Tests that must all hold, for more than equality.", max_items=256)
    ] = []


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Tell whether labels satisfy a selector; the empty selector matches everything."""
    for key, value in selector.match_labels.items():  # asked for each host of a fleet, again and again
        if labels.get(key) != value:
            return False
    return all(_holds(requirement, labels) for requirement in selector.match_expressions)


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            # Without values it is invalid; reading it as "all hosts" would be the dangerous guess.
            return bool(requirement.values) and value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False  # an operator of a newer version: not understood, so not matched


def format_selector(selector: LabelSelector) -> str:
    """Return a selector as the query string and `kubectl -l` take it; empty = everything."""
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    parts += [_format_requirement(requirement) for requirement in selector.match_expressions]
    return ",".join(parts)


def _format_requirement(requirement: Requirement) -> str:
    key, values = requirement.key, ",".join(requirement.values)
    match requirement.operator:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
    raise ValueError(f"cannot write selector: operator {requirement.operator!r} of label {key!r} is unknown")


def parse_selector(text: str) -> LabelSelector:
    """Return the selector a text such as "a=b,c in (x,y),!d,e" stands for."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"cannot read selector: longer than {MAX_TEXT} characters")
    equal: dict[str, str] = {}
    requirements: list[Requirement] = []
    position = 0
    while text[position:].strip():
        requirement, position = _parse_requirement(text, position)
        if (
            requirement.operator == "="
            and equal.get(requirement.key, requirement.values[0]) == requirement.values[0]
        ):
            equal[requirement.key] = requirement.values[0]
        elif requirement.operator == "=":  # a=1,a=2 is legal, and matches nothing
            requirements.append(Requirement(key=requirement.key, operator=IN, values=requirement.values))
        else:
            requirements.append(requirement)
    return LabelSelector(match_labels=equal, match_expressions=requirements)


def parse_label(text: str) -> tuple[str, str]:
    """Return the label a text such as "role=web" stands for, and its value."""
    shape = _EQUALITY.fullmatch(text.strip())
    if shape is None or shape["operator"] == "!=":
        raise ValueError(f"cannot read label {_shown(text)}: write it like role=web or example.com/role=web")
    return next(iter(parse_selector(text).match_labels.items()))


def _parse_requirement(text: str, position: int) -> tuple[Requirement, int]:
    rest = text[position:]
    start = position + len(rest) - len(rest.lstrip())
    for pattern in (_SET, _EQUALITY, _PRESENCE):
        found = pattern.match(text, start)
        after = text[found.end() :].lstrip() if found else ""
        if found and (not after or after.startswith(",")):
            end = len(text) - len(after)
            if after and not after[1:].strip():
                raise ValueError(f"cannot read selector {_shown(text)}: nothing follows the last comma")
            return _requirement(found, text), end + 1 if after else end
    shown = text[start:].split(",")[0].strip()
    raise ValueError(
        f"cannot read selector {_shown(text)}: {_shown(shown)} is none of key=value, key!=value, "
        "key in (a,b), key notin (a,b), key and !key"
    )


def _requirement(found: re.Match[str], text: str) -> Requirement:
    groups = found.groupdict()
    key = groups["key"]
    _check_key(key, text)
    if "not" in groups:
        return Requirement(key=key, operator=DOES_NOT_EXIST if groups["not"] else EXISTS)
    if "value" in groups:
        values, operator = [groups["value"]], NOT_IN if groups["operator"] == "!=" else "="
    else:
        values = [value.strip() for value in groups["values"].split(",")]
        operator = IN if groups["operator"] == "in" else NOT_IN
    for value in values:
        if value and not _NAME.fullmatch(value):
            raise ValueError(
                f"cannot read selector {_shown(text)}: {_shown(value)} is not a label value (at most 63 "
                "letters, digits, '-', '_', '.')"
            )
    return Requirement(key=key, operator=operator, values=values)


def _check_key(key: str, text: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and (len(prefix) > NAME_MAX or not _PREFIX.fullmatch(prefix))):
        raise ValueError(
            f"cannot read selector {_shown(text)}: {_shown(key)} is not a label key, such as role or "
            "example.com/role"
        )


def _shown(text: str) -> str:
    return repr(text) if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]!r}..."
