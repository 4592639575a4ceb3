"""What people call our kinds."""

from __future__ import annotations

import click
import pytest

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.api.kinds import KINDS
from nodemanager.cli import kinds
from nodemanager.kube import errors

EVERY: dict[str, tuple[str, ...]] = {kind.resource.kind: () for kind in KINDS if kind.resource.namespaced}
"""Profiles of sites are in no namespace: who may look at one would be refused otherwise."""


def meant(*words: str) -> dict[str, tuple[str, ...]]:
    return {target.kind.resource.kind: target.names for target in kinds.parse(words)}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["mn"], {"ManagedNode": ()}, id="short"),
        pytest.param(["managednode"], {"ManagedNode": ()}, id="singular"),
        pytest.param(["ManagedNodes"], {"ManagedNode": ()}, id="plural-in-any-case"),
        pytest.param(["managednodes.common.nodemanager"], {"ManagedNode": ()}, id="qualified"),
        pytest.param(["cs"], {"ConfigSet": ()}, id="cs"),
        pytest.param(["cset"], {"ConfigSet": ()}, id="cset"),
        pytest.param(["cs,mn,cset"], {"ConfigSet": (), "ManagedNode": ()}, id="list-without-repeats"),
        pytest.param(["all"], EVERY, id="all"),
        pytest.param(["nodemanager"], EVERY, id="category"),
        pytest.param(["eprof"], {"EdgeProfile": ()}, id="in-no-namespace"),
        pytest.param(["mn", "b", "a"], {"ManagedNode": ("b", "a")}, id="names"),
        pytest.param(["mn/a"], {"ManagedNode": ("a",)}, id="reference"),
        pytest.param(
            ["mn/a", "configset.common.nodemanager/b", "mn/c"],
            {"ManagedNode": ("a", "c"), "ConfigSet": ("b",)},
            id="references",
        ),
    ],
)
def test_understood(words: list[str], expected: dict[str, tuple[str, ...]]) -> None:
    assert meant(*words) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["pods"], "no kind 'pods'.*managednodes .mn., configsets .cs, cset.", id="foreign"),
        pytest.param(["mn,"], "no kind ''", id="nothing-after-comma"),
        pytest.param(["mn,cs", "a"], "names need one kind", id="names-of-several-kinds"),
        pytest.param(["mn", ""], "a name is empty", id="empty-name"),
        pytest.param(["mn/"], "'mn/' is not KIND/NAME", id="empty-reference"),
        pytest.param(["mn/a/b"], "'mn/a/b' is not KIND/NAME", id="two-slashes"),
        pytest.param(["mn/a", "b"], "'b' is not KIND/NAME", id="mixed"),
        pytest.param(["all/a"], "several kinds", id="reference-to-several"),
    ],
)
def test_refused(words: list[str], message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        kinds.parse(words)


def test_references_are_taken_back() -> None:
    (kind,) = kinds.find("mn")
    assert meant(kind.reference("web1")) == {"ManagedNode": ("web1",)}


def test_a_missing_kind_is_told_from_a_missing_object() -> None:
    with pytest.raises(errors.NotFound, match="nodemanager crds --install"), kinds.installed(MANAGED_NODES):
        raise errors.NotFound("404 page not found")
    gone = errors.NotFound("no web1", details=errors.StatusDetails(name="web1"))
    with pytest.raises(errors.NotFound) as caught, kinds.installed(MANAGED_NODES):
        raise gone
    assert caught.value is gone
