"""Text that is nested a hundred thousand levels deep is an error wherever it is read, never more than that.

Parsers written in C recurse: one that does not count ends the process, and one that does raises
RecursionError, which is no error of parsing.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nodemanager.agent.declared import memory
from nodemanager.agent.link import api_reachability
from nodemanager.agent.passes.notifies import Notifier
from nodemanager.agent.tasks.ledger import LedgerFolder
from nodemanager.agent.upgrades import own_task, upgrading
from nodemanager.agent.upgrades.own_task import UpgradeEntry, UpgradeResult
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.cli.installing import crd_changes
from nodemanager.cli.views import tables
from nodemanager.client.auth import exec_plugin, kubeconfig_types, renewed_token
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import journal
from nodemanager.host.state.vault import Vault
from nodemanager.kube import errors, manifests
from nodemanager.kube.errors import ConfigError
from nodemanager.kube.objects import ObjectKey
from nodemanager.kube.patching import field_sets, managed_fields
from nodemanager.plan.templates import Data, TemplateError, render
from nodemanager.server.access.admin_config import AdminConfig
from nodemanager.server.http import bodies, certs
from support.model_api import Answer

DEPTH = 100_000
LISTS = "[" * DEPTH + "]" * DEPTH
MAPS = '{"zzz":' * DEPTH + "1" + "}" * DEPTH
DOTS = "a." * DEPTH
HIDDEN = '{"zzz":' + LISTS + "}"
"""In a field that no type of ours knows: it is skipped, which recurses as well."""
JSON = pytest.mark.parametrize("text", [LISTS, MAPS, HIDDEN], ids=["lists", "maps", "hidden"])
YAML = pytest.mark.parametrize(
    "text",
    [LISTS, MAPS, "- " * DEPTH + "a", "? " * DEPTH + "a", "{a: " * DEPTH, "[" * DEPTH, "a:\n" + "- " * DEPTH],
    ids=["lists", "maps", "dashes", "questions", "flow", "open", "within"],
)


@YAML
@pytest.mark.parametrize(
    ("read", "refusal"),
    [
        (lambda text: list(manifests.documents(text, "x")), manifests.ManifestError),
        (lambda text: manifests.load_all(text, "x"), manifests.ManifestError),
        (lambda text: kubeconfig_types.parse(text, "x"), ConfigError),
        (lambda text: bodies.decode_yaml(text.encode()), ValueError),
    ],
    ids=["documents", "manifests", "kubeconfig", "body"],
)
def test_yaml(text: str, read: Callable[[str], Any], refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        read(text)


@YAML
@pytest.mark.parametrize(
    ("template", "engine"),
    [
        ("{{ yaml .Node.Name }}", "gotemplate"),
        ("{{ yamlArray .Node.Name }}", "gotemplate"),
        ("{{ Node.Name | from_yaml }}", "jinja"),
        ("{{ json .Node.Name }}", "gotemplate"),
        ("{{ Node.Name | from_json }}", "jinja"),
        ("{{ toml .Node.Name }}", "gotemplate"),
        ("{{ toml (print `a = ` .Node.Name) }}", "gotemplate"),
    ],
)
def test_functions_of_templates(text: str, template: str, engine: str) -> None:
    with pytest.raises(TemplateError):
        render(template, Data(node={"Name": text}), engine=engine)


@pytest.mark.parametrize(
    "text", ["a." * DEPTH + "a = 1", "[" + "a." * DEPTH + "a]", "a = {b" + ".b" * DEPTH + " = 1}"]
)
def test_keys_of_toml(text: str) -> None:
    with pytest.raises(TemplateError, match="the TOML text is nested deeper than 50 levels"):
        render("{{ toml .Node.Name }}", Data(node={"Name": text}))


@JSON
def test_json_that_programs_and_servers_send(text: str) -> None:
    plugin = exec_plugin.Plugin(("x",), {}, exec_plugin.VERSIONS[0])
    token = f"x.{base64.urlsafe_b64encode(text.encode()).decode()}.x"
    assert renewed_token.lifetime(token) is None
    with pytest.raises(ConfigError):
        exec_plugin.read_answer(text.encode(), plugin, 0.0)
    with pytest.raises(ValueError, match="nested deeper"):
        bodies.decode_json(text.encode())
    assert bodies.duplicates(text.encode()) == []


class Api:
    """An API whose every answer is too deep."""

    def __init__(self, text: str) -> None:
        self.body = text.encode()

    async def send(self, _request: Request) -> Answer:
        return Answer(200, self.body)

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        return


@JSON
async def test_answers_of_the_api(text: str) -> None:
    client = Client(Api(text))
    for asking in (
        lambda: client.list(CONFIG_SETS, Selection("ns")),
        lambda: client.get(CONFIG_SETS, "a", "ns"),
        lambda: tables.fetch(client, tables.resource_of(CONFIG_SETS), Selection("ns")),
        lambda: crd_changes.count_objects(client),
        lambda: Notifier(client)._resource("v1", "Pod"),
    ):
        with pytest.raises(errors.ProtocolError):
            await asking()


@pytest.mark.parametrize("kind", ["k:", "v:"])
@pytest.mark.parametrize("depth", [600, DEPTH])
def test_keys_of_managed_fields(kind: str, depth: int) -> None:
    """Depth within a key is not depth of the body, which is bounded."""
    fields: dict[str, object] = {kind + '{"a":' * depth + "1" + "}" * depth: {}}
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    with pytest.raises(ValueError, match="cannot decode fieldsV1"):
        managed_fields.decode([entry])
    with pytest.raises(ValueError, match="cannot decode fieldsV1"):
        field_sets.FieldSet.decode(fields)


@JSON
def test_what_a_host_remembers(tmp_path: Path, text: str) -> None:
    vault = Vault("/", str(tmp_path))
    for name in (memory.DESIRED, memory.SECRETS, memory.OWED, memory.HELD, api_reachability.NAME):
        vault.save(name, text.encode())
    vault.close()
    plain, secret = Vault("/", str(tmp_path)), Vault("/", str(tmp_path))
    known = memory.Memory(plain, secret, ObjectKey("ns", "web1"))
    assert (known.inputs().config_sets, known.node, dict(known.owed)) == ((), None, {})
    known.close()
    here = api_reachability.ApiReachability(Vault("/", str(tmp_path)), api_reachability.SecretLimits())
    assert here.withheld() == ""
    here.close()


@JSON
def test_records_of_a_host(tmp_path: Path, text: str) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "upgrades").mkdir(mode=0o700)
    for name in ("upgrade.json", "upgrades/upgrade-1.json", journal.NAME):
        (state / name).write_text(text)
    tree = Tree(str(tmp_path))
    ledger = LedgerFolder(tree, "/state/upgrades", UpgradeEntry)
    upgrading.adopt(tree, "/state", ledger)
    results = [own_task.latest([one]).result for _, one in sorted(ledger.entries.items())]
    assert results == [UpgradeResult.SKIPPED, UpgradeResult.ERROR]
    with pytest.raises(journal.JournalError):
        journal.Journal(tree, "/state")
    tree.close()


def test_the_admin_kubeconfig(tmp_path: Path) -> None:
    def now() -> datetime:
        return datetime.now(UTC)

    authority = certs.load_or_create(tmp_path / "ca.pem", now())
    path = tmp_path / "admin.kubeconfig"
    AdminConfig(path, "https://127.0.0.1:6443", authority, now)
    for text in (LISTS[: DEPTH // 20], "- " * (DEPTH // 20)):
        path.write_text(text)
        AdminConfig(path, "https://127.0.0.1:6443", authority, now)
        assert path.read_text().startswith("apiVersion")
