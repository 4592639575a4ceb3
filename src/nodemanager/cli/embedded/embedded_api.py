"""The first content of our embedded API: our kinds and templates, policies, and quotas of hosts.

The server itself knows Kubernetes' kinds only, and is given the rest as data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from nodemanager.api import crds
from nodemanager.api.maintenance import shipped_templates
from nodemanager.api.rights import policies
from nodemanager.cli.embedded import host_quotas
from nodemanager.cli.settings.audit_options import ApiAuditSettings
from nodemanager.kube import core
from nodemanager.server.bootstrap import Preset, as_it_is, with_our_spec
from nodemanager.server.embedded import ServerOptions
from nodemanager.server.http.endpoint import Endpoint

NAMESPACE: Final = "nodemanager"


def options(
    data_dir: Path, endpoint: Endpoint, namespace: str = NAMESPACE, audit: ApiAuditSettings | None = None
) -> ServerOptions:
    """Return how to serve our API from a folder."""
    chosen = (audit or ApiAuditSettings()).options(data_dir)
    return ServerOptions(data_dir, endpoint, namespace, presets(namespace), host_quotas.rule(), chosen)


def presets(namespace: str) -> tuple[Preset, ...]:
    """Return the objects that are there from the start; bindings of policies are for people to change."""
    ours = (core.POLICIES.kind, core.MUTATING_POLICIES.kind)
    kept = (
        Preset(one, with_our_spec if one["kind"] in ours else as_it_is)
        for one in (*policies.objects(), *policies.mutating_objects())
    )
    templates = (Preset(one, shipped_templates.renewed) for one in shipped_templates.templates(namespace))
    return (*map(Preset, crds.all_crds()), *kept, *templates)
