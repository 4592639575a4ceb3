"""How many hosts may be away at once, and how a host that is a Kubernetes Node is emptied before."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.kube.hints import DURATION_MAX, POSITIVE_DURATION, Rule, meta
from nodemanager.kube.objects import Struct
from nodemanager.kube.selectors import LabelSelector

WAIT: Final = "wait"
SKIP: Final = "skip"
STOP: Final = "stop"
EVICT: Final = "evict"
DRAIN_TIMEOUT: Final = "30m"
_PERCENT: Final = "^([1-9][0-9]?|100)%$"

OPTIONAL_DURATION: Final = Rule(f"self == '' || ({POSITIVE_DURATION.rule})", POSITIVE_DURATION.message)


def ceiling(description: str) -> object:
    """Return the hints of a number of hosts that may also be a percentage."""
    return meta(
        f"{description} A number, or a percentage of the hosts such as 10%, which is rounded down but is "
        f"at least 1.",
        minimum=1,
        maximum=1000000,
        pattern=_PERCENT,
        max_length=4,
    )


class ZoneBudget(Struct):
    """A ceiling for the hosts that share the value of a label."""

    label: Annotated[
        str,
        meta(
            "A label of ManagedNodes, such as topology.kubernetes.io/zone; hosts without it are one zone, "
            "too.",
            min_length=1,
            max_length=317,
            required=True,
        ),
    ] = ""
    max_unavailable: Annotated[
        int | str | None, ceiling("How many hosts of one zone may be unavailable.")
    ] = None
    max_zones: Annotated[
        int | None,
        meta("In how many zones hosts may be worked on at once; omitted: in all.", minimum=1, maximum=1000),
    ] = None


class Budget(Struct):
    """How many hosts may be unavailable at once, for whatever reason.

    Silent ones count, those that are not Ready, those that somebody cordoned, that upgrade by themselves,
    and those
    that this or another maintenance works on.
    """

    max_unavailable: Annotated[
        int | str | None, ceiling("How many hosts of the series may be unavailable; default 1.")
    ] = None
    per_zone: Annotated[ZoneBudget | None, meta("And how many of one zone.", atomic=True)] = None
    per_group: Annotated[int | str | None, ceiling("And how many of one group of the series.")] = None


class Drain(Struct):
    """How pods are moved away. Budgets of pods (PodDisruptionBudgets) are always respected."""

    enabled: Annotated[bool | None, meta("false: the Node is cordoned, and its pods stay. Default true.")] = (
        None
    )
    pod_selector: Annotated[
        LabelSelector | None, meta("Only pods with these labels are moved; omitted: all.", atomic=True)
    ] = None
    grace_period_seconds: Annotated[
        int | None,
        meta("How long a pod has to end; omitted: as it says itself.", minimum=0, maximum=86400),
    ] = None
    timeout: Annotated[
        str,
        meta(f"How long it may take; default {DRAIN_TIMEOUT}.", OPTIONAL_DURATION, max_length=DURATION_MAX),
    ] = ""
    on_timeout: Annotated[
        str,
        meta(
            "What then: skip (default) gives the host back, and tries it again as backoffLimit allows; "
            "wait goes on "
            "until activeDeadlineSeconds; stop ends the run.",
            enum=(WAIT, SKIP, STOP),
        ),
    ] = ""
    protected_pods: Annotated[
        str,
        meta(
            "What becomes of hosts with a pod that asks for time, by the annotation "
            "maintenance.nodemanager/not-before with a time, karpenter.sh/do-not-disrupt: true, or "
            "cluster-autoscaler.kubernetes.io/safe-to-evict: false. wait (default): others go first, and it "
            "is begun with when no pod asks any more. evict: these annotations do not count.",
            enum=(WAIT, EVICT),
        ),
    ] = ""


class Disruption(Struct):
    """What happens to the Kubernetes Node of a host, if it is one, while it is worked on."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.cordon) || self.cordon || !has(self.drain) || (has(self.drain.enabled) && "
            "!self.drain.enabled)",
            "must not be false with drain: pods would come back at once",
            ".cordon",
        ),
    )

    cordon: Annotated[
        bool | None,
        meta(
            "Whether the Node takes no new pods meanwhile, and is drained. Omitted: where a step may "
            "reboot the host, "
            "or where drain is given."
        ),
    ] = None
    drain: Annotated[Drain | None, meta("How its pods are moved away.", atomic=True)] = None

    def cordons(self, *, may_reboot: bool) -> bool:
        """Tell whether the Node of a host is cordoned for a visit."""
        return (may_reboot or self.drain is not None) if self.cordon is None else self.cordon

    def drains(self, *, may_reboot: bool) -> bool:
        """Tell whether the Node of a host is drained for a visit."""
        enabled = self.drain is None or self.drain.enabled is not False
        return enabled and self.cordons(may_reboot=may_reboot)
