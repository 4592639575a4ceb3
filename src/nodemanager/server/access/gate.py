"""The gate of the API: which user sent a request, as which user they act, and whether they may do it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nodemanager.kube.rbac.identity import Attributes, User
from nodemanager.server.access.authn import Authenticator, Peer
from nodemanager.server.access.authz import Authorizer
from nodemanager.server.access.impersonation import impersonate, wanted_user


@dataclass(frozen=True, slots=True)
class AccessGate:
    """Authentication, impersonation and authorisation, in the order Kubernetes has them."""

    authenticator: Authenticator
    authorizer: Authorizer

    def admit(self, peer: Peer, headers: Iterable[tuple[str, str]], asked: Attributes) -> User:
        """Return the user a request is carried out as; raise Unauthorized or Forbidden.

        `headers` are all headers in the order they came, repeated ones repeated.
        """
        pairs = list(headers)
        authorization = next((value for name, value in pairs if name.lower() == "authorization"), "")
        user = self.authenticator.authenticate(peer, authorization)
        wanted = wanted_user(pairs)
        if wanted is None:
            return user
        return replace(impersonate(self.authorizer, user, wanted, asked), impersonator=user)

    def authorize(self, user: User, asked: Attributes) -> None:
        """Return if a user may do something; otherwise raise Forbidden."""
        self.authorizer.require(user, asked)
