"""What a path is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.kube import errors
from nodemanager.server.http import routing
from nodemanager.server.kinds.builtin_kinds import BUILTIN
from nodemanager.server.kinds.resources import CUSTOM_VERBS, Catalogue, ServedKind, version_order

WIDGETS = ServedKind("ex.io", "v1", "Widget", "widgets", verbs=CUSTOM_VERBS, custom=True)


@pytest.fixture
def catalogue() -> Catalogue:
    found = Catalogue(BUILTIN)
    found.define("widgets.ex.io", (WIDGETS,))
    return found


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", {}, ("list", "", "pods", "", "")),
        ("GET", "/api/v1/pods", {"watch": "true"}, ("watch", "", "pods", "", "")),
        ("GET", "/api/v1/pods", {"watch": "0"}, ("list", "", "pods", "", "")),
        ("GET", "/api/v1/namespaces", {}, ("list", "", "namespaces", "", "")),
        ("GET", "/api/v1/namespaces/a", {}, ("get", "a", "namespaces", "a", "")),
        ("PUT", "/api/v1/namespaces/a/finalize", {}, ("update", "a", "namespaces", "a", "finalize")),
        ("DELETE", "/api/v1/namespaces/a/pods", {}, ("deletecollection", "a", "pods", "", "")),
        (
            "PATCH",
            "/apis/ex.io/v1/namespaces/a/widgets/b/status",
            {},
            ("patch", "a", "widgets", "b", "status"),
        ),
        ("GET", "/apis/ex.io/v1/watch/namespaces/a/widgets", {}, ("watch", "a", "widgets", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/x%2Fy", {}, ("get", "a", "pods", "x/y", "")),
    ],
)
def test_resource_paths(method: str, path: str, query: dict[str, str], expected: tuple[str, ...]) -> None:
    info = routing.parse(method, path, query)
    assert (info.verb, info.namespace, info.resource, info.name, info.subresource) == expected


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis", "/apis/ex.io", "/apis/ex.io/v1", "/version"]
)
def test_other_paths(path: str) -> None:
    info = routing.parse("GET", path, {})
    assert not info.is_resource
    assert (info.verb, info.path) == ("get", path)


@given(st.sampled_from(["GET", "POST", "PUT", "BREW"]), st.text(max_size=80))
def test_no_path_breaks_the_parser(method: str, path: str) -> None:
    info = routing.parse(method, f"/{path}", {})
    assert info.path.startswith("/")


@pytest.mark.parametrize(
    ("method", "path", "error", "text"),
    [
        ("GET", "/api/v1/things", errors.NotFound, "the server could not find the requested resource"),
        ("GET", "/apis/ex.io/v1/things", routing.PageNotFound, "404 page not found"),
        ("GET", "/apis/ex.io/v1/namespaces/a/widgets/b/scale", errors.NotFound, '"b" not found'),
        ("PUT", "/apis/ex.io/v1/namespaces/a/widgets", errors.BadRequest, "name must be provided"),
        ("POST", "/apis/ex.io/v1/widgets", routing.PageNotFound, "404 page not found"),
        ("GET", "/apis/ex.io/v1/widgets/b", routing.PageNotFound, "404 page not found"),
        ("GET", "/api/v1/namespaces/a/nodes", errors.NotFound, "could not find"),
        ("POST", "/api/v1/namespaces/a/pods/b", errors.NotAllowed, "does not allow this method"),
        ("DELETE", "/api/v1/namespaces", errors.NotAllowed, "does not allow this method"),
        ("DELETE", "/api/v1/pods", errors.NotAllowed, "does not allow this method"),
    ],
)
def test_what_is_not_served_is_refused_by_name(
    catalogue: Catalogue, method: str, path: str, error: type[errors.StatusError], text: str
) -> None:
    with pytest.raises(error, match=text):
        routing.resolve(routing.parse(method, path, {}), catalogue)


def test_a_definition_can_be_forgotten(catalogue: Catalogue) -> None:
    assert catalogue.find("ex.io", "v1", "widgets") is WIDGETS
    catalogue.forget("widgets.ex.io")
    assert catalogue.find("ex.io", "v1", "widgets") is None
    assert "ex.io" not in catalogue.groups()


def test_versions_in_order_of_preference() -> None:
    names = ["foo1", "v1alpha1", "v1", "v10", "v2beta1", "v1beta2", "v2"]
    assert sorted(names, key=version_order) == ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo1"]
