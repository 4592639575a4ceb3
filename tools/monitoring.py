"""Alerts and a board for edge sites, of the metrics that the operator has: `config/monitoring/`."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from nodemanager.api.edge.edgecluster import (
    BOOTSTRAP,
    DEGRADED,
    FRESH,
    HEARTBEATS,
    LOOKED,
    MULTI_NODE,
    PHASES,
    RECOVERING,
    SINGLE_NODE,
    UNKNOWN,
    UNPROVEN,
    UPGRADING,
)
from nodemanager.controllers.assembly import LEADING_METRIC
from nodemanager.controllers.edge_clusters.reconciling import LOOKED_METRIC, NODES_METRIC, PHASE_METRIC
from nodemanager.kube import manifests

RULES: Final = "config/monitoring/edge-alerts.yaml"
BOARD: Final = "config/monitoring/edge-board.json"
_HEADER: Final = """\
# Generated from tools/monitoring.py, do not edit: make generate
# Alerts for edge sites, for who runs the Prometheus Operator: kubectl apply -n NAMESPACE -f this file. Others
# give what is below spec to Prometheus, as a file of rules. See docs/edge.md.
"""
_COLOURS: Final = {
    SINGLE_NODE: "green", MULTI_NODE: "green", BOOTSTRAP: "blue", UPGRADING: "blue", RECOVERING: "orange",
    UNKNOWN: "yellow", DEGRADED: "red",
}  # fmt: skip
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_CHOSEN: Final = 'name=~"$site"'


class EdgeAlert(NamedTuple):
    """What somebody has to look at."""

    name: str
    expr: str
    wait: str
    severity: str
    summary: str
    description: str


def _phase(phase: str) -> str:
    return f'{PHASE_METRIC}{{phase="{phase}"}} == 1'


ALERTS: Final = (
    EdgeAlert(
        "NodemanagerEdgeSiteDegraded", _phase(DEGRADED), "5m", "critical",
        "Edge site {{ $labels.name }} is degraded",
        "Why: nodemanager describe edgecluster {{ $labels.name }}",
    ),
    EdgeAlert(
        "NodemanagerEdgeSiteUnknown", _phase(UNKNOWN), "10m", "warning",
        "Nobody can tell how edge site {{ $labels.name }} is",
        "What cannot be read: nodemanager describe edgecluster {{ $labels.name }}",
    ),
    EdgeAlert(
        "NodemanagerEdgeNodeSilent",
        f'sum without (heartbeat) ({NODES_METRIC}{{heartbeat!~"{FRESH}|{UNPROVEN}"}}) > 0', "5m", "critical",
        "{{ $value }} nodes of edge site {{ $labels.name }} give no signs of life",
        "Which: nodemanager health",
    ),
    EdgeAlert(
        "NodemanagerEdgeSiteNotLookedAt", f"time() - {LOOKED_METRIC} > {LOOKED.total_seconds():.0f}", "1m",
        "warning",
        "Nobody looked at edge site {{ $labels.name }} for {{ $value | humanizeDuration }}",
        "The operator is there, and does not get to it: see its log.",
    ),
    EdgeAlert(
        "NodemanagerEdgeOperatorGone",
        f"(last_over_time({LOOKED_METRIC}[1h]) unless {LOOKED_METRIC})"
        f" and on () ((sum({LEADING_METRIC}) or vector(0)) == 0)",
        "5m", "critical",
        "No operator looks at edge site {{ $labels.name }}",
        "Metrics of the site are gone, and no operator leads: kubectl get lease nodemanager-operator",
    ),
    EdgeAlert(
        "NodemanagerEdgeSiteGoesBack", _phase(RECOVERING), "1h", "warning",
        "Edge site {{ $labels.name }} is going back for an hour",
        "At which state: nodemanager describe edgecluster {{ $labels.name }}",
    ),
    EdgeAlert(
        "NodemanagerEdgeSiteUpgradesLong", _phase(UPGRADING), "6h", "warning",
        "Edge site {{ $labels.name }} is upgrading for six hours",
        "At which state: nodemanager describe edgecluster {{ $labels.name }}",
    ),
    EdgeAlert(
        "NodemanagerEdgeSiteNeverBegan", _phase(BOOTSTRAP), "1h", "warning",
        "Edge site {{ $labels.name }} has never been seen at work",
        "What is awaited: nodemanager describe edgecluster {{ $labels.name }}",
    ),
)  # fmt: skip


def files() -> dict[str, str]:
    """Return what is generated, by path."""
    board = json.dumps(_board(), indent=2, sort_keys=True) + "\n"
    return {RULES: _HEADER + manifests.dump(rules()), BOARD: board}


def rules() -> dict[str, Any]:
    """Return the PrometheusRule; its spec is what Prometheus itself reads."""
    group = {"name": "nodemanager-edge", "rules": [_rule(one) for one in ALERTS]}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "nodemanager-edge"},
        "spec": {"groups": [group]},
    }


def _rule(alert: EdgeAlert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.wait,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.description},
    }


def _board() -> dict[str, Any]:
    each = (
        f'({PHASE_METRIC}{{{_CHOSEN},phase="{phase}"}} == 1) * {number}'
        for number, phase in enumerate(PHASES)
    )
    phases = f"sum by (name) ({' or '.join(each)})"
    mappings = [
        {
            "type": "value",
            "options": {str(number): {"text": phase, "color": _COLOURS[phase], "index": number}},
        }
        for number, phase in enumerate(PHASES)
    ]
    ages = f"time() - {LOOKED_METRIC}{{{_CHOSEN}}}"
    beats = f"sum by (name, heartbeat) ({NODES_METRIC}{{{_CHOSEN}}}) > 0"
    panels = [
        _panel(
            "Sites by phase", "stat", 0, 5, f"sum by (phase) ({PHASE_METRIC}{{{_CHOSEN}}}) > 0", "{{phase}}"
        ),
        _panel("Phase", "state-timeline", 5, 8, phases, "{{name}}", mappings=mappings),
        _panel("Nodes by their signs of life", "timeseries", 13, 8, beats, "{{name}} {{heartbeat}}"),
        _panel("Since somebody looked", "timeseries", 21, 6, ages, "{{name}}", unit="s"),
        _alert_list(27),
    ]
    return {
        "uid": "nodemanager-edge",
        "title": "nodemanager: edge sites",
        "description": f"Signs of life: {', '.join(HEARTBEATS)}. See docs/edge.md.",
        "tags": ["nodemanager"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": [{**panel, "id": number} for number, panel in enumerate(panels, 1)],
    }


def _variables() -> list[dict[str, Any]]:
    site = {
        "name": "site", "label": "Site", "type": "query", "datasource": _SOURCE, "refresh": 2, "multi": True,
        "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"},
        "query": {"query": f"label_values({PHASE_METRIC}, name)", "refId": "sites"},
    }  # fmt: skip
    return [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}, site]


def _panel(
    title: str, kind: str, y: int, height: int, expr: str, legend: str, **defaults: Any
) -> dict[str, Any]:
    return {
        "title": title,
        "type": kind,
        "datasource": _SOURCE,
        "gridPos": {"x": 0, "y": y, "w": 24, "h": height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [{"refId": "A", "datasource": _SOURCE, "expr": expr, "legendFormat": legend}],
    }


def _alert_list(y: int) -> dict[str, Any]:
    return {
        "title": "Alerts",
        "type": "alertlist",
        "gridPos": {"x": 0, "y": y, "w": 24, "h": 6},
        "options": {"alertName": "NodemanagerEdge", "viewMode": "list"},
    }
