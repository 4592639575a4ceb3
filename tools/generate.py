"""Write everything that follows from the code: CRDs, rights, parts of the chart, the references, pictures.

`python -m tools.generate` writes the files; with `--check` it writes nothing, shows what
differs and fails.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nodemanager.api import crds, kinds
from nodemanager.api.maintenance import shipped_templates
from nodemanager.api.rights import host_rights, people, policies, rbac_objects
from nodemanager.controllers import assembly
from nodemanager.kube import manifests
from tools import chart, commands, monitoring, navigation, reason_codes, reference, template_pages
from tools.website import pictures, plots, terminal

ROOT = Path(__file__).resolve().parent.parent
DIFF_LINES = 40

_PEOPLE = """\
# Roles for people, to be bound in a namespace with hosts. Who writes ConfigSets there is root on these hosts.
"""
_KUSTOMIZATION = """\
# Generated from src/nodemanager/api/kinds.py, do not edit: make generate
# kubectl apply -k config: our kinds, the policy for hosts, and the operator.
"""
_YAML_HEADER = "# Generated from the types in src/nodemanager/api, do not edit: make generate\n"
_MANUAL = """\
# What a host needs that is let in by hand: bind it to the ServiceAccount nodemanager-HOST, in the namespace
# of the host. `nodemanager rbac --hostname HOST` prints less, for one host: there RBAC names what is its own,
# and here the policy in config/policy/hosts.yaml alone does. Not in it: Secrets and ConfigMaps, which the
# operator grants one by one (without one: rbac --wide-secrets), and the host's token: nobody renews it.
"""
_STAMPING = """\
# Writes down on every object who asked for it. No part of the kustomization, as only servers from Kubernetes
# 1.36 on have MutatingAdmissionPolicies. Where yours has: kubectl apply -f config/policy/stamping.yaml
"""
_TEMPLATES = """\
# Generated from src/nodemanager/api/maintenance/templates, do not edit: make generate
"""
_OPERATOR_RIGHTS = """\
# What `nodemanager operator` may do: what its controllers in src/nodemanager/controllers ask for. Secrets and
# ConfigMaps are here because the API lets nobody grant what they have not got themselves:
# docs/adr/0007-rights-of-the-operator.md.
"""
_DISRUPTION = """\
# Lets `nodemanager operator` cordon and drain the Kubernetes Nodes of hosts that a NodeMaintenance works on:
# pods of all namespaces are evicted, as their disruption budgets allow. No part of the installation: apply it
# if you want that.
"""

_EDGE = """\
# Lets `nodemanager operator --edge` look at EdgeProfiles, and write how EdgeClusters are. No part of the
# installation. What a profile names besides has rights of its own: nodemanager edge rbac -f PROFILE.
"""


def render() -> dict[str, str]:
    """Return the content of every generated file, by its path below the root."""
    files: dict[str, str] = {}
    for kind in kinds.BY_NAME:
        crd = crds.of_kind(kind)
        files[f"config/crd/{kind.resource.qualified_name}.yaml"] = _YAML_HEADER + manifests.dump(crd)
        files[f"docs/{kind.page}"] = reference.page(crd)
    files["config/kustomization.yaml"] = _KUSTOMIZATION + manifests.dump(_kustomization())
    files[navigation.FILE] = navigation.updated((ROOT / navigation.FILE).read_text(encoding="utf-8"))
    files["docs/reference/commands.md"] = commands.page()
    files[reason_codes.FILE] = reason_codes.page()
    files["config/policy/stamping.yaml"] = (
        _YAML_HEADER + _STAMPING + manifests.dump(policies.mutating_objects())
    )
    for name, objects in policies.BY_FILE.items():
        files[f"config/policy/{name}.yaml"] = _YAML_HEADER + manifests.dump(objects)
    files["config/rbac/node-role.yaml"] = _YAML_HEADER + _MANUAL + manifests.dump(host_rights.manual_role())
    files["config/rbac/people.yaml"] = _YAML_HEADER + _PEOPLE + manifests.dump(people.roles())
    operator = assembly.manifests(rbac_objects.OWN_NAMESPACE)
    files["config/rbac/operator.yaml"] = _YAML_HEADER + _OPERATOR_RIGHTS + manifests.dump(operator)
    disruption = assembly.disruption_manifests(rbac_objects.OWN_NAMESPACE)
    files["config/rbac/operator-disruption.yaml"] = _YAML_HEADER + _DISRUPTION + manifests.dump(disruption)
    edge = assembly.edge_manifests(rbac_objects.OWN_NAMESPACE)
    files["config/rbac/operator-edge.yaml"] = _YAML_HEADER + _EDGE + manifests.dump(edge)
    templates = shipped_templates.templates(rbac_objects.OWN_NAMESPACE)
    files[template_pages.FILE] = template_pages.page(templates)
    files["config/operation-templates/templates.yaml"] = _TEMPLATES + manifests.dump(templates)
    return (
        files
        | monitoring.files()
        | chart.files(_YAML_HEADER)
        | pictures.files()
        | plots.files()
        | terminal.files()
    )


def _kustomization() -> dict[str, Any]:
    """Return the list of what the operator's installation consists of."""
    operator = ("rbac/operator.yaml", "operator/deployment.yaml", "operator/disruption-budget.yaml")
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [
            *(f"crd/{kind.resource.qualified_name}.yaml" for kind in kinds.BY_NAME),
            *(f"policy/{name}.yaml" for name in policies.BY_FILE),
            *operator,
        ],
    }


def write(root: Path) -> list[str]:
    """Write the files that differ; return their paths."""
    changed = stale(root)
    for name, content in changed.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return list(changed)


def stale(root: Path) -> dict[str, str]:
    """Return the files that are not what the types say, as they should be."""
    return {name: content for name, content in render().items() if _current(root / name) != content}


def check(root: Path) -> str:
    """Return what is wrong with the files below a root, as text; empty = nothing."""
    return "".join(_difference(root / name, name, content) for name, content in stale(root).items())


def _current(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _difference(path: Path, name: str, wanted: str) -> str:
    lines = difflib.unified_diff(
        _current(path).splitlines(keepends=True),
        wanted.splitlines(keepends=True),
        name,
        f"{name} (generated)",
    )
    shown = list(itertools.islice(lines, DIFF_LINES + 1))
    more = "...\n" if len(shown) > DIFF_LINES else ""
    return f"{name} is out of date: run make generate\n" + "".join(shown[:DIFF_LINES]) + more


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Generate or check; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is out of date")
    if parser.parse_args(argv).check:
        report = check(root)
        sys.stdout.write(report)
        return 1 if report else 0
    for name in write(root):
        sys.stdout.write(f"wrote {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
