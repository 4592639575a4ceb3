"""Decoding of kubeconfig files: every bad input is an error that names the field, and nothing else."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodemanager.client.auth import kubeconfig
from nodemanager.client.auth import kubeconfig_types as types
from nodemanager.client.auth.config import ClientConfig
from nodemanager.kube.errors import ConfigError
from support import examples, kubeconfigs, pems


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("users: [{name: a, user: {token: 5}}]", "users[0].user.token: expected str, got int"),
        ("users: [{name: a}, {name: [b]}]", "users[1].name: expected str, got array"),
        ("clusters: {a: b}", "clusters: expected array, got object"),
        ("current-context: 1", "current-context: expected str, got int"),
        (
            "clusters: [{cluster: {insecure-skip-tls-verify: 'true'}}]",
            "clusters[0].cluster.insecure-skip-tls-verify: expected bool, got str",
        ),
        ("users: [{user: {exec: {args: [1]}}}]", "users[0].user.exec.args[0]: expected str, got int"),
        ("users: [{user: {exec: sh}}]", "users[0].user.exec: expected object | null, got str"),
    ],
)
def test_wrong_type_names_file_entry_and_field(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        types.parse(text, "/x/config")
    assert str(caught.value) == f"cannot use /x/config: {message}"


BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[" * 100_000, "nested too deep", id="deep"),
        pytest.param("{a: " * 110 + "b" + "}" * 110, "nested too deep", id="just too deep"),
        pytest.param(BOMB, "repeats itself without end", id="alias bomb"),
        pytest.param("a: &a [*a]", "repeats itself without end", id="endless"),
        pytest.param("a: 'unfinished", "line 1: it is not YAML", id="quote"),
        pytest.param("a: b\n\tc: d", "line 2: it is not YAML", id="tab"),
        pytest.param("!!python/object/apply:os.getcwd []", "line 1: it is not YAML", id="python object"),
        pytest.param("? [a]\n: b", "line 1: it is not YAML", id="list as key"),
        pytest.param("a: !secret b", "it is not YAML", id="unknown tag"),
        pytest.param("a: \x01", "it is not YAML", id="control character"),
    ],
)
def test_hostile_yaml(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^cannot use f: .*{message}"):
        types.parse(text, "f")


def test_nulls_inside_an_extension_are_kept() -> None:
    text = "clusters: [{cluster: {extensions: [{name: x, extension: {a: null, b: [null]}}]}}]"
    config = types.parse(text, "f")
    assert config.clusters[0].cluster.extensions[0].extension == {"a": None, "b": [None]}


def complete() -> dict[str, Any]:
    """Return a valid kubeconfig that uses every field."""
    one = pems.make()
    built = kubeconfigs.build(
        cluster={
            "certificate-authority-data": pems.b64(one.ca),
            "tls-server-name": "x",
            "proxy-url": "http://p:1",
            "disable-compression": True,
            "insecure-skip-tls-verify": False,
            "certificate-authority": "",
            "extensions": [{"name": types.EXEC_EXTENSION, "extension": {"a": 1}}],
        },
        user={
            "client-certificate-data": pems.b64(one.certificate),
            "client-key-data": pems.b64(one.key),
            "token": "t",
            "as": "jane",
            "as-uid": "1",
            "as-groups": ["g"],
            "as-user-extra": {"k": ["v"]},
        },
        namespace="n",
    )
    built["users"].append({"name": "exec", "user": {"exec": complete_exec()}})
    built["contexts"].append({"name": "exec", "context": {"cluster": "main", "user": "exec"}})
    return built


def complete_exec() -> dict[str, Any]:
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "plugin",
        "args": ["a"],
        "env": [{"name": "N", "value": "v"}],
        "installHint": "install it",
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of everything in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    return [path, *(each for key, item in items for each in places(item, (*path, key)))]


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return the document with something else at a place."""
    if not path:
        return value
    changed = copy.copy(document)
    changed[path[0]] = put(changed[path[0]], path[1:], value)
    return changed


TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
PLACES = places(complete())


def outcome(path: Path, context: str) -> ClientConfig | ConfigError:
    try:
        return kubeconfig.load(
            path=str(path), context=context, environ={"HTTPS_PROXY": ""}, run=kubeconfigs.no_commands
        )
    except ConfigError as error:
        return error


QUICK = settings(
    max_examples=examples.some(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@QUICK
@given(data=st.data(), context=st.sampled_from(["main", "exec", ""]))
def test_any_change_of_a_valid_file_is_usable_or_a_config_error(
    tmp_path: Path, data: st.DataObject, context: str
) -> None:
    document: Any = complete()
    for place in data.draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)):
        try:
            document = put(document, place, data.draw(JUNK))
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took that place away
    kubeconfigs.write(tmp_path / "config", document)
    assert isinstance(outcome(tmp_path / "config", context), ClientConfig | ConfigError)


@QUICK
@given(text=st.one_of(st.binary(max_size=200), TEXT.map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_garbage_is_a_config_error(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "config").write_bytes(text)
    assert isinstance(outcome(tmp_path / "config", ""), ConfigError)


@QUICK
@given(data=st.data())
def test_damaged_text_is_usable_or_a_config_error(tmp_path: Path, data: st.DataObject) -> None:
    path = Path(kubeconfigs.write(tmp_path / "config", complete()))
    text = path.read_bytes()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    path.write_bytes(text[:start] + data.draw(st.binary(max_size=10)) + text[end:])
    assert isinstance(outcome(path, "exec"), ClientConfig | ConfigError)


def test_the_complete_file_is_usable(tmp_path: Path) -> None:
    path = Path(kubeconfigs.write(tmp_path / "config", complete()))
    assert isinstance(outcome(path, "main"), ClientConfig)
    assert isinstance(outcome(path, "exec"), ClientConfig)
