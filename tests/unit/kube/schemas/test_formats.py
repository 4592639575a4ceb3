"""String formats; the whole matrix is compared with a kube-apiserver in the contract tests."""

from __future__ import annotations

import pytest

from nodemanager.kube.schemas.formats import STRING_FORMATS


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f1f77"),
        ("byte", "YWJj", "YWJ"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
        ("creditcard", "4111 1111 1111 1111", "4111111111111112"),
        ("date", "2020-02-29", "2021-02-29"),
        ("datetime", "2020-01-02t03:04:05.1+01:00", "2020-01-02T24:00:00Z"),
        ("duration", "2 days", "2 fortnights"),
        ("email", "A B <a@b.c>", "a@b@c"),
        ("hexcolor", "#fff", "#ffff"),
        ("hostname", "ex-am.example", "ex-am"),
        ("ipv4", "01.2.3.4", "1.2.3"),
        ("ipv6", "::1", "fe80::1%eth0"),
        ("isbn", "978-0321751041", "0321751044"),
        ("k8slongname", "a.b", "a..b"),
        ("k8sshortname", "a-b", "a" * 64),
        ("mac", "0123.4567.89ab", "01:23-45:67:89:ab"),
        ("rgbcolor", "rgb( 1,2,3)", "rgb(256,0,0)"),
        ("ssn", "123-45-6789", "123456789"),
        ("uri", "http://[::1]:80/a", "http://a b/"),
        ("uuid", "123E4567e89b-12d3-a456-426614174000", "123e4567"),
        ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    assert STRING_FORMATS[name](good)
    assert not STRING_FORMATS[name](bad)


@pytest.mark.parametrize("text", ["a" * 20000, "a." * 9000, '"' * 9000, "a@" * 9000, "%" * 9000, "1" * 9000])
def test_no_text_is_expensive(text: str) -> None:
    for holds in STRING_FORMATS.values():
        assert holds(text) in (True, False)
