"""What a revision says: only what its digest says, whatever version made it."""

from __future__ import annotations

import msgspec
import pytest

from nodemanager.api.common import configsetrevision
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import BadRevision, ConfigSetRevision
from nodemanager.controllers.rollouts import revisions
from support.staged import LABELS, config_set, revision


def saying(one: ConfigSet, content: str) -> ConfigSet:
    spec = msgspec.convert({"files": [{"path": "/motd", "content": content}]}, type(one.spec))
    return msgspec.structs.replace(one, spec=spec)


def with_content(one: ConfigSetRevision, **content: object) -> ConfigSetRevision:
    """The same revision with another content, and still its digest."""
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, content=content))


def test_a_revision_that_was_tampered_with_is_nothing_that_a_set_says() -> None:
    """Otherwise its old digest would be taken for the new content, and that never be rolled out."""
    one = revision(1, "one")
    forged = with_content(one, **revision(2, "two").spec.content)
    assert configsetrevision.says_the_same(one, saying(config_set(None), "one"))
    for content in ("one", "two"):
        assert not configsetrevision.says_the_same(forged, saying(config_set(None), content))
    with pytest.raises(BadRevision, match="its content has another digest"):
        configsetrevision.reference(forged)


def test_whom_a_revision_of_a_newer_version_is_for_can_be_told() -> None:
    content = {"files": "of another shape", "nodeSelector": {"matchLabels": {"a": "b"}}}
    one = with_content(revision(1, "one"), **content)
    one = msgspec.structs.replace(
        one, spec=msgspec.structs.replace(one.spec, digest=configsetrevision.digest_of(LABELS, content))
    )
    selector = configsetrevision.reference(one).node_selector
    assert selector is not None
    assert selector.match_labels == {"a": "b"}
    with pytest.raises(BadRevision, match=r"cannot use ConfigSetRevision web-1: .*update nodemanager"):
        configsetrevision.spec_of(one, one.spec.digest)
    odd = {"nodeSelector": 7}
    one = msgspec.structs.replace(
        one,
        spec=msgspec.structs.replace(one.spec, content=odd, digest=configsetrevision.digest_of(LABELS, odd)),
    )
    with pytest.raises(BadRevision, match="nodeSelector"):
        configsetrevision.reference(one)


def test_what_an_older_operator_did_not_know_makes_a_revision_once_one_knows_it() -> None:
    one = revision(1, "one")
    seen = saying(config_set(one, current="web-1"), "one")
    assert revisions.current(seen, [one]) is one
    # The same generation, of which now more is known than when it was compared.
    assert revisions.current(saying(seen, "two"), [one]) is None


def decoded(**spec: object) -> ConfigSet:
    """As it comes from an API."""
    body = {"metadata": {"labels": LABELS}, "spec": spec}
    return msgspec.json.decode(msgspec.json.encode(body), type=ConfigSet)


def revision_of(**content: object) -> ConfigSetRevision:
    one = revision(1, "one")
    digest = configsetrevision.digest_of(LABELS, content)
    spec = msgspec.structs.replace(one.spec, content=content, digest=digest)
    return msgspec.structs.replace(one, spec=spec)


def test_defaults_that_an_api_fills_in_are_no_change_of_a_set() -> None:
    """A newer definition of the kind may have more of them, and no host shall hear of that."""
    plain = {"files": [{"path": "/motd"}]}
    full = {"drift": "repair", "priority": 0, "files": [{"path": "/motd", "ensure": "file"}]}
    for before in (plain, full):
        for now in (plain, full):
            assert configsetrevision.says_the_same(revision_of(**before), decoded(**now))
    assert not configsetrevision.says_the_same(revision_of(**full), decoded(**full | {"drift": "observe"}))


@pytest.mark.parametrize("now", [True, 1.0, "1"])
def test_another_type_of_value_is_a_change_of_data(now: object) -> None:
    """Templates write 1, 1.0 and true."""
    one = revision_of(data={"a": [{"b": 1}]})
    assert configsetrevision.says_the_same(one, decoded(data={"a": [{"b": 1}]}))
    assert not configsetrevision.says_the_same(one, decoded(data={"a": [{"b": now}]}))
