"""What templates read: Secrets and ConfigMaps by name and no others, the host itself, and its peers."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any

import yaml

from nodemanager.api.common import node_conditions
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.client.calls import Selection
from nodemanager.client.patches import MergePatch
from nodemanager.kube import conditions
from nodemanager.kube.core import CONFIG_MAPS, EVENTS, SECRETS
from nodemanager.kube.objects import Resource, Untyped
from support import kubeconfigs
from support.agent_process import Agent, Api, Starts, owned

RBAC = "rbac.authorization.k8s.io"
ACCOUNTS: Resource[Untyped] = Resource("", "v1", "ServiceAccount", "serviceaccounts", dict)
ROLES: Resource[Untyped] = Resource(RBAC, "v1", "Role", "roles", dict)
BINDINGS: Resource[Untyped] = Resource(RBAC, "v1", "RoleBinding", "rolebindings", dict)
DB = '{{ with (ds "data").Node }}{{ index .Secrets "password" | base64.Decode }}{{ end }}\n'
READ = ["get", "list", "watch"]


async def test_a_secret_reaches_its_file_and_nobody_elses_eyes(api: Api, start: Starts) -> None:
    agent = start()
    files = [
        owned("/etc/db", template=DB, secretRefs=["db-{{ (ds `data`).Node.Name }}"]),
        owned("/etc/plain", content="plain\n"),
    ]
    await api.config_set("db", files=files)
    node = await api.until(lambda one: any(each.waiting for each in one.status.configsets))
    assert node.status.configsets[0].waiting == "file:/etc/db: waits for Secret db-web1"
    ready = conditions.get(node.status.conditions, conditions.READY)
    assert ready
    assert (ready.status, ready.reason) == (conditions.FALSE, node_conditions.WAITING)
    assert not any(each.error for each in node.status.configsets)
    told = (await api.client.list(EVENTS, Selection(api.namespace))).items
    assert [one.reason for one in told if one.type == "Warning"] == []
    await agent.reads("/etc/plain", "plain\n")  # one file that waits does not hold up the others
    assert not agent.at("/etc/db").exists()
    await api.secret("db-web1", password="first-secret")
    await agent.reads("/etc/db", "first-secret\n")
    assert agent.at("/etc/db").stat().st_mode & 0o777 == 0o600
    await api.ready("db")
    await api.secret("db-web1", password="second-secret")
    await agent.reads("/etc/db", "second-secret\n")
    await api.client.delete(SECRETS, "db-web1", api.namespace)
    await api.until(lambda one: "Secret db-web1" in one.status.configsets[0].waiting)
    assert agent.at("/etc/db").read_text() == "second-secret\n"
    assert "secret\n" not in str((await api.node()).status)
    assert "first-secret" not in agent.log.read_text()
    assert "second-secret" not in agent.log.read_text()


async def test_a_config_map_reaches_its_file(api: Api, start: Starts) -> None:
    agent = start()
    body = {"metadata": {"name": "app", "namespace": api.namespace}, "data": {"level": "info"}}
    await api.client.create(CONFIG_MAPS, body, api.namespace)
    template = 'level={{ (ds "data").Node.ConfigMaps.level }}\n'
    await api.config_set("app", files=[owned("/etc/app", template=template, configMapRefs=["app"])])
    await agent.reads("/etc/app", "level=info\n")
    await api.client.patch(CONFIG_MAPS, "app", api.namespace, MergePatch({"data": {"level": "debug"}}))
    await agent.reads("/etc/app", "level=debug\n")


async def test_bytes_of_a_secret_and_a_config_map_arrive_as_they_are(api: Api, start: Starts) -> None:
    agent = start()
    first, second = bytes(range(256)), b"\xff\xfe\0" + b"hush-hush"
    about = {"metadata": {"name": "logo", "namespace": api.namespace}}
    await api.client.create(CONFIG_MAPS, {**about, "binaryData": {"png": encoded(first)}}, api.namespace)
    files = [
        owned("/etc/key", contentFrom={"secretKeyRef": {"name": "key-{{ .Node.Name }}", "key": "k"}}),
        owned("/etc/logo", contentFrom={"configMapKeyRef": {"name": "logo", "key": "png"}}),
        owned("/etc/literal", contentBase64=encoded(second)),
    ]
    await api.config_set("bytes", files=files)
    await agent.reads("/etc/literal", second)  # one file that waits does not hold up the others
    assert not agent.at("/etc/key").exists()
    secret = {"metadata": {"name": "key-web1", "namespace": api.namespace}, "data": {"k": encoded(first)}}
    await api.client.create(SECRETS, secret, api.namespace)
    await agent.reads("/etc/key", first)
    await agent.reads("/etc/logo", first)
    assert agent.at("/etc/key").stat().st_mode & 0o777 == 0o600
    await api.client.patch(SECRETS, "key-web1", api.namespace, MergePatch({"data": {"k": encoded(second)}}))
    await agent.reads("/etc/key", second)
    assert "hush-hush" not in agent.log.read_text()
    assert "hush-hush" not in str((await api.node()).status)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_a_label_that_is_missing_fails_its_file_by_name(api: Api, start: Starts) -> None:
    agent = start()
    files = [
        owned("/etc/rack", template="{{ .Node.Labels.rack }}"),
        owned("/etc/other", template="{{ .Node.Labels.rack | default `none` }}"),
    ]
    await api.config_set("racks", files=files)
    await agent.reads("/etc/other", "none")
    why = "cannot render /etc/rack: line 1: there is no rack in Labels"
    await api.until(lambda one: any(why in each.error for each in one.status.configsets))
    assert not agent.at("/etc/rack").exists()
    await api.respec("racks", files=files, templating={"missingKeys": "empty"})
    await agent.reads("/etc/rack", "")
    await api.ready("racks")


async def test_an_agent_needs_no_right_to_other_secrets(api: Api, start: Starts, tmp_path: Path) -> None:
    """List and watch with metadata.name=X is what a Role with resourceNames allows."""
    await api.secret("mine", password="mine")
    await api.secret("other", password="other")
    account = await restricted(api, tmp_path, ["mine"])
    files = [
        owned("/etc/mine", template=DB, secretRefs=["mine"]),
        owned("/etc/other", template=DB, secretRefs=["other"]),
    ]
    await api.config_set("db", files=files)
    agent = start(kubeconfig=account)
    await agent.reads("/etc/mine", "mine\n")
    node = await api.until(lambda one: one.status.configsets and one.status.configsets[0].waiting)
    assert node.status.configsets[0].waiting == "file:/etc/other: waits for Secret other"
    await api.secret("mine", password="changed")
    await agent.reads("/etc/mine", "changed\n")


async def restricted(api: Api, folder: Path, secrets: list[str]) -> Path:
    """Return the kubeconfig of an agent that may read these Secrets only."""
    name, space = "nodemanager-web1", api.namespace
    group = "common.nodemanager"
    rules = [
        {"apiGroups": [group], "resources": ["configsets"], "verbs": READ},
        {"apiGroups": [group], "resources": ["managednodes"], "verbs": [*READ, "create"]},
        {"apiGroups": [group], "resources": ["managednodes", "managednodes/status"], "verbs": ["patch"],
         "resourceNames": ["web1"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": READ, "resourceNames": secrets},
    ]  # fmt: skip
    subject = {"kind": "ServiceAccount", "name": name, "namespace": space}
    role = {"apiGroup": RBAC, "kind": "Role", "name": name}
    parts: list[tuple[Resource[Untyped], dict[str, Any]]] = [
        (ACCOUNTS, {}), (ROLES, {"rules": rules}), (BINDINGS, {"roleRef": role, "subjects": [subject]}),
    ]  # fmt: skip
    for resource, body in parts:
        await api.client.create(resource, {"metadata": {"name": name, "namespace": space}, **body}, space)
    asked = {"spec": {"expirationSeconds": 3600}}
    answer = await api.client.create_subresource(ACCOUNTS, name, space, "token", asked)
    config = yaml.safe_load(api.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    built = kubeconfigs.build(cluster=cluster, user={"token": answer["status"]["token"]}, namespace=space)
    return Path(kubeconfigs.write(folder / "restricted", built))


async def test_bug_17_hosts_fight_over_one_condition(api: Api, start: Starts, tmp_path: Path) -> None:
    """Hosts report conflicts about themselves; ConfigSets are the operator's to write."""
    for name, content in (("a", "1"), ("b", "2")):
        await api.config_set(name, files=[owned("/etc/both", content=content)])
    start(kubeconfig=await restricted(api, tmp_path, []))  # which gives no right to write ConfigSets
    node = await api.until(lambda one: any(each.conflicts for each in one.status.configsets))
    assert {one.name for one in node.status.configsets} == {"a", "b"}
    for name in ("a", "b"):
        assert (await api.client.get(CONFIG_SETS, name, api.namespace)).status.conditions == []


async def test_a_file_follows_what_a_peer_reports(api: Api, start: Starts) -> None:
    web1 = start("web1")
    await api.ready()
    template = "{{ range .Nodes }}{{ .Name }}{{ with index .Labels `tier` }} {{ . }}{{ end }}\n{{ end }}"
    await api.config_set(
        "peers", labels={"kubernetes.io/hostname": "web1"}, files=[owned("/etc/peers", template=template)]
    )
    await web1.reads("/etc/peers", "web1\n")
    start("web2")
    await web1.reads("/etc/peers", "web1\nweb2\n")
    await api.patch_node({"metadata": {"labels": {"tier": "1"}}}, "web2")
    await web1.reads("/etc/peers", "web1\nweb2 1\n")


async def test_the_first_pass_knows_the_host_already(api: Api, start: Starts) -> None:
    template = "{{ .Node.Status.Release }}{{ range .Nodes }} {{ .Name }}={{ .Status.Release }}{{ end }}"
    await api.config_set("once", files=[owned("/etc/once", template=template, createOnly=True)])
    agent = start()
    await api.ready("once")
    release = os.uname().release
    assert agent.at("/etc/once").read_text() == f"{release} web1={release}"


async def test_a_file_follows_what_the_host_itself_reports(api: Api, start: Starts) -> None:
    """A pass renders what was reported before it; the one that renders the news must come by itself."""
    agent = start()
    template = "{{ len .Node.Status.SSHHostKeys }}\n"
    await api.config_set("self", files=[owned("/etc/keys", template=template)])
    await api.ready("self")
    await agent.reads("/etc/keys", "0\n")
    write_host_key(agent, b"blob")
    agent.signal()
    await agent.reads("/etc/keys", "2\n")


def write_host_key(agent: Agent, blob: bytes) -> None:
    """Give a host an SSH host key."""
    folder = agent.at("/etc/ssh")
    folder.mkdir()
    text = f"ssh-ed25519 {base64.b64encode(blob).decode()} root@x\n"
    (folder / "ssh_host_ed25519_key.pub").write_text(text)


async def test_ssh_host_keys_are_reported_as_sshfp_records_have_them(api: Api, start: Starts) -> None:
    agent = start()
    await api.ready()
    blob = b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes(range(32))
    write_host_key(agent, blob)
    agent.signal()
    node = await api.until(lambda one: one.status.ssh_host_keys)
    assert [(one.algorithm, one.fingerprint_type, one.fingerprint) for one in node.status.ssh_host_keys] == [
        (4, 1, hashlib.sha1(blob).hexdigest()),
        (4, 2, hashlib.sha256(blob).hexdigest()),
    ]
