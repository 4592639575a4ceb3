"""Which objects a list or a watch is about: label selectors, field selectors, and list options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from nodemanager.kube import errors, selectors
from nodemanager.kube.objects import Untyped
from nodemanager.kube.selectors import LabelSelector
from nodemanager.server.http import refusals
from nodemanager.server.http.routing import is_true
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs.stored import at_path

_EVERYWHERE = ("metadata.name", "metadata.namespace")
_FALSE_WHEN_MISSING = ("spec.unschedulable", "spec.hostNetwork")
_TERM = re.compile(r"((?:[^\\,]|\\.)*)(?:,|$)", re.DOTALL)
_OPERATOR = re.compile(r"(?P<field>[^=!\\]+)(?P<operator>!=|==|=)(?P<value>.*)", re.DOTALL)
MAX_INT = 2**63 - 1


class FieldTest(NamedTuple):
    """One test of one field."""

    field: str
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class ObjectSelector:
    """The objects of a namespace, or of all, that labels and fields choose."""

    labels: LabelSelector | None = None
    fields: tuple[FieldTest, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return self.labels is None and not self.fields

    @property
    def name(self) -> str:
        """The one name that can match, or empty."""
        return next((t.value for t in self.fields if t.equal and t.field == "metadata.name"), "")

    def matches(self, obj: Untyped) -> bool:
        """Tell whether an object is chosen."""
        if self.labels is not None and not selectors.matches(
            self.labels, obj["metadata"].get("labels") or {}
        ):
            return False
        return all((field_text(obj, test.field) == test.value) is test.equal for test in self.fields)


def select(query: Mapping[str, str], kind: ServedKind) -> ObjectSelector:
    """Return what a query selects, or refuse what it cannot select by."""
    labels: LabelSelector | None = None
    if query.get("labelSelector", "").strip():
        try:
            labels = selectors.parse_selector(query["labelSelector"])
        except ValueError as error:
            raise errors.BadRequest(f"unable to parse requirement: {error}") from error
    fields = parse_fields(query.get("fieldSelector", ""))
    for test in fields:
        if test.field not in _EVERYWHERE and test.field not in kind.fields:
            raise errors.BadRequest(_unknown_field(test.field, kind))
    return ObjectSelector(labels, fields)


def parse_fields(text: str) -> tuple[FieldTest, ...]:
    """Return the tests in a field selector such as `metadata.name=a,status.phase!=Running`."""
    if len(text) > selectors.MAX_TEXT:
        raise errors.BadRequest(f"cannot read field selector: longer than {selectors.MAX_TEXT} characters")
    found = []
    for term in (match[1] for match in _TERM.finditer(text)):
        if not term:
            continue
        test = _OPERATOR.fullmatch(term)
        if test is None:
            raise errors.BadRequest(f"invalid selector: '{text}'; can't understand '{term}'")
        value = re.sub(r"\\([\\,=])", r"\1", test["value"])
        found.append(FieldTest(test["field"], value, test["operator"] != "!="))
    return tuple(found)


def field_text(obj: Untyped, field: str) -> str:
    """Return the text that a field selector compares with."""
    value = at_path(obj, field)
    if field == "source":
        value = at_path(obj, "source.component") or obj.get("reportingComponent")
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "false" if field in _FALSE_WHEN_MISSING else ""
    return str(value)


def _unknown_field(field: str, kind: ServedKind) -> str:
    if kind.custom or kind.fields:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The query of a list or a watch, checked."""

    limit: int
    token: str
    version: str
    match: str
    timeout: int
    bookmarks: bool
    initial: bool | None
    """Whether a watch starts with the present objects; None = as the resourceVersion says."""


def list_options(query: Mapping[str, str], *, watch: bool) -> ListOptions:
    """Read and check the options of a list or a watch."""
    initial = is_true(query["sendInitialEvents"]) if "sendInitialEvents" in query else None
    options = ListOptions(
        max(0, _integer(query.get("limit", ""))), query.get("continue", ""), query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""), max(0, _integer(query.get("timeoutSeconds", ""))),
        is_true(query.get("allowWatchBookmarks")), initial,
    )  # fmt: skip
    causes = _watch_causes(options) if watch else _list_causes(options)
    if causes:
        raise refusals.invalid_options("ListOptions", causes)
    return options


def _integer(text: str) -> int:
    if not text:
        return 0
    if not re.fullmatch(r"[-+]?[0-9]{1,19}", text) or abs(int(text)) > MAX_INT:
        raise errors.BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _watch_causes(options: ListOptions) -> list[errors.Cause]:
    field = "resourceVersionMatch"
    if options.initial is None and options.match:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        return [refusals.value_forbidden(field, why)]
    if options.initial is not None and options.match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        return [refusals.value_forbidden(field, why)]
    return []


def _list_causes(options: ListOptions) -> list[errors.Cause]:
    field, match = "resourceVersionMatch", options.match
    if options.initial is not None:
        return [refusals.value_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")]
    if not match:
        return []
    if not options.version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        return [refusals.value_forbidden(field, why)]
    if options.token:
        return [
            refusals.value_forbidden(field, "resourceVersionMatch is forbidden when continue is provided")
        ]
    if match not in ("Exact", "NotOlderThan"):
        return [refusals.value_unsupported(field, match, ("Exact", "NotOlderThan", ""))]
    if match == "Exact" and options.version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        return [refusals.value_forbidden(field, why)]
    return []


def revision_number(text: str) -> int:
    """Return a resourceVersion as a number, 0 for none; raise ValueError for anything else."""
    if not text:
        return 0
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        raise ValueError(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


def query_revision(text: str) -> int:
    """Return the resourceVersion of a query as a number, or refuse it."""
    try:
        return revision_number(text)
    except ValueError as error:
        shown: Any = text
        cause = refusals.value_invalid("resourceVersion", shown, str(error))
        raise errors.BadRequest(f"invalid resource version: {cause.field}: {cause.message}") from error
