"""The order of versions: what comes before a release is older than it."""

from __future__ import annotations

import itertools

import pytest

from nodemanager.host.self_update import versions

SEMVER = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
          "1.0.0-rc.1", "1.0.0", "2.0.0", "2.1.0", "2.1.1"]  # fmt: skip
"""The examples of semver.org, in order."""
OURS = ["0.9.9", "1.2.0a1", "1.2.0b2", "1.2.0rc1", "1.2.0rc2", "1.2.0rc10", "1.2.0", "1.2.1rc1", "1.10.0"]


@pytest.mark.parametrize("ordered", [SEMVER, OURS], ids=["semver", "ours"])
def test_each_version_is_older_than_all_that_follow(ordered: list[str]) -> None:
    for older, newer in itertools.combinations(ordered, 2):
        assert (versions.is_older(older, newer), versions.is_older(newer, older)) == (True, False)


def test_a_release_candidate_is_older_than_its_release() -> None:
    assert versions.is_older("1.2.0-rc1", "1.2.0")
    assert not versions.is_older("1.2.0", "1.2.0-rc1")


@pytest.mark.parametrize(
    ("one", "other"),
    [("1.2.0", "1.2.0+build.7"), ("1.2.0-rc1+a", "1.2.0-rc1+b"), ("1.2", "1.2.0"), ("v1.2.0", "1.2.0")],
)
def test_some_are_equally_old(one: str, other: str) -> None:
    assert not versions.is_older(one, other)
    assert not versions.is_older(other, one)


def test_what_is_no_version_is_older_than_any() -> None:
    assert versions.is_older("unknown", "0.0.1rc1")
    assert not versions.is_older("0.0.1", "unknown")
