"""The command line against a real kube-apiserver: install, look, watch, uninstall."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api import crds
from nodemanager.api.rights import policies
from nodemanager.kube import manifests
from support import apiserver, cli, kubeconfigs
from support.tcp_proxy import TcpProxy, proxy

NAMESPACE = "cli"
NAMES = [crd["metadata"]["name"] for crd in crds.all_crds()]
POLICIES = [
    f"nodemanager-{whose}.{verb}admission{kind}.admissionregistration.k8s.io"
    for verb, whose in (
        *(("validating", one) for one in policies.BY_FILE),
        *(("mutating", one) for one in policies.MUTATING_BY_FILE),
    )
    for kind in ("policies", "policybindings")
]
INSTALLED = [*NAMES, *POLICIES]
UNINSTALLED = [*reversed(NAMES), *reversed(POLICIES)]
ERROR = "cannot write /etc/x: no space"


def nodemanager(kube: apiserver.ApiServer, *args: str) -> cli.Ran:
    """Run the command as the administrator."""
    return cli.run(*args, "--kubeconfig", str(kube.kubeconfig))


@pytest.fixture(name="cluster")
def _cluster(kube: apiserver.ApiServer) -> Iterator[apiserver.ApiServer]:
    """The API server with our kinds, and a namespace without objects."""
    assert nodemanager(kube, "crds", "--install").code == 0
    kube.kubectl("create", "namespace", NAMESPACE, check=False)
    kube.kubectl("delete", "configsets,managednodes", "--all", "-n", NAMESPACE)
    yield kube
    kube.kubectl("delete", "configsets,managednodes", "--all", "-n", NAMESPACE, check=False)


def apply(kube: apiserver.ApiServer, kind: str, name: str, **fields: Any) -> None:
    obj = {"apiVersion": "common.nodemanager/v1", "kind": kind, "metadata": {"name": name}, **fields}
    kube.kubectl("apply", "--server-side", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(obj))


def patch_status(kube: apiserver.ApiServer, name: str, ready: str) -> None:
    condition = {"type": "Ready", "status": ready, "reason": "Applied", "message": "",
                 "lastTransitionTime": "2026-01-02T03:04:05Z"}  # fmt: skip
    status = {"conditions": [condition], "configsets": [{"name": "base", "error": ERROR}]}
    kube.kubectl("patch", "mn", name, "-n", NAMESPACE, "--subresource=status", "--type=merge",
                 "-p", json.dumps({"status": status}))  # fmt: skip


def test_install_and_uninstall_twice(kube: apiserver.ApiServer) -> None:
    nodemanager(kube, "crds", "--uninstall", "--yes")
    planned = nodemanager(kube, "crds", "--install", "--no-templates", "--dry-run")
    assert planned.stdout.splitlines() == [f"{name} created (server dry run)" for name in INSTALLED]
    missing = nodemanager(kube, "get", "mn")
    assert missing.code == 1
    assert "nodemanager crds --install" in missing.stderr
    for result in ("created", "unchanged"):
        ran = nodemanager(kube, "crds", "--install", "--no-templates")
        assert (ran.code, ran.stdout.splitlines()) == (0, [f"{name} {result}" for name in INSTALLED])
    columns = [{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}]
    kube.kubectl("patch", "crd", NAMES[0], "--type=json", "-p", json.dumps(columns))
    for more in (["--dry-run"], []):
        ran = nodemanager(kube, "crds", "--install", "--no-templates", *more)
        assert [line.split()[1] for line in ran.stdout.splitlines()] == [
            "configured", *["unchanged"] * (len(INSTALLED) - 1)
        ]  # fmt: skip
    for result in ("deleted", "not found"):
        ran = nodemanager(kube, "crds", "--uninstall", "--yes")
        assert (ran.code, ran.stdout.splitlines()) == (0, [f"{name} {result}" for name in UNINSTALLED])
    assert nodemanager(kube, "crds", "--install").stdout.splitlines()[0] == f"{NAMES[0]} created"


def test_what_goes_with_the_kinds_is_counted(cluster: apiserver.ApiServer) -> None:
    for name in ("web1", "web2", "web3"):
        apply(cluster, "ManagedNode", name)
    nodes, sets = (
        len(cluster.kubectl("get", kind, "-A", "-o", "name").stdout.split()) for kind in ("mn", "cset")
    )
    assert nodes >= 3
    ran = nodemanager(cluster, "crds", "--uninstall", "--dry-run")
    assert ran.code == 0
    assert f"with them {nodes} ManagedNodes, " in ran.stderr
    assert (f" {sets} ConfigSet" in ran.stderr) is (sets > 0)
    assert cluster.server in ran.stderr


def test_get_prints_what_kubectl_prints(cluster: apiserver.ApiServer) -> None:
    apply(cluster, "ManagedNode", "web1")
    apply(cluster, "ConfigSet", "base", spec={"priority": 7})
    patch_status(cluster, "web1", "False")
    for args in (["mn"], ["mn", "web1"], ["cset", "-o", "wide"]):
        ours = nodemanager(cluster, "get", *args, "-n", NAMESPACE)
        theirs = cluster.kubectl("get", *args, "-n", NAMESPACE).stdout
        assert ours.code == 0
        # We write <none> where kubectl leaves a gap; ages may differ by the second between the two.
        ours_words = [word for word in ours.stdout.split() if word != "<none>" and not word.endswith("s")]
        assert ours_words == [word for word in theirs.split() if not word.endswith("s")]
    ran = nodemanager(cluster, "get", "mn,cs", "-n", NAMESPACE, "-o", "yaml")
    assert [obj["kind"] for obj in manifests.load_all(ran.stdout, "stdout")] == ["ManagedNode", "ConfigSet"]
    cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=ran.stdout)
    assert nodemanager(cluster, "get", "mn", "-n", "nowhere") == cli.Ran(
        0, "", "No resources found in nowhere namespace.\n"
    )
    everywhere = nodemanager(cluster, "get", "mn", "-A").stdout.splitlines()
    assert everywhere[0].startswith("NAMESPACE ")
    assert any(line.split()[:2] == [NAMESPACE, "web1"] for line in everywhere)


def test_describe_with_events(cluster: apiserver.ApiServer) -> None:
    apply(cluster, "ManagedNode", "web1")
    patch_status(cluster, "web1", "True")
    uid = cluster.kubectl("get", "mn", "web1", "-n", NAMESPACE, "-o", "jsonpath={.metadata.uid}").stdout
    about = {"kind": "ManagedNode", "namespace": NAMESPACE, "name": "web1", "uid": uid}
    for name, target in (("mine", about), ("other", {**about, "uid": "another-incarnation"})):
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"web1.{name}"}, "type": "Normal",
                 "involvedObject": target, "reason": name.title(), "message": f"it was {name}"}  # fmt: skip
        cluster.kubectl("apply", "--server-side", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(event))
    ran = nodemanager(cluster, "describe", "mn", "web1", "-n", NAMESPACE)
    assert (ran.code, ran.stderr) == (0, "")
    assert ERROR in ran.stdout
    assert "it was mine" in ran.stdout
    assert "it was other" not in ran.stdout
    assert nodemanager(cluster, "describe", "mn", "nope", "-n", NAMESPACE).code == 1


@contextlib.asynccontextmanager
async def watching(
    kube: apiserver.ApiServer, folder: Path
) -> AsyncIterator[tuple[asyncio.StreamReader, TcpProxy]]:
    """Run `get -w` as a process whose link to the server can be cut."""
    port = int(kube.server.rsplit(":", 1)[1])
    async with proxy("127.0.0.1", port) as link:
        config = kube.kubeconfig.read_text().replace(kube.server, f"https://127.0.0.1:{link.port}")
        argv = [*cli.ARGV, "get", "mn", "-w", "-n", NAMESPACE]
        environ = cli.environment(KUBECONFIG=kubeconfigs.write(folder / "config", config))
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ
        )
        assert process.stdout is not None
        try:
            yield process.stdout, link
        finally:
            process.kill()
            await process.wait()


async def next_words(out: asyncio.StreamReader) -> list[str]:
    return (await asyncio.wait_for(out.readline(), 30)).decode().split()


async def test_watch_shows_every_change_across_a_cut(cluster: apiserver.ApiServer, tmp_path: Path) -> None:
    apply(cluster, "ManagedNode", "web1")
    async with watching(cluster, tmp_path) as (out, link):
        assert (await next_words(out))[0] == "NAME"
        assert (await next_words(out))[0] == "web1"
        await asyncio.to_thread(patch_status, cluster, "web1", "True")
        assert "True" in await next_words(out)
        link.cut()
        await asyncio.to_thread(apply, cluster, "ManagedNode", "web2")
        await asyncio.to_thread(cluster.kubectl, "delete", "mn", "web1", "-n", NAMESPACE)
        link.mend()
        assert (await next_words(out))[0] == "web2"
        gone = await next_words(out)
        assert (gone[0], gone[-1]) == ("web1", "(deleted)")
