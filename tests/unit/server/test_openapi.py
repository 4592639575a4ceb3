"""The documents: what is in them, that they are the same every time, and that they are kept."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import Any

import pytest

from nodemanager.api.crds import all_crds
from nodemanager.server.kinds import builtin_schemas
from nodemanager.server.kinds.builtin_kinds import PODS
from nodemanager.server.kinds.crds import kinds_of
from nodemanager.server.openapi.documents import Documents
from nodemanager.server.openapi.kinds import Published, published
from nodemanager.server.openapi.paths import paths_of
from support.openapi_stand_in import CUSTOM, SERVED, STORED

POD = next(kind for kind in STORED if kind.kind == "Pod")
GADGET = Published("tools.my-shop.example.com", "v1beta1", "Gadget", "gadgets", custom=True)


def content(documents: Documents, path: str) -> dict[str, Any]:
    document = documents.v3(path)
    assert document is not None
    found: dict[str, Any] = json.loads(document.body)
    return found


@pytest.mark.parametrize("path", sorted({kind.group_path for kind in SERVED}))
def test_v3_document_is_complete_in_itself(path: str) -> None:
    document = content(Documents(SERVED), path)
    schemas = document["components"]["schemas"]
    assert set(builtin_schemas.references(document)) == set(schemas), "nothing is missing, nothing is extra"
    ids = [
        operation["operationId"]
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    ]
    assert len(ids) == len(set(ids))


def test_v2_document_is_complete_in_itself() -> None:
    document = json.loads(Documents(SERVED).v2().body)
    assert set(builtin_schemas.references(document)) == set(document["definitions"])
    assert "#/components/" not in json.dumps(document)
    assert {"nodemanager.common.v1.ConfigSet", "io.k8s.api.core.v1.Pod"} <= set(document["definitions"])


def test_index_points_to_the_documents_by_their_hashes() -> None:
    documents = Documents(SERVED)
    paths = json.loads(documents.index().body)["paths"]
    assert set(paths) == {kind.group_path for kind in SERVED}
    for path, entry in paths.items():
        document = documents.v3(path)
        assert document is not None
        assert entry == {"serverRelativeURL": f"/openapi/v3/{path}?hash={document.hash}"}


def test_nothing_is_published_where_nothing_is_served() -> None:
    assert Documents(SERVED).v3("apis/apps/v1") is None
    assert Documents([]).v3("api/v1") is None


def test_documents_do_not_depend_on_the_order_of_kinds() -> None:
    shuffled = random.Random(7).sample(SERVED, len(SERVED))
    one, other = Documents(SERVED), Documents(shuffled)
    assert one.index() == other.index()
    assert (one.v2(), one.v2_protobuf()) == (other.v2(), other.v2_protobuf())


def test_documents_are_made_once() -> None:
    documents = Documents(SERVED)
    assert documents.v3("api/v1") is documents.v3("api/v1")
    assert documents.index() is documents.index()
    assert documents.v2() is documents.v2()


def test_a_changed_definition_changes_its_group_only() -> None:
    before = Documents(SERVED)
    before.index(), before.v2()
    after = before.replaced([*STORED, *CUSTOM, GADGET])
    changed = [dataclasses.replace(kind, schema={"type": "object"}) for kind in CUSTOM]
    last = after.replaced([*STORED, *changed])
    assert after.v3("api/v1") is before.v3("api/v1")
    assert after.v3("apis/common.nodemanager/v1") is before.v3("apis/common.nodemanager/v1")
    assert last.v3("apis/common.nodemanager/v1") != before.v3("apis/common.nodemanager/v1")
    assert after.v3(GADGET.group_path) is not None
    assert last.v3(GADGET.group_path) is None
    assert len({before.index().hash, after.index().hash, last.index().hash}) == 3
    assert len({before.v2().hash, after.v2().hash, last.v2().hash}) == 3


def test_names_of_a_custom_kind() -> None:
    assert GADGET.definition == "com.example.my-shop.tools.v1beta1.Gadget"
    assert GADGET.list_definition == "com.example.my-shop.tools.v1beta1.GadgetList"
    assert GADGET.tag == "toolsMyShopExampleCom_v1beta1"
    operation = paths_of(GADGET)["/apis/tools.my-shop.example.com/v1beta1/gadgets"]["get"]
    assert operation["operationId"] == "listToolsMyShopExampleComV1beta1GadgetForAllNamespaces"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("Gadget", "create a Gadget"),
        ("Oddity", "create an Oddity"),
        ("NodeSeries", "create NodeSeries"),
        ("Class", "create a Class"),
    ],
)
def test_a_kind_that_ends_like_a_plural_has_no_article(kind: str, said: str) -> None:
    published_kind = dataclasses.replace(GADGET, kind=kind)
    path = "/apis/tools.my-shop.example.com/v1beta1/namespaces/{namespace}/gadgets"
    assert paths_of(published_kind)[path]["post"]["description"] == said


def test_a_custom_kind_in_a_builtin_group_has_a_definition_of_its_own() -> None:
    impostor = Published("policy", "v1", "PodDisruptionBudget", "budgets", custom=True)
    assert impostor.definition == "policy.v1.PodDisruptionBudget"


def test_only_verbs_that_are_served_appear() -> None:
    kind = dataclasses.replace(POD, verbs=("get", "create"), subresources={})
    methods = {path: sorted(set(item) - {"parameters"}) for path, item in paths_of(kind).items()}
    assert methods == {
        "/api/v1/namespaces/{namespace}/pods": ["post"],
        "/api/v1/namespaces/{namespace}/pods/{name}": ["get"],
    }


def test_strategic_patches_are_for_builtin_kinds() -> None:
    def formats(kind: Published) -> set[str]:
        (item,) = [item for path, item in paths_of(kind).items() if path.endswith("/{name}")]
        return set(item["patch"]["requestBody"]["content"])

    assert formats(POD) - formats(GADGET) == {"application/strategic-merge-patch+json"}


def test_what_the_server_knows_of_a_builtin_kind_is_published() -> None:
    pod = published(PODS)
    assert dataclasses.asdict(pod) == dataclasses.asdict(PODS)
    assert pod.definition == "io.k8s.api.core.v1.Pod"


def test_versions_that_are_not_served_are_not_published() -> None:
    definition = all_crds()[0]
    version = definition["spec"]["versions"][0]
    definition["spec"]["versions"] = [version, {**version, "name": "v2", "served": False}]
    assert [kind.version for kind in kinds_of(definition)] == [version["name"]]


def test_a_definition_says_which_fields_can_be_selected() -> None:
    kind = dataclasses.replace(GADGET, schema={"type": "object"}, fields=("spec.color",))
    definitions = kind.own_definitions()
    for name in (kind.definition, kind.list_definition):
        assert definitions[name]["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.color"}]
