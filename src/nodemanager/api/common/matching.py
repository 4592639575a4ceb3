"""Which hosts a ConfigSet is meant for; agents and operator ask the same function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import LABEL_OS
from nodemanager.kube import selectors
from nodemanager.kube.selectors import LabelSelector

OS: Final = "kubernetes.io/os"
ARCH: Final = "kubernetes.io/arch"

MACHINES: Final = {
    "amd64": ("x86_64",),
    "arm64": ("aarch64",),
    "arm": ("armv6l", "armv7l", "armv8l"),
}
"""What `uname -m` says on the architectures as Kubernetes names them."""


_GITOPS: Final = (
    "app.kubernetes.io/",
    "argocd.argoproj.io/",
    "fleet.cattle.io/",
    "helm.sh/",
    "helm.toolkit.fluxcd.io/",
    "kustomize.toolkit.fluxcd.io/",
    "objectset.rio.cattle.io/",
)
"""Labels that Argo CD, Flux, Helm, Fleet and their like put on all that they apply, and on no host."""


def architecture(machine: str) -> str:
    """Return how Kubernetes names what `uname -m` says; what it has no name for, as it is."""
    return next((arch for arch, machines in MACHINES.items() if machine in machines), machine)


def matches(config_set: ConfigSet, labels: Mapping[str, str]) -> bool:
    """Tell whether a host with these labels is meant: by the labels of the set, or by its nodeSelector.

    No labels and no selector is no host at all: an empty set of labels is a mistake more often
    than a wish, and this one would reach every machine.
    """
    return chooses(config_set.metadata.labels, config_set.spec.node_selector, labels)


def chooses(wanted: Mapping[str, str], selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Tell the same of a set, or a revision of one, with these labels and this nodeSelector."""
    if wanted and all(_has(labels, key, value) for key, value in wanted.items()):
        return True
    return selector is not None and selectors.matches(selector, labels)


def ways(config_set: ConfigSet) -> list[str]:
    """Return the ways in which a host may be chosen, in words; any of them is enough."""
    found = []
    if labels := config_set.metadata.labels:
        found.append("labels " + ",".join(f"{name}={value}" for name, value in sorted(labels.items())))
    if (selector := config_set.spec.node_selector) is not None:
        text = selector_words(selector)
        found.append(f"nodeSelector {text}" if text else "any labels (nodeSelector {})")
    return found


def selector_words(selector: LabelSelector) -> str:
    """Return a selector as people write it, or what is wrong with it; empty = it chooses every host."""
    try:
        return selectors.format_selector(selector)
    except ValueError as error:
        return str(error)


def gitops_labels(config_set: ConfigSet) -> list[str]:
    """Return the labels of GitOps tools that keep a set, which has no selector, from matching any host."""
    if config_set.spec.node_selector is not None:
        return []
    return sorted(filter(is_of_gitops, config_set.metadata.labels))


def is_of_gitops(label: str) -> bool:
    """Tell whether a label is such that GitOps tools know their objects by it; no host has it."""
    return label.startswith(_GITOPS)


def _has(labels: Mapping[str, str], key: str, value: str) -> bool:
    """Tell whether a host has a label, also in the words of the Go agent.

    That one wrote the os-release ID and `uname -m` into the two labels, so manifests select
    `kubernetes.io/os: arch` and `kubernetes.io/arch: x86_64`.
    """
    have = labels.get(key)
    if have == value:
        return True
    if key == OS:
        return labels.get(LABEL_OS) == value
    return key == ARCH and have is not None and value in MACHINES.get(have, ())
