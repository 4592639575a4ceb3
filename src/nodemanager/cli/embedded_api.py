"""What our embedded API has from its first second: our kinds, the policies, and the quotas of hosts.

The server itself knows Kubernetes' kinds only, and is given the rest as data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from nodemanager.api import crds
from nodemanager.api.rights import policies
from nodemanager.cli import host_quotas
from nodemanager.cli.settings.audit_options import AuditSettings
from nodemanager.kube import core
from nodemanager.server.bootstrap import Preset
from nodemanager.server.embedded import ServerOptions
from nodemanager.server.http.endpoint import Endpoint

NAMESPACE: Final = "nodemanager"


def options(
    data_dir: Path, endpoint: Endpoint, namespace: str = NAMESPACE, audit: AuditSettings | None = None
) -> ServerOptions:
    """Return how to serve our API from a folder."""
    chosen = (audit or AuditSettings()).options(data_dir)
    return ServerOptions(data_dir, endpoint, namespace, presets(), host_quotas.rule(), chosen)


def presets() -> tuple[Preset, ...]:
    """Return the objects that are there from the start; a policy's binding is for people to change."""
    kept = (Preset(one, is_kept_current=one["kind"] == core.POLICIES.kind) for one in policies.objects())
    return (*map(Preset, crds.all_crds()), *kept)
