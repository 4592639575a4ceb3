"""Signatures of EdgeProfiles: good ones, and every way in which one is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodemanager.api.edge.edgecluster import (
    EdgeCluster,
    EdgeClusterSpec,
    EdgeClusterStatus,
    ProfileSignature,
)
from nodemanager.api.edge.edgeprofile import SIGNATURE
from nodemanager.fleet.edge import deciding, findings, profile_trust
from nodemanager.fleet.edge.deciding import Site
from nodemanager.fleet.edge.facts import AgentFacts
from nodemanager.fleet.edge.profile_trust import Untrusted
from nodemanager.kube import conditions
from nodemanager.kube.objects import Untyped
from nodemanager.tlog import minisign
from support import edge_profiles
from support.edge_profiles import public_key, shipped, signed, typed
from support.edge_world import START


def test_a_good_one_names_its_key() -> None:
    profile = typed(signed(shipped("vx-rail")))
    assert profile_trust.verify(profile, [public_key(bytes(32), b"otherkey"), public_key()]).key == (
        edge_profiles.KEY_ID[::-1].hex().upper()
    )


def test_layout_and_other_annotations_do_not_matter() -> None:
    obj = signed(shipped("vx-rail"))
    turned: Untyped = {**obj, "spec": dict(reversed(obj["spec"].items()))}
    turned["metadata"]["annotations"]["note"] = turned["metadata"].setdefault("labels", {"a": "b"})["a"]
    assert profile_trust.verify(typed(turned), [public_key()])


def changed(patch: dict[str, Any], name: str = "vx-rail") -> Untyped:
    """Return a profile that was changed after it had been signed."""
    obj = signed(shipped("vx-rail"))
    meta = {**obj["metadata"], "name": name}
    return {**obj, "metadata": meta, "spec": edge_profiles.merged(obj["spec"], patch)}


@pytest.mark.parametrize(
    ("obj", "keys", "why"),
    [
        pytest.param(shipped("vx-rail"), [public_key()], "^it is not signed$", id="none"),
        pytest.param(signed(shipped("vx-rail")), [], "is not trusted", id="no key"),
        pytest.param(signed(shipped("vx-rail")), [public_key(bytes(32))], "was changed", id="another's key"),
        pytest.param(signed(shipped("vx-rail")), ["ssh-ed25519 AAAA"], "cannot read the public", id="no key"),
        pytest.param(changed({"rates": {"placementsAtOnce": 9}}), [public_key()], "was changed", id="spec"),
        pytest.param(changed({}, "other"), [public_key()], "was changed", id="another name"),
        pytest.param(changed({"rates": None}), [public_key()], "was changed", id="less"),
        pytest.param(
            signed(shipped("vx-rail"), "file:nodemanager\tversion:1.0.0"), [public_key()],
            r"is for profile \(none\) version 1.0.0, not for vx-rail version 1.0.0", id="a release",
        ),
        pytest.param(
            signed(shipped("vx-rail"), "profile:vx-rail\tversion:0.9.0"), [public_key()],
            "is for profile vx-rail version 0.9.0", id="another version",
        ),
    ],
)  # fmt: skip
def test_others_are_none(obj: Untyped, keys: list[str], why: str) -> None:
    with pytest.raises(Untrusted, match=why):
        profile_trust.verify(typed(obj), keys)


def looked(
    version: str,
    policy: str = "",
    before: EdgeClusterStatus | None = None,
    *,
    by: str = "",
    name: str = "vx-rail",
) -> EdgeClusterStatus:
    """Look at a site whose profile has a version, and is signed where `by` is not empty."""
    obj = shipped("vx-rail", name, {"version": version, "bridge": None})
    asked = ProfileSignature(policy=policy, keys=[public_key()]) if policy else None
    cluster = EdgeCluster(
        spec=EdgeClusterSpec(profile=name, signature=asked), status=before or EdgeClusterStatus()
    )
    return deciding.decide(Site(cluster, typed(signed(obj) if by else obj), AgentFacts()), START)


def usable(status: EdgeClusterStatus) -> tuple[str, str]:
    found = conditions.get(status.conditions, findings.PROFILE_USABLE)
    assert found is not None
    return found.status, found.reason


def newest(status: EdgeClusterStatus) -> str:
    return status.newest_profile.version if status.newest_profile else ""


def test_an_older_one_that_somebody_signed_is_refused_where_a_signature_is_required() -> None:
    first = looked("1.10.0", "require", by="us")
    assert (usable(first), newest(first)) == (("True", "AsExpected"), "1.10.0")
    older = looked("1.9.0", "require", first, by="us")
    assert (usable(older), newest(older)) == (("False", "ProfileOlder"), "1.10.0")
    assert (older.phase, older.reason, older.profile) == ("Unknown", "ProfileOlder", None)
    assert "is version 1.9.0, and this site was looked at with 1.10.0 before" in older.message
    again = looked("1.9.0", "require", older, by="us")
    assert usable(again) == ("False", "ProfileOlder"), "it is not forgotten by looks without a profile"
    assert usable(looked("1.10.0", "require", again, by="us")) == ("True", "AsExpected")
    assert newest(looked("2.0.0", "require", again, by="us")) == "2.0.0"


@pytest.mark.parametrize("policy", ["warn", ""])
def test_an_older_one_is_told_of_elsewhere(policy: str) -> None:
    older = looked("1.0.0", policy, looked("1.0.1", policy, by="us"), by="us")
    assert (usable(older), newest(older)) == (("True", "ProfileOlder"), "1.0.1")
    assert older.profile is not None
    assert older.profile.version == "1.0.0"


def test_a_version_that_nobody_signed_keeps_no_other_one_away() -> None:
    for policy in ("require", "warn"):
        fake = looked("999.0.0", policy, looked("1.0.0", policy, by="us"))
        assert newest(fake) == "1.0.0"
        assert usable(looked("1.0.1", policy, fake, by="us")) == ("True", "AsExpected")


def test_what_was_seen_when_nobody_asked_for_a_signature_keeps_no_signed_one_away() -> None:
    """Anybody who could write a profile then could keep the site from all that are signed later."""
    unasked = looked("999.0.0")
    fake = looked("999.0.0", "require", unasked)
    for before in (unasked, fake):
        signed_one = looked("1.0.0", "require", before, by="us")
        assert (usable(signed_one), newest(signed_one)) == (("True", "AsExpected"), "1.0.0")
    gone = looked("1.0.0", "require", signed_one, name="other")
    older = looked("0.9.0", "require", looked("1.0.0", "require", gone, by="us"), by="us")
    assert usable(older) == ("False", "ProfileOlder")


def test_another_profile_begins_with_its_own_version() -> None:
    other = looked("0.1.0", "require", looked("1.0.0", "require", by="us"), by="us", name="other")
    assert (usable(other), newest(other)) == (("True", "AsExpected"), "0.1.0")


def test_a_long_one_is_not_even_read() -> None:
    obj = shipped("vx-rail")
    obj["metadata"]["annotations"] = {SIGNATURE: "x" * 9000}
    with pytest.raises(Untrusted, match="longer than 8192 bytes"):
        profile_trust.verify(typed(obj), [public_key()])


def test_what_is_signed_has_one_form_that_does_not_change() -> None:
    """Or signatures of before would hold no more."""
    text = profile_trust.payload(typed(shipped("vx-rail"))).decode()
    found = json.loads(text)
    assert list(found) == ["name", "spec"]
    assert list(found["spec"]) == sorted(found["spec"])
    assert list(found["spec"]["bridge"]["state"]) == sorted(found["spec"]["bridge"]["state"])
    assert text == json.dumps(found, sort_keys=True, separators=(",", ":")) + "\n"


def test_a_signature_of_the_longest_kind_is_read() -> None:
    for length, why in ((minisign.MAX_BYTES, "^(?!.*longer than)"), (minisign.MAX_BYTES + 1, "longer than")):
        with pytest.raises(Untrusted, match=why):
            profile_trust.verify(typed(shipped("vx-rail")), [public_key()], "x" * length)


@pytest.mark.parametrize(
    ("comment", "about"),
    [
        ("profile:vx-rail", r"profile vx-rail version \(none\)"),
        ("note:x", r"profile \(none\) version \(none\)"),
        ("profile:other\tversion:1.0.0", r"profile other version 1\.0\.0"),
    ],
)
def test_a_comment_that_names_something_else_is_said(comment: str, about: str) -> None:
    said = f"its signature is for {about}, not for vx-rail version 1.0.0: sign it with minisign -t"
    with pytest.raises(Untrusted, match=said):
        profile_trust.verify(typed(signed(shipped("vx-rail"), comment)), [public_key()])
