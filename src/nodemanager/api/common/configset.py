"""ConfigSet: packages, files, services and executions that a group of hosts shall have."""

from __future__ import annotations

from typing import Annotated, Final

from nodemanager.api.common import host_data
from nodemanager.api.common.declarations import (
    DRIFT_POLICIES,
    DRIFT_WORDS,
    REPAIR,
    Execution,
    File,
    Notify,
    Package,
    Service,
)
from nodemanager.api.common.enforcement import Enforcement
from nodemanager.api.common.rollout import HISTORY_LIMIT, Rollout, RolloutStatus
from nodemanager.kube.conditions import Condition
from nodemanager.kube.hints import DURATION, DURATION_MAX, meta
from nodemanager.kube.objects import HasMetadata, ObjectMeta, Resource, Struct
from nodemanager.kube.selectors import LabelSelector

PRUNE_TIMEOUT: Final = "10m"
FINALIZER: Final = "common.nodemanager/prune"
"""Keeps a set that prunes until its hosts have taken back what they have because of it."""


class Templating(Struct):
    """How templates are rendered."""

    missing_keys: Annotated[
        str,
        meta(
            "What a template gets for a key that is not there, such as a label or a key of a Secret: error "
            "(default) fails the file and names the key; empty is an empty text.",
            enum=("error", "empty"),
            default="error",
        ),
    ] = "error"


class ConfigSetSpec(host_data.HasData):
    """What the hosts shall have; applied in the order packages, files, services, executions."""

    node_selector: Annotated[
        LabelSelector | None,
        meta(
            "Chooses hosts by the labels of their ManagedNode, in addition to the labels of this ConfigSet: "
            "a host that has all labels of the ConfigSet, or that this selector matches, gets the set. {} "
            "chooses every host.",
            atomic=True,
        ),
    ] = None
    priority: Annotated[
        int,
        meta(
            "Who wins when several ConfigSets declare one resource differently: the highest priority; equal "
            "ones are a conflict, and the resource is left alone. Default 0.",
            format="int32",
            minimum=-(2**31),
            maximum=2**31 - 1,
            default=0,
        ),
    ] = 0
    drift: Annotated[
        str,
        meta(
            "What to do when somebody else changes a resource of this set after it held: repair (default) "
            f"{DRIFT_WORDS} A resource may say otherwise.",
            enum=DRIFT_POLICIES,
            default=REPAIR,
        ),
    ] = REPAIR
    enforcement: Annotated[
        Enforcement | None,
        meta(
            "When hosts make this set so; omitted: at all times. At other times they only look, and report "
            "what differs. Written by the operator for NodeMaintenances of type realtime."
        ),
    ] = None
    rollout: Annotated[
        Rollout | None,
        meta(
            "How a change of this set reaches its hosts; omitted: as the RolloutPolicy named default of the "
            "namespace says, and without one, all of them at once."
        ),
    ] = None
    revision_history_limit: Annotated[
        int,
        meta(
            "How many old ConfigSetRevisions are kept, besides those that some host has or may get. Default "
            f"{HISTORY_LIMIT}.",
            minimum=0,
            maximum=100,
            format="int32",
        ),
    ] = HISTORY_LIMIT
    prune: Annotated[
        bool,
        meta(
            "Whether hosts take back what they have because of this set once it declares that no longer, is "
            "not for them any more, or is deleted: files get what was there before or go, services are "
            "stopped and disabled again. What somebody changed since, or another set declares, stays. "
            "Default false: all of it is left behind; see nodemanager orphans."
        ),
    ] = False
    prune_packages: Annotated[
        bool,
        meta(
            "With prune: whether hosts also remove packages that they installed for this set and that "
            "nothing else needs. Default false."
        ),
    ] = False
    prune_timeout: Annotated[
        str,
        meta(
            "With prune: how long the deletion of this set waits for its hosts; 0 = not at all, and it has "
            "no finalizer. Then it is gone, and hosts that were silent take back theirs when they return. "
            f"Default {PRUNE_TIMEOUT}.",
            DURATION,
            max_length=DURATION_MAX,
        ),
    ] = PRUNE_TIMEOUT
    templating: Annotated[Templating | None, meta("How the templates of this set are rendered.")] = None
    data: host_data.OfSet = {}
    data_from: host_data.Layers = []
    packages: Annotated[
        list[Package], meta("Packages to install or remove.", list_map_keys=("name",), max_items=8192)
    ] = []
    files: Annotated[
        list[File], meta("Files, directories and links.", list_map_keys=("path",), max_items=4096)
    ] = []
    services: Annotated[
        list[Service],
        # No map by name and user: a key has to be given, or have a default, which no item of a list may.
        meta("Services to start, stop, enable and restart.", max_items=2048),
    ] = []
    executions: Annotated[
        list[Execution],
        meta("Programs to run when something changed or is missing, in this order.", max_items=2048),
    ] = []
    notifies: Annotated[
        list[Notify],
        meta("Objects to annotate once this set has been applied.", max_items=256),
    ] = []

    @property
    def lax(self) -> bool:
        """Whether a key that is missing is an empty text to its templates."""
        return self.templating is not None and self.templating.missing_keys == "empty"


SETTINGS: Final = frozenset((
    "node_selector", "priority", "drift", "enforcement", "rollout", "revision_history_limit", "prune",
    "prune_packages", "prune_timeout", "templating", "notifies", "data", "data_from",
))  # fmt: skip
"""Fields of the spec that say which hosts it is for and how; every other one is a list of host resources."""


class NodeCounts(Struct, omit_defaults=False):
    """How many hosts this ConfigSet reached, and how it went there."""

    matched: Annotated[int, meta("Hosts it is meant for.", format="int32")] = 0
    applied: Annotated[int, meta("Hosts where all of it holds.", format="int32")] = 0
    failed: Annotated[int, meta("Hosts where a part of it could not be applied.", format="int32")] = 0
    unknown: Annotated[
        int, meta("Hosts that are silent, so that nobody knows; they count nowhere else.", format="int32")
    ] = 0
    held: Annotated[
        int,
        meta(
            "Hosts that are held, and where something waits for the end of that; they count nowhere else.",
            format="int32",
        ),
    ] = 0
    conflicted: Annotated[
        int, meta("Hosts where another ConfigSet of equal priority says otherwise.", format="int32")
    ] = 0


class ConfigSetStatus(Struct):
    """What became of the set; written by the operator."""

    observed_generation: Annotated[int, meta("The metadata.generation this status is about.", minimum=0)] = 0
    chosen_by: Annotated[
        str,
        meta("Which hosts it is meant for, in words: by its labels OR by its nodeSelector.", max_length=1024),
    ] = ""
    nodes: Annotated[NodeCounts | None, meta("Hosts, counted by result.")] = None
    rollout: Annotated[
        RolloutStatus | None, meta("How far the newest change is, and which revision hosts shall have.")
    ] = None
    conditions: Annotated[
        list[Condition],
        meta("Ready, Conflicted, and Invalid.", list_map_keys=("type",), max_items=64),
    ] = []


class ConfigSet(Struct):
    """Packages, files, services and executions for all hosts that its labels or its nodeSelector choose."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ConfigSetSpec, meta("What the hosts shall have.")] = ConfigSetSpec()
    status: Annotated[ConfigSetStatus, meta("What became of it, on all hosts together.")] = ConfigSetStatus()


GROUP: Final = "common.nodemanager"
VERSION: Final = "v1"


def is_leaving(config_set: ConfigSet) -> bool:
    """Tell whether a set is being deleted, and hosts are to take back what they have because of it.

    This lasts until the set is gone, also while only a foreign finalizer keeps it.
    """
    meta = config_set.metadata
    return bool(meta.deletion_timestamp) and (FINALIZER in meta.finalizers or config_set.spec.prune)


def keeping(config_set: HasMetadata, *, has: bool) -> dict[str, object]:
    """Return the metadata that puts our finalizer on a set, or takes it off; those of others stay."""
    meta = config_set.metadata
    others = [one for one in meta.finalizers if one != FINALIZER]
    return {
        "resourceVersion": meta.resource_version,  # or we would undo what others added meanwhile
        "finalizers": [*others, FINALIZER] if has else others,
    }


CONFIG_SETS: Final = Resource(GROUP, VERSION, "ConfigSet", "configsets", ConfigSet)


class SetMetadata(Struct):
    """A ConfigSet of which only the metadata is read, whatever else a newer version has written there."""

    metadata: ObjectMeta = ObjectMeta()


SET_METADATA: Final = Resource(GROUP, VERSION, "ConfigSet", "configsets", SetMetadata)
