"""format.dns1123Label().validate("x") and its kin: the names and formats that Kubernetes knows."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from nodemanager.kube.cel import times
from nodemanager.kube.cel.errors import CelError
from nodemanager.kube.cel.lib import url
from nodemanager.kube.cel.registry import Library
from nodemanager.kube.cel.values import NONE, CelExtension, Optional

LIBRARY = Library()
_TYPE = "kubernetes.NamedFormat"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    f"'{_LABEL}')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    f"validation is '{_LABEL_1035}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    f"for validation is '({_QUALIFIED})?')"
)
_NAME_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    f"'{_QUALIFIED}')"
)
_QUALIFIED_TEXT = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    f"'{_QUALIFIED}') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
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
        return [_QUALIFIED_TEXT]
    problems: list[str] = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {each}" for each in _FORMATS["dns1123Subdomain"](prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append(f"name part {_too_long(63)}")
    if not re.fullmatch(_QUALIFIED, name[:_MAX_TEXT]):
        problems.append(_NAME_TEXT)
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
    "dns1123Label": _pattern(_LABEL, 63, _LABEL_TEXT),
    "dns1123Subdomain": _pattern(_SUBDOMAIN, 253, _SUBDOMAIN_TEXT),
    "dns1035Label": _pattern(_LABEL_1035, 63, _LABEL_1035_TEXT),
    "qualifiedName": _qualified_name,
    "dns1123LabelPrefix": _pattern(_LABEL, 63, _LABEL_TEXT, prefix=True),
    "dns1123SubdomainPrefix": _pattern(_SUBDOMAIN, 253, _SUBDOMAIN_TEXT, prefix=True),
    "dns1035LabelPrefix": _pattern(_LABEL_1035, 63, _LABEL_1035_TEXT, prefix=True),
    "labelValue": _pattern(f"({_QUALIFIED})?", 63, _VALUE_TEXT),
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
