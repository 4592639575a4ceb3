"""Every example is accepted as it is, and plans what it is about."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.desired_state import DesiredStateCache
from nodemanager.api.common import matching
from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.managednode import (
    Interface,
    ManagedNode,
    ManagedNodeStatus,
    SSHHostKey,
    WireGuardStatus,
)
from nodemanager.cli.manifests import manifest_folder
from nodemanager.kube import manifests
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import merge
from nodemanager.plan.desired import Content
from nodemanager.plan.stages import KINDS
from support import cli
from support.rendering import Inline

EXAMPLES = Path(__file__).parents[3] / "examples"
FOLDERS = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())


@pytest.mark.parametrize("name", FOLDERS)
def test_a_plan_accepts_the_example(name: str, tmp_path: Path) -> None:
    argv = ("plan", "-f", str(EXAMPLES / name), "--root", str(tmp_path), "--hostname", "web1", "-o")
    for form in ("json", "diff"):
        ran = cli.run(*argv, form)
        assert ran.code in (0, 1, 2), ran.stderr
        assert "error:" not in ran.stderr
        if form == "json":
            json.loads(ran.stdout)
        else:
            assert ran.stdout.endswith(" as declared.\n")
    assert f"`{name}`" in (EXAMPLES / "README.md").read_text()


def everything() -> list[tuple[str, dict[str, Any]]]:
    """Return all objects of all examples, each with the folder that it is in."""
    return [
        (path.parent.name, obj)
        for path in sorted(EXAMPLES.glob("*/*.yaml"))
        for obj in manifests.load_all(path.read_text(), str(path))
    ]


@pytest.mark.parametrize("system", ["debian", "ubuntu", "arch"])
def test_all_examples_get_along_on_one_host(system: str) -> None:
    """A host with every label that an example asks for: it gets all of them, and none contradicts another."""
    labels = {"nodemanager.io/os": system, "kubernetes.io/hostname": "web1"}
    sets = [msgspec.convert(obj, ConfigSet) for _, obj in everything() if obj["kind"] == "ConfigSet"]
    for one in sets:
        wanted = one.spec.node_selector.match_labels if one.spec.node_selector else one.metadata.labels
        labels |= {key: value for key, value in wanted.items() if key != "kubernetes.io/os"}
    matching_sets = [one for one in sets if matching.matches(one, labels)]
    assert len(matching_sets) == len(sets) - 1  # all but the clock of the other system
    for kind in KINDS:
        named = [
            kind.declaring.identify(one.metadata.name, item)
            for one in matching_sets
            for item in getattr(one.spec, kind.declaring.field)
        ]
        assert len(named) == len(set(named)), f"two examples declare the same {kind.words[0]}"
    desired = merge.merge(matching_sets)
    assert (desired.conflicts, desired.held) == ({}, {})


def test_no_two_examples_bring_the_same_object() -> None:
    """The second would take away what the first one says of it."""
    named = Counter((obj["kind"], obj["metadata"]["name"]) for _, obj in everything())
    assert [one for one, count in named.items() if count > 1] == []


def rendered(name: str, path: str, node: ManagedNode, *peers: ManagedNode, **secrets: bytes) -> str:
    """Return what a file of an example becomes on a host."""
    inputs = manifest_folder.load([EXAMPLES / name])
    known = {
        **inputs.secrets,
        **({"wg-wg0-web1": {k.replace("_", "-"): v for k, v in secrets.items()}} if secrets else {}),
    }
    full = DeclaredInputs(inputs.config_sets, (node, *peers), known, inputs.config_maps)
    desired_state = asyncio.run(DesiredStateCache(Contenter(Inline())).make(inputs.config_sets, full, node))
    made = desired_state.contents[path]
    assert isinstance(made, Content), made
    return made.data.decode()


def host(name: str, address: str, **status: object) -> ManagedNode:
    labels = {"mesh": "home", "mesh-address": address}
    return ManagedNode(metadata=ObjectMeta(name=name, labels=labels), status=ManagedNodeStatus(**status))  # type: ignore[arg-type]


def test_the_file_of_a_secret() -> None:
    text = rendered("03-secret-template", "/etc/app/app.conf", host("web1", ""))
    assert text == "level = info\npassword = change-me\n"


def test_the_mesh() -> None:
    peer = host(
        "web2",
        "10.10.0.2",
        wire_guard=[WireGuardStatus(name="wg0", public_key="PUB")],
        interfaces={"eth0": Interface(ipv4=["192.0.2.2"]), "lo1": Interface(ipv4=["192.0.2.3"])},
    )
    text = rendered(
        "04-wireguard-mesh", "/etc/wireguard/wg0.conf", host("web1", "10.10.0.1"), peer, private_key=b"PRIV"
    )
    assert text == (
        "[Interface]\nPrivateKey = PRIV\nAddress = 10.10.0.1/24\nListenPort = 51820\n\n# web2\n[Peer]\n"
        "PublicKey = PUB\nAllowedIPs = 10.10.0.2/32\nEndpoint = 192.0.2.2:51820\n"
    )


def test_the_bytes() -> None:
    inputs = manifest_folder.load([EXAMPLES / "06-binary-content"])
    cache = DesiredStateCache(Contenter(Inline()))
    made = asyncio.run(cache.make(inputs.config_sets, inputs, host("web1", ""))).contents
    shown = {path: one.data[-2:] if isinstance(one, Content) else one for path, one in made.items()}
    assert shown == {
        "/etc/krb5.keytab": b"G\xff",
        "/usr/share/pixmaps/site.ico": b"\xff\xfe",
        "/etc/site.magic": b"\x01\x02",
    }


def test_the_zone() -> None:
    keys = [SSHHostKey(algorithm=4, fingerprint_type=number, fingerprint="ab") for number in (1, 2)]
    text = rendered("05-sshfp-zone", "/etc/bind/sshfp.zone", host("web1", "", ssh_host_keys=keys))
    assert text == "web1 IN SSHFP 4 1 ab\nweb1 IN SSHFP 4 2 ab\n"
