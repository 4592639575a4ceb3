"""Kubeconfig files: which are read, how they merge, what a context means, what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nodemanager.client.auth import kubeconfig
from nodemanager.client.auth.config import ClientConfig
from nodemanager.kube.errors import ConfigError
from support import kubeconfigs, pems

CA = pems.make().ca


def load(path: str = "", context: str = "", **environ: str) -> ClientConfig:
    return kubeconfig.load(path=path, context=context, environ=environ, run=kubeconfigs.no_commands)


def load_built(tmp_path: Path, **parts: Any) -> ClientConfig:
    return load(kubeconfigs.write(tmp_path / "config", kubeconfigs.build(**parts)))


async def token_of(config: ClientConfig) -> str:
    return str((await config.credentials.headers()).get("Authorization", ""))


def test_defaults(tmp_path: Path) -> None:
    config = load_built(tmp_path)
    assert (config.server, config.namespace, config.ca) == ("https://main:6443", "default", None)
    assert (config.tls_server_name, config.insecure, config.proxy) == ("", False, "")
    assert config.source == f"context 'main' of {tmp_path}/config"


def test_everything_of_cluster_and_context(tmp_path: Path) -> None:
    cluster = {
        "certificate-authority-data": pems.b64(CA),
        "tls-server-name": "kubernetes.default",
        "proxy-url": "socks5://proxy:1080",
        "future-field": {"is": "ignored"},
    }
    config = load_built(tmp_path, cluster=cluster, namespace="prod")
    assert (config.ca, config.tls_server_name, config.proxy) == (
        CA,
        "kubernetes.default",
        "socks5://proxy:1080",
    )
    assert config.namespace == "prod"


def test_insecure(tmp_path: Path) -> None:
    assert load_built(tmp_path, cluster={"insecure-skip-tls-verify": True}).insecure


def test_nulls_are_absent_fields(tmp_path: Path) -> None:
    built = kubeconfigs.build(cluster={"certificate-authority": None, "extensions": None}, namespace=None)
    built |= {"users": None, "preferences": None}
    built["contexts"][0]["context"]["user"] = None
    assert load(kubeconfigs.write(tmp_path / "config", built)).namespace == "default"


def test_yaml_means_what_it_means_to_kubectl(tmp_path: Path) -> None:
    text = """\
    current-context: 2024-01-01
    contexts: [{name: 2024-01-01, context: {cluster: &c 1_a, namespace: 10:20}}]
    clusters: [{name: *c, cluster: {server: https://x, insecure-skip-tls-verify: yes}}]
    """
    config = load(kubeconfigs.write(tmp_path / "config", text))
    assert (config.server, config.namespace, config.insecure) == ("https://x", "10:20", True)


@pytest.mark.parametrize("relative", [True, False], ids=["relative", "absolute"])
def test_authority_file(tmp_path: Path, relative: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.crt").write_bytes(CA)
    named = "../ca.crt" if relative else str(tmp_path / "ca.crt")
    built = kubeconfigs.build(cluster={"certificate-authority": named})
    kubeconfigs.write(tmp_path / "sub" / "config", built)
    monkeypatch.chdir(tmp_path)
    assert load("sub/config").ca == CA


def test_inline_authority_wins_over_the_file(tmp_path: Path) -> None:
    cluster = {"certificate-authority": "/missing", "certificate-authority-data": pems.b64(CA)}
    assert load_built(tmp_path, cluster=cluster).ca == CA


def test_base64_may_be_folded(tmp_path: Path) -> None:
    folded = "\n".join(pems.b64(CA)[start : start + 64] for start in range(0, len(pems.b64(CA)), 64))
    assert load_built(tmp_path, cluster={"certificate-authority-data": folded}).ca == CA


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://x", "https://x"),
        ("https://x/", "https://x"),
        ("https://x:1/k8s/clusters/c-1/", "https://x:1/k8s/clusters/c-1"),
        ("https://x/prefix?query=1#fragment", "https://x/prefix"),
        ("https://[fd00::1]:6443", "https://[fd00::1]:6443"),
        ("HTTPS://x", "https://x"),
        ("x:8080", "http://x:8080"),
        ("localhost", "http://localhost"),
    ],
)
def test_server(tmp_path: Path, server: str, expected: str) -> None:
    assert load_built(tmp_path, cluster={"server": server}).server == expected


@pytest.mark.parametrize(
    "server",
    [
        "",
        "ftp://x",
        "https://",
        "https://x:port",
        "https://x:0",
        "https://[::1",
        "https://x y",
        "https://ü",
        "/path",
    ],
)
def test_unusable_server(tmp_path: Path, server: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot use cluster 'main' of .*/config: .*https://HOST:PORT"):
        load_built(tmp_path, cluster={"server": server})


def test_password_in_the_server_is_refused_and_not_repeated(tmp_path: Path) -> None:
    for server in ("https://me:hunter2@x", "ftp://me:hunter2@x"):
        with pytest.raises(ConfigError, match="cluster 'main'") as caught:
            load_built(tmp_path, cluster={"server": server})
        assert "hunter2" not in str(caught.value)


def test_proxy_of_the_environment(tmp_path: Path) -> None:
    path = kubeconfigs.write(tmp_path / "config", kubeconfigs.build())
    assert load(path, HTTPS_PROXY="http://p:1").proxy == "http://p:1"
    assert load(path, HTTPS_PROXY="http://p:1", NO_PROXY="main").proxy == ""
    own = kubeconfigs.write(tmp_path / "own", kubeconfigs.build(cluster={"proxy-url": "http://own:1"}))
    assert load(own, HTTPS_PROXY="http://p:1", NO_PROXY="*").proxy == "http://own:1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"cluster": {"proxy-url": "ftp://p"}}, "proxy-url of cluster 'main' of .*socks5", id="proxy"
        ),
        pytest.param(
            {"cluster": {"insecure-skip-tls-verify": True, "certificate-authority-data": pems.b64(CA)}},
            "insecure-skip-tls-verify: true, which contradict",
            id="insecure with a CA",
        ),
        pytest.param(
            {"cluster": {"certificate-authority-data": "%"}},
            "certificate-authority-data of cluster 'main' of .*: it is not base64",
            id="not base64",
        ),
        pytest.param(
            {"cluster": {"certificate-authority-data": pems.b64(b"x")}},
            "the certificate authority of cluster 'main' of .*no PEM certificate",
            id="not PEM",
        ),
        pytest.param(
            {"cluster": {"certificate-authority": "missing.crt"}},
            "certificate-authority of cluster 'main' .*missing.crt: No such file",
            id="no CA file",
        ),
    ],
)
def test_unusable_cluster(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_built(tmp_path, **change)


def test_context_override(tmp_path: Path) -> None:
    built, other = kubeconfigs.build("one"), kubeconfigs.build("two")
    for section in ("contexts", "clusters", "users"):
        built[section] += other[section]
    path = kubeconfigs.write(tmp_path / "config", built)
    assert load(path).server == "https://one:6443"
    assert load(path, "two").server == "https://two:6443"
    with pytest.raises(ConfigError, match=r"context 'three': .*/config does not have it, only 'one', 'two'"):
        load(path, "three")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"current-context": ""}, r"no current-context; .*--context \('main'\)", id="no current"),
        pytest.param(
            {"current-context": "x"}, "cannot use context 'x': .*only 'main'", id="current not there"
        ),
        pytest.param(
            {"clusters": []}, "names the cluster 'main', but clusters has only none", id="no cluster"
        ),
        pytest.param({"users": []}, "names the user 'main', but users has only none", id="no user"),
        pytest.param({"contexts": [{"name": "main"}]}, "names no cluster; set its cluster to", id="no names"),
        pytest.param({"kind": "Pod"}, "is v1 Pod, not a kubeconfig", id="kind"),
        pytest.param({"apiVersion": "v9"}, "is v9 Config, not a kubeconfig", id="version"),
    ],
)
def test_unusable_config(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(kubeconfigs.write(tmp_path / "config", kubeconfigs.build() | change))


@pytest.mark.parametrize("section", ["clusters", "users", "contexts"])
def test_two_entries_of_one_name(tmp_path: Path, section: str) -> None:
    built = kubeconfigs.build()
    built[section] *= 2
    with pytest.raises(ConfigError, match=f"{section} has two entries named 'main'"):
        load(kubeconfigs.write(tmp_path / "config", built))


async def test_several_files_merge_first_wins(tmp_path: Path) -> None:
    first = kubeconfigs.build("a", user={"token": "first"}) | {"current-context": ""}
    second = kubeconfigs.build("a", user={"token": "second", "username": "x"}, namespace="second")
    third = kubeconfigs.build("b", user={"tokenFile": "b.token"})
    (tmp_path / "three").mkdir()
    (tmp_path / "three" / "b.token").write_text("third")
    paths = [
        kubeconfigs.write(tmp_path / "one", first),
        str(tmp_path / "missing"),
        "",
        kubeconfigs.write(tmp_path / "two", second),
        kubeconfigs.write(tmp_path / "three" / "config", third),
        str(tmp_path / "one"),
    ]
    listed = os.pathsep.join(paths)
    config = load(KUBECONFIG=listed)
    assert (await token_of(config), config.namespace) == ("Bearer first", "default")
    assert await token_of(load(context="b", KUBECONFIG=listed)) == "Bearer third"
    found = kubeconfig.read(environ={"KUBECONFIG": listed})
    assert [file.name for file in found.files] == ["one", "two", "config"]
    assert found.current_context == "a"


def test_broken_file_in_the_list_is_an_error(tmp_path: Path) -> None:
    good = kubeconfigs.write(tmp_path / "good", kubeconfigs.build())
    bad = kubeconfigs.write(tmp_path / "bad", "a: [")
    with pytest.raises(ConfigError, match=r"cannot use .*/bad: line \d+: it is not YAML"):
        load(KUBECONFIG=f"{good}{os.pathsep}{bad}")


def test_home_serves_when_nothing_is_named(tmp_path: Path) -> None:
    kubeconfigs.write(tmp_path / ".kube" / "config", kubeconfigs.build("home"))
    other = kubeconfigs.write(tmp_path / "other", kubeconfigs.build("other"))
    assert load(HOME=str(tmp_path)).server == "https://home:6443"
    assert load(HOME=str(tmp_path), KUBECONFIG="").server == "https://home:6443"
    assert load(HOME=str(tmp_path), KUBECONFIG=other).server == "https://other:6443"
    assert load(other, HOME=str(tmp_path), KUBECONFIG="/missing").server == "https://other:6443"


def test_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the kubeconfig .*/missing: it does not exist"):
        load(str(tmp_path / "missing"), HOME=str(tmp_path))


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        pytest.param({"HOME": "/nowhere"}, "there is no /nowhere/.kube/config", id="home"),
        pytest.param({"KUBECONFIG": "/no/a:/no/b"}, "there is no /no/a, /no/b", id="list"),
        pytest.param({}, "HOME is not set", id="no home"),
    ],
)
def test_no_file_at_all(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot find a kubeconfig: .*{message}.*--kubeconfig"):
        load(**environ)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"\xff\xfe", "byte 0 is not UTF-8", id="binary"),
        pytest.param(b"", "no current-context", id="empty"),
        pytest.param(b"# only a comment\n", "no current-context", id="comment"),
        pytest.param(b"eyJhbGciOi.secret.token", "the file: expected object, got str", id="a token"),
        pytest.param(b"[1]", "the file: expected object, got array", id="list"),
        pytest.param(b"a: 1\n---\nb: 1\n", "it has 2 YAML documents", id="two documents"),
        pytest.param(b"x" * (kubeconfig.MAX_FILE_BYTES + 1), "larger than", id="huge"),
    ],
)
def test_file_that_is_no_kubeconfig(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load(str(path))
    assert "secret" not in str(caught.value)


def test_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = Path(kubeconfigs.write(tmp_path / "config", kubeconfigs.build()))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load(str(path)).server == "https://main:6443"


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"cannot read the kubeconfig '{tmp_path}': Is a directory"):
        load(str(tmp_path))
    with pytest.raises(ConfigError, match="cannot read the kubeconfig"):
        load("a\0b")


@pytest.mark.parametrize(
    ("user", "mode", "warned"),
    [
        pytest.param({"token": "x"}, 0o600, False, id="private"),
        pytest.param({"token": "x"}, 0o644, True, id="token"),
        pytest.param({"password": "x"}, 0o640, True, id="password for the group"),
        pytest.param({"client-key-data": "x"}, 0o604, True, id="key"),
        pytest.param({"tokenFile": "x"}, 0o644, False, id="no secret in it"),
    ],
)
def test_exposed_secrets_are_a_warning(tmp_path: Path, user: dict[str, Any], mode: int, warned: bool) -> None:
    path = kubeconfigs.write(tmp_path / "config", kubeconfigs.build(user=user))
    Path(path).chmod(mode)
    warnings = kubeconfig.read(path=path, environ={}).warnings
    assert [f"chmod 600 {path}" in warning for warning in warnings] == ([True] if warned else [])


def test_nothing_secret_shows_in_a_repr(tmp_path: Path) -> None:
    built = kubeconfigs.build(user={"token": "hunter2"})
    found = kubeconfig.read(path=kubeconfigs.write(tmp_path / "config", built), environ={})
    assert "hunter2" not in repr(found)
