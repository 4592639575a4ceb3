"""The kinds of KubeVirt and CDI, and objects of them as people write them."""

from __future__ import annotations

from typing import Any, Final

from nodemanager.backends.virtualisation import kubevirt
from nodemanager.kube.objects import ObjectMeta, Resource, Struct, Untyped

MACHINES: Final[Resource[Untyped]] = Resource("kubevirt.io", "v1", "VirtualMachine", "virtualmachines", dict)
INSTANCES: Final = kubevirt.INSTANCES.untyped()
MIGRATIONS: Final = kubevirt.MIGRATIONS.untyped()
KUBEVIRTS: Final[Resource[Untyped]] = Resource("kubevirt.io", "v1", "KubeVirt", "kubevirts", dict)
DATA_VOLUMES: Final[Resource[Untyped]] = Resource(
    "cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes", dict
)
CLAIMS: Final[Resource[Untyped]] = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", dict)
BUDGETS: Final[Resource[Untyped]] = Resource(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", dict
)
DEFINED: Final = (MACHINES, INSTANCES, MIGRATIONS, KUBEVIRTS, DATA_VOLUMES)
"""Those that a server has to be told of."""
CREATED_BY: Final = "kubevirt.io/created-by"
FINALIZER: Final = "kubevirt.io/migrationJobFinalize"
"""Of migrations: who deletes one waits for its end."""
FINAL: Final = ("Succeeded", "Failed")


class Watched(Struct):
    """As much of an object as says that it changed."""

    metadata: ObjectMeta = ObjectMeta()


def named(obj: Untyped) -> str:
    """Return the name of an object."""
    return str(obj["metadata"]["name"])


def phase_of(obj: Untyped) -> str:
    """Return the phase of an object; one that nobody has seen yet has none."""
    return str(obj.get("status", {}).get("phase", ""))


def is_going(obj: Untyped) -> bool:
    """Tell whether an object is being deleted."""
    return "deletionTimestamp" in obj["metadata"]


def owned_by(kind: Resource[Untyped], owner: Untyped) -> list[dict[str, Any]]:
    """Return the reference to an owner."""
    version = f"{kind.group}/{kind.version}"
    one = {"apiVersion": version, "kind": kind.kind, "name": named(owner), "uid": owner["metadata"]["uid"]}
    return [{**one, "controller": True, "blockOwnerDeletion": True}]


def machine(name: str, strategy: str = "Always", *, eviction: str = "", **spec: Any) -> Untyped:
    """Return a VirtualMachine; `volumes` and `templates` are its disks, `bridged` is its network."""
    inside: dict[str, Any] = {
        "domain": {"devices": {"interfaces": [{"name": "default", "masquerade": {}}]}},
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [{"name": one, "dataVolume": {"name": one}} for one in spec.pop("volumes", ())],
    }
    if spec.pop("bridged", False):
        inside["domain"]["devices"]["interfaces"] = [{"name": "default", "bridge": {}}]
    if eviction:
        inside["evictionStrategy"] = eviction
    templates = [{"metadata": one["metadata"], "spec": one["spec"]} for one in spec.pop("templates", ())]
    inside["volumes"] += [{"name": named(one), "dataVolume": {"name": named(one)}} for one in templates]
    whole = {"runStrategy": strategy, "template": {"spec": inside}, "dataVolumeTemplates": templates, **spec}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name},
        "spec": whole,
    }


def data_volume(name: str, access: str = "ReadWriteMany", **source: Any) -> Untyped:
    """Return a DataVolume, filled from a URL unless another source is named."""
    claim = {"accessModes": [access], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Block"}
    spec = {"source": source or {"http": {"url": "https://images.example/disk.img"}}, "pvc": claim}
    return {
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": {"name": name},
        "spec": spec,
    }


def migration(name: str, of: str) -> Untyped:
    """Return a request to move an instance to another node."""
    return {
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
        "metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": {"vmiName": of},
    }  # fmt: skip
