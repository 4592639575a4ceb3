"""Which pods have to leave before their Node goes down.

Pods of DaemonSets and static pods stay, which would come back at once; pods that have finished; and pods
without a controller, which nobody would start again elsewhere. All others leave, also those with an emptyDir.
"""

from __future__ import annotations

from typing import Final

from nodemanager.kube.objects import Untyped

MIRROR: Final = "kubernetes.io/config.mirror"
_FINISHED: Final = ("Succeeded", "Failed")


def has_to_leave(pod: Untyped) -> bool:
    """Tell whether a pod has to be gone before its host goes down."""
    annotations = pod["metadata"].get("annotations") or {}
    return not (MIRROR in annotations or is_finished(pod) or is_unmanaged(pod) or _is_of_daemon_set(pod))


def stays_unmanaged(pod: Untyped) -> bool:
    """Tell whether a pod stays that no controller would start elsewhere, and that restarts with its host."""
    return is_unmanaged(pod) and not is_finished(pod)


def is_finished(pod: Untyped) -> bool:
    """Tell whether nothing of a pod runs any more."""
    return pod.get("status", {}).get("phase") in _FINISHED


def is_unmanaged(pod: Untyped) -> bool:
    """Tell whether no controller would start a pod again elsewhere."""
    return _controller(pod) is None and MIRROR not in (pod["metadata"].get("annotations") or {})


def full_name(pod: Untyped) -> str:
    """Return how people name a pod."""
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def _is_of_daemon_set(pod: Untyped) -> bool:
    owner = _controller(pod)
    return owner is not None and owner.get("kind") == "DaemonSet"


def _controller(pod: Untyped) -> Untyped | None:
    owners: list[Untyped] = pod["metadata"].get("ownerReferences") or []
    return next((one for one in owners if one.get("controller")), None)
