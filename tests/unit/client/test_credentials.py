"""Credentials that do not change by themselves, and combinations."""

from __future__ import annotations

import base64

import pytest

from nodemanager.client.auth import credentials
from nodemanager.client.auth.config import Anonymous, Credentials, Headers, TlsIdentity
from nodemanager.kube.errors import ConfigError


class Scripted:
    """Credentials that say what they are told to."""

    def __init__(self, headers: Headers, identity: TlsIdentity | None = None, *, fresh: bool = False):
        self._headers, self._identity, self._fresh = headers, identity, fresh
        self.refreshed = 0

    async def headers(self) -> Headers:
        return self._headers

    async def tls_identity(self) -> TlsIdentity | None:
        return self._identity

    async def refresh(self) -> bool:
        self.refreshed += 1
        return self._fresh


async def test_bearer_token() -> None:
    token = credentials.BearerToken("abc.def-_~+/=")
    assert await token.headers() == {"Authorization": "Bearer abc.def-_~+/="}
    assert await token.tls_identity() is None
    assert not await token.refresh()
    assert "abc.def" not in repr(token)


@pytest.mark.parametrize(
    "token", ["two words", "line\nbreak", "tail\n", " head", "ümlaut", "nul\0", "\ud800", ""]
)
def test_malformed_token_is_refused_without_repeating_it(token: str) -> None:
    with pytest.raises(ConfigError, match="cannot use the token of user 'x'") as caught:
        credentials.BearerToken(token, source="user 'x'")
    assert not token or token.strip() not in str(caught.value)


async def test_basic_auth() -> None:
    basic = credentials.BasicAuth("me", "pass:wörd")
    value = (await basic.headers())["Authorization"]
    assert isinstance(value, str)
    assert value.startswith("Basic ")
    assert base64.b64decode(value.removeprefix("Basic ")).decode() == "me:pass:wörd"
    assert await basic.tls_identity() is None
    assert not await basic.refresh()


async def test_impersonation_has_several_values_for_groups_and_extras() -> None:
    other = credentials.Impersonation("jane", "42", ["a", "b", "c"], {"Scopes/x%": ["view", "edit"]})
    assert await other.headers() == {
        "Impersonate-User": ("jane",),
        "Impersonate-Uid": ("42",),
        "Impersonate-Group": ("a", "b", "c"),
        "Impersonate-Extra-scopes%2Fx%25": ("view", "edit"),
    }
    assert await other.tls_identity() is None
    assert not await other.refresh()


async def test_extra_keys_that_differ_in_case_only_are_one_key() -> None:
    headers = await credentials.Impersonation("jane", "", [], {"A": ["1"], "a": ["2"]}).headers()
    assert headers["Impersonate-Extra-a"] == ("1", "2")


@pytest.mark.parametrize("value", ["line\nbreak", "", "jürgen", " padded"])
def test_impersonation_of_what_no_header_can_carry(value: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot impersonate: Impersonate-Group: .*printable ASCII"):
        credentials.Impersonation("jane", "", [value], {})


async def test_combined_has_all_headers_and_the_first_certificate() -> None:
    first, second = TlsIdentity(b"1", b"1"), TlsIdentity(b"2", b"2")
    both = credentials.Combined([Scripted({"A": "1"}), Scripted({"B": "2"}, first), Scripted({}, second)])
    assert await both.headers() == {"A": "1", "B": "2"}
    assert await both.tls_identity() == first
    assert await credentials.Combined([Scripted({})]).tls_identity() is None


@pytest.mark.parametrize(("first", "second"), [(False, False), (True, False), (False, True), (True, True)])
async def test_combined_refreshes_every_part(first: bool, second: bool) -> None:
    parts = [Scripted({}, fresh=first), Scripted({}, fresh=second)]
    assert await credentials.Combined(parts).refresh() == (first or second)
    assert [part.refreshed for part in parts] == [1, 1]


def test_combine_wraps_only_what_needs_wrapping() -> None:
    one: Credentials = Scripted({})
    assert credentials.combine([one]) is one
    assert isinstance(credentials.combine([]), Anonymous)
    assert isinstance(credentials.combine([one, one]), credentials.Combined)
