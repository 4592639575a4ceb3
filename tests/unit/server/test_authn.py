from __future__ import annotations

import logging
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube.errors import Forbidden, Unauthorized
from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.server.access.authn import Authenticator, Peer, bearer_token
from nodemanager.server.access.gate import AccessGate
from nodemanager.server.access.token_keys import SigningKey, thumbprint
from nodemanager.server.access.tokens import ISSUER, Ref, TokenBinding, Tokens
from support import rbac_objects as rbac
from support.sa_objects import Clock, Objects

_PRIVATE = ec.generate_private_key(ec.SECP256R1())
KEY = SigningKey(_PRIVATE, thumbprint(_PRIVATE.public_key()))
NOBODY = Peer()
STATIC = "0123456789abcdef"


def tokens() -> Tokens:
    objects = Objects()
    objects.add("serviceaccounts", "ns", "sa", "1")
    return Tokens(KEY, objects, Clock())


def peer(*subject: tuple[str, str]) -> Peer:
    certificate: dict[str, Any] = {"subject": tuple((pair,) for pair in subject)}
    return Peer(certificate)


def issued(audience: str = ISSUER) -> str:
    binding = TokenBinding(namespace="ns", serviceaccount=Ref(name="sa", uid="1"))
    return tokens().issue(binding, [audience], 600)


def test_a_certificate_names_user_and_groups() -> None:
    who = peer(
        ("organizationName", "a"), ("commonName", "u"), ("organizationName", "b"), ("countryName", "X")
    )
    assert Authenticator(tokens()).authenticate(who, "") == User("u", ("a", "b", "system:authenticated"))


def test_a_certificate_counts_before_a_token() -> None:
    assert Authenticator(tokens()).authenticate(peer(("commonName", "u")), "Bearer nonsense").name == "u"


def test_a_certificate_without_name_is_no_credential() -> None:
    authenticator = Authenticator(tokens(), anonymous=False)
    with pytest.raises(Unauthorized):
        authenticator.authenticate(peer(("organizationName", "system:masters")), "")


def test_a_token_names_its_account() -> None:
    user = Authenticator(tokens()).authenticate(NOBODY, f"Bearer {issued()}")
    assert user.name == "system:serviceaccount:ns:sa"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")


@pytest.mark.parametrize("header", ["Bearer nonsense", "bearer x", f"Bearer {issued('vault')}", "BEARER x y"])
def test_a_bad_token_is_refused_even_where_strangers_are_let_in(
    header: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(Unauthorized, match=r"^Unauthorized$"):
        Authenticator(tokens(), anonymous=True).authenticate(NOBODY, header)
    assert header.split(" ")[1] not in caplog.text.replace("invalid bearer token", "").split()


@pytest.mark.parametrize("header", ["", "Basic dTpw", "Bearer", "Bearer ", "Bearer  x", "x"])
def test_without_credential_one_is_anonymous_or_refused(header: str) -> None:
    stranger = Authenticator(tokens()).authenticate(NOBODY, header)
    assert stranger == User("system:anonymous", ("system:unauthenticated",))
    with pytest.raises(Unauthorized):
        Authenticator(tokens(), anonymous=False).authenticate(NOBODY, header)


@given(st.text(max_size=60))
def test_no_header_breaks_the_parser(header: str) -> None:
    token = bearer_token(header)
    assert " " not in token
    assert not token or header.strip().lower().startswith("bearer")


def test_no_static_token_means_none() -> None:
    with pytest.raises(Unauthorized):
        Authenticator(tokens()).authenticate(NOBODY, "Bearer none")


def test_who_says_to_be_unauthenticated_stays_so() -> None:
    who = peer(("commonName", "u"), ("organizationName", "system:unauthenticated"))
    assert Authenticator(tokens()).authenticate(who, "").groups == ("system:unauthenticated",)


def test_the_gate_does_all_three() -> None:
    roles = [rbac.role("be", rbac.rule("impersonate", "users")), rbac.role("get", rbac.rule("get", "pods"))]
    bindings = [
        rbac.binding("a", "ClusterRole/be", "User/u"),
        rbac.binding("b", "ClusterRole/get", "User/bob"),
    ]
    gate = AccessGate(Authenticator(tokens()), rbac.authorizer(roles, bindings))
    asked, who = Attributes("get", resource="pods"), peer(("commonName", "u"))
    user = gate.admit(who, [("Impersonate-User", "bob")], asked)
    assert user == User("bob", ("system:authenticated",))
    gate.authorize(user, asked)
    with pytest.raises(Forbidden, match='User "u" cannot get resource "pods"'):
        gate.authorize(gate.admit(who, [], asked), asked)
    account = gate.admit(NOBODY, [("authorization", f"Bearer {issued()}")], asked)
    assert account.name == "system:serviceaccount:ns:sa"
    with pytest.raises(Forbidden, match="cannot impersonate-on:user-info:get"):
        gate.admit(NOBODY, [("Authorization", f"Bearer {issued()}"), ("impersonate-user", "bob")], asked)
