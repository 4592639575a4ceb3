"""What was applied once and is applied again is `unchanged` to kubectl, and in sync to who compares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodemanager.api import kinds
from nodemanager.kube import manifests
from nodemanager.kube.objects import Resource, Untyped
from support import cases, three_way
from support.agent_process import Api
from support.either import Place

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = [
    *(pytest.param(path, id=f"{path.parent.name}-{path.stem}") for path in sorted(EXAMPLES.glob("*/*.yaml"))),
    *cases.manifests("accepted"),
]


def objects(path: Path) -> list[Untyped]:
    return list(manifests.load_all(path.read_text(encoding="utf-8"), str(path)))


async def applied(api: Api, sent: Untyped) -> Untyped:
    """Create an object as `kubectl apply` does, and return it as others find it."""
    group, _, version = sent["apiVersion"].rpartition("/")
    ours = kinds.named(sent["apiVersion"], sent["kind"])
    plural = ours.resource.plural if ours else f"{sent['kind'].lower()}s"
    kind: Resource[Untyped] = Resource(group, version, sent["kind"], plural, dict)
    await api.client.create(kind, sent, api.namespace)
    return await api.client.get(kind, sent["metadata"]["name"], api.namespace)


@pytest.mark.parametrize("path", FILES)
async def test_a_three_way_diff_finds_nothing(api: Api, path: Path) -> None:
    """As Argo CD compares: the manifest, what was applied last, and the object."""
    for manifest in objects(path):
        sent = three_way.declared(manifest, api.namespace)
        assert three_way.patch(sent, await applied(api, sent)) == {}


async def test_a_three_way_diff_finds_what_was_changed(api: Api) -> None:
    (manifest,) = objects(EXAMPLES / "02-selector" / "web.yaml")
    sent = three_way.declared(manifest, api.namespace)
    live = await applied(api, sent)
    live["spec"]["packages"][0]["ensure"] = "installed"  # as a default of the schema would
    assert set(three_way.patch(sent, live)["spec"]) == {"packages"}
    del sent["spec"]["executions"]
    assert three_way.patch(sent, live)["spec"]["executions"] is None


@pytest.mark.parametrize("path", FILES)
def test_kubectl_says_unchanged(place: Place, path: Path) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects(path)})
    place.kubectl("apply", "-f", "-", stdin=text)
    again = place.kubectl("apply", "-f", "-", stdin=text).splitlines()
    assert [line for line in again if not line.endswith(" unchanged")] == []
    assert len(again) == len(objects(path))
