"""ServiceAccount tokens: issued for a time and an audience, worthless when their owner is gone."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import jwt
import msgspec
from jwt.types import Options

from nodemanager.kube.go.text import quote
from nodemanager.kube.objects import Struct
from nodemanager.kube.rbac import identity
from nodemanager.kube.rbac.identity import User
from nodemanager.server.access.token_keys import ALGORITHM, SigningKey

MAX_TOKEN: Final = 16 * 1024
"""Longer texts are not decoded: their sender is unknown, and decoding is work."""
LEEWAY: Final = 60
"""Seconds that clocks may differ, as Kubernetes has it."""
ISSUER: Final = "https://kubernetes.default.svc"

_UNCHECKED: Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "require": ["exp"],
}


class TokenError(Exception):
    """A token is not accepted; the text is what a TokenReview shows and never holds the token."""


class Objects(Protocol):
    """Where the objects are that a token depends on."""

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return an object of the core group, or None."""


class Ref(Struct):
    """An object that a token names."""

    name: str = ""
    uid: str = ""


class TokenBinding(Struct):
    """The claim `kubernetes.io`: the account of the token, and the objects to which it is bound."""

    namespace: str = ""
    serviceaccount: Ref = Ref()
    pod: Ref | None = None
    secret: Ref | None = None
    node: Ref | None = None


class Claims(Struct):
    """What a token says. Times are seconds since 1970."""

    aud: list[str] | str = []
    exp: float = 0
    iat: float = 0
    nbf: float = 0
    iss: str = ""
    jti: str = ""
    sub: str = ""
    kubernetes: TokenBinding = msgspec.field(name="kubernetes.io", default=TokenBinding())

    @property
    def audiences(self) -> tuple[str, ...]:
        """The audiences of the token; a single one may stand alone."""
        return (self.aud,) if isinstance(self.aud, str) else tuple(self.aud)


@dataclass(frozen=True, slots=True)
class Verified:
    """An accepted token: its user, and for which of the wanted audiences."""

    user: User
    audiences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Issues and verifies; `audiences` are those of this API server."""

    key: SigningKey
    objects: Objects
    clock: Callable[[], datetime]
    issuer: str = ISSUER
    audiences: tuple[str, ...] = (ISSUER,)
    max_seconds: int = 0
    """Longest life of a token; 0 = no limit but that of validation."""

    def issue(self, binding: TokenBinding, audiences: Sequence[str], seconds: int) -> str:
        """Return a signed token for a ServiceAccount."""
        now = self.clock()
        claims = Claims(
            aud=list(audiences),
            exp=int((now + timedelta(seconds=seconds)).timestamp()),
            iat=int(now.timestamp()),
            nbf=int(now.timestamp()),
            iss=self.issuer,
            jti=str(uuid.uuid4()),
            sub=identity.service_account_user(binding.namespace, binding.serviceaccount.name),
            kubernetes=binding,
        )
        headers = {"kid": self.key.kid}
        return jwt.encode(msgspec.to_builtins(claims), self.key.private, ALGORITHM, headers=headers)

    def verify(self, token: str, audiences: Sequence[str] = ()) -> Verified:
        """Return the account of a token, or raise; without audiences it must be meant for this server."""
        claims = self._claims(token)
        wanted = tuple(audiences) or self.audiences
        common = tuple(one for one in claims.audiences if one in wanted)
        if not common:
            shown = " ".join(map(quote, claims.audiences)), " ".join(map(quote, wanted))
            raise _refused(f"token audiences [{shown[0]}] is invalid for the target audiences [{shown[1]}]")
        self._check_times(claims)
        self._check_living(claims.kubernetes)
        return Verified(_user(claims), common)

    def _claims(self, token: str) -> Claims:
        """Return the claims of a token that is signed by us; the algorithm is ours, not the token's."""
        if len(token) > MAX_TOKEN:
            raise TokenError("invalid bearer token")
        try:
            kid = jwt.get_unverified_header(token).get("kid", self.key.kid)
            if kid not in {"", self.key.kid}:
                raise _refused("invalid signature, no keys found")
            raw = jwt.decode(
                token, self.key.public, algorithms=[ALGORITHM], issuer=self.issuer, options=_UNCHECKED
            )
            claims = msgspec.convert(raw, Claims)
        except (jwt.PyJWTError, msgspec.ValidationError, ValueError, RecursionError) as err:
            raise TokenError("invalid bearer token") from err
        return claims

    def _check_times(self, claims: Claims) -> None:
        now = self.clock().timestamp()
        if now - LEEWAY > claims.exp:
            raise _refused("service account token has expired")
        if now + LEEWAY < claims.nbf:
            raise _refused("service account token is not valid yet")
        if now + LEEWAY < claims.iat:
            raise _refused("service account token is issued in the future")

    def _check_living(self, binding: TokenBinding) -> None:
        """Raise unless everything the token is bound to is there, and is still the same object."""
        namespace, account = binding.namespace, binding.serviceaccount
        found = self.objects.get("serviceaccounts", namespace, account.name)
        if found is None:
            raise _refused(f"serviceaccounts {quote(account.name)} not found")
        if uid_of(found) != account.uid:
            raise _refused(f"service account UID ({uid_of(found)}) does not match claim ({account.uid})")
        if self._deleted(found):
            raise _refused(f"service account {namespace}/{account.name} has been deleted")
        bound = [("secrets", namespace, binding.secret), ("pods", namespace, binding.pod)]
        if binding.pod is None:  # the node of a pod's token is information only
            bound.append(("nodes", "", binding.node))
        for resource, where, ref in bound:
            if ref is not None:
                self._check_bound(resource, ref, self.objects.get(resource, where, ref.name))

    def _check_bound(self, resource: str, ref: Ref, found: Mapping[str, Any] | None) -> None:
        if found is None:
            raise _refused("service account token has been invalidated")
        uid, kind = uid_of(found), resource.removesuffix("s")
        if uid != ref.uid:
            raise _refused(f"{kind} UID ({uid}) does not match service account {kind} ref claim ({ref.uid})")
        if self._deleted(found):
            raise _refused("service account token has been invalidated")

    def _deleted(self, obj: Mapping[str, Any]) -> bool:
        """Tell whether an object only waits for its finalizers, and has done so for a while."""
        stamp = obj["metadata"].get("deletionTimestamp")
        return bool(stamp) and datetime.fromisoformat(stamp).timestamp() < self.clock().timestamp() - LEEWAY


def _refused(why: str) -> TokenError:
    """Kubernetes joins what each of its authenticators said; the first knows no such token at all."""
    return TokenError(f"[invalid bearer token, {why}]")


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return the uid of an object."""
    return str(obj["metadata"].get("uid", ""))


def _user(claims: Claims) -> User:
    binding = claims.kubernetes
    namespace, account = binding.namespace, binding.serviceaccount
    extra: dict[str, tuple[str, ...]] = {}
    if claims.jti:
        extra[identity.CREDENTIAL_ID] = (f"JTI={claims.jti}",)
    for ref, name_key, uid_key in (
        (binding.pod, identity.POD_NAME, identity.POD_UID),
        (binding.node, identity.NODE_NAME, identity.NODE_UID),
    ):
        if ref is not None and ref.name:
            extra[name_key] = (ref.name,)
            if ref.uid:
                extra[uid_key] = (ref.uid,)
    name = identity.service_account_user(namespace, account.name)
    return User(name, identity.service_account_groups(namespace), account.uid, extra)
