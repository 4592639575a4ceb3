"""EdgeProfiles before both servers: ours are taken, and what a site cannot do is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from nodemanager.api.edge import shipped_profiles
from nodemanager.kube import manifests
from support import edge_profiles
from support.either import Place

pytestmark = pytest.mark.usefixtures("place")


@pytest.fixture(name="called")
def _called(place: Place) -> Iterator[str]:
    """A name that no other test has: profiles are in no namespace."""
    name = f"profile-of-{place.namespace}"
    yield name
    place.kubectl("delete", "edgeprofile", name, "--ignore-not-found")


@pytest.mark.parametrize("name", shipped_profiles.profiles())
def test_what_we_ship_is_taken_as_it_is_and_again(place: Place, called: str, name: str) -> None:
    text = manifests.dump([edge_profiles.shipped(name, called)])
    assert place.kubectl("apply", "-f", "-", stdin=text) == f"edgeprofile.edge.nodemanager/{called} created\n"
    assert place.shown("eprof", called)["spec"] == edge_profiles.shipped(name)["spec"]
    assert place.kubectl("apply", "-f", "-", stdin=text).endswith(" unchanged\n")
    columns = place.kubectl("get", "eprof", called).splitlines()
    assert columns[0].split() == ["NAME", "VERSION", "STORAGE", "MODE", "OS", "AGE"]


def test_what_a_site_cannot_do_is_refused_by_name(place: Place, called: str) -> None:
    for case in edge_profiles.REFUSED:
        text = manifests.dump([edge_profiles.shipped(case["profile"], called, case["patch"])])
        said = place.refused("apply", "-f", "-", stdin=text)
        assert not [part for part in case["says"] if part not in said], (case["name"], said)


def test_what_a_version_says_does_not_change(place: Place, called: str) -> None:
    def apply(patch: dict[str, Any]) -> tuple[str, ...]:
        return "apply", "-f", "-", manifests.dump([edge_profiles.shipped("vx-rail", called, patch)])

    *words, text = apply({})
    place.kubectl(*words, stdin=text)
    *words, text = apply({"rates": {"placementsAtOnce": 2}})
    assert "spec.version" in (said := place.refused(*words, stdin=text))
    assert "must be another one: what a version says does not change" in said
    *words, text = apply({"rates": {"placementsAtOnce": 2}, "version": "1.1.0"})
    place.kubectl(*words, stdin=text)
