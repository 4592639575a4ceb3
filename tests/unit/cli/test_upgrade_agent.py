"""What `nodemanager upgrade-agent` refuses before it looks at the host."""

from __future__ import annotations

import pytest

from support import cli


@pytest.mark.parametrize("digest", ["", "abc", "0" * 63 + "g"])
def test_a_digest_that_is_none_is_not_the_same_as_none(digest: str) -> None:
    """As of `--sha256 "$(cut -c-64 FILE)"`, where there is no such file: any program would do."""
    ended = cli.run("upgrade-agent", "--file", "/nonexistent", "--unsigned", "--sha256", digest)
    assert ended.code == 2
    assert "is no SHA-256: it has 64 hexadecimal digits" in ended.stderr
