"""Host configuration and node maintenance with Kubernetes as the configuration plane.

Imports point down, data flows one way::

    api -> client -> cache -> reconcile -> plan -> host -> status -> api

`docs/architecture.md` has the picture; `.importlinter` enforces it.
"""

__version__ = "0.1.0"
