"""The registry of kinds: what is forgotten of a kind is said when it is registered, with the file to edit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodemanager.api import crds, kinds
from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS
from nodemanager.api.common.configsetpreview import CONFIG_SET_PREVIEWS
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS
from nodemanager.api.common.kinds import KINDS as COMMON
from nodemanager.api.kind_parts import AGE, READ, WRITE, IncompleteKind, KindEntry, KindRight
from nodemanager.api.maintenance.nodetask import NODE_TASKS
from nodemanager.api.rights import operator_rights, people
from nodemanager.api.rights.operator_rights import Right
from nodemanager.cli.views import descriptions
from nodemanager.controllers import assembly
from nodemanager.fleet.audit import aspects
from nodemanager.kube.objects import ObjectMeta, Resource, Struct


class Window(Struct):
    """A time in which hosts may be worked on."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, str] = {}


WINDOWS = Resource("maintenance.nodemanager", "v1alpha1", "Window", "windows", Window)
SITES = Resource("edge.nodemanager", "v1alpha1", "Site", "sites", Window, namespaced=False)
PARTS: dict[str, Any] = {
    "short_names": ("mw",),
    "columns": (AGE,),
    "page": "reference/window.md",
    "hosts": (),
    "operator": (KindRight(("delete",)),),
    "viewers": (KindRight(READ),),
    "editors": (KindRight(WRITE),),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_forgotten_part_is_named_with_its_kind_and_the_file_to_edit(part: str) -> None:
    rest = {name: value for name, value in PARTS.items() if name != part}
    with pytest.raises(IncompleteKind) as caught:
        KindEntry(resource=WINDOWS, **rest)
    said = f"cannot register Window: it has no {part}; say so in src/nodemanager/api/maintenance/kinds.py"
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("table", "having", "part"),
    [
        pytest.param(descriptions, descriptions.RENDERERS, "renderer for describe", id="describe"),
        pytest.param(aspects, aspects.ASPECTS, "entry for the audit log", id="audit"),
    ],
)
def test_a_kind_that_a_table_elsewhere_lacks_is_named_with_the_file_to_edit(
    table: Any, having: dict[str, Any], part: str
) -> None:
    window = KindEntry(resource=WINDOWS, **PARTS)
    with pytest.raises(IncompleteKind) as caught:
        kinds.require(table.PART, having, table.FILE, [*kinds.KINDS, window])
    assert str(caught.value) == f"cannot use Window: it has no {part}; add it in {table.FILE}"
    assert table.FILE.endswith(f"{table.__name__.replace('.', '/')}.py")


@pytest.mark.parametrize("claimed", [{"short_names": ("mn",)}, {"page": "reference/configset.md"}])
def test_two_kinds_cannot_share_a_name_or_a_page(claimed: dict[str, Any]) -> None:
    with pytest.raises(IncompleteKind, match=r"register Window: \S+ is (ManagedNode|ConfigSet) already"):
        kinds.registered([*COMMON, KindEntry(resource=WINDOWS, **{**PARTS, **claimed})])


def test_kinds_of_other_groups_and_of_no_namespace_are_like_any_other() -> None:
    window = KindEntry(resource=WINDOWS, **PARTS)
    site = KindEntry(resource=SITES, **{**PARTS, "short_names": (), "page": "reference/site.md"})
    assert kinds.registered([*COMMON, window, site])[-1] is site
    spec = crds.of_kind(site)["spec"]
    assert (spec["group"], spec["scope"], spec["versions"][0]["name"]) == (
        "edge.nodemanager", "Cluster", "v1alpha1",
    )  # fmt: skip
    assert "status" not in spec["versions"][0]["subresources"]
    assert site.names == ("sites", "site", "sites.edge.nodemanager", "site.edge.nodemanager")
    with pytest.raises(IncompleteKind, match=r"leave hosts empty in src/nodemanager/api/edge/kinds.py"):
        KindEntry(resource=SITES, **{**PARTS, "hosts": (KindRight(READ),)})


def test_a_manifest_is_of_a_kind_by_group_version_and_name() -> None:
    assert kinds.named("common.nodemanager/v1", "ConfigSet") is COMMON[1]
    assert kinds.named("common.nodemanager/v2", "ConfigSet") is None
    assert kinds.named("other/v1", "ConfigSet") is None


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.resource.kind)
def test_an_entry_allows_the_operator_what_its_controllers_ask_for_and_no_more(kind: KindEntry) -> None:
    asked = {
        (right.subresource, verb)
        for right in assembly.rights([*assembly.ENTRIES, *assembly.EDGE_ENTRIES])
        for verb in right.verbs
        if right.resource == kind.resource and (right.subresource or verb not in READ)
    }
    assert {(one.subresource, verb) for one in kind.operator for verb in one.verbs} == asked


def test_a_controller_cannot_ask_for_more_than_a_kind_allows() -> None:
    greedy = Right(COMMON[1].resource, ("get", "update"))
    with pytest.raises(IncompleteKind, match=r"update configsets: .* in src/nodemanager/api/common/kinds.py"):
        operator_rights.manifests("ns", [greedy])


def test_rights_on_what_is_in_no_namespace_are_a_cluster_role() -> None:
    found = operator_rights.manifests("ns", [Right(WINDOWS, READ), Right(SITES, ("list", "get"))])
    by_kind = {one["kind"]: one for one in found}
    assert by_kind["Role"]["rules"][0]["resources"] == ["windows"]
    assert by_kind["ClusterRole"]["rules"][0] == {
        "apiGroups": ["edge.nodemanager"], "resources": ["sites"], "verbs": ["get", "list"],
    }  # fmt: skip
    assert by_kind["ClusterRoleBinding"]["subjects"] == by_kind["RoleBinding"]["subjects"]
    assert by_kind["ClusterRoleBinding"]["roleRef"]["kind"] == "ClusterRole"


MADE_BY_OPERATOR = (NODE_TASKS, CONFIG_SET_REVISIONS, AUDIT_SEGMENTS, AUDIT_CHECKPOINTS)


def test_people_look_at_every_kind_and_editors_change_it_but_nothing_of_the_operators() -> None:
    viewer, editor = people.roles()
    looks = {(tuple(rule["resources"]), tuple(rule["verbs"])) for rule in viewer["rules"]}
    assert looks - {(("leases",), ("get",))} == {((kind.resource.plural,), READ) for kind in kinds.KINDS}
    assert [rule["resourceNames"] for rule in viewer["rules"] if "leases" in rule["resources"]] == [
        ["nodemanager-operator"]
    ]
    writes = [rule for rule in editor["rules"] if rule not in viewer["rules"]]
    assert {(tuple(rule["resources"]), tuple(rule["verbs"])) for rule in writes} == {
        ((kind.resource.plural,), ("create", "delete") if kind.resource is CONFIG_SET_PREVIEWS else WRITE)
        for kind in kinds.KINDS
        if kind.resource not in MADE_BY_OPERATOR
    }


def test_entries_decode_what_they_say_they_are() -> None:
    for kind in kinds.KINDS:
        assert msgspec.convert({"metadata": {"name": "x"}}, kind.resource.type).metadata.name == "x"
