"""ConfigSetPreview: proposed ConfigSets, for hosts to report what they would do there.

It is no ConfigSet, so no agent applies it. The operator asks hosts by NodeTasks, which
name the proposal by its digest; the answers are in the status of those tasks, and go with the proposal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from nodemanager.api.common.configset import GROUP, VERSION, ConfigSet, ConfigSetSpec
from nodemanager.kube import object_names
from nodemanager.kube.conditions import Condition
from nodemanager.kube.hints import HEX, NAME_MAX, TEXT, Rule, meta
from nodemanager.kube.objects import ObjectMeta, Resource, Struct

MAX_SETS: Final = 256
MAX_HOSTS: Final = 1000
MAX_BYTES: Final = 1024 * 1024
"""The limit of a whole proposal as JSON: what every API server and its store accept."""
ASKING: Final = "Asking"
ASKED: Final = "Asked"
REFUSED: Final = "Refused"
"""Phases; ASKED is a condition type, too: True when all hosts were asked, its reason is the phase."""

HostName = Annotated[
    str, meta("Name of a ManagedNode.", pattern=f"^{object_names.FORM}$", min_length=1, max_length=NAME_MAX)
]
SetName = Annotated[str, meta("Name of a ConfigSet.", min_length=1, max_length=NAME_MAX)]


class ProposedSet(Struct):
    """A ConfigSet as it would be."""

    name: Annotated[str, meta("Its name.", required=True, min_length=1, max_length=NAME_MAX)] = ""
    labels: Annotated[
        dict[str, Annotated[str, meta("The value of a label.", max_length=63)]],
        meta("Its labels, by which it chooses hosts.", max_properties=256),
    ] = {}
    content: Annotated[
        dict[str, Any],
        meta("Its spec, without rollout, revisionHistoryLimit and enforcement."),
    ] = {}


class ConfigSetPreviewSpec(Struct):
    """What is proposed, and who is asked."""

    sets: Annotated[
        list[ProposedSet],
        meta("ConfigSets that would be made or changed; all others stay.", list_map_keys=("name",),
             max_items=MAX_SETS),
    ] = []  # fmt: skip
    removed: Annotated[list[SetName], meta("ConfigSets that would be deleted.", max_items=MAX_SETS)] = []
    hosts: Annotated[
        list[HostName],
        meta("Hosts that are asked.", min_items=1, max_items=MAX_HOSTS, required=True),
    ] = []
    digest: Annotated[
        str,
        meta("SHA-256 of sets and removed as JSON with sorted keys; hosts check it.", pattern=HEX,
             required=True, min_length=64, max_length=64),
    ] = ""  # fmt: skip


class UnaskedHost(Struct):
    """A host that is not asked, and why."""

    name: Annotated[str, meta("Its name.", required=True, min_length=1, max_length=NAME_MAX)] = ""
    reason: Annotated[str, meta("Why, in one word, such as HostSilent.", max_length=63)] = ""
    message: Annotated[str, meta("Why, in more words.", pattern=TEXT, max_length=1024)] = ""


class ConfigSetPreviewStatus(Struct):
    """How far the operator is; what hosts answer is in the status of their NodeTasks."""

    phase: Annotated[
        str,
        meta("Asking: some hosts are still to be asked. Asked: all were. Refused: none is.",
             enum=(ASKING, ASKED, REFUSED)),
    ] = ""  # fmt: skip
    asked: Annotated[int, meta("How many hosts have a NodeTask.", minimum=0)] = 0
    unasked: Annotated[
        list[UnaskedHost],
        meta("Hosts that are not asked.", list_map_keys=("name",), max_items=MAX_HOSTS),
    ] = []
    conditions: Annotated[
        list[Condition], meta("What is true of it.", list_map_keys=("type",), max_items=16)
    ] = []


class ConfigSetPreview(Struct):
    """ConfigSets that somebody proposes, for hosts to tell what these would do."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        ConfigSetPreviewSpec,
        # A rule cannot see content: its digest says what that has to be.
        meta(
            "What is proposed.",
            Rule("self == oldSelf", "cannot be changed: hosts may have answered; ask again"),
            required=True,
        ),
    ] = ConfigSetPreviewSpec()
    status: Annotated[ConfigSetPreviewStatus, meta("How far it is.")] = ConfigSetPreviewStatus()


CONFIG_SET_PREVIEWS: Final = Resource(
    GROUP, VERSION, "ConfigSetPreview", "configsetpreviews", ConfigSetPreview
)


class BadProposal(ValueError):
    """A proposal does not say what its digest says it does, or cannot be read."""


def digest_of(sets: Sequence[ProposedSet], removed: Sequence[str]) -> str:
    """Return the digest of what is proposed."""
    said: Mapping[str, Any] = {
        "sets": [{"name": one.name, "labels": one.labels, "content": one.content} for one in sets],
        "removed": list(removed),
    }
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def is_whole(preview: ConfigSetPreview) -> bool:
    """Tell whether a proposal says what its digest says."""
    spec = preview.spec
    return digest_of(spec.sets, spec.removed) == spec.digest


def sets_of(preview: ConfigSetPreview, digest: str) -> list[ConfigSet]:
    """Return the ConfigSets that are proposed, if they are what the digest says."""
    name, spec = preview.metadata.name, preview.spec
    if spec.digest != digest or not is_whole(preview):
        raise BadProposal(f"cannot use ConfigSetPreview {name}: its digest is not {digest[:12]}; ask again")
    try:
        return [
            ConfigSet(
                metadata=ObjectMeta(
                    name=one.name, namespace=preview.metadata.namespace, labels=dict(one.labels)
                ),
                spec=msgspec.convert(one.content, ConfigSetSpec),
            )
            for one in spec.sets
        ]
    except msgspec.ValidationError as error:
        raise BadProposal(f"cannot use ConfigSetPreview {name}: {error}; update the agent") from None
