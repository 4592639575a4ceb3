"""What the operator keeps of hosts and of their Leases."""

from __future__ import annotations

import msgspec

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.controllers import assembly, lean_objects
from nodemanager.kube.core import Lease

NODE = {
    "metadata": {
        "name": "web1", "namespace": "prod", "uid": "u", "resourceVersion": "7", "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"role": "web"},
    },
    "spec": {"domain": "example.org"},
    "status": {
        "observedGeneration": 2, "agentVersion": "1.2", "release": "6.1",
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "AsDeclared", "message": "all of it",
             "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2},
        ],
        "configsets": [{"name": "base", "observedGeneration": 3, "digest": "ab"}],
        "interfaces": {"eth0": {"ipv4": ["192.0.2.1"]}},
    },
}  # fmt: skip
LEASE = {
    "metadata": {"name": "nodemanager-web1", "namespace": "prod", "uid": "l", "resourceVersion": "9"},
    "spec": {
        "holderIdentity": "web1", "leaseDurationSeconds": 60, "renewTime": "2026-01-01T00:00:00.000000Z",
    },
}  # fmt: skip


def test_a_host_says_the_same() -> None:
    for body in (NODE, {"metadata": {"name": "bare"}}):
        node = msgspec.convert(body, ManagedNode)
        lean = lean_objects.lean_node(node)
        assert lean == node
        for part in ("metadata", "spec", "status"):  # what patches are made of
            assert msgspec.to_builtins(getattr(lean, part)) == msgspec.to_builtins(getattr(node, part))


def test_of_a_lease_the_sign_of_life_is_kept() -> None:
    lean = lean_objects.sign_of_life(msgspec.convert(LEASE, Lease))
    assert msgspec.to_builtins(lean) == {
        "metadata": {"name": "nodemanager-web1", "namespace": "prod", "resourceVersion": "9"},
        "spec": {"leaseDurationSeconds": 60, "renewTime": "2026-01-01T00:00:00.000000Z"},
    }


def test_these_kinds_are_watched() -> None:
    """One that nobody watches any more would be a line that means nothing."""
    watched = {watch.resource for entry in assembly.ENTRIES for watch in entry.watches}
    assert lean_objects.TRIMS.keys() <= watched
