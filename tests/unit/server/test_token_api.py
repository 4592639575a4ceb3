from __future__ import annotations

from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from nodemanager.kube.errors import BadRequest, Conflict, Invalid, NotFound
from nodemanager.server.access.token_api import token_request, token_review
from nodemanager.server.access.token_keys import SigningKey, thumbprint
from nodemanager.server.access.tokens import ISSUER, Tokens
from support.sa_objects import Clock, Objects

_PRIVATE = ec.generate_private_key(ec.SECP256R1())
KEY = SigningKey(_PRIVATE, thumbprint(_PRIVATE.public_key()))


@pytest.fixture
def objects() -> Objects:
    kept = Objects()
    kept.add("serviceaccounts", "ns", "sa", "1")
    kept.add("pods", "ns", "mine", "2", spec={"serviceAccountName": "sa", "nodeName": "n"})
    kept.add("pods", "ns", "other", "3", spec={"serviceAccountName": "sb"})
    kept.add("secrets", "ns", "s", "4")
    kept.add("nodes", "", "n", "5")
    return kept


@pytest.fixture
def tokens(objects: Objects) -> Tokens:
    return Tokens(KEY, objects, Clock(), max_seconds=7200)


def claims(token: str) -> dict[str, Any]:
    options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False}
    parsed: dict[str, Any] = jwt.decode(token, KEY.public, ["ES256"], options=options)
    return parsed


def bound(kind: str, name: str, **more: str) -> dict[str, Any]:
    return {"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name, **more}}}


def test_an_empty_request_gets_an_hour_for_this_server(tokens: Tokens) -> None:
    answer, warnings = token_request(tokens, "ns", "sa", {})
    assert warnings == []
    assert answer["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None}
    assert answer["status"]["expirationTimestamp"] == "2026-01-01T01:00:00Z"
    assert claims(answer["status"]["token"])["aud"] == [ISSUER]


def test_a_long_life_is_shortened_with_a_warning(tokens: Tokens) -> None:
    answer, warnings = token_request(tokens, "ns", "sa", {"spec": {"expirationSeconds": 7201}})
    assert warnings == ["requested expiration of 7201 seconds shortened to 7200 seconds"]
    read = claims(answer["status"]["token"])
    assert read["exp"] - read["iat"] == answer["spec"]["expirationSeconds"] == 7200


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (bound("Pod", "mine"), {"pod": {"name": "mine", "uid": "2"}, "node": {"name": "n", "uid": "5"}}),
        (bound("Secret", "s", uid="4"), {"secret": {"name": "s", "uid": "4"}}),
        (bound("Node", "n"), {"node": {"name": "n", "uid": "5"}}),
    ],
)
def test_a_token_says_what_it_is_bound_to(
    tokens: Tokens, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    token = token_request(tokens, "ns", "sa", body).answer["status"]["token"]
    read = claims(token)["kubernetes.io"]
    assert read == {"namespace": "ns", "serviceaccount": {"name": "sa", "uid": "1"}, **expected}
    assert token_review(tokens, {"spec": {"token": token}})["status"]["authenticated"]


def test_a_pod_on_a_node_that_is_gone_names_it_without_uid(tokens: Tokens, objects: Objects) -> None:
    del objects.kept["nodes", "", "n"]
    token = token_request(tokens, "ns", "sa", bound("Pod", "mine")).answer["status"]["token"]
    assert claims(token)["kubernetes.io"]["node"] == {"name": "n"}
    assert token_review(tokens, {"spec": {"token": token}})["status"]["authenticated"]


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (
            {"spec": {"expirationSeconds": 599}},
            Invalid,
            "spec.expirationSeconds: Invalid value: 599: may not specify",
        ),
        ({"spec": {"expirationSeconds": 2**32 + 1}}, Invalid, "larger than 2^32 seconds"),
        ({"spec": {"expirationSeconds": "x"}}, BadRequest, "cannot be handled as a TokenRequest"),
        ({"spec": {"audiences": ["a"] * 65}}, Invalid, "at most 64"),
        ({"metadata": {"name": "other"}}, Invalid, "must match the service account name"),
        ({"metadata": {"namespace": "other"}}, BadRequest, "does not match the namespace sent"),
        ({"metadata": {"uid": "9"}}, Conflict, "(9) does not match the UID of the service account (1)"),
        (bound("Pod", "other"), BadRequest, "to pod running with different serviceaccount name."),
        (bound("Pod", "none"), NotFound, 'pods "none" not found'),
        (bound("Secret", "s", uid="5"), Conflict, 'fulfilled on Secret "s": the UID in the bound object'),
        (bound("ConfigMap", "c"), BadRequest, "of type /v1, Kind=ConfigMap"),
    ],
)
def test_wrong_requests_are_refused_by_name(
    tokens: Tokens, body: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as refusal:
        token_request(tokens, "ns", "sa", body)
    assert text in str(refusal.value)


def test_nobody_gets_a_token_for_nobody(tokens: Tokens) -> None:
    with pytest.raises(NotFound, match='serviceaccounts "nope" not found'):
        token_request(tokens, "ns", "nope", {})


def test_a_review_says_who_it_is(tokens: Tokens) -> None:
    token = token_request(tokens, "ns", "sa", {"spec": {"audiences": ["a", "b"]}}).answer["status"]["token"]
    status = token_review(tokens, {"spec": {"token": token, "audiences": ["b", "c"]}})["status"]
    assert status["audiences"] == ["b"]
    assert status["user"]["username"] == "system:serviceaccount:ns:sa"
    assert status["user"]["groups"][-1] == "system:authenticated"
    refused = token_review(tokens, {"spec": {"token": token}})["status"]
    assert refused["user"] == {}
    assert "authenticated" not in refused
    assert refused["error"].startswith("[invalid bearer token, token audiences")


def test_a_review_needs_a_token(tokens: Tokens) -> None:
    with pytest.raises(BadRequest, match="token is required for TokenReview in authentication"):
        token_review(tokens, {})
