"""What templates see: the shape of the data, which Secrets are needed, and what is remembered."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.declarations import File
from nodemanager.api.common.managednode import (
    Interface,
    ManagedNode,
    ManagedNodeSpec,
    ManagedNodeStatus,
    SSHHostKey,
    WireGuardStatus,
)
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan.templates import (
    Data,
    NotRendered,
    References,
    RenderCache,
    TemplateError,
    data_of,
    node_data,
    peer_data,
    render,
)
from nodemanager.rendering import referring
from support.rendering import Inline


def _node(name: str, **labels: str) -> ManagedNode:
    return ManagedNode(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=ManagedNodeSpec(domain="example.org"),
        status=ManagedNodeStatus(
            release="6.1",
            interfaces={"eth0": Interface(ipv4=["10.0.0.1"])},
            ssh_host_keys=[SSHHostKey(algorithm=4, fingerprint_type=2, fingerprint="ab")],
            wire_guard=[WireGuardStatus(name="wg0", public_key="UEs=", listen_port=51820)],
        ),
    )


def test_a_node_has_the_json_of_the_go_project() -> None:
    found = node_data(_node("a", role="db"), secrets={"k": b"\x00\xff"}, config_maps={"c": "v"})
    assert found == {
        "Name": "a",
        "Labels": {"role": "db"},
        "ConfigMaps": {"c": "v"},
        "Secrets": {"k": "AP8="},
        "Spec": {"domain": "example.org"},
        "Status": {
            "release": "6.1",
            "interfaces": {"eth0": {"ipv4": ["10.0.0.1"]}},
            "sshHostKeys": [{"algorithm": 4, "fingerprintType": 2, "fingerprint": "ab"}],
            "wireGuard": [{"name": "wg0", "publicKey": "UEs=", "listenPort": 51820}],
        },
    }


def test_a_peer_shows_no_secrets_and_empty_labels_are_null() -> None:
    assert set(peer_data(_node("a"))) == {"Name", "Labels", "Status"}
    assert peer_data(_node("a"))["Labels"] is None
    assert node_data(_node("a"), secrets=None, config_maps=None)["Secrets"] is None


def test_nodes_are_sorted_by_name() -> None:
    data = data_of(_node("b"), [_node("c"), _node("a"), _node("b")])
    assert render("{{ range .Nodes }}{{ .Name }}{{ end }}", data) == "abc"


def _referenced(files: list[File], node: ManagedNode) -> References:
    """Do both halves, with the rendering between them."""
    return asyncio.run(referring.referenced(Inline(), [ConfigSet(spec=ConfigSetSpec(files=files))], node))


def test_only_files_with_a_template_need_references() -> None:
    files = [
        File(path="/a", content="x", secret_refs=["unused"], config_map_refs=["unused"]),
        File(path="/b", template="x", secret_refs=["one", "two"], config_map_refs=["m"]),
        File(path="/c", template="x", secret_refs=["two", "three"], config_map_refs=["m", "n"]),
    ]
    found = _referenced(files, _node("a"))
    assert found.secrets == ("one", "two", "three")
    assert found.config_maps == ("m", "n")
    assert found.errors == ()


def test_a_secret_ref_may_be_a_template_of_labels_and_status() -> None:
    refs = [
        "wg-wg0-{{ (ds `data`).Node.Labels.host }}",
        '{{ (index (ds "data").Node.Status.WireGuard 0).Name }}-{{ .Node.Name }}',
    ]
    found = _referenced([File(path="/b", template="x", secret_refs=refs)], _node("a", host="a"))
    assert found.secrets == ("wg-wg0-a", "wg0-a")


def test_a_secret_ref_that_cannot_be_rendered_is_reported_and_the_others_go_on() -> None:
    refs = ["{{ .Node.Labels.nope }}", "{{ index .Node.Secrets `x` }}{{ .Nope }}", "good"]
    found = _referenced([File(path="/b", template="x", secret_refs=refs)], _node("a", host="a"))
    assert found.secrets == ("good",)
    assert [str(error).split(": ")[0] for error in found.errors] == [
        "cannot render secretRefs[0] of /b",
        "cannot render secretRefs[1] of /b",
    ]


def test_the_cache_knows_inputs_by_what_is_in_them_and_forgets_the_oldest() -> None:
    cache = RenderCache(entries=2)
    first, second = Data(node={"Name": "a"}), Data(node={"Name": "b"})
    text = "{{ .Node.Name }}"
    assert cache.get(text, first, "gotemplate", "x") is None
    cache.keep(text, first, "gotemplate", "a")
    assert cache.get(text, Data(node={"Name": "a"}), "gotemplate", "x") == "a"
    assert cache.get(text, first, "jinja", "x") is None
    cache.keep(text, second, "gotemplate", "b")
    cache.keep(text, first, "jinja", "c")
    assert len(cache) == 2
    assert cache.get(text, first, "gotemplate", "x") is None, "the oldest entry had to go"


def test_the_cache_is_bounded_in_size() -> None:
    cache = RenderCache(size=10)
    data = Data(node={"Name": "a"})
    for text in ("12345678", "abcdefgh"):
        cache.keep(text, data, "gotemplate", text)
    assert len(cache) == 1
    assert cache.get("abcdefgh", data, "gotemplate", "x") == "abcdefgh"


def test_the_cache_keeps_errors_for_whoever_has_them_but_not_what_may_pass() -> None:
    cache = RenderCache()
    data = Data(node={"Name": "a"})
    cache.keep("{{ nope }}", data, "gotemplate", TemplateError("/one", "there is no nope", 1))
    cache.keep("{{ slow }}", data, "gotemplate", NotRendered("/one", "it took too long"))
    assert str(cache.get("{{ nope }}", data, "gotemplate", "/two")) == (
        "cannot render /two: line 1: there is no nope"
    )
    assert cache.get("{{ slow }}", data, "gotemplate", "/two") is None


def test_the_template_libraries_are_imported_with_the_first_template() -> None:
    script = (
        "import sys, nodemanager.plan.templates as t\n"
        "heavy = {'gotpl', 'jinja2'}\n"
        "assert not heavy & set(sys.modules), 'imported too early'\n"
        "d = t.Data(node={'Name': 'a'})\n"
        "assert t.render('plain text', d) == 'plain text'\n"
        "assert not heavy & set(sys.modules), 'a plain text needs no library'\n"
        "assert t.render('{{ .Node.Name }}', d) == 'a'\n"
        "assert 'gotpl' in sys.modules and 'jinja2' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
