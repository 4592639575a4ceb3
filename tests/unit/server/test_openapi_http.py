"""How the documents are asked for."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.server.openapi import proto
from nodemanager.server.openapi.documents import Document, Documents
from nodemanager.server.openapi.http import OpenApiReply, OpenApiRequest, respond
from support.openapi_stand_in import SERVED

NOW = datetime(2026, 11, 15, 6, 51, 44, tzinfo=UTC)
DOCUMENTS = Documents(SERVED)
LEASES = "/openapi/v3/apis/coordination.k8s.io/v1"


def ask(path: str, hash_: str = "", accept: str = "", if_none_match: str = "") -> OpenApiReply:
    return respond(DOCUMENTS, OpenApiRequest(path, hash_, accept, if_none_match), NOW)


def leases() -> Document:
    document = DOCUMENTS.v3("apis/coordination.k8s.io/v1")
    assert document is not None
    return document


@pytest.mark.parametrize("path", ["/openapi/v3", "/openapi/v3/"])
def test_index(path: str) -> None:
    reply = ask(path)
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert "apis/coordination.k8s.io/v1" in json.loads(reply.body)["paths"]


def test_document_at_the_address_of_the_index_may_be_kept() -> None:
    reply = ask(LEASES, leases().hash)
    assert (reply.status, reply.body) == (200, leases().body)
    assert reply.headers == {
        "Cache-Control": "public, immutable",
        "Content-Type": "application/json",
        "ETag": leases().etag,
        "Expires": "Mon, 15 Nov 2027 06:51:44 UTC",
        "Vary": "Accept",
    }


def test_document_without_a_hash_may_not_be_kept() -> None:
    reply = ask(LEASES)
    assert reply.status == 200
    assert not {"Cache-Control", "Expires"} & set(reply.headers)


def test_old_hash_leads_to_the_present_document() -> None:
    reply = ask(LEASES, "OLD")
    assert (reply.status, reply.body) == (301, b"")
    assert reply.headers["Location"] == f"{LEASES}?hash={leases().hash}"


@pytest.mark.parametrize("path", [LEASES, "/openapi/v2"])
def test_known_document_is_not_sent_again(path: str) -> None:
    etag = ask(path).headers["ETag"]
    again = ask(path, if_none_match=etag)
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", etag)
    assert ask(path, if_none_match='"other"').status == 200


@pytest.mark.parametrize(
    "path", ["/openapi/v3/apis/none.example.com/v1", "/openapi/v3/api", "/openapi/v3x", "/"]
)
def test_unknown_document(path: str) -> None:
    assert ask(path).status == 404


@pytest.mark.parametrize(
    ("accept", "status", "content_type"),
    [
        ("", 200, "application/json"),
        ("*/*", 200, "application/json"),
        ("application/json, */*", 200, "application/json"),
        (proto.MEDIA_TYPE, 200, proto.CONTENT_TYPE),
        (f"text/html, {proto.MEDIA_TYPE};q=0.9", 200, proto.CONTENT_TYPE),
        ("application/yaml", 406, None),
        ("," * 10_000, 406, None),
    ],
)
def test_formats_of_v2(accept: str, status: int, content_type: str | None) -> None:
    reply = ask("/openapi/v2", accept=accept)
    assert (reply.status, reply.headers.get("Content-Type")) == (status, content_type)
    if content_type == proto.CONTENT_TYPE:
        assert reply.body == DOCUMENTS.v2_protobuf()


def test_v3_is_json_only() -> None:
    assert ask(LEASES, accept="application/com.github.proto-openapi.spec.v3@v1.0+protobuf").status == 406


@given(st.text(), st.text(), st.text(), st.text())
def test_nothing_that_is_asked_breaks_it(path: str, hash_: str, accept: str, etag: str) -> None:
    for prefix in ("", "/openapi/v3/", LEASES, "/openapi/v2"):
        assert ask(prefix + path, hash_, accept, etag).status in (200, 301, 304, 404, 406)
