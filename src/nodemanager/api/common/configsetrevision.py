"""ConfigSetRevision: what a ConfigSet said at one time. The operator makes it, and nobody changes it."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Final

import msgspec

from nodemanager.api.audit.actors import (
    ADMISSION,
    CHANGE,
    CUT,
    FIELD_MANAGER,
    MAX_CHANGE,
    MAX_CLAIM,
    MAX_USER,
)
from nodemanager.api.common.configset import GROUP, VERSION, ConfigSet, ConfigSetSpec
from nodemanager.api.common.rollout import HISTORY_LIMIT, RevisionRef
from nodemanager.kube.hints import HEX, NAME_MAX, PRINTABLE, Rule, meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct
from nodemanager.kube.selectors import LabelSelector

RESTART: Final = f"{GROUP}/restart"
"""Annotation of a ConfigSet: another value than before has a rollout that stopped begin again."""


class ChangedBy(Struct):
    """Who wrote a spec, as far as the API knows."""

    name: Annotated[
        str,
        meta(
            "Who it was: the user whom the API saw, else the field manager; known tells which of the two.",
            pattern=PRINTABLE,
            max_length=MAX_USER + len(CUT),
        ),
    ] = ""
    known: Annotated[
        str,
        meta(
            f"How the name is known: {ADMISSION} is the user whom the API saw, {FIELD_MANAGER} is what a"
            " program says of itself. Omitted: by an operator that did not know users.",
            enum=(ADMISSION, FIELD_MANAGER),
        ),
    ] = ""
    claimed: Annotated[
        str,
        meta(
            "The author whom that user names, for GitOps. A claim.", pattern=PRINTABLE, max_length=MAX_CLAIM
        ),
    ] = ""
    manager: Annotated[
        str, meta("The field manager, such as kubectl.", pattern=PRINTABLE, max_length=128)
    ] = ""
    time: Annotated[str | None, meta("When it was written.", format="date-time", max_length=64)] = None

    def __str__(self) -> str:
        """Return who it was, and how that is known unless the API saw it."""
        who = self.name or self.manager
        return f"{who} ({FIELD_MANAGER})" if who and self.known != ADMISSION else who


class ConfigSetRevisionSpec(Struct):
    """What a ConfigSet said."""

    config_set: Annotated[str, meta("Name of the ConfigSet.", required=True, max_length=NAME_MAX)] = ""
    revision: Annotated[int, meta("Counts the revisions of the set, from 1.", required=True, minimum=1)] = 0
    generation: Annotated[int, meta("The metadata.generation that said so first.", minimum=0)] = 0
    digest: Annotated[
        str,
        meta(
            "SHA-256 of labels and content as JSON with sorted keys; hosts check it.",
            required=True,
            pattern=HEX,
            min_length=64,
            max_length=64,
        ),
    ] = ""
    labels: Annotated[
        dict[str, Annotated[str, meta("The value of a label.", max_length=63)]],
        meta("The labels of the ConfigSet, by which it chooses hosts.", max_properties=256),
    ] = {}
    content: Annotated[
        dict[str, Any],
        meta("The spec of the ConfigSet, without rollout, revisionHistoryLimit and enforcement."),
    ] = {}
    changed_by: Annotated[ChangedBy | None, meta("Who wrote it.", atomic=True)] = None
    change: Annotated[
        str,
        meta(
            f"What the annotation {CHANGE} of the set said, such as the URL of a commit. A claim.",
            pattern=PRINTABLE,
            max_length=MAX_CHANGE,
        ),
    ] = ""
    requester: Annotated[
        str,
        meta(
            "Who asked for it: spec.rollout.approval.requester of the set, with differentUser.",
            pattern=PRINTABLE,
            max_length=256,
        ),
    ] = ""


class ConfigSetRevision(Struct):
    """What a ConfigSet said at one time; made by the operator, and never changed."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        ConfigSetRevisionSpec,
        # A rule does not see all of content: a policy does, and hosts check the digest.
        meta(
            "What the set said.",
            Rule("self == oldSelf", "cannot be changed: it is what was said at one time"),
            required=True,
        ),
    ] = ConfigSetRevisionSpec()


CONFIG_SET_REVISIONS: Final = Resource(
    GROUP, VERSION, "ConfigSetRevision", "configsetrevisions", ConfigSetRevision
)


class BadRevision(ValueError):
    """A revision does not say what its digest says it does, or cannot be read."""


def name_of(config_set: ObjectMeta, number: int) -> str:
    """Return the name of a revision: the same for everybody, so that none is made twice."""
    tail = f"-{hashlib.sha256(config_set.uid.encode()).hexdigest()[:5]}-{number}"
    return config_set.name[: NAME_MAX - len(tail)].rstrip("-.") + tail


def content_of(spec: ConfigSetSpec) -> dict[str, Any]:
    """Return the part of a spec that its revision contains; how and when it is brought about is not in it.

    Defaults may be written out in it, by a person or an API: equal specs may have several contents, and
    digests. To compare, there is `same_content`.
    """
    found: dict[str, Any] = msgspec.to_builtins(_content(spec))
    return found


def same_content(one: ConfigSetSpec, other: ConfigSetSpec) -> bool:
    """Tell whether two specs say the same, whether or not defaults are written out."""
    return _content(one) == _content(other)


def _content(spec: ConfigSetSpec) -> ConfigSetSpec:
    return msgspec.structs.replace(spec, rollout=None, enforcement=None, revision_history_limit=HISTORY_LIMIT)


def digest_of(labels: dict[str, str], content: dict[str, Any]) -> str:
    """Return the digest of what a revision says."""
    text = json.dumps({"content": content, "labels": labels}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def says_the_same(revision: ConfigSetRevision, config_set: ConfigSet) -> bool:
    """Tell whether a set still has the content of a revision, whichever version wrote that.

    A revision that does not fit its digest never counts, because hosts would refuse it.
    """
    if revision.spec.labels != config_set.metadata.labels:
        return False
    try:
        return same_content(spec_of(revision, revision.spec.digest), config_set.spec)
    except BadRevision:
        return False


def reference(revision: ConfigSetRevision) -> RevisionRef:
    """Return what hosts have to know of a revision to tell whether it is for them; raises BadRevision.

    Of its content only that is read: a newer version may have made it.
    """
    spec = revision.spec
    _check(revision, spec.digest)
    try:
        selector = msgspec.convert(spec.content.get("nodeSelector"), LabelSelector | None)
    except msgspec.ValidationError as error:
        raise _unreadable(revision, f"nodeSelector: {error}") from None
    return RevisionRef(
        name=revision.metadata.name,
        revision=spec.revision,
        digest=spec.digest,
        labels=spec.labels,
        node_selector=selector,
    )


def spec_of(revision: ConfigSetRevision, digest: str) -> ConfigSetSpec:
    """Return what a revision says, if it is what the digest says."""
    _check(revision, digest)
    try:
        return msgspec.convert(revision.spec.content, ConfigSetSpec)
    except msgspec.ValidationError as error:
        raise _unreadable(revision, str(error)) from None


def _check(revision: ConfigSetRevision, digest: str) -> None:
    spec = revision.spec
    if spec.digest != digest or digest_of(spec.labels, spec.content) != digest:
        raise BadRevision(
            f"cannot use ConfigSetRevision {revision.metadata.name}: its content has another digest than"
            f" {digest[:12]}; have the operator make a new one, by another change of the ConfigSet"
        )


def _unreadable(revision: ConfigSetRevision, why: str) -> BadRevision:
    return BadRevision(
        f"cannot use ConfigSetRevision {revision.metadata.name}: {why}; update nodemanager here"
    )
