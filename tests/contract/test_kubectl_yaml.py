"""Our YAML against kubectl's own: the same text must mean the same to both."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from nodemanager.kube import manifests
from support import cases

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, labels: {a: b}}\n"
WORDS = [
    "08", "1.0", "1e3", "0o17", "1:30", "2020-01-01", "2020-01-01T00:00:00Z", "=", "<<", "y", "N", "on",
    "Off", "+1", "1_000", "0x1f", ".5", "0b11", "-0b11", "0644", "1.", "1e-7", "1.5e3", "-0", "-0.0",
    "1_0.5", "_1", "0x", "-0o17", "+0x1f", "0X1F", "1__0", "0_7", "+.5", "0.1", "12e03", "0o", "1e400",
    "0b", "TRUE", "Null", "~", "+y", "09.5", "0x1.8p1", "inf", "1e", "nan", "yEs",
    "123456789012345678901234567890", "1e22", "0xfffffffffffffffff", "1.2.3", "null", "00", "0.0", "-1",
    ".e5", "1,000",
]  # fmt: skip
MAPPINGS = [
    pytest.param("{1: a, 1.5: b, on: c, 08: d, 0x10: e}", id="keys"),
    pytest.param("{<<: {a: 1, b: 2}, a: 3}", id="merge-above"),
    pytest.param("{a: 3, <<: {a: 1, b: 2}}", id="merge-below"),
    pytest.param("{<<: [{a: 1}, {a: 2, b: 2}]}", id="merge-of-several"),
    pytest.param("{a: &x [1], b: *x}", id="alias"),
    pytest.param("{a: !!binary aGVsbG8=, b: !!str 1, c: '1', d: \"1\"}", id="tags-and-quotes"),
    pytest.param("\n  a: |\n    x\n     y\n\n  b: >-\n    x\n    y\n", id="blocks"),
]

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")


def kubectl_reads(text: str) -> dict[str, object]:
    """Return what kubectl makes of a manifest, without any server."""
    argv = ["kubectl", "label", "--local", "-f", "-", "-o", "json", "a=b", "--overwrite"]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=30, check=True)
    read: dict[str, object] = json.loads(done.stdout)
    return read


def test_words() -> None:
    text = HEAD + "words:\n" + "".join(f"- {word}\n" for word in WORDS)
    (ours,) = manifests.load_all(text, "words")
    theirs = kubectl_reads(text)["words"]
    assert isinstance(theirs, list)
    pairs = zip(WORDS, ours["words"], theirs, strict=True)
    differ = [pair for pair in pairs if (type(pair[1]), pair[1]) != (type(pair[2]), pair[2])]
    assert differ == []


@pytest.mark.parametrize("body", MAPPINGS)
def test_mappings(body: str) -> None:
    text = f"{HEAD}map: {body}"
    assert manifests.load_all(text, "mapping") == [kubectl_reads(text)]


def test_what_we_write_kubectl_reads_the_same() -> None:
    odd = [
        "a\nb\n",
        " lead",
        "trail ",
        "#",
        "- x",
        "k: v",
        "",
        "\u2028",
        "\x85",
        "\r\n",
        "tab\t",
        "'",
        '"',
        "\u00e9",
    ]
    (obj,) = manifests.load_all(HEAD, "head")
    obj["values"] = [*WORDS, *odd]
    assert kubectl_reads(manifests.dump(obj)) == obj


@pytest.mark.parametrize(
    "path", [*cases.manifests("accepted"), *cases.manifests("made_by_operator"), *cases.manifests("refused")]
)
def test_every_case_is_read_alike(path: Path) -> None:
    ours = manifests.load_all(path.read_text(encoding="utf-8"), path.name)
    for obj in ours:
        obj["metadata"].setdefault("labels", {})["a"] = "b"
        assert kubectl_reads(manifests.dump(obj)) == obj
