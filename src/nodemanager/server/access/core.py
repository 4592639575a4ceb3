"""Identity and permission as the HTTP core needs them: the gate, the reviews, tokens, RBAC's own rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from nodemanager.kube.rbac.identity import Attributes
from nodemanager.server.access import access_reviews, role_writes, token_api, token_keys
from nodemanager.server.access.gate import AccessGate
from nodemanager.server.access.tokens import Tokens
from nodemanager.server.http import bodies
from nodemanager.server.hub import AdmissionRequest, ApiAnswer, ApiCall, Hub
from nodemanager.server.kinds.resources import ServedKind
from nodemanager.server.verbs import metadata
from nodemanager.server.verbs.options import given_options

_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"
_CREATE = ("create",)

REVIEWS: tuple[ServedKind, ...] = tuple(
    ServedKind(group, "v1", kind, f"{kind.lower()}s", namespaced=kind.startswith("Local"), verbs=_CREATE)
    for group, kind in (
        (_AUTHENTICATION, "TokenReview"),
        (_AUTHENTICATION, "SelfSubjectReview"),
        (_AUTHORIZATION, "SubjectAccessReview"),
        (_AUTHORIZATION, "SelfSubjectAccessReview"),
        (_AUTHORIZATION, "SelfSubjectRulesReview"),
        (_AUTHORIZATION, "LocalSubjectAccessReview"),
    )
)
"""Kinds that are questions: created, answered, and never stored."""

Handler = Callable[[Hub, ApiCall], Awaitable[ApiAnswer]]


def with_tokens(kinds: tuple[ServedKind, ...]) -> tuple[ServedKind, ...]:
    """Return the built-in kinds with `serviceaccounts/token`, which this module answers."""
    return tuple(
        dataclasses.replace(kind, subresources={**kind.subresources, "token": _CREATE})
        if (kind.group, kind.plural) == ("", "serviceaccounts")
        else kind
        for kind in kinds
    )


class CreationByPatch:
    """An apply that creates needs the right to create, not only to patch."""

    def __init__(self, gate: AccessGate) -> None:
        self._authorizer = gate.authorizer

    async def review(self, change: AdmissionRequest) -> None:
        """Raise Forbidden when a patch would create what its sender may not create."""
        if change.verb == "create" and change.asked == "patch":
            kind = change.kind
            asked = Attributes(
                "create", kind.group, kind.version, kind.plural, namespace=change.namespace, name=change.name
            )
            self._authorizer.require(change.user, asked)


class RbacAdmission:
    """Users may not grant more than they have: the rules about writing roles and bindings."""

    def __init__(self, gate: AccessGate) -> None:
        self._authorizer = gate.authorizer

    async def review(self, change: AdmissionRequest) -> None:
        """Raise Forbidden for an escalation."""
        if change.kind.group != "rbac.authorization.k8s.io" or change.new is None:
            return
        if change.kind.kind in ("Role", "ClusterRole"):
            role_writes.check_role(
                self._authorizer, change.user, change.new, namespace=change.namespace,
                url_name="" if change.verb == "create" else change.name, old=change.old,
            )  # fmt: skip
        else:
            role_writes.check_binding(self._authorizer, change.user, change.new, namespace=change.namespace)


def handlers(gate: AccessGate, tokens: Tokens) -> Mapping[tuple[str, str], Handler]:
    """Return the handlers of reviews and token requests, by resource and subresource."""
    authorizer = gate.authorizer
    return {
        ("serviceaccounts", "token"): _token_request(tokens),
        ("tokenreviews", ""): _answered(lambda _, body: token_api.token_review(tokens, body)),
        ("selfsubjectreviews", ""): _self_review,
        ("subjectaccessreviews", ""): _answered(
            lambda _, body: access_reviews.subject_access_review(authorizer, body)
        ),
        ("selfsubjectaccessreviews", ""): _answered(
            lambda call, body: access_reviews.self_subject_access_review(authorizer, call.user, body)
        ),
        ("selfsubjectrulesreviews", ""): _answered(
            lambda call, body: access_reviews.self_subject_rules_review(authorizer, call.user, body)
        ),
        ("localsubjectaccessreviews", ""): _answered(
            lambda call, body: access_reviews.local_subject_access_review(authorizer, call.namespace, body)
        ),
    }


def key_pages(tokens: Tokens) -> Callable[[web.Request], web.Response | None]:
    """Return a page with which others can verify our tokens: the OIDC discovery document and the keys."""

    def page(request: web.Request) -> web.Response | None:
        if request.path == token_keys.JWKS_PATH:
            return web.json_response(tokens.key.jwks(), content_type="application/jwk-set+json")
        if request.path == "/.well-known/openid-configuration":
            uri = f"{request.scheme}://{request.host}{token_keys.JWKS_PATH}"
            return web.json_response(token_keys.discovery(tokens.issuer, uri))
        return None

    return page


def _answered(answer: Callable[[ApiCall, dict[str, Any]], dict[str, Any]]) -> Handler:
    async def handle(_hub: Hub, call: ApiCall) -> ApiAnswer:
        return ApiAnswer(answer(call, _asked(call, call.kind)), 201)

    return handle


def _asked(call: ApiCall, kind: ServedKind) -> dict[str, Any]:
    body = bodies.read_object(call.body, call.content_type, kind)
    metadata.check_shape(body, kind)
    return body


async def _self_review(hub: Hub, call: ApiCall) -> ApiAnswer:
    _asked(call, call.kind)
    return ApiAnswer(access_reviews.self_subject_review(call.user, hub.now()), 201)


def _token_request(tokens: Tokens) -> Handler:
    kind = ServedKind(_AUTHENTICATION, "v1", "TokenRequest", "tokenrequests", verbs=_CREATE)

    async def handle(hub: Hub, call: ApiCall) -> ApiAnswer:
        body = _asked(call, kind)
        warnings = hub.validate(_token_change(call, kind, body))
        requested = token_api.token_request(tokens, call.namespace, call.info.name, body)
        return ApiAnswer(requested.answer, 201, (*warnings, *requested.warnings))

    return handle


def _token_change(call: ApiCall, kind: ServedKind, body: dict[str, Any]) -> AdmissionRequest:
    """Return a request for a token as the write that policies see, with the names from its path."""
    meta = {**(body.get("metadata") or {}), "name": call.info.name, "namespace": call.namespace}
    new = {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
    return AdmissionRequest(
        "create", call.kind, call.namespace, call.info.name, call.info.subresource, new, None, call.user,
        asked="create", options=given_options(call, "CreateOptions"), object_kind=kind,
    )  # fmt: skip
