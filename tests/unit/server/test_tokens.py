from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.server.access import token_keys
from nodemanager.server.access.token_keys import SigningKey, thumbprint
from nodemanager.server.access.tokens import ISSUER, MAX_TOKEN, Ref, TokenBinding, TokenError, Tokens
from nodemanager.server.http import private_files
from nodemanager.server.http.certs import CertificateError, key_pem
from support.sa_objects import START, Clock, Objects

_PRIVATE = ec.generate_private_key(ec.SECP256R1())
KEY = SigningKey(_PRIVATE, thumbprint(_PRIVATE.public_key()))
OWNER = Ref(name="sa", uid="1")
PLAIN = TokenBinding(namespace="ns", serviceaccount=OWNER)


@pytest.fixture
def objects() -> Objects:
    kept = Objects()
    kept.add("serviceaccounts", "ns", "sa", "1")
    return kept


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(objects: Objects, clock: Clock) -> Tokens:
    return Tokens(KEY, objects, clock)


def forged(
    key: Any = _PRIVATE, algorithm: str = "ES256", header: dict[str, Any] | None = None, **claims: Any
) -> str:
    """Return a token as anybody could write it."""
    now = int(START.timestamp())
    full = {
        "aud": [ISSUER],
        "exp": now + 600,
        "iat": now,
        "nbf": now,
        "iss": ISSUER,
        "sub": "system:serviceaccount:ns:sa",
        "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "sa", "uid": "1"}},
        **claims,
    }
    return jwt.encode(full, key, algorithm, headers={"kid": KEY.kid, **(header or {})})


def test_an_issued_token_names_its_account(tokens: Tokens) -> None:
    verified = tokens.verify(tokens.issue(PLAIN, [ISSUER, "other"], 600))
    assert verified.audiences == (ISSUER,)
    assert verified.user.name == "system:serviceaccount:ns:sa"
    assert verified.user.uid == "1"
    assert verified.user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns")
    (credential,) = verified.user.extra["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("JTI=")


def test_others_verify_it_with_the_published_keys(tokens: Tokens) -> None:
    token = tokens.issue(PLAIN, ["vault"], 600)
    keys = jwt.PyJWKSet.from_dict(json.loads(json.dumps(KEY.jwks())))
    key = keys[jwt.get_unverified_header(token)["kid"]]
    options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
    claims = jwt.decode(token, key, ["ES256"], audience="vault", issuer=ISSUER, options=options)
    assert claims["sub"] == "system:serviceaccount:ns:sa"
    assert claims["exp"] - claims["iat"] == 600
    assert claims["kubernetes.io"] == {"namespace": "ns", "serviceaccount": {"name": "sa", "uid": "1"}}


def test_the_discovery_document_points_to_the_keys() -> None:
    document = token_keys.discovery(ISSUER, "https://h/openid/v1/jwks")
    assert document["issuer"] == ISSUER
    assert document["jwks_uri"].endswith(token_keys.JWKS_PATH)
    assert document["id_token_signing_alg_values_supported"] == ["ES256"]


def test_the_key_id_is_the_thumbprint_of_rfc_7638() -> None:
    (key,) = KEY.jwks()["keys"]
    required = json.dumps({name: key[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":"))

    digest = base64.urlsafe_b64encode(hashlib.sha256(required.encode()).digest()).decode().rstrip("=")
    assert KEY.kid == digest


def test_a_token_ends_when_it_said(tokens: Tokens, clock: Clock) -> None:
    token = tokens.issue(PLAIN, [ISSUER], 600)
    clock.advance(660)
    tokens.verify(token)
    clock.advance(1)
    with pytest.raises(TokenError, match="service account token has expired"):
        tokens.verify(token)


@pytest.mark.parametrize(("claim", "text"), [("nbf", "is not valid yet"), ("iat", "is issued in the future")])
def test_a_token_from_the_future_waits(tokens: Tokens, clock: Clock, claim: str, text: str) -> None:
    late: Any = {claim: int(START.timestamp()) + 61}
    token = forged(**late)
    with pytest.raises(TokenError, match=text):
        tokens.verify(token)
    clock.advance(1)
    tokens.verify(token)


def test_a_token_is_for_its_audiences_only(tokens: Tokens) -> None:
    token = tokens.issue(PLAIN, ["vault"], 600)
    assert tokens.verify(token, ["x", "vault"]).audiences == ("vault",)
    with pytest.raises(
        TokenError, match=r'token audiences \["vault"\] is invalid for the target audiences \["h'
    ):
        tokens.verify(token)
    assert tokens.verify(forged(aud=ISSUER)).audiences == (ISSUER,)
    nobody: Any
    for nobody in ([], ""):
        with pytest.raises(TokenError, match="is invalid for the target audiences"):
            tokens.verify(forged(aud=nobody))


def unsigned() -> str:
    body = forged().split(".")[1]
    return base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=") + f".{body}."


def signed_with_the_public_key() -> str:
    """Return the classic confusion: the public key, which everybody has, used as an HMAC secret."""

    public = KEY.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = (
        base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": KEY.kid}).encode()).decode().rstrip("=")
    )
    signed = f"{head}.{forged().split('.')[1]}"
    digest = hmac.new(public, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def tampered() -> str:
    head, body, signature = forged().split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["sub"] = "system:serviceaccount:kube-system:admin"
    changed = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"{head}.{changed}.{signature}"


ODD_CLAIMS: Any = {"kubernetes.io": ["x"]}
FORGERIES: dict[str, Callable[[], str]] = {
    "no algorithm": unsigned,
    "hmac with the public key": signed_with_the_public_key,
    "tampered": tampered,
    "another key": lambda: forged(ec.generate_private_key(ec.SECP256R1())),
    "another algorithm": lambda: forged(
        rsa.generate_private_key(public_exponent=65537, key_size=2048), "RS256"
    ),
    "another key id": lambda: forged(header={"kid": "other"}),
    "another issuer": lambda: forged(iss="https://elsewhere"),
    "an unknown critical header": lambda: forged(header={"crit": ["x"], "x": 1}),
    "no end": lambda: forged(exp=None),
    "an end that is no number": lambda: forged(exp="soon"),
    "claims of another shape": lambda: forged(**ODD_CLAIMS),
    "audiences that are numbers": lambda: forged(aud=[1]),
    "nothing": lambda: "",
    "dots": lambda: "..",
    "oversized": lambda: forged(pad="x" * MAX_TOKEN),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused_without_being_quoted(tokens: Tokens, name: str) -> None:
    token = FORGERIES[name]()
    with pytest.raises(TokenError, match="invalid bearer token") as refusal:
        tokens.verify(token)
    assert not token or token == ".." or token not in str(refusal.value)


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_garbage_is_refused(garbage: str) -> None:
    with pytest.raises(TokenError):
        Tokens(KEY, Objects(), Clock()).verify(garbage)


@given(st.integers(0, 400), st.sampled_from("Aaz0-_.=\x00é"))
def test_no_changed_character_goes_unnoticed(position: int, character: str) -> None:
    objects = Objects()
    objects.add("serviceaccounts", "ns", "sa", "1")
    tokens = Tokens(KEY, objects, Clock())
    token = tokens.issue(PLAIN, [ISSUER], 600)
    # The last character of a signature has bits that mean nothing, so it is left alone.
    position %= len(token) - 1
    changed = token[:position] + character + token[position + 1 :]
    if changed != token:
        with pytest.raises(TokenError):
            tokens.verify(changed)


def test_a_token_is_read_up_to_a_length_and_no_further(tokens: Tokens) -> None:
    short = len(forged(padding=""))
    about = (MAX_TOKEN - short) * 3 // 4
    found = {len(token): token for token in (forged(padding="x" * (about + more)) for more in range(-3, 6))}
    tokens.verify(found[max(length for length in found if length <= MAX_TOKEN)])
    with pytest.raises(TokenError):
        tokens.verify(found[min(length for length in found if length > MAX_TOKEN)])
    assert MAX_TOKEN in found, "no token of exactly this length"


@pytest.mark.parametrize("claims", [{"jti": 5}, {"kubernetes.io": []}, {"aud": 1}, {"exp": "soon"}])
def test_a_token_of_ours_that_is_out_of_shape_is_refused(tokens: Tokens, claims: dict[str, Any]) -> None:
    with pytest.raises(TokenError, match="invalid bearer token"):
        tokens.verify(forged(**claims))


def test_a_token_dies_with_its_account(tokens: Tokens, objects: Objects, clock: Clock) -> None:
    token = tokens.issue(PLAIN, [ISSUER], 6000)
    objects.kept["serviceaccounts", "ns", "sa"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    clock.advance(60)
    tokens.verify(token)
    clock.advance(1)
    with pytest.raises(TokenError, match="service account ns/sa has been deleted"):
        tokens.verify(token)
    objects.add("serviceaccounts", "ns", "sa", "2")
    with pytest.raises(TokenError, match=r"service account UID \(2\) does not match claim \(1\)"):
        tokens.verify(token)
    objects.kept.clear()
    with pytest.raises(TokenError, match='serviceaccounts "sa" not found'):
        tokens.verify(token)


@pytest.mark.parametrize(("kind", "space"), [("pod", "ns"), ("secret", "ns"), ("node", "")])
def test_a_bound_token_dies_with_its_object(
    tokens: Tokens, objects: Objects, clock: Clock, kind: str, space: str
) -> None:
    ref = Ref(name="it", uid="7")
    bound: Any = {kind: ref}
    token = tokens.issue(TokenBinding(namespace="ns", serviceaccount=OWNER, **bound), [ISSUER], 6000)
    with pytest.raises(TokenError, match="has been invalidated"):
        tokens.verify(token)
    objects.add(f"{kind}s", space, "it", "8")
    with pytest.raises(
        TokenError, match=rf"{kind} UID \(8\) does not match service account {kind} ref claim \(7\)"
    ):
        tokens.verify(token)
    objects.add(f"{kind}s", space, "it", "7")
    user = tokens.verify(token).user
    assert (f"authentication.kubernetes.io/{kind}-name" in user.extra) == (kind != "secret")
    objects.kept[f"{kind}s", space, "it"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    clock.advance(61)
    with pytest.raises(TokenError, match="has been invalidated"):
        tokens.verify(token)


def test_the_signing_key_is_made_once_and_kept_private(tmp_path: Path) -> None:
    path = tmp_path / "sa.key"
    first, second = token_keys.load_or_create(path), token_keys.load_or_create(path)
    assert first.kid == second.kid
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_unusable_signing_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sa.key"
    private_files.write(path, b"garbage")
    with pytest.raises(CertificateError, match="it is damaged"):
        token_keys.load_or_create(path)
    private_files.write(path, key_pem(ec.generate_private_key(ec.SECP384R1())))
    with pytest.raises(CertificateError, match="not a P-256 key"):
        token_keys.load_or_create(path)
