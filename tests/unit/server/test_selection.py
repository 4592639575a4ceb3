"""Field selectors, list options and continue tokens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube import errors
from nodemanager.server.kinds.builtin_kinds import BUILTIN
from nodemanager.server.verbs import read, selection
from nodemanager.server.verbs.selection import FieldTest

PODS = next(kind for kind in BUILTIN if kind.plural == "pods")
POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n", "labels": {"app": "web"}},
    "spec": {"nodeName": "h"},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("a=b", (FieldTest("a", "b", True),)),
        ("a==b,c!=d", (FieldTest("a", "b", True), FieldTest("c", "d", False))),
        (r"a=b\,c\=d", (FieldTest("a", "b,c=d", True),)),
        ("a=", (FieldTest("a", "", True),)),
    ],
)
def test_field_selectors_are_read(text: str, expected: tuple[FieldTest, ...]) -> None:
    assert selection.parse_fields(text) == expected


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        tests = selection.parse_fields(text)
    except errors.BadRequest:
        return
    assert all(test.field for test in tests)


@pytest.mark.parametrize(
    ("query", "chosen"),
    [
        ({"fieldSelector": "spec.nodeName=h"}, True),
        ({"fieldSelector": "spec.nodeName!=h"}, False),
        ({"fieldSelector": "spec.hostNetwork=false,status.phase=Running"}, True),
        ({"fieldSelector": "status.podIP="}, True),
        ({"labelSelector": "app in (web,db)"}, True),
        ({"labelSelector": "!app"}, False),
        ({"labelSelector": "app=web", "fieldSelector": "metadata.name=q"}, False),
    ],
)
def test_what_is_chosen(query: dict[str, str], chosen: bool) -> None:
    assert selection.select(query, PODS).matches(POD) is chosen


@given(st.integers(1, 2**60), st.text("abc/.-", min_size=1, max_size=30))
def test_tokens_come_back_as_they_were(revision: int, start: str) -> None:
    token = read.encode_token(revision, start)
    if ".." in start.split("/"):
        with pytest.raises(errors.BadRequest):
            read.decode_token(token)
    else:
        assert read.decode_token(token) == (revision, start)


@given(st.text(max_size=80))
def test_foreign_tokens_are_refused(text: str) -> None:
    with pytest.raises(errors.BadRequest, match="continue key is not valid"):
        read.decode_token(text)


def test_watch_options() -> None:
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "timeoutSeconds": "7"}
    options = selection.list_options(query, watch=True)
    assert (options.initial, options.timeout, options.bookmarks) == (True, 7, False)
    with pytest.raises(errors.Invalid, match="forbidden for watch unless sendInitialEvents"):
        selection.list_options({"resourceVersionMatch": "Exact"}, watch=True)
