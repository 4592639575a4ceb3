"""How a change of a ConfigSet reaches its hosts: what people say of it, and how far it is."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.api.common.rollout_groups import GROUP_MAX, GroupRef
from nodemanager.api.maintenance.health_gates import HealthGate
from nodemanager.api.maintenance.operations import LocalReference
from nodemanager.kube.hints import (
    ASCII,
    DURATION,
    DURATION_MAX,
    HEX,
    NAME_MAX,
    POSITIVE_DURATION,
    PRINTABLE,
    TEXT,
    Rule,
    meta,
)
from nodemanager.kube.objects import Struct
from nodemanager.kube.selectors import LabelSelector

ALL_AT_ONCE: Final = "AllAtOnce"
STAGED: Final = "Staged"
UNDO: Final = "undo"
PAUSE: Final = "pause"
FAIL: Final = "fail"
IGNORE: Final = "ignore"
STAGES: Final = ("1", "5%", "25%", "100%")
SOAK: Final = "5m"
PROGRESS_DEADLINE: Final = "10m"
STOP_AFTER: Final = 1
HISTORY_LIMIT: Final = 10
MAX_TURNS: Final = 24
SCALE: Final = 1_000_000_000
"""Where positions of hosts end: a threshold of so much is all of them."""

STABLE: Final = "Stable"
WAITING: Final = "Waiting"
PROGRESSING: Final = "Progressing"
SOAKING: Final = "Soaking"
PAUSED: Final = "Paused"
UNDOING: Final = "Undoing"
UNDONE: Final = "Undone"
PHASES: Final = (STABLE, WAITING, PROGRESSING, SOAKING, PAUSED, UNDOING, UNDONE)

_GROUP: Final = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"
_COUNT: Final = "([1-9][0-9]{0,6}|[1-9][0-9]?%|100%)"


class Canary(Struct):
    """Hosts that get every change first."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.selector.matchLabels) && self.selector.matchLabels.size() > 0) ||"
            " (has(self.selector.matchExpressions) && self.selector.matchExpressions.size() > 0)",
            "must say which hosts go first: one that is empty would choose all of them",
            ".selector",
        ),
    )

    selector: Annotated[
        LabelSelector,
        meta("Chooses them by the labels of their ManagedNode, among the hosts of the set.", required=True),
    ] = LabelSelector()


class RolloutApproval(Struct):
    """Whether somebody has to say yes before any host takes a change."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.differentUser) || !self.differentUser || (has(self.required) && self.required)",
            "goes with required: true only",
            ".differentUser",
        ),
    )

    required: Annotated[
        bool,
        meta("Hosts take a change only once a MaintenanceApproval names its hash. Returning needs none."),
    ] = False
    different_user: Annotated[
        bool, meta("And it must be of somebody else than requester, who changed the set last.")
    ] = False
    requester: Annotated[
        str,
        meta(
            "With differentUser: name of the user who writes this. Who changes anything but "
            "rollout.paused writes another.",
            pattern=PRINTABLE,
            max_length=256,
        ),
    ] = ""


class Rollout(Struct):
    """How a change of the set reaches its hosts."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.strategy == 'Staged' || !(has(self.approval) || has(self.health) || has(self.windowRef))",
            "must be Staged with approval, health or windowRef: AllAtOnce waits for nothing",
            ".strategy",
        ),
        Rule(
            "self.strategy == 'Staged' || !has(self.group)",
            "must be Staged with group: with AllAtOnce hosts take each ConfigSet when they hear of it",
            ".strategy",
        ),
    )

    strategy: Annotated[
        str,
        meta(
            "AllAtOnce: every host takes a change as soon as it hears of it. Staged: hosts take it in "
            "stages, each after those before it have proven it.",
            enum=(ALL_AT_ONCE, STAGED),
            required=True,
        ),
    ] = ""
    canary: Annotated[
        Canary | None, meta("Hosts that go first, all of them together, as a stage of their own.")
    ] = None
    stages: Annotated[
        list[Annotated[str, meta("How many hosts.", pattern=f"^{_COUNT}$", max_length=8)]],
        meta(
            "How many hosts have a change after each stage, canaries included: numbers, or percentages of "
            'the hosts of the set, rounded down but at least 1. Default "1", "5%", "25%", "100%"; the last '
            "one is always all of them.",
            max_items=32,
        ),
    ] = []
    soak: Annotated[
        str,
        meta(
            f"How long all hosts of a stage have to stay healthy before the next one begins; default {SOAK}.",
            DURATION,
            max_length=DURATION_MAX,
        ),
    ] = SOAK
    progress_deadline: Annotated[
        str,
        meta(
            "A host that has not become healthy with the change for so long has failed; it begins with the "
            "turn of the host, and anew when it is heard again, is not healthy any more, or when nobody "
            "could hear of hosts. Default "
            f"{PROGRESS_DEADLINE}.",
            POSITIVE_DURATION,
            max_length=DURATION_MAX,
        ),
    ] = PROGRESS_DEADLINE
    max_unavailable: Annotated[
        int | str | None,
        meta(
            "How many hosts may be on their way to the change at once; a stage of more is done in parts. "
            "Hosts of the set that a maintenance or an upgrade works on count, too. Hosts that failed are "
            "not on their way any more. A number, or a percentage of the hosts such as "
            "10%, which is rounded down but is at least 1. Omitted: all of a stage. Canaries go together.",
            minimum=1,
            maximum=1000000,
            pattern="^([1-9][0-9]?|100)%$",
            max_length=4,
        ),
    ] = None
    stop_after: Annotated[
        int,
        meta(
            f"How many hosts have to fail for the rollout to stop; default {STOP_AFTER}. It also stops when "
            "all hosts that have the change fail.",
            minimum=1,
            maximum=1000000,
        ),
    ] = STOP_AFTER
    on_failure: Annotated[
        str,
        meta(
            "What happens when it stops: undo (default) has all hosts that took the change return to what "
            "they had; pause leaves everything as it is.",
            enum=(UNDO, PAUSE),
        ),
    ] = UNDO
    on_silence: Annotated[
        str,
        meta(
            "What a host is that has its turn and falls silent: fail (default) waits for it, and it has "
            "failed when it was silent for progressDeadline; ignore neither waits for it nor counts it, for "
            "hosts that come and go. One that was silent before its turn is ignored anyway.",
            enum=(FAIL, IGNORE),
        ),
    ] = FAIL
    health: Annotated[
        list[HealthGate],
        meta(
            "What must hold before further hosts take the change, and while those soak that have it. Before, "
            "one waits for it; a stage whose hosts are healthy waits for its timeout; in a soak, one that "
            "does not hold stops the rollout, as onFailure says. $(host), ready and configSetsHold are "
            "about hosts that have the change: the last 100 that took it.",
            max_items=16,
        ),
    ] = []
    window_ref: Annotated[
        LocalReference | None,
        meta(
            "The MaintenanceWindow that must be open, with its minimumTimeLeft, for further hosts to take "
            "the change. Hosts that have it are watched, and return if it fails, at any time.",
            atomic=True,
        ),
    ] = None
    approval: Annotated[
        RolloutApproval | None, meta("Whether somebody has to say yes. See nodemanager rollout approve.")
    ] = None
    group: Annotated[
        str,
        meta(
            "ConfigSets of the namespace with the same group move together: a host takes the changes of all "
            "of them at once, or of none. They have to say the same in rollout and in enforcement.",
            pattern=_GROUP,
            max_length=GROUP_MAX,
        ),
    ] = ""
    paused: Annotated[
        bool, meta("No further host takes the change while this is true. See nodemanager rollout pause.")
    ] = False


class RevisionRef(Struct):
    """One revision, and whom it is for."""

    name: Annotated[str, meta("Name of the ConfigSetRevision.", max_length=NAME_MAX)] = ""
    revision: Annotated[int, meta("Its number.", minimum=0)] = 0
    digest: Annotated[str, meta("SHA-256 of what it says.", pattern=HEX, max_length=64)] = ""
    labels: Annotated[
        dict[str, Annotated[str, meta("The value of a label.", max_length=63)]],
        meta("The labels of the ConfigSet, by which it chooses hosts.", max_properties=256),
    ] = {}
    node_selector: Annotated[LabelSelector | None, meta("Its nodeSelector.", atomic=True)] = None


class PolicyRef(Struct):
    """A RolloutPolicy as it was when somebody looked."""

    name: Annotated[str, meta("Its name.", max_length=NAME_MAX)] = ""
    uid: Annotated[str, meta("Its metadata.uid.", max_length=64)] = ""
    generation: Annotated[int, meta("Its metadata.generation.", minimum=0)] = 0


class RolloutCounts(Struct, omit_defaults=False):
    """Hosts, counted by how far they are."""

    hosts: Annotated[int, meta("Hosts that take part.", format="int32")] = 0
    moved: Annotated[int, meta("Hosts whose turn it is, or was.", format="int32")] = 0
    healthy: Annotated[int, meta("Those of them that are healthy with the change.", format="int32")] = 0
    failed: Annotated[int, meta("Those of them that failed.", format="int32")] = 0
    silent: Annotated[
        int,
        meta(
            "Those of them that are silent or held, or whose agent does not know about stages: they count "
            "for nothing else.",
            format="int32",
        ),
    ] = 0


class ThresholdTurn(Struct):
    """Since when a threshold is so."""

    threshold: Annotated[int, meta("Hosts whose position is below have their turn.", minimum=0)] = 0
    at: Annotated[str | None, meta("Since when.", format="date-time")] = None


class RolloutStatus(Struct):
    """How far the newest change is. Hosts read it to know which revision is theirs; its size is constant."""

    observed_generation: Annotated[int, meta("The metadata.generation this is about.", minimum=0)] = 0
    phase: Annotated[str, meta("Where it is.", enum=PHASES)] = ""
    reason: Annotated[str, meta("Why, as one word.", pattern=ASCII, max_length=64)] = ""
    message: Annotated[str, meta("Why, for people.", pattern=TEXT, max_length=1024)] = ""
    since: Annotated[str | None, meta("Since when it is in this phase.", format="date-time")] = None
    started_at: Annotated[
        str | None,
        meta("When the rollout of next began; hosts made later take stable.", format="date-time"),
    ] = None
    policy: Annotated[
        PolicyRef | None,
        meta(
            "The RolloutPolicy that it follows: spec.rollout is absent, and hosts wait for their turn.",
            atomic=True,
        ),
    ] = None
    group: Annotated[
        GroupRef | None,
        meta("The sets that it moves together with: next is for a host only with theirs.", atomic=True),
    ] = None
    current: Annotated[str, meta("Name of the revision that spec is.", max_length=NAME_MAX)] = ""
    stable: Annotated[
        RevisionRef | None, meta("What hosts have whose turn it is not; absent: nothing of this set.")
    ] = None
    next: Annotated[RevisionRef | None, meta("What is being rolled out; absent: nothing is.")] = None
    refused: Annotated[
        RevisionRef | None, meta("What was undone: it is not tried again before somebody says so.")
    ] = None
    canary: Annotated[
        LabelSelector | None,
        meta("Hosts that it chooses take next; as spec.rollout.canary was when it began.", atomic=True),
    ] = None
    threshold: Annotated[
        int,
        meta(
            f"Hosts whose position is below take next. From 0, none, to {SCALE}, all.",
            minimum=0,
            maximum=SCALE,
        ),
    ] = 0
    turns: Annotated[
        list[ThresholdTurn],
        meta(
            "When it became so; several steps may be told as one, the oldest ones first.", max_items=MAX_TURNS
        ),
    ] = []
    stage: Annotated[
        int,
        meta(
            "Which stage, from 1. 0 = none has begun; or spec.rollout.stages says now that the first one has "
            "more hosts than have the change, and these prove it before.",
            minimum=0,
            format="int32",
        ),
    ] = 0
    restarted: Annotated[
        str, meta("The last value of the annotation common.nodemanager/restart seen.", max_length=64)
    ] = ""
    counts: Annotated[RolloutCounts | None, meta("Hosts, counted.")] = None


def is_staged(rollout: Rollout | None) -> bool:
    """Tell whether hosts wait for their turn."""
    return rollout is not None and rollout.strategy == STAGED
