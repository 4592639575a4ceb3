"""The documents of the real kube-apiserver, once it has published what a test defines."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from nodemanager.kube import manifests
from nodemanager.server.kinds.crds import kinds_of
from nodemanager.server.openapi.kinds import Published, published
from support.apiserver import ApiServer
from support.raw_api import RawApi

PUBLISH_TIMEOUT = 30.0


def publish(kube: ApiServer, definitions: Sequence[Mapping[str, Any]]) -> None:
    """Install CustomResourceDefinitions and wait until the OpenAPI documents describe them."""
    kube.kubectl("apply", "-f", "-", stdin=manifests.dump(definitions))
    names = [f"crd/{definition['metadata']['name']}" for definition in definitions]
    kube.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
    api = RawApi(kube)
    try:
        kinds = [published(kind) for definition in definitions for kind in kinds_of(dict(definition))]
        _wait_published(api, kinds)
    finally:
        api.close()


def document(api: RawApi, path: str) -> dict[str, Any]:
    """Return one of its documents."""
    answer = api.ask("GET", path)
    assert answer.code == 200, path
    body = json.loads(answer.body) if isinstance(answer.body, str) else answer.body
    assert isinstance(body, dict)
    return body


def _wait_published(api: RawApi, kinds: list[Published]) -> None:
    deadline = time.monotonic() + PUBLISH_TIMEOUT
    wanted = {f"/{kind.group_path}/{kind.plural}" for kind in kinds}
    while time.monotonic() < deadline:  # it publishes some time after a definition is established
        index = document(api, "/openapi/v3")["paths"]
        paths = {kind.group_path for kind in kinds} & set(index)
        seen = {path for name in paths for path in document(api, f"/openapi/v3/{name}")["paths"]}
        if wanted <= seen and wanted <= set(document(api, "/openapi/v2")["paths"]):
            return
    raise TimeoutError(f"kube-apiserver did not publish the definitions within {PUBLISH_TIMEOUT:.0f} s")
