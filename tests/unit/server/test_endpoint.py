"""What kubeconfigs and certificates say of where a server is."""

from __future__ import annotations

import pytest

from nodemanager.server.http.endpoint import Advertised, Endpoint, name_fault

LOOPBACK = ["127.0.0.1", "::1", "localhost"]


@pytest.mark.parametrize(
    ("endpoint", "bound", "url"),
    [
        (Endpoint(), "127.0.0.1", "https://127.0.0.1:1"),
        (Endpoint("10.0.0.5"), "10.0.0.5", "https://10.0.0.5:1"),
        (Endpoint("0.0.0.0"), "0.0.0.0", "https://127.0.0.1:1"),
        (Endpoint("::"), "::", "https://[::1]:1"),
        (Endpoint("0.0.0.0", 0, Advertised("api.example.org")), "0.0.0.0", "https://api.example.org:1"),
        (Endpoint("::", 0, Advertised("fd00::5", 443)), "::", "https://[fd00::5]:443"),
    ],
)
def test_a_kubeconfig_never_names_an_address_that_stands_for_all(
    endpoint: Endpoint, bound: str, url: str
) -> None:
    assert endpoint.url(bound, 1) == url


def test_the_certificate_has_every_name_once_and_none_that_nobody_can_use() -> None:
    endpoint = Endpoint("0.0.0.0", 0, Advertised("api.example.org"), ("10.0.0.5", "localhost", "10.0.0.5"))
    assert endpoint.certificate_names("0.0.0.0") == [
        "api.example.org", "10.0.0.5", "localhost", "127.0.0.1", "::1",
    ]  # fmt: skip
    assert Endpoint("localhost").certificate_names("127.0.0.1") == ["127.0.0.1", "localhost", "::1"]


def test_only_who_listens_everywhere_and_says_nothing_is_hidden() -> None:
    assert Endpoint("0.0.0.0").is_hidden("0.0.0.0")
    assert not Endpoint("0.0.0.0", 0, Advertised("api")).is_hidden("0.0.0.0")
    assert not Endpoint().is_hidden("127.0.0.1")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("api.example.org", ""), ("10.0.0.5", ""), ("fd00::5", ""), ("api", ""), ("*.example.org", ""),
        ("0.0.0.0", "stands for every address"), ("::", "stands for every address"),
        ("a_b", "neither an IP address nor"), ("", "neither an IP address nor"), ("a b", "neither"),
        ("1.2.3", "'1.2.3' is not an IP address"), ("a" * 64, "neither"), ("a." * 130 + "a", "neither"),
    ],
)  # fmt: skip
def test_names(name: str, fault: str) -> None:
    found = name_fault(name, wildcard=True)
    assert fault in found
    assert bool(fault) == bool(found)


def test_a_kubeconfig_names_no_wildcard() -> None:
    assert name_fault("*.example.org", wildcard=False)
