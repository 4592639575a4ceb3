"""The key that signs ServiceAccount tokens, and what the world needs to verify them."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from nodemanager.kube.go.text import json_text
from nodemanager.server.http import private_files
from nodemanager.server.http.certs import CertificateError, key_pem

ALGORITHM: Final = "ES256"
JWKS_PATH: Final = "/openid/v1/jwks"
_COORDINATE = 32


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A P-256 key with its id, the thumbprint of RFC 7638."""

    private: ec.EllipticCurvePrivateKey = field(repr=False)
    kid: str

    @property
    def public(self) -> ec.EllipticCurvePublicKey:
        """The half that verifies."""
        return self.private.public_key()

    def jwks(self) -> dict[str, Any]:
        """Return the key set that `/openid/v1/jwks` serves."""
        shown = {"use": "sig", "kid": self.kid, "alg": ALGORITHM, **_jwk(self.public)}
        return {"keys": [shown]}


def load_or_create(path: Path) -> SigningKey:
    """Return the key kept in a file; make one when there is none."""
    data = private_files.read(path)
    if data is None:
        private_files.create(path, key_pem(ec.generate_private_key(ec.SECP256R1())))
        data = private_files.read(path)
    try:
        key = serialization.load_pem_private_key(data or b"", password=None)
    except (ValueError, TypeError) as err:
        raise CertificateError(f"cannot use the token key in {path}: it is damaged") from err
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise CertificateError(f"cannot use the token key in {path}: it is not a P-256 key")
    return SigningKey(key, thumbprint(key.public_key()))


def thumbprint(key: ec.EllipticCurvePublicKey) -> str:
    """Return the SHA-256 of the key's required members in their fixed order."""
    return _base64url(hashlib.sha256(json_text(_jwk(key)).encode()).digest())


def discovery(issuer: str, jwks_uri: str) -> dict[str, Any]:
    """Return what `/.well-known/openid-configuration` serves."""
    return {
        "issuer": issuer,
        "jwks_uri": jwks_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
    }


def _jwk(key: ec.EllipticCurvePublicKey) -> dict[str, str]:
    point = key.public_numbers()
    x, y = (_base64url(number.to_bytes(_COORDINATE, "big")) for number in (point.x, point.y))
    return {"crv": "P-256", "kty": "EC", "x": x, "y": y}


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
