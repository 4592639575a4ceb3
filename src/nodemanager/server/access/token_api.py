"""TokenRequest and TokenReview: request object in, answer out, errors as Kubernetes words them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

import msgspec

from nodemanager.kube import errors, times
from nodemanager.kube.go.text import quote
from nodemanager.kube.objects import Struct
from nodemanager.kube.rbac.identity import AUTHENTICATED
from nodemanager.kube.schemas import faults
from nodemanager.server.access import access_errors
from nodemanager.server.access.access_reviews import AUTHENTICATION, Body, decode
from nodemanager.server.access.tokens import Ref, TokenBinding, TokenError, Tokens, uid_of

MIN_SECONDS: Final = 600
DEFAULT_SECONDS: Final = 3600
MAX_SECONDS: Final = 1 << 32
MAX_AUDIENCES: Final = 64
"""More would make tokens so long that we ourselves would refuse them."""


class BoundObject(Struct):
    """The object that a token is bound to: without it, the token is worthless."""

    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""

    @property
    def title(self) -> str:
        """Group, version and kind as Kubernetes prints them."""
        group, slash, version = self.api_version.rpartition("/")
        return f"{group if slash else ''}/{version}, Kind={self.kind}"


class RequestSpec(Struct):
    """The spec of a TokenRequest."""

    audiences: list[str] = []
    expiration_seconds: int = DEFAULT_SECONDS
    bound_object_ref: BoundObject | None = None


class TokenReviewSpec(Struct):
    """The spec of a TokenReview."""

    token: str = ""
    audiences: list[str] = []


class Requested(NamedTuple):
    """The answer to a TokenRequest, and what the client is warned about."""

    answer: dict[str, Any]
    warnings: list[str]


def token_request(tokens: Tokens, namespace: str, name: str, body: Body) -> Requested:
    """Return a TokenRequest with a token for a ServiceAccount in its status."""
    metadata = body.get("metadata") or {}
    _check_names(metadata, namespace, name)
    account = tokens.objects.get("serviceaccounts", namespace, name)
    if account is None:
        raise access_errors.not_found("", "serviceaccounts", name)
    _check_uid(metadata, account, name)
    spec = decode("TokenRequest", body.get("spec"), RequestSpec)
    _check_spec(spec)
    binding = _bind(tokens, spec, namespace, account)
    seconds, warnings = spec.expiration_seconds, []
    if 0 < tokens.max_seconds < seconds:
        warnings.append(
            f"requested expiration of {seconds} seconds shortened to {tokens.max_seconds} seconds"
        )
        seconds = tokens.max_seconds
    audiences = spec.audiences or list(tokens.audiences)
    now = tokens.clock()  # before signing, so that the status never promises more than the token
    token = tokens.issue(binding, audiences, seconds)
    answer = {
        "kind": "TokenRequest",
        "apiVersion": f"{AUTHENTICATION}/v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid_of(account),
            "creationTimestamp": times.rfc3339(now),
        },
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": msgspec.to_builtins(spec.bound_object_ref),
        },
        "status": {"token": token, "expirationTimestamp": times.rfc3339(now + timedelta(seconds=seconds))},
    }
    return Requested(answer, warnings)


def _check_names(metadata: Mapping[str, Any], namespace: str, name: str) -> None:
    if metadata.get("namespace") not in {None, "", namespace}:
        raise errors.BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    given = metadata.get("name")
    if given not in {None, "", name}:
        cause = faults.invalid("metadata.name", given, "must match the service account name if specified")
        raise access_errors.invalid(AUTHENTICATION, "TokenRequest", name, [cause])


def _check_uid(metadata: Mapping[str, Any], account: Mapping[str, Any], name: str) -> None:
    given, uid = metadata.get("uid"), uid_of(account)
    if given not in {None, "", uid}:
        why = f"the UID in the token request ({given}) does not match the UID of the service account ({uid})"
        raise access_errors.conflict(AUTHENTICATION, "TokenRequest", name, why)


def _check_spec(spec: RequestSpec) -> None:
    seconds, why = spec.expiration_seconds, ""
    if seconds < MIN_SECONDS:
        why = "may not specify a duration less than 10 minutes"
    elif seconds > MAX_SECONDS:
        why = "may not specify a duration larger than 2^32 seconds"
    if why:
        cause = faults.invalid("spec.expirationSeconds", seconds, why)
        raise access_errors.invalid(AUTHENTICATION, "TokenRequest", "", [cause])
    if len(spec.audiences) > MAX_AUDIENCES:
        cause = faults.invalid(
            "spec.audiences", len(spec.audiences), f"at most {MAX_AUDIENCES} are served here"
        )
        raise access_errors.invalid(AUTHENTICATION, "TokenRequest", "", [cause])


def _bind(tokens: Tokens, spec: RequestSpec, namespace: str, account: Mapping[str, Any]) -> TokenBinding:
    name = str(account["metadata"]["name"])
    owner, wanted = Ref(name=name, uid=uid_of(account)), spec.bound_object_ref
    if wanted is None:
        return TokenBinding(namespace=namespace, serviceaccount=owner)
    if wanted.api_version != "v1" or wanted.kind not in {"Pod", "Node", "Secret"}:
        raise errors.BadRequest(f"cannot bind token to object of type {wanted.title}")
    resource = f"{wanted.kind.lower()}s"
    found = tokens.objects.get(resource, "" if wanted.kind == "Node" else namespace, wanted.name)
    if found is None:
        raise access_errors.not_found("", resource, wanted.name)
    if wanted.kind == "Pod" and _pod_spec(found).get("serviceAccountName") != name:
        raise errors.BadRequest(
            f"cannot bind token for serviceaccount {quote(name)} to pod running with different "
            "serviceaccount name."
        )
    if wanted.uid not in {"", uid_of(found)}:
        raise access_errors.conflict(
            "", wanted.kind, wanted.name,
            f"the UID in the bound object reference ({wanted.uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated",
        )  # fmt: skip
    ref = Ref(name=wanted.name, uid=uid_of(found))
    if wanted.kind == "Node":
        return TokenBinding(namespace=namespace, serviceaccount=owner, node=ref)
    if wanted.kind == "Secret":
        return TokenBinding(namespace=namespace, serviceaccount=owner, secret=ref)
    return TokenBinding(namespace=namespace, serviceaccount=owner, pod=ref, node=_node_of(tokens, found))


def _node_of(tokens: Tokens, pod: Mapping[str, Any]) -> Ref | None:
    """Return the node of a pod; one that does not exist (any more) is named without uid."""
    name = str(_pod_spec(pod).get("nodeName") or "")
    if not name:
        return None
    node = tokens.objects.get("nodes", "", name)
    return Ref(name=name, uid=uid_of(node) if node else "")


def _pod_spec(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = pod.get("spec") or {}
    return spec


def token_review(tokens: Tokens, body: Body) -> dict[str, Any]:
    """Return a TokenReview with the user of a token, or why it is not valid."""
    spec = decode("TokenReview", body.get("spec"), TokenReviewSpec)
    if not spec.token:
        raise errors.BadRequest("token is required for TokenReview in authentication")
    status: dict[str, Any]
    try:
        verified = tokens.verify(spec.token, spec.audiences)
    except TokenError as err:
        status = {"user": {}, "error": str(err)}
    else:
        user = verified.user.with_group(AUTHENTICATED)
        status = {"authenticated": True, "user": user.info(), "audiences": list(verified.audiences)}
    return {
        "kind": "TokenReview",
        "apiVersion": f"{AUTHENTICATION}/v1",
        "metadata": dict(body.get("metadata") or {}),
        "spec": dict(body.get("spec") or {}),
        "status": status,
    }
