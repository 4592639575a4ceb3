"""Credentials that are none, and requests that try to be read in two ways: all of them are refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from nodemanager.client.auth.config import TlsIdentity
from support.rbac_objects import rule
from support.server_process import NAMESPACE, Server, admin_session, issue, raw, running, session

CORE = f"/api/v1/namespaces/{NAMESPACE}"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
HIDDEN = base64.b64encode(b"what only host-b may know").decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(Path(tmp_path_factory.mktemp("credentials")) / "data") as one:
        yield one


@pytest.fixture
async def admin(server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    async with admin_session(server) as http:
        yield http


async def who(server: Server, token: str) -> tuple[int, str]:
    """Return what the server answers to the question who we are, and whom it says."""
    async with session(server, token=token) as http, http.post(WHO, json={}) as response:
        body = await response.json()
        name = body["status"]["userInfo"]["username"] if response.status == 201 else ""
        return response.status, name


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a token, unverified."""
    return jwt.get_unverified_header(token), jwt.decode(token, options={"verify_signature": False})


def b64(data: Any) -> str:
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def own_key(server: Server) -> Any:
    """Return the key the server itself signs with: what it would have to be asked to sign."""
    pem = (server.folder / "service-account-key.pem").read_bytes()
    return serialization.load_pem_private_key(pem, None)


def signed(server: Server, token: str, **claims: Any) -> str:
    """Return a token with other claims, and a valid signature."""
    header, old = parts(token)
    kept = {name: value for name, value in {**old, **claims}.items() if value is not None}
    return jwt.encode(kept, own_key(server), algorithm=header["alg"], headers={"kid": header["kid"]})


def public_pem(server: Server) -> bytes:
    return bytes(
        own_key(server)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def foreign_key(server: Server, token: str) -> str:
    header, claims = parts(token)
    key: Any = rsa.generate_private_key(65537, 2048)
    if header["alg"] == "ES256":
        key = ec.generate_private_key(ec.SECP256R1())
    return jwt.encode(claims, key, algorithm=header["alg"], headers={"kid": header["kid"]})


def key_confusion(server: Server, token: str) -> str:
    """Sign with the public key as if it were a shared secret."""
    header, claims = parts(token)
    text = f"{b64({**header, 'alg': 'HS256'})}.{b64(claims)}"
    return f"{text}.{b64(hmac.new(public_pem(server), text.encode(), hashlib.sha256).digest())}"


def own_key_in_header(server: Server, token: str) -> str:
    """Bring the key along, and hope that the server uses it."""
    header, claims = parts(token)
    key = ec.generate_private_key(ec.SECP256R1())
    jwk = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    return jwt.encode(claims, key, algorithm="ES256", headers={"kid": header["kid"], "jwk": jwk})


def other_account(server: Server, token: str) -> str:
    head, _, signature = token.split(".")
    _, claims = parts(token)
    text = json.dumps(claims).replace("forger", "victim")
    return f"{head}.{b64(text.encode())}.{signature}"


NOW = int(time.time())
Forgery = Callable[[Server, str], str]
FORGERIES: dict[str, Forgery] = {
    "another key": foreign_key,
    "alg none": lambda _, t: f"{b64({**parts(t)[0], 'alg': 'none'})}.{t.split('.')[1]}.",
    "alg None": lambda _, t: f"{b64({**parts(t)[0], 'alg': 'None'})}.{t.split('.')[1]}.",
    "alg none, old signature": lambda _, t: f"{b64({**parts(t)[0], 'alg': 'none'})}.{t.split('.', 1)[1]}",
    "key confusion": key_confusion,
    "a key of its own": own_key_in_header,
    "another account": other_account,
    "no signature": lambda _, t: t.rpartition(".")[0] + ".",
    "cut signature": lambda _, t: t[:-8],
    "two parts": lambda _, t: t.rpartition(".")[0],
    "four parts": lambda _, t: f"{t}.{t}",
    "another kid": lambda _, t: f"{b64({**parts(t)[0], 'kid': '../../etc/passwd'})}.{t.split('.', 1)[1]}",
    "very long": lambda _, t: t + "A" * 7000,
    "expired": lambda s, t: signed(s, t, exp=NOW - 3600, iat=NOW - 7200, nbf=NOW - 7200),
    "never expires": lambda s, t: signed(s, t, exp=None),
    "not yet": lambda s, t: signed(s, t, nbf=NOW + 3600),
    "another audience": lambda s, t: signed(s, t, aud=["https://elsewhere"]),
    "no audience": lambda s, t: signed(s, t, aud=None),
    "another issuer": lambda s, t: signed(s, t, iss="https://elsewhere"),
    "no binding": lambda s, t: signed(s, t, **{"kubernetes.io": None}),
    "another uid": lambda s, t: signed(
        s, t, **{"kubernetes.io": {"namespace": NAMESPACE, "serviceaccount": {"name": "forger", "uid": "1"}}}
    ),
}


async def test_forged_tokens_are_refused(server: Server, admin: aiohttp.ClientSession) -> None:
    token = await issue(server, admin, "forger", rule("*", "*", "*"))
    await issue(server, admin, "victim", rule("*", "*", "*"))
    assert await who(server, token) == (201, f"system:serviceaccount:{NAMESPACE}:forger")
    assert (await who(server, signed(server, token)))[0] == 201  # our way of signing is the server's
    found = {name: await who(server, forge(server, token)) for name, forge in FORGERIES.items()}
    assert {name: told for name, told in found.items() if told != (401, "")} == {}


async def test_a_token_for_another_audience_is_refused(server: Server, admin: aiohttp.ClientSession) -> None:
    await issue(server, admin, "elsewhere")
    spec = {"spec": {"audiences": ["https://elsewhere"]}}
    async with admin.post(f"{CORE}/serviceaccounts/elsewhere/token", json=spec) as response:
        token = (await response.json())["status"]["token"]
    assert await who(server, token) == (401, "")


async def test_a_token_ends_with_its_account(server: Server, admin: aiohttp.ClientSession) -> None:
    token = await issue(server, admin, "mortal")
    assert (await who(server, token))[0] == 201
    async with admin.delete(f"{CORE}/serviceaccounts/mortal") as response:
        assert response.status == 200
    assert await who(server, token) == (401, "")
    async with admin.post(f"{CORE}/serviceaccounts", json={"metadata": {"name": "mortal"}}) as response:
        assert response.status == 201
    assert await who(server, token) == (401, ""), "the new account of that name is another one"


async def test_certificates_of_others_are_refused(server: Server) -> None:
    stranger = trustme.CA().issue_cert("a.test", common_name="admin", organization_name="system:masters")
    foreign = TlsIdentity(stranger.cert_chain_pems[0].bytes(), stranger.private_key_pem.bytes())
    # The server's own certificate is of the right authority, but says that it is for servers.
    serving = TlsIdentity((server.folder / "serving.pem").read_bytes(), b"")
    for identity in (foreign, serving):
        async with session(server, identity=identity) as http:
            with pytest.raises(aiohttp.ClientError):
                await http.get("/version")


TRICKS = [
    "/{core}/secrets/host-b", "{core}//secrets/host-b", "{core}/secrets//host-b", "{core}/secrets/./host-b",
    "{core}/secrets/host-a/../host-b", "{core}/secrets/host-a/%2e%2e/host-b",
    "{core}/secrets/host-a%2F..%2Fhost-b", "{core}/secrets/host-a/..%2fhost-b", "{core}/secrets/%68ost-b",
    "{core}/secrets/host-b/", "{core}/secrets/host-b%2F", "{core}/secrets/host-b%00",
    "{core}/secrets/host-b%20",
    "{core}/secrets/host-b;host-a", "{core}/secrets/host-b%3Fhost-a", "{core}/secrets/host-b#host-a",
    "{core}/secrets?fieldSelector=metadata.name=host-a&fieldSelector=metadata.name=host-b",
    "{core}/secrets?fieldSelector=metadata.name=host-a,metadata.name=host-b", "{core}/Secrets/host-b",
    "{core}/SECRETS/host-b", "/healthz/..{core}/secrets/host-b", "/healthz%2f..{core}/secrets/host-b",
    "/version/../..{core}/secrets/host-b", "/healthz?x={core}/secrets/host-b", "/api%2Fv1/secrets",
    "https://x{core}/secrets/host-b", "http://127.0.0.1/healthz@x{core}/secrets/host-b", "*", "",
    "/api/v1/watch/namespaces/nodemanager/secrets/host-b", "/api/v1/watch/secrets", "/api/v1/secrets",
    "/api/v1/namespaces/nodemanager%2Fsecrets%2Fhost-b", "/API/v1/namespaces/nodemanager/secrets/host-b",
    "/api/V1/namespaces/nodemanager/secrets/host-b", "/api/v1/namespaces//secrets/host-b",
    "/api/v1/namespaces/nodemanager/secrets/host-b%0d%0aX: y",
    "/apis//v1/namespaces/nodemanager/secrets/host-b",
    "/apis/core/v1/namespaces/nodemanager/secrets/host-b", "/api/v1/namespaces/./nodemanager/secrets/host-b",
    "/api/v1/namespaces/nodemanager/secrets/host-a/status/../../host-b", "\\api\\v1\\secrets",
    "/api/v1/namespaces/nodemanager/secrets/\uff48ost-b", "/api/v1/namespaces/nodemanager/secrets/host-b%ff",
]  # fmt: skip


async def test_no_path_is_read_in_two_ways(server: Server, admin: aiohttp.ClientSession) -> None:
    token = await issue(server, admin, "host-a", rule("get list watch", "secrets", resourceNames=["host-a"]))
    for name, data in (("host-a", {}), ("host-b", {"a": HIDDEN})):
        async with admin.post(f"{CORE}/secrets", json={"metadata": {"name": name}, "data": data}) as response:
            assert response.status == 201
    told = {}
    for trick in TRICKS:
        for method in ("GET", "DELETE"):
            path = trick.format(core=CORE)
            answer = await raw(server, request(path, token, method))
            assert HIDDEN.encode() not in answer, path
            told[f"{method} {path}"] = answer.split(b"\r\n")[0].decode()
    good = {asked: line for asked, line in told.items() if line and not re.match(r"HTTP/1\.[01] 4", line)}
    # A health check has no secrets, and a list by two names is of the first one that was authorised.
    assert all("/healthz?" in asked or ("GET" in asked and "=host-a" in asked) for asked in good), good
    async with admin.get(f"{CORE}/secrets/host-b") as response:
        assert response.status == 200, "somebody deleted it"
    assert HIDDEN.encode() not in await raw(server, request(f"{CORE}/secrets/host-a", token))


def request(path: str, token: str = "", method: str = "GET", *more: str, body: str = "") -> bytes:
    """Return a request as bytes; `more` are header lines."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *more]
    lines += [f"Authorization: Bearer {token}"] if token else []
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


async def test_no_header_makes_somebody_else_of_us(server: Server, admin: aiohttp.ClientSession) -> None:
    token = await issue(server, admin, "plain")
    for lines in (
        ["X-Remote-User: admin", "X-Remote-Group: system:masters"],
        ["Impersonate_User: admin"],
        ["X-Forwarded-User: admin", "X-Forwarded-For: 127.0.0.1"],
        ["X-HTTP-Method-Override: DELETE"],
        ["X-Original-URL: /healthz", "X-Rewrite-URL: /healthz"],
    ):
        answer = await raw(server, request(f"{CORE}/secrets", token, "GET", *lines))
        assert answer.startswith(b"HTTP/1.1 403 "), answer
        assert f"system:serviceaccount:{NAMESPACE}:plain".encode() in answer
    wrong_first = request(f"{CORE}/secrets", token, "GET", "Authorization: Bearer a.b.c")
    assert (await raw(server, wrong_first)).startswith(b"HTTP/1.1 401 ")
    basic = request(f"{CORE}/secrets", "", "GET", "Authorization: Basic YWRtaW46YWRtaW4=")
    assert (await raw(server, basic)).startswith(b"HTTP/1.1 403 ")  # nobody, as without a header


SMUGGLED = "GET /api/v1/namespaces/kube-system/secrets HTTP/1.1\r\nHost: x\r\n\r\n"
SMUGGLING = {
    "two lengths": ["Content-Length: 0", f"Content-Length: {len(SMUGGLED)}"],
    "length and chunks": [f"Content-Length: {len(SMUGGLED)}", "Transfer-Encoding: chunked"],
    "a blank before the colon": ["Transfer-Encoding : chunked", "Content-Length: 0"],
    "chunked twice": ["Transfer-Encoding: chunked, chunked"],
    "not chunked at last": ["Transfer-Encoding: chunked, identity"],
    "unknown coding": ["Transfer-Encoding: xchunked"],
    "signed length": ["Content-Length: +5"],
    "negative length": ["Content-Length: -1"],
    "list of lengths": ["Content-Length: 5, 5"],
    "hexadecimal length": ["Content-Length: 0x5"],
    "folded": ["X: y", " Transfer-Encoding: chunked"],
    "bare newline": ["X: y\nTransfer-Encoding: chunked"],
    "carriage return": ["X: y\rTransfer-Encoding: chunked"],
    "nul": ["X: y\x00z"],
    "no name": [": y"],
}


@pytest.mark.parametrize("name", SMUGGLING)
async def test_no_request_hides_in_another(server: Server, name: str) -> None:
    answer = await raw(server, request("/version", "", "GET", *SMUGGLING[name], body=SMUGGLED))
    assert len(re.findall(rb"HTTP/1\.[01] \d", answer)) <= 1, answer
    assert re.match(rb"$|HTTP/1\.[01] 400 ", answer), answer
