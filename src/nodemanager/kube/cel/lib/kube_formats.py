"""format.dns1123Label().validate("x") and its kin: the names and formats that Kubernetes knows."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from nodemanager.kube import object_names
from nodemanager.kube.cel import times
from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.lib import url
from nodemanager.kube.cel.registry import Library
from nodemanager.kube.cel.values import NONE, CelExtension, Optional

LIBRARY = Library()
_TYPE = "kubernetes.NamedFormat"
_UUID = re.compile("(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_MAX_TEXT = 10_000
Check = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Format(CelExtension):
    """A format that texts can be checked against."""

    TYPE: ClassVar[str] = _TYPE
    name: str
    check: Check


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _pattern(pattern: str, limit: int, message: str, *, prefix: bool = False) -> Check:
    compiled = re.compile(pattern)

    def check(text: str) -> list[str]:
        if prefix and text.endswith("-"):
            text = text[:-1] + "a"  # what is generated will follow the dash
        if len(text.encode()) > limit:  # the pattern is never tried on a long text
            long_ok = len(text) <= _MAX_TEXT and compiled.fullmatch(text)
            return [_too_long(limit)] if long_ok else [_too_long(limit), message]
        return [] if compiled.fullmatch(text) else [message]

    return check


def _qualified_name(text: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return [object_names.KEY_WORDS]
    problems: list[str] = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {each}" for each in _FORMATS["dns1123Subdomain"](prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append(f"name part {_too_long(63)}")
    if not re.fullmatch(object_names.QUALIFIED, name[:_MAX_TEXT]):
        problems.append(object_names.NAME_PART_WORDS)
    return problems


def _uri(text: str) -> list[str]:
    try:
        url.parse(text)
    except CelError:
        return [f'parse "{text[:200]}": invalid URI for request']
    return []


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


def _parsed(parse: Callable[[str], object], message: str) -> Check:
    def check(text: str) -> list[str]:
        try:
            parse(text)
        except CelError:
            return [message]
        return []

    return check


_FORMATS: dict[str, Check] = {
    "dns1123Label": _pattern(object_names.LABEL, 63, object_names.LABEL_WORDS),
    "dns1123Subdomain": _pattern(object_names.SUBDOMAIN, 253, object_names.SUBDOMAIN_WORDS),
    "dns1035Label": _pattern(object_names.LABEL_1035, 63, object_names.LABEL_1035_WORDS),
    "qualifiedName": _qualified_name,
    "dns1123LabelPrefix": _pattern(object_names.LABEL, 63, object_names.LABEL_WORDS, prefix=True),
    "dns1123SubdomainPrefix": _pattern(
        object_names.SUBDOMAIN, 253, object_names.SUBDOMAIN_WORDS, prefix=True
    ),
    "dns1035LabelPrefix": _pattern(object_names.LABEL_1035, 63, object_names.LABEL_1035_WORDS, prefix=True),
    "labelValue": _pattern(f"({object_names.QUALIFIED})?", 63, object_names.VALUE_WORDS),
    "uri": _uri,
    "uuid": lambda text: [] if _UUID.fullmatch(text) else ["does not match the UUID format"],
    "byte": _byte,
    "date": _parsed(times.parse_date, "invalid date"),
    "datetime": _parsed(times.parse_timestamp, "invalid datetime"),
}


def _constant(name: str, check: Check) -> None:
    value = Format(name, check)
    LIBRARY.add(f"format.{name}", f"() -> {_TYPE}")(lambda: value)


for _name, _check in _FORMATS.items():
    _constant(_name, _check)


@LIBRARY.add("format.named", f"(string) -> optional_type<{_TYPE}>")
def _named(name: str) -> Optional:
    return Optional(True, Format(name, _FORMATS[name])) if name in _FORMATS else NONE


@LIBRARY.add("validate", f"{_TYPE}.(string) -> optional_type<list<string>>")
def _validate(value: Format, text: str) -> Optional:
    problems = value.check(text)
    return Optional(True, problems) if problems else NONE
