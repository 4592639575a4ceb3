"""Where the observation bridge looks: names, keys and formats of what a DaemonSet leaves in the API."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.kube.hints import NAME_MAX, PRINTABLE, Rule, meta
from nodemanager.kube.objects import Struct

RFC3339: Final = "rfc3339"
UNIX: Final = "unix"
UNIX_MILLI: Final = "unix-milli"
OPAQUE: Final = "opaque"
FORMATS: Final = (RFC3339, UNIX, UNIX_MILLI, OPAQUE)
STATE_MAX: Final = 63
_KEY: Final = "^[-._a-zA-Z0-9]+$"
_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_STATE: Final = "^[A-Za-z][A-Za-z0-9_-]*$"


def _object(text: str) -> object:
    return meta(text, pattern=_NAME, min_length=1, max_length=NAME_MAX, required=True)


def _json_field(text: str) -> object:
    return meta(text, pattern=f"^({_KEY[1:-1]})?$", max_length=63)


class WatchedDaemonSet(Struct):
    """The DaemonSet that is observed."""

    name: Annotated[str, _object("Its name.")] = ""
    labels: Annotated[
        dict[str, Annotated[str, meta("A value.", max_length=63)]],
        meta(
            "Labels by which another one of its kind is recognised: two would both decide, which is told.",
            max_properties=8,
        ),
    ] = {}


class StateSource(Struct):
    """Where it keeps how far it is."""

    config_map: Annotated[str, _object("Name of the ConfigMap.")] = ""
    key: Annotated[
        str, meta("Key in it.", pattern=_KEY, min_length=1, max_length=NAME_MAX, required=True)
    ] = ""
    field: Annotated[
        str, _json_field("Field of the JSON object there that names the state; empty: the text is the name.")
    ] = ""
    direction_field: Annotated[
        str, _json_field("Field that says which way it goes; empty: nothing says so.")
    ] = ""
    rollback: Annotated[
        list[Annotated[str, meta("A word.", pattern=PRINTABLE, min_length=1, max_length=63)]],
        meta("Words of directionField for going back.", max_items=8),
    ] = []
    lock_field: Annotated[
        str, _json_field("Field that names who holds its lock; empty: nothing says so.")
    ] = ""


class HeartbeatSource(Struct):
    """Where its pods leave signs of life."""

    config_map: Annotated[str, _object("Name of the ConfigMap.")] = ""
    key_prefix: Annotated[
        str,
        meta("What keys begin with; the rest is the name of the node.", pattern=f"^({_KEY[1:-1]})?$",
             max_length=63),
    ] = ""  # fmt: skip
    field: Annotated[
        str, _json_field("Field of the JSON object there that has the time; empty: the text is the time.")
    ] = ""
    format: Annotated[
        str,
        meta("How times are written; opaque: any text that changes is a sign of life.", enum=FORMATS,
             required=True),
    ] = ""  # fmt: skip


class HealthSource(Struct):
    """A word of the DaemonSet about a part of the site, in the ConfigMap of its state."""

    key: Annotated[
        str, meta("Key in it.", pattern=_KEY, min_length=1, max_length=NAME_MAX, required=True)
    ] = ""
    healthy: Annotated[
        list[Annotated[str, meta("A word.", pattern=PRINTABLE, min_length=1, max_length=63)]],
        meta("Words that mean that all is well; any other means that it is not.", min_items=1, max_items=8,
             required=True),
    ] = []  # fmt: skip


class Bridge(Struct):
    """What is read of a DaemonSet that does the work today. Nothing of it is ever written."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.states.all(one, self.states.exists_one(other, other == one))",
            "names a state twice",
            ".states",
        ),
        Rule(
            "!has(self.state.rollback) || size(self.state.rollback) == 0 || (has(self.state.directionField)"
            " && self.state.directionField != '')",
            "goes with directionField only",
            ".state.rollback",
        ),
        Rule(
            "(has(self.state.field) && self.state.field != '')"
            " || ((!has(self.state.directionField) || self.state.directionField == '')"
            " && (!has(self.state.lockField) || self.state.lockField == ''))",
            "must be there for directionField and lockField: they are fields of the same JSON object",
            ".state.field",
        ),
        Rule(
            "self.state.configMap != self.heartbeats.configMap"
            " || (has(self.heartbeats.keyPrefix) && self.heartbeats.keyPrefix != ''"
            " && !self.state.key.startsWith(self.heartbeats.keyPrefix))",
            "must tell nodes from state.key of the same ConfigMap: the state would be taken for a node",
            ".heartbeats.keyPrefix",
        ),
    )

    namespace: Annotated[str, _object("Where all of it is.")] = ""
    daemon_set: Annotated[
        WatchedDaemonSet | None, meta("The DaemonSet; absent: it is none that leaves its state there.")
    ] = None
    state: Annotated[StateSource, meta("How far it is.", required=True)] = StateSource()
    states: Annotated[
        list[Annotated[str, meta("A name.", pattern=_STATE, min_length=1, max_length=STATE_MAX)]],
        meta(
            "Names of its states in their order; in the first one it does nothing. A name that is not here"
            " is shown as it is, and never guessed.",
            min_items=2,
            max_items=64,
            required=True,
        ),
    ] = []
    heartbeats: Annotated[HeartbeatSource, meta("Its signs of life.", required=True)] = HeartbeatSource()
    component: Annotated[
        str,
        meta("Who reports its Events, as source.component; empty: they are not read.",
             pattern="^[-A-Za-z0-9_./]*$", max_length=128),
    ] = ""  # fmt: skip
    storage: Annotated[HealthSource | None, meta("What it says of the storage.")] = None
    network: Annotated[HealthSource | None, meta("What it says of the network.")] = None
    virtualisation: Annotated[HealthSource | None, meta("What it says of virtual machines.")] = None
