"""Who we are to the API: what it takes our credential for."""

from __future__ import annotations

from typing import Final

import click

from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource, Untyped

REVIEWS: Final[Resource[Untyped]] = Resource(
    "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", dict, namespaced=False
)
APPROVE: Final = "Create the MaintenanceApproval with kubectl, with your user name as approver"


async def whoami(client: Client, doing: str, instead: str = APPROVE) -> str:
    """Return the name of the user; an API that does not tell is an error that says what to do instead."""
    what = f"cannot {doing}: "
    try:
        answer = await client.create(REVIEWS, {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind})
    except (errors.NotFound, errors.Forbidden) as error:
        raise click.ClickException(
            f"{what}the API does not say who you are ({error}); it needs SelfSubjectReview, which Kubernetes "
            f"has since 1.28. {instead}"
        ) from error
    name = ((answer.get("status") or {}).get("userInfo") or {}).get("username", "")
    if not isinstance(name, str) or not name:
        raise click.ClickException(f"{what}the API knows no name of yours; use a credential of a user")
    return name
