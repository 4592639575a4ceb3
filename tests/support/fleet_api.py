"""An administrator's view of an API, one call after the other: for tests that wait for hosts anyway."""

from __future__ import annotations

import asyncio
import base64
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from nodemanager.client.auth import kubeconfig
from nodemanager.client.patches import MergePatch
from nodemanager.client.verbs import Client
from nodemanager.host.process import runner
from nodemanager.kube import errors
from nodemanager.kube.objects import Resource
from support.clients import connected
from support.server_process import Server

T = TypeVar("T")
NAMESPACE = "nodemanager"
API_VERSIONS = {
    "ConfigSet": "common.nodemanager/v1",
    "ManagedNode": "common.nodemanager/v1",
    "Lease": "coordination.k8s.io/v1",
    "NodeTask": "maintenance.nodemanager/v1alpha1",
    "NodeMaintenance": "maintenance.nodemanager/v1alpha1",
    "PodDisruptionBudget": "policy/v1",
    "EdgeCluster": "edge.nodemanager/v1alpha1",
    "EdgeProfile": "edge.nodemanager/v1alpha1",
}
CLUSTER_WIDE = (
    "Namespace", "Node", "EdgeProfile", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
)  # fmt: skip


def resource_of(kind: str, api_version: str = "") -> Resource[dict[str, Any]]:
    """Return how to address a kind."""
    group, _, version = (api_version or API_VERSIONS.get(kind, "v1")).rpartition("/")
    lower = kind.lower()
    plural = f"{lower[:-1]}ies" if lower.endswith("cy") else f"{lower}s"
    return Resource(group, version, kind, plural, dict, kind not in CLUSTER_WIDE)


class FleetApi:
    """An API, as whoever a kubeconfig says."""

    def __init__(self, path: Path, server: Server | None = None) -> None:
        self.kubeconfig = path
        self.server = server
        """The process behind it, if it is the embedded API."""
        self.operator: subprocess.Popen[bytes] | None = None
        """Our operator, if one runs."""

    def call(self, act: Callable[[Client], Awaitable[T]]) -> T:
        """Do something with a client."""

        async def connect() -> T:
            config = kubeconfig.load(path=str(self.kubeconfig), environ={}, run=runner.run)
            async with connected(config) as client:
                return await act(client)

        return asyncio.run(connect())

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create objects, or merge them into what is there; ours are in our namespace."""

        async def write(client: Client) -> None:
            for one in objects:
                resource = resource_of(one["kind"], one["apiVersion"])
                namespace = NAMESPACE if resource.namespaced else ""
                try:
                    await client.create(resource, one, namespace)
                except errors.AlreadyExists:
                    await client.patch(resource, one["metadata"]["name"], namespace, MergePatch(one))

        self.call(write)

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """Return an object; empty if there is none."""

        async def read(client: Client) -> dict[str, Any]:
            try:
                return await client.get(resource_of(kind), name, NAMESPACE)
            except errors.NotFound:
                return {}

        return self.call(read)

    def delete(self, kind: str, name: str) -> None:
        """Delete an object."""
        self.call(lambda client: client.delete(resource_of(kind), name, NAMESPACE))

    def config_set(self, name: str, host: str, **spec: Any) -> None:
        """Make a ConfigSet for one host, or change it."""
        labels = {"kubernetes.io/hostname": host}
        self.apply(
            {
                "apiVersion": API_VERSIONS["ConfigSet"],
                "kind": "ConfigSet",
                "metadata": {"name": name, "labels": labels},
                "spec": spec,
            }
        )

    def secret(self, name: str, **data: str) -> None:
        """Make a Secret, or change it."""
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        self.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded})

    @staticmethod
    def managed_node(name: str, **node: Any) -> dict[str, Any]:
        """Return a ManagedNode with labels and spec."""
        return {
            "apiVersion": API_VERSIONS["ManagedNode"],
            "kind": "ManagedNode",
            "metadata": {"name": name, "labels": node.get("labels", {})},
            "spec": node.get("spec", {}),
        }
