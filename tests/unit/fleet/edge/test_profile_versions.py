"""Which version of a profile is older than one that was seen, and which is kept in mind."""

from __future__ import annotations

import pytest

from nodemanager.api.edge.edgecluster import SeenProfile, UsedProfile
from nodemanager.api.edge.edgeprofile import EdgeProfile, EdgeProfileSpec
from nodemanager.fleet.edge import profile_versions
from nodemanager.kube.objects import ObjectMeta


@pytest.mark.parametrize(
    ("seen", "version", "newer"),
    [
        ("1.2.0", "1.1.9", "1.2.0"),
        ("1.2.0", "1.2.0", ""),
        ("1.2.0", "1.10.0", ""),  # by number, not by letter
        ("1.10.0", "1.9.0", "1.10.0"),
        ("1.1", "1.x", "1.1"),  # what is no number counts as none
        ("1.x", "1.0", ""),
        ("1.0.1", "1.0", "1.0.1"),
        ("1", "", "1"),
    ],
)
def test_a_profile_is_older_than_one_that_was_seen(seen: str, version: str, newer: str) -> None:
    profile = EdgeProfile(ObjectMeta(name="vx"), EdgeProfileSpec(version=version))
    assert profile_versions.newer_one(SeenProfile(name="vx", version=seen), profile) == newer
    assert profile_versions.newer_one(SeenProfile(name="other", version=seen), profile) == ""
    assert profile_versions.newer_one(None, profile) == ""


@pytest.mark.parametrize(
    ("seen", "used", "trusted", "kept"),
    [
        (None, None, True, None),
        (("vx", "1.0"), None, True, ("vx", "1.0")),
        (None, ("vx", "1.0"), True, ("vx", "1.0")),
        (None, ("vx", "1.0"), False, None),
        (("vx", "1.0"), ("vx", "1.1"), True, ("vx", "1.1")),
        (("vx", "1.0"), ("vx", "1.1"), False, ("vx", "1.0")),
        (("vx", "1.1"), ("vx", "1.0"), True, ("vx", "1.1")),
        (("vx", "1.0"), ("vx", "1.00"), True, ("vx", "1.0")),  # as high: it stays as it was seen
        (("vx", "1.1"), ("other", "1.0"), True, ("other", "1.0")),
    ],
)
def test_the_highest_version_of_a_name_is_kept_in_mind(
    seen: tuple[str, str] | None, used: tuple[str, str] | None, trusted: bool, kept: tuple[str, str] | None
) -> None:
    known = SeenProfile(name=seen[0], version=seen[1]) if seen else None
    now = UsedProfile(name=used[0], version=used[1]) if used else None
    found = profile_versions.highest(known, now, trusted=trusted)
    assert found == (SeenProfile(name=kept[0], version=kept[1]) if kept else None)
