"""The DaemonSet's pod on a host, as a kubelet would run it: its token, its mounts, its namespaces.

The kubelet is played by the systemd of the machine: the pod is a unit with a mount namespace of its own,
whose whole control group is killed when it ends. Process IDs and network are those of the machine, as the
manifest asks for.
"""

from __future__ import annotations

import secrets
import urllib.request
from collections.abc import Mapping
from typing import Any

from nodemanager.client.verbs import Client
from nodemanager.kube import core
from support.nspawn import Machine

ACCOUNT = "nodemanager-daemonset"
SECRETS = "/run/secrets/kubernetes.io/serviceaccount"
UNIT = "pod"
POD = """\
mount --rbind / "$0/host" && mount -t tmpfs tmpfs "$0/tmp" && mount --rbind /proc "$0/proc" &&
mount --rbind /dev "$0/dev" && mount --bind /run/pod "$0/run/secrets/kubernetes.io/serviceaccount" &&
exec chroot "$0" "$@"
"""
"""A fixed text: the image and what to run in it are passed beside it."""


async def token(client: Client, namespace: str, node: str) -> str:
    """Make the DaemonSet's pod on a node, and return the token that a kubelet would mount into it."""
    spec = {
        "nodeName": node,
        "serviceAccountName": ACCOUNT,
        "containers": [{"name": "agent", "image": "nodemanager"}],
    }
    name = f"agent-{secrets.token_hex(4)}"
    pod = await client.create(core.PODS, {"metadata": {"name": name}, "spec": spec}, namespace)
    meta = pod["metadata"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600, "boundObjectRef": bound},
    }
    answer = await client.create_subresource(core.SERVICE_ACCOUNTS, ACCOUNT, namespace, "token", body)
    return str(answer["status"]["token"])


def start(machine: Machine, image: str, argv: list[str], env: Mapping[str, str]) -> None:
    """Start the pod of a machine; `image` is where it sees the image's root."""
    variables = [f"{name}={value}" for name, value in env.items()]
    inside = ["env", "-i", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *variables, *argv]
    machine.run(
        "systemd-run", f"--unit={UNIT}", "--property=KillMode=control-group", "--collect",
        "unshare", "--mount", "--propagation=slave", "sh", "-c", POD, image, *inside,
    )  # fmt: skip


def kill(machine: Machine) -> None:
    """End the pod the hard way, with everything in its control group."""
    machine.run("systemctl", "kill", "--signal=KILL", "--kill-whom=all", UNIT)


def answers(port: int) -> bool:
    """Tell whether a pod says that it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def workload(obj: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return arguments and mount points of the one container of a workload."""
    (container,) = obj["spec"]["template"]["spec"]["containers"]
    return list(container["args"]), [one["mountPath"] for one in container.get("volumeMounts", ())]
