"""Contents that are no template: literal bytes, and the value of one key of a Secret or ConfigMap."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.desired_state import DesiredStateCache
from nodemanager.agent.declared.template_views import TemplateViews, View
from nodemanager.api.common.declarations import File
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan.desired import Content, Failure
from nodemanager.plan.templates import References
from support.rendering import Inline
from support.root_tree import config_set

BYTES = bytes(range(256)) + b"\r\n\0\xff\xfe"
NODE = ManagedNode(metadata=ObjectMeta(name="web1", labels={"role": "web"}))
KNOWN: dict[str, Any] = {
    "secrets": {"key-web1": {"k": BYTES}},
    "config_maps": {"logo": {"text": "\u00e4\n", "png": BYTES}},
}


async def made(*sets: Any, **known: Any) -> Content | Failure:
    inputs = DeclaredInputs(tuple(sets), **{**KNOWN, **known})
    return (await DesiredStateCache(Contenter(Inline())).make(sets, inputs, NODE)).contents["/x"]


def file(**fields: Any) -> Any:
    return config_set("a", files=[{"path": "/x", **fields}])


def secret(name: str = "key-{{ .Node.Name }}", key: str = "k") -> Any:
    return file(contentFrom={"secretKeyRef": {"name": name, "key": key}})


def config_map(key: str, name: str = "logo") -> Any:
    return file(contentFrom={"configMapKeyRef": {"name": name, "key": key}})


@pytest.mark.parametrize(
    ("declared", "data", "is_secret"),
    [
        pytest.param(secret(), BYTES, True, id="secret"),
        pytest.param(config_map("png"), BYTES, False, id="binary-data"),
        pytest.param(config_map("text"), "\u00e4\n".encode(), False, id="text"),
        pytest.param(file(contentBase64=base64.b64encode(BYTES).decode()), BYTES, False, id="base64"),
        pytest.param(file(contentBase64=base64.encodebytes(BYTES).decode()), BYTES, False, id="wrapped"),
        pytest.param(
            file(template="{{ .Node.Secrets.k | base64.Decode }}", secretRefs=["key-web1"]),
            BYTES,
            True,
            id="template",
        ),
    ],
)
async def test_bytes_are_the_bytes_that_were_given(declared: Any, data: bytes, is_secret: bool) -> None:
    content = await made(declared)
    assert isinstance(content, Content), content
    assert (content.data, content.size, content.secret) == (data, len(data), is_secret)


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        pytest.param(secret(key="no"), "cannot fill /x: Secret key-web1 has no key no; add it", id="key"),
        pytest.param(secret("gone"), "cannot fill /x: Secret gone does not exist, or this host", id="secret"),
        pytest.param(config_map("png", "gone"), "ConfigMap gone does not exist", id="config-map"),
        pytest.param(
            config_map("gif"), "ConfigMap logo has no key gif; add it, or correct contentFrom", id="map"
        ),
        pytest.param(
            secret("{{ if false }}x{{ end }}"), "contentFrom names no Secret or ConfigMap", id="none"
        ),
        pytest.param(
            secret("k-{{ .Node.Labels.x }}"), "there is no x in Labels; where it may", id="template"
        ),
        pytest.param(
            file(contentBase64="abc"), "contentBase64 is not base64; write what `base64 FILE`", id="64"
        ),
    ],
)
async def test_what_cannot_be_had_is_told_with_what_to_do(declared: Any, why: str) -> None:
    failed = await made(declared)
    assert isinstance(failed, Failure)
    assert why in failed.message


async def test_secrets_that_are_withheld_fill_no_file() -> None:
    failed = await made(secret(), secrets={}, withheld="the API refuses this host")
    assert isinstance(failed, Failure)
    assert "Secret key-web1 is not used: the API refuses this host" in failed.message


async def test_a_file_follows_its_secret_and_is_not_made_twice() -> None:
    sets = [secret()]
    cache = DesiredStateCache(Contenter(Inline()))
    assert (await cache.references(sets, NODE)).secrets == ("key-web1",)
    first = await cache.make(sets, DeclaredInputs(tuple(sets), **KNOWN), NODE)
    assert await cache.make(sets, DeclaredInputs(tuple(sets), **KNOWN), NODE) is first
    other = DeclaredInputs(tuple(sets), secrets={"key-web1": {"k": b"\x00"}})
    content = (await cache.make(sets, other, NODE)).contents["/x"]
    assert isinstance(content, Content)
    assert content.data == b"\x00"


def lax(name: str) -> Any:
    files = [{"path": "/x", "template": "<{{ .Node.Labels.rack }}>"}]
    return config_set(name, files=files, templating={"missingKeys": "empty"})


async def test_a_missing_key_is_empty_only_where_all_sets_of_a_file_say_so() -> None:
    strict = config_set("strict", files=[{"path": "/x", "template": "<{{ .Node.Labels.rack }}>"}])
    content = await made(lax("a"), lax("b"))
    assert isinstance(content, Content)
    assert content.data == b"<>"
    failed = await made(lax("a"), strict)
    assert isinstance(failed, Failure)
    assert failed.message == (
        'cannot render /x: line 1: there is no rack in Labels; where it may be missing, add: | default "..."'
    )


LAYERS: dict[str, Any] = {
    "secrets": {"s": {"data.yaml": b"db: {password: geheim}\n"}},
    "config_maps": {"m": {"data.yaml": "app: {port: 80}\n"}},
}


def layered(template: str, **fields: Any) -> list[Any]:
    """Return sets of which one has data, and another a file that reads it."""
    refs = [{"configMapRef": {"name": "m"}}, {"secretRef": {"name": "s"}}]
    return [config_set("data", nodeSelector={}, dataFrom=refs), file(template=template, **fields)]


@pytest.mark.parametrize(
    ("template", "text", "is_secret"),
    [
        pytest.param("{{ .Data.db.password }}", "geheim", True, id="secret"),
        pytest.param("{{ .Data.app.port }}", "80", False, id="plain"),
        pytest.param("{{ .Data.app | toJSON }}", '{"port":80}', False, id="below-a-plain-key"),
        pytest.param("{{ len .Data }}", "2", True, id="in-doubt"),
        pytest.param("{{ .Node.Name }}", "web1", False, id="no-data"),
    ],
)
async def test_what_is_made_of_a_secret_layer_is_secret(template: str, text: str, is_secret: bool) -> None:
    content = await made(*layered(template), **LAYERS)
    assert isinstance(content, Content), content
    assert (content.data.decode(), content.secret) == (text, is_secret)


async def test_who_does_not_need_secrets_is_not_given_them() -> None:
    """So a spelling that we do not know would fail, and not leak."""
    inputs = DeclaredInputs(tuple(layered("")), **LAYERS)
    views = TemplateViews(inputs, NODE)
    for template, values in (
        ("{{ .Data.app.port }}", {"app": {"port": 80}, "db": {}}),
        ("{{ .Data.db.password }}", {"app": {"port": 80}, "db": {"password": "geheim"}}),
        ("{{ .Node.Name }}", {}),
    ):
        view = views.of(File(path="/x", template=template), References())
        assert isinstance(view, View)
        assert (view.data.values, view.secret) == (values, "geheim" in view.data.hidden)


@pytest.mark.parametrize(
    ("known", "why", "awaits"),
    [
        (
            {"secrets": {}},
            "Secret s does not exist, or this host may not read it, and is part of",
            "Secret s",
        ),
        ({"secrets": {}, "withheld": "it was alone"}, "Secret s is not used: it was alone", ""),
        ({"config_maps": {"m": {"data.yaml": "["}}}, "cannot use ConfigMap m as data: cannot read", ""),
    ],
)
async def test_without_its_data_a_file_stays_as_it_is(known: dict[str, Any], why: str, awaits: str) -> None:
    failed = await made(*layered("{{ .Data.app.port }}"), **{**LAYERS, **known})
    assert isinstance(failed, Failure)
    assert failed.message.startswith(f"cannot render /x: {why}")
    assert failed.awaits == awaits
    assert isinstance(await made(*layered("{{ .Node.Name }}"), **{**LAYERS, **known}), Content)


async def test_the_data_of_a_set_in_stages_is_that_of_the_revision_that_a_host_has() -> None:
    def says(port: int) -> Any:
        files = [{"path": "/x", "template": "{{ .Data.port }}"}]
        return config_set("a", nodeSelector={}, data={"port": port}, files=files)

    inputs = DeclaredInputs((says(2),))  # what the set says by now
    state = await DesiredStateCache(Contenter(Inline())).make([says(1)], inputs, NODE)
    content = state.contents["/x"]
    assert isinstance(content, Content)
    assert content.data == b"1"


async def test_layers_are_followed_by_hosts_with_templates_only() -> None:
    cache, plain = DesiredStateCache(Contenter(Inline())), file(content="x")
    assert await cache.references([layered("")[0], plain], NODE) == References()
    assert await cache.references(layered("{{ .Data.x }}"), NODE) == References(("s",), ("m",))
    assert await cache.references([file(template="{{ .Data.x }}")], NODE) == References()
