"""Plain YAML: what it says is what PyYAML says; what it is not sure of, it does not say."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.api import manifests, plain_yaml
from support import cli

KUBECONFIG = """\
# of a host
apiVersion: v1
kind: Config
current-context: web
clusters:
- name: web
  cluster:
    server: https://10.0.0.1:6443
    certificate-authority-data: LS0tLS1CRUdJTi+/dHU==
    insecure-skip-tls-verify: true
contexts:
  - context: {}
    name: admin@web

users: []
"""

plain = st.sampled_from(
    ("a", "b-c", "no", "1", "0x1f", "1e3", "v1", "https://h:1/", "2020-01-01", "1_0", "a=", "{}", "[]")
)
odd = st.sampled_from(
    ("null", "01", "x:", "a b", "/", "-", "- ", "a#b", "# c", "'q'", '"q"', "*a", "&a", "!t", "~", "<<", "|",
     ">", "%", "é", "---", "...", "? a", "@x", "\t", "1:30", ".inf", "+1", "x:y", "  ", "- a: b", "\n", "")
)  # fmt: skip
"""What might be taken for a plain word, or for nothing."""
keys = st.sampled_from(("a", "b-c", "d.e/f", "g"))


def maps(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return maps of maps and lists."""
    inner: st.SearchStrategy[Any] = st.recursive(
        leaves,
        lambda more: st.one_of(
            st.lists(more, min_size=1, max_size=3), st.dictionaries(keys, more, min_size=1)
        ),
        max_leaves=8,
    )
    return st.dictionaries(keys, inner, min_size=1)


def put(text: str, place: int, cut: int, what: str) -> str:
    """Return a text in which something else stands in the place of a few characters."""
    place %= len(text) + 1
    return text[:place] + what + text[place + cut :]


def by_library(text: str) -> list[tuple[int, Any]] | None:
    """Return what PyYAML makes of a text, None where it refuses it."""
    reader = manifests._Reader(text)
    try:
        return list(reader.documents())
    except manifests._Problem:
        return None


def test_a_kubeconfig_is_plain() -> None:
    assert plain_yaml.read(KUBECONFIG) == (
        2,
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "web",
            "clusters": [
                {
                    "name": "web",
                    "cluster": {
                        "server": "https://10.0.0.1:6443",
                        "certificate-authority-data": "LS0tLS1CRUdJTi+/dHU==",
                        "insecure-skip-tls-verify": True,
                    },
                }
            ],
            "contexts": [{"context": {}, "name": "admin@web"}],
            "users": [],
        },
    )
    assert by_library(KUBECONFIG) == [plain_yaml.read(KUBECONFIG)]


@given(maps(plain), st.integers(0, 500), st.integers(0, 4), odd)
def test_it_says_what_the_library_says_or_nothing(
    value: dict[str, Any], place: int, cut: int, what: str
) -> None:
    text = put(manifests.dump(value).replace("'", ""), place, cut, what)
    found = plain_yaml.read(text)
    assert found is None or [found] == by_library(text)


@given(maps(st.one_of(plain, odd, st.text(max_size=5), st.integers(), st.booleans(), st.none())))
def test_it_reads_what_is_written_or_leaves_it_alone(value: dict[str, Any]) -> None:
    found = plain_yaml.read(manifests.dump(value))
    assert found is None or found[1] == value


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("a: b\na: c\n", id="key given twice"),
        pytest.param("a:\nb: c\n", id="no value"),
        pytest.param("a: b\n  c\n", id="text of two lines"),
        pytest.param("- a: b\n c: d\n", id="between two columns"),
        pytest.param("- a\n- b\n", id="a list"),
        pytest.param("a: b\n---\nc: d\n", id="two documents"),
        pytest.param("a: b # c\n", id="comment behind a word"),
        pytest.param("true: a\n", id="a key that is no text"),
        pytest.param("a:\n" + "".join(f"{' ' * deep}a:\n" for deep in range(1, 40)), id="deep"),
        pytest.param("a: " + "b" * plain_yaml.MAX_TEXT, id="long"),
    ],
)
def test_it_leaves_the_rest_to_the_library(text: str) -> None:
    assert plain_yaml.read(text) is None


def test_a_plain_kubeconfig_is_read_without_the_library() -> None:
    code = f"import sys; from nodemanager.api import manifests; manifests.documents({KUBECONFIG!r}, 'x')"
    argv = [sys.executable, "-c", f"{code}; sys.exit('yaml' in sys.modules)"]
    assert subprocess.run(argv, timeout=30, check=False, env=cli.environment()).returncode == 0
