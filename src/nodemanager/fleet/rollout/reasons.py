"""Why a rollout waits or has ended so: one code for each reason, and what ends it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class RolloutReason(StrEnum):
    """A reason code, in `status.rollout.reason`."""

    ALL_AT_ONCE = "AllAtOnce"
    ROLLED_OUT = "RolledOut"
    NO_HOSTS = "NoHosts"
    NO_CHANGE = "NoChange"
    STARTED = "Started"
    NO_CANARY = "NoCanary"
    HOSTS_SILENT = "HostsSilent"
    HOSTS_PUT_OFF = "HostsPutOff"
    HOSTS_UNPROVEN = "HostsUnproven"
    SOAKING = "Soaking"
    PAUSED = "Paused"
    STOPPED = "Stopped"
    HOSTS_RETURNING = "HostsReturning"
    HOSTS_NOT_RETURNED = "HostsNotReturned"
    REVERTED = "Reverted"
    HOSTS_FAILED = "HostsFailed"


REMEDIES: Final[dict[RolloutReason, str]] = {
    RolloutReason.ALL_AT_ONCE: "Nothing to do: every host takes a change as it comes.",
    RolloutReason.ROLLED_OUT: "Nothing to do: all hosts of the set may have the newest revision.",
    RolloutReason.NO_HOSTS: "Nothing to do: the set is for no host that was there when the change came.",
    RolloutReason.NO_CHANGE: "Nothing to do: the set says what its hosts have.",
    RolloutReason.STARTED: "Nothing to do: the first stage begins in a moment.",
    RolloutReason.NO_CANARY: (
        "Correct or remove spec.rollout.canary, or label a host of the set: it chooses none of them."
    ),
    RolloutReason.HOSTS_SILENT: (
        "Find out why the hosts of the stage are silent, held or gone: there is nobody to prove the change."
    ),
    RolloutReason.HOSTS_PUT_OFF: (
        "Nothing to do: hosts of the stage wait for the window of the set, or for a lock of another host."
    ),
    RolloutReason.HOSTS_UNPROVEN: (
        "Nothing to do; if it lasts, `nodemanager describe configset NAME` says which hosts are not done."
    ),
    RolloutReason.SOAKING: "Nothing to do: hosts have to stay healthy for as long as spec.rollout.soak says.",
    RolloutReason.PAUSED: "Run `nodemanager rollout resume NAME`, or set spec.rollout.paused to false.",
    RolloutReason.STOPPED: (
        "Look at the hosts that failed. Then change the set, or run `nodemanager rollout restart NAME`."
    ),
    RolloutReason.HOSTS_RETURNING: "Nothing to do: hosts that took the change return to what they had.",
    RolloutReason.HOSTS_NOT_RETURNED: (
        "Look at the hosts that the message names: they wait for the window of the set, cannot read the "
        "stable revision, or their pass breaks off. Hold or remove those that will not return."
    ),
    RolloutReason.REVERTED: (
        "Nothing to do: the set says again what is stable, and hosts that took the change return to it."
    ),
    RolloutReason.HOSTS_FAILED: (
        "Look at the hosts that failed. Then change the set, or run `nodemanager rollout restart NAME`."
    ),
}
