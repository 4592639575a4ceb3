"""A client of the embedded server, or of kube-apiserver: for fixtures that run their tests on both."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from nodemanager.client.verbs import Client
from support import embedded
from support.clients import as_admin, connected

BOTH = ["embedded", pytest.param("kube-apiserver", marks=pytest.mark.xdist_group("apiserver"))]
"""Parameters of such a fixture."""


@contextlib.asynccontextmanager
async def client_of(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """Be the administrator of the server that the fixture's parameter names."""
    if request.param == "embedded":
        async with embedded.serving() as server:
            yield server.client
    else:
        async with connected(as_admin(request.getfixturevalue("kube"))) as client:
            yield client
