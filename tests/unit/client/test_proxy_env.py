"""Which proxy the environment asks for, by Go's rules."""

from __future__ import annotations

import pytest

from nodemanager.client.http import proxy_env
from nodemanager.kube.errors import ConfigError

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        pytest.param("https://x:6443", {}, "", id="none"),
        pytest.param("https://x", {"HTTPS_PROXY": PROXY}, PROXY, id="upper case"),
        pytest.param("https://x", {"https_proxy": PROXY}, PROXY, id="lower case"),
        pytest.param(
            "https://x", {"HTTPS_PROXY": PROXY, "https_proxy": "http://no"}, PROXY, id="upper first"
        ),
        pytest.param("https://x", {"HTTPS_PROXY": "", "https_proxy": PROXY}, PROXY, id="empty is unset"),
        pytest.param("https://x", {"HTTP_PROXY": PROXY}, "", id="http proxy is not for https"),
        pytest.param("http://x", {"HTTP_PROXY": PROXY}, PROXY, id="http"),
        pytest.param("http://x", {"HTTPS_PROXY": PROXY}, "", id="https proxy is not for http"),
        pytest.param("https://x", {"HTTPS_PROXY": "proxy:3128"}, PROXY, id="without scheme"),
        pytest.param("https://x", {"HTTPS_PROXY": "socks5://p:1"}, "socks5://p:1", id="socks"),
        pytest.param("https://localhost:6443", {"HTTPS_PROXY": PROXY}, "", id="localhost"),
        pytest.param("https://127.1.2.3:6443", {"HTTPS_PROXY": PROXY}, "", id="loopback"),
        pytest.param("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, "", id="loopback v6"),
    ],
)
def test_from_environment(server: str, environ: dict[str, str], expected: str) -> None:
    assert proxy_env.from_environment(server, environ) == expected


@pytest.mark.parametrize(
    ("server", "no_proxy", "direct"),
    [
        pytest.param("https://a.example.com", "example.com", True, id="domain covers its hosts"),
        pytest.param("https://example.com", "example.com", True, id="domain covers itself"),
        pytest.param("https://example.com", ".example.com", False, id="dot does not cover the domain"),
        pytest.param("https://a.example.com", ".example.com", True, id="dot covers its hosts"),
        pytest.param("https://a.example.com", "*.example.com", True, id="star covers its hosts"),
        pytest.param("https://example.com", "*.example.com", False, id="star does not cover the domain"),
        pytest.param("https://badexample.com", "example.com", False, id="not a suffix of letters"),
        pytest.param("https://A.Example.COM", "EXAMPLE.com", True, id="case"),
        pytest.param("https://x", "*", True, id="everything"),
        pytest.param("https://x", "y, * ,z", True, id="everything in a list"),
        pytest.param("https://x", "", False, id="empty"),
        pytest.param("https://x", " , ,", False, id="empty items"),
        pytest.param("https://x", "y , x", True, id="spaces"),
        pytest.param("https://x:6443", "x:6443", True, id="port"),
        pytest.param("https://x:6443", "x:443", False, id="another port"),
        pytest.param("https://x", "x:443", True, id="default port"),
        pytest.param("https://x", ":443", False, id="port without host"),
        pytest.param("https://10.1.2.3:6443", "10.1.2.3", True, id="address"),
        pytest.param("https://10.1.2.3:6443", "10.1.2.3:6443", True, id="address and port"),
        pytest.param("https://10.1.2.3:6443", "10.1.2.3:1", False, id="address and another port"),
        pytest.param("https://10.1.2.3:6443", "10.0.0.0/8", True, id="network"),
        pytest.param("https://10.1.2.3:6443", "10.9.9.9/8", True, id="network by a host in it"),
        pytest.param("https://11.1.2.3:6443", "10.0.0.0/8", False, id="another network"),
        pytest.param("https://ten.example:6443", "10.0.0.0/8", False, id="names are not resolved"),
        pytest.param("https://10.1.2.3:6443", "10.0.0.0/99", False, id="malformed network"),
        pytest.param("https://10.1.2.3:6443", "fd00::/8", False, id="network of another family"),
        pytest.param("https://[fd00::1]:6443", "fd00::/8", True, id="network v6"),
        pytest.param("https://[fd00::1]:6443", "fd00::1", True, id="address v6"),
        pytest.param("https://[fd00::1]:6443", "fd00:0::1", True, id="address v6 spelled otherwise"),
        pytest.param("https://[fd00::1]:6443", "[fd00::1]:6443", True, id="address v6 and port"),
        pytest.param("https://[fd00::1]:6443", "[fd00::1]:1", False, id="address v6 and another port"),
    ],
)
@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
def test_no_proxy(server: str, no_proxy: str, direct: bool, variable: str) -> None:
    chosen = proxy_env.from_environment(server, {"HTTPS_PROXY": PROXY, variable: no_proxy})
    assert chosen == ("" if direct else PROXY)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://user:hunter2@p:1",
        "http://",
        "http://user:hunter2@p:x",
        "http://[::1",
        "http://p:0",
        "http://p\n",
    ],
)
def test_malformed_proxy_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(
        ConfigError, match=r"cannot use the environment variable HTTPS_PROXY: .*http://HOST"
    ) as caught:
        proxy_env.from_environment("https://x", {"HTTPS_PROXY": url})
    assert "hunter2" not in str(caught.value)
