"""`nodemanager rbac`, `token` and `bootstrap`: what they carry over, and what they say when they cannot."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.api.rights import host_rights
from nodemanager.cli.settings.connect import host_kubeconfig_path
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.host_kubeconfig import kubeconfig
from nodemanager.client.auth.renewed_token import lifetime
from nodemanager.kube.errors import ConfigError
from support import cli, kubeconfigs
from support.either import Place
from support.joined_host import join, ran


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("operator", "the name of the operator's own ServiceAccount"),
        ("WEB1", "use lower-case letters"),
        ("web_1", "use lower-case letters"),
        ("web1\n", "use lower-case letters"),
        ("a..b", "use lower-case letters"),
        ("-a", "use lower-case letters"),
        ("a-.b", "use lower-case letters"),
        ("", "use lower-case letters"),
        ("../a", "use lower-case letters"),
        ("hôte", "use lower-case letters"),
        ("a" * 240, "is too long"),
        ("a-references", "names that end with -references"),
        ("a-token-refresh", "names that end with -token-refresh"),
        ("a-drain", "names that end with -drain"),
    ],
)
def test_names_that_no_host_can_have(name: str, why: str) -> None:
    for command in (["rbac"], ["token"], ["bootstrap", "--bootstrap-kubeconfig", "/dev/null"]):
        done = cli.run(*command, "--hostname", name)
        assert (done.code, done.stdout) == (2, "")
        assert why in " ".join(done.stderr.split())


def test_no_two_hosts_share_an_object() -> None:
    seen: set[tuple[str, str]] = set()
    for name in ("a", "a-b", "node", "a.b", "token-refresh", "x-node"):
        for one in host_rights.manifests(host_rights.HostAccess(name, "ns", kubernetes_node=True)):
            key = (one["kind"], one["metadata"]["name"])
            shared = key in {("Namespace", "ns"), ("ClusterRole", "nodemanager-node")}
            assert shared or key not in seen, key
            seen.add(key)


async def test_a_token_lives_as_long_as_asked_and_needs_no_file_beside_it(
    place: Place, tmp_path: Path
) -> None:
    host = await join(place, tmp_path, "web1")
    admin = yaml.safe_load(place.kubeconfig.read_text())
    cluster = admin["clusters"][0]["cluster"]
    (tmp_path / "ca.pem").write_bytes(base64.b64decode(cluster.pop("certificate-authority-data")))
    cluster |= {"certificate-authority": "ca.pem", "tls-server-name": "localhost"}
    moved = kubeconfigs.write(tmp_path / "admin" / "kubeconfig", admin)
    (tmp_path / "ca.pem").rename(tmp_path / "admin" / "ca.pem")
    asked = ["token", "--hostname", "web1", "-n", place.namespace, "--ttl", "30m"]
    done = ran(Place(Path(moved), place.namespace, place.cache), *asked)  # by KUBECONFIG
    document = yaml.safe_load(done.stdout)
    found = document["clusters"][0]["cluster"]
    assert (
        base64.b64decode(found["certificate-authority-data"]) == (tmp_path / "admin" / "ca.pem").read_bytes()
    )
    assert found["tls-server-name"] == "localhost"
    life = lifetime(document["users"][0]["user"]["token"])
    assert life is not None
    assert life.expires - life.issued == 1800
    expires = datetime.fromtimestamp(life.expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert done.stderr == f"token issued (expires {expires})\n"
    own = lifetime(yaml.safe_load(host.kubeconfig.read_text())["users"][0]["user"]["token"])
    assert own is not None
    assert own.expires - own.issued == 8760 * 3600
    (tmp_path / "admin" / "ca.pem").unlink()
    broken = await asyncio.to_thread(cli.run, *asked, "--kubeconfig", moved)
    assert (broken.code, broken.stdout) == (1, "")
    assert "ca.pem" in broken.stderr
    short = await asyncio.to_thread(
        cli.run, *asked[:-1], "5m", "--kubeconfig", str(place.kubeconfig), "--out", str(tmp_path / "none")
    )
    assert "the API issues none for less than 10m" in short.stderr
    assert (short.code, (tmp_path / "none").exists()) == (1, False)


def test_proxy_and_trust_are_carried_over_and_a_token_needs_tls() -> None:
    source = ClientConfig(
        "https://api.test", tls_server_name="other.test", proxy="http://proxy.test:3128", insecure=True
    )
    document: Any = yaml.safe_load(kubeconfig(source, "web1", "ns", "a.b.c"))
    assert document["clusters"][0]["cluster"] == {
        "server": "https://api.test", "insecure-skip-tls-verify": True, "tls-server-name": "other.test",
        "proxy-url": "http://proxy.test:3128",
    }  # fmt: skip
    assert document["current-context"] == "nodemanager"
    with pytest.raises(ConfigError, match="a token must not travel without TLS"):
        kubeconfig(ClientConfig("http://api.test"), "web1", "ns", "a.b.c")


async def test_what_bootstrap_cannot_do_leaves_the_old_kubeconfig(place: Place, tmp_path: Path) -> None:
    host = await join(place, tmp_path, "web1")
    before = host.kubeconfig.read_bytes()
    spoilt = yaml.safe_load((tmp_path / "web1.bootstrap").read_text())
    spoilt["users"][0]["user"]["token"] += "x"  # to the API the same as one that has expired
    bad = kubeconfigs.write(tmp_path / "bad", spoilt)
    link = tmp_path / "link"
    link.symlink_to(host.kubeconfig)
    (tmp_path / "empty").mkdir()
    good = str(tmp_path / "web1.bootstrap")
    for source, target, why in (
        (bad, host.kubeconfig, "not valid, or has expired; run nodemanager token again"),
        (good, link, "it is a symbolic link"),
        (good, tmp_path / "empty", "it is a directory"),
        (str(host.kubeconfig.parent / "nothing"), host.kubeconfig, "does not exist"),
    ):
        done = await asyncio.to_thread(
            cli.run, "bootstrap", "--bootstrap-kubeconfig", source, "--kubeconfig", str(target),
            "--hostname", "web1", "-n", place.namespace,
        )  # fmt: skip
        assert done.code in {1, 2}
        assert why in " ".join(done.stderr.split()), done
        assert "bug" not in done.stderr
        assert host.kubeconfig.read_bytes() == before
    assert link.is_symlink()


def test_the_documented_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(host_kubeconfig_path()) == "/etc/nodemanager/kubeconfig"
    uname = type("Uname", (), {"sysname": "FreeBSD"})
    monkeypatch.setattr("os.uname", uname)
    assert str(host_kubeconfig_path()) == "/usr/local/etc/nodemanager/kubeconfig"
