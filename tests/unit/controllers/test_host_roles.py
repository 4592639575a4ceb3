"""The Roles of hosts: what is in them, and that nothing is written which is there already."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.api.common import configsetrevision
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet, ConfigSetSpec
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS, ConfigSetRevision
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodetask import ENDED, NODE_TASKS, NodeTask
from nodemanager.api.rights import host_references
from nodemanager.api.rights.host_references import Needs
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import Request
from nodemanager.client.verbs import Client
from nodemanager.controllers import assembly, host_roles, registration
from nodemanager.controllers.host_roles.roles import RoleSources
from nodemanager.controllers.registration import Caches
from nodemanager.kube.core import ROLE_BINDINGS, ROLES, Role, RoleBinding
from nodemanager.kube.objects import ObjectKey, ObjectMeta, Resource
from nodemanager.kube.rbac import escalation
from nodemanager.kube.rbac import rules as rbac
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.metrics import Registry
from nodemanager.runtime.queue import WorkQueue
from support import virtual_time
from support.model_api import Answer
from support.rendering import Inline

HOSTS, SETS = 200, 50


def of_revision(secret: str) -> ConfigSetRevision:
    """A revision that reads a Secret, of the same name."""
    content = {"files": [{"path": "/x", "template": "x", "secretRefs": [secret]}]}
    labels = {"a": "b"}
    spec = {"labels": labels, "content": content, "digest": configsetrevision.digest_of(labels, content)}
    return msgspec.convert({"metadata": {"name": secret, "namespace": "ns"}, "spec": spec}, ConfigSetRevision)


def of_set(name: str, *secrets: str, **labels: str) -> ConfigSet:
    """A set that reads Secrets."""
    meta = {"name": name, "namespace": "ns", "labels": labels or {"a": "b"}}
    files = [{"path": "/x", "template": "x", "secretRefs": list(secrets)}]
    return msgspec.convert({"metadata": meta, "spec": {"files": files}}, ConfigSet)


class Cluster:
    """A transport that stores Roles and bindings, and the operator that writes them."""

    def __init__(self) -> None:
        self.writes: list[str] = []
        self.goes = False
        """Whether its namespace is being deleted."""
        client = Client(self)
        here = Selection("ns")
        self.seen = RoleSources(
            Cache(client, CONFIG_SETS, here), Cache(client, CONFIG_SET_REVISIONS, here),
            Cache(client, MANAGED_NODES, here), Cache(client, NODE_TASKS, here), Cache(client, ROLES, here),
            Cache(client, ROLE_BINDINGS, here),
        )  # fmt: skip
        self.queue: WorkQueue[ObjectKey] = WorkQueue("hostrole", metrics=Registry())
        found: dict[Resource[Any], Cache[Any]] = {
            CONFIG_SETS: self.seen.config_sets, CONFIG_SET_REVISIONS: self.seen.revisions,
            MANAGED_NODES: self.seen.nodes,
            NODE_TASKS: self.seen.tasks, ROLES: self.seen.roles, ROLE_BINDINGS: self.seen.bindings,
        }  # fmt: skip
        caches = Caches("hostrole", found)
        context = SimpleNamespace(client=client, caches=caches, renderer=Inline())
        self.reconcile = host_roles.REGISTRATION.build(cast("Any", context))
        registration.connect(host_roles.REGISTRATION.watches, caches, self.queue)

    async def send(self, request: Request) -> Answer:
        obj = json.loads(request.body)
        key = ObjectKey("ns", obj["metadata"]["name"])
        self.writes.append(f"{obj['kind']} {key.name}")
        if "force=true" not in request.target:
            return Answer(409, b'{"kind": "Status", "reason": "Conflict", "message": "somebody owns it"}')
        if self.goes:
            return Answer(404, b'{"kind": "Status", "reason": "NotFound", "message": "no namespace"}')
        if obj["kind"] == "Role":
            obj["rules"] = obj["rules"] or None  # as kube-apiserver says that there are none
            self.seen.roles._put(key, msgspec.convert(obj, Role))
        else:
            self.seen.bindings._put(key, msgspec.convert(obj, RoleBinding))
        return Answer(200, json.dumps(obj).encode())

    async def reauthenticate(self) -> bool:
        return False

    async def close(self) -> None:
        pass

    def put_node(self, name: str, **fields: Any) -> None:
        body = {"metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"a": "b"}}, **fields}
        self.seen.nodes._put(ObjectKey("ns", name), msgspec.convert(body, ManagedNode))

    def put_set(self, name: str, *secrets: str, **labels: str) -> None:
        self.seen.config_sets._put(ObjectKey("ns", name), of_set(name, *secrets, **labels))

    def put_staged(self, name: str, **revisions: str) -> None:
        """Put a set in stages: which Secret its stable, next and refused revision reads."""
        refs = {
            key: msgspec.to_builtins(configsetrevision.reference(of_revision(secret)))
            for key, secret in revisions.items()
        }
        meta = {"name": name, "namespace": "ns", "labels": {"a": "b"}, "generation": 1}
        body = {
            "metadata": meta, "spec": {"rollout": {"strategy": "Staged"}},
            "status": {"rollout": {"observedGeneration": 1, **refs}},
        }  # fmt: skip
        self.seen.config_sets._put(ObjectKey("ns", name), msgspec.convert(body, ConfigSet))

    def put_revision(self, secret: str, *, forged: bool = False) -> None:
        one = of_revision(secret)
        if forged:
            one.spec.content["files"] = []
        self.seen.revisions._put(ObjectKey("ns", secret), one)

    def put_task(self, host: str, *steps: dict[str, Any], phase: str = "", name: str = "task") -> None:
        meta = {"name": name, "namespace": "ns"}
        body = {"metadata": meta, "spec": {"nodeName": host, "steps": steps}, "status": {"phase": phase}}
        self.seen.tasks._put(ObjectKey("ns", name), msgspec.convert(body, NodeTask))

    def secrets(self, host: str) -> list[str]:
        """Return what a host may read."""
        role = self.seen.roles.get(ObjectKey("ns", f"nodemanager-{host}-references"))
        rules = (role.rules if role else None) or []
        return [name for one in rules if one["resources"] == ["secrets"] for name in one["resourceNames"]]

    async def settle(self) -> list[str]:
        """Let the operator do all it has to do; return what it wrote."""
        self.writes.clear()
        await asyncio.sleep(1)
        while len(self.queue):
            key = await self.queue.get()
            await self.reconcile(key)
            self.queue.done(key)
            await asyncio.sleep(0.2)
        return list(self.writes)


@virtual_time.test
async def test_two_hundred_hosts_and_fifty_sets_cost_one_write_per_change() -> None:
    cluster = Cluster()
    for number in range(SETS):
        cluster.put_set(f"set{number}", f"secret{number}")
    for number in range(HOSTS):
        cluster.put_node(f"host{number}")
    first = await cluster.settle()
    assert len(first) == len(set(first)) == 2 * HOSTS
    assert await cluster.settle() == []
    for number in range(HOSTS):
        cluster.put_node(f"host{number}", status={"agentVersion": "2"})
    cluster.put_set("elsewhere", "other", a="c")
    cluster.put_set("set0", "secret0", "secret1")
    assert await cluster.settle() == []
    cluster.put_set("set0", "another")
    changed = await cluster.settle()
    assert sorted(changed) == sorted(f"Role nodemanager-host{number}-references" for number in range(HOSTS))
    cluster.queue.shut_down()


@virtual_time.test
async def test_a_role_without_rules_is_written_once() -> None:
    """The API says `null` where there are none."""
    cluster = Cluster()
    cluster.put_node("web1")
    assert await cluster.settle() == []
    cluster.put_set("set", "secret")
    assert len(await cluster.settle()) == 2
    cluster.put_set("set")
    assert await cluster.settle() == ["Role nodemanager-web1-references"]
    cluster.put_node("web1", status={"agentVersion": "2"})
    assert await cluster.settle() == []
    cluster.queue.shut_down()


@virtual_time.test
async def test_hosts_keep_rights_that_follow_from_a_revision_which_is_not_here(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A revision may be seen after the set that names it, be deleted by somebody, or be tampered with."""
    cluster = Cluster()
    cluster.put_node("web1")
    cluster.put_revision("one")
    cluster.put_staged("set", stable="one")
    await cluster.settle()
    assert cluster.secrets("web1") == ["one"]
    cluster.put_staged("set", stable="two")
    cluster.put_set("other", "more")  # and what others need is given meanwhile
    await cluster.settle()
    assert cluster.secrets("web1") == ["more", "one"]
    cluster.put_revision("two", forged=True)
    cluster.put_node("web1", status={"agentVersion": "2"})
    await cluster.settle()
    assert cluster.secrets("web1") == ["more", "one"]
    assert "hosts keep the rights that they have: cannot use ConfigSetRevision two" in caplog.text
    cluster.seen.revisions._remove(ObjectKey("ns", "two"))
    cluster.put_revision("two")
    await cluster.settle()
    assert cluster.secrets("web1") == ["more", "two"]
    cluster.queue.shut_down()


@virtual_time.test
async def test_a_set_counts_as_it_is_before_its_stages_begin_and_after_they_were_given_up() -> None:
    cluster = Cluster()
    cluster.put_node("web1")
    cluster.put_revision("old")
    old = msgspec.to_builtins(configsetrevision.reference(of_revision("old")))
    key = ObjectKey("ns", "set")
    for strategy, rollout in (("Staged", None), ("AllAtOnce", {"stable": old})):
        body = msgspec.to_builtins(of_set("set", strategy.lower()))
        body["spec"]["rollout"] = {"strategy": strategy}
        body["status"] = {"rollout": rollout}
        cluster.seen.config_sets._put(key, msgspec.convert(body, ConfigSet))
        await cluster.settle()
        assert cluster.secrets("web1") == [strategy.lower()]
    elsewhere = msgspec.convert({**body, "metadata": {**body["metadata"], "labels": {"a": "c"}}}, ConfigSet)
    cluster.seen.config_sets._put(key, elsewhere)
    await cluster.settle()
    assert cluster.secrets("web1") == []
    cluster.queue.shut_down()


@virtual_time.test
async def test_a_host_that_was_granted_nothing_waits_for_a_revision_without_rights() -> None:
    cluster = Cluster()
    cluster.put_node("web1")
    cluster.put_set("set", "secret")
    await cluster.settle()
    cluster.put_set("set")
    await cluster.settle()
    cluster.put_staged("staged", stable="one")
    cluster.put_set("other", "more")
    await cluster.settle()
    assert cluster.secrets("web1") == ["more"]
    cluster.queue.shut_down()


@virtual_time.test
async def test_what_is_declared_in_another_namespace_grants_nothing() -> None:
    cluster = Cluster()
    cluster.put_node("web1")
    far = of_set("far", "their")
    far = msgspec.structs.replace(far, metadata=msgspec.structs.replace(far.metadata, namespace="elsewhere"))
    cluster.seen.config_sets._put(ObjectKey("elsewhere", "far"), far)
    steps = [{"name": "a", **program("db")}]
    body = {"metadata": {"name": "t", "namespace": "elsewhere"}, "spec": {"nodeName": "web1", "steps": steps}}
    cluster.seen.tasks._put(ObjectKey("elsewhere", "t"), msgspec.convert(body, NodeTask))
    assert await cluster.settle() == []
    cluster.queue.shut_down()


@virtual_time.test
async def test_a_binding_is_put_right_and_a_namespace_that_goes_ends_nothing() -> None:
    cluster = Cluster()
    cluster.put_node("web1")
    cluster.put_set("set", "secret")
    assert len(await cluster.settle()) == 2
    key = ObjectKey("ns", "nodemanager-web1-references")
    bound = cluster.seen.bindings.get(key)
    assert bound is not None
    cluster.seen.bindings._put(key, msgspec.structs.replace(bound, subjects=[]))
    assert await cluster.settle() == ["RoleBinding nodemanager-web1-references"]
    assert cluster.seen.bindings.get(key) == bound
    cluster.goes = True
    cluster.put_set("set", "another")
    assert await cluster.settle() == ["Role nodemanager-web1-references"]
    cluster.queue.shut_down()


@virtual_time.test
async def test_what_cannot_be_followed_is_said_once_and_again_after_it_was_right(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster()

    async def told(*secrets: str) -> int:
        before = len(caplog.messages)
        cluster.put_set("set", *secrets)
        cluster.put_node("web1", status={"agentVersion": str(before)})
        await cluster.settle()
        return sum("references that cannot be followed" in one for one in caplog.messages[before:])

    ways = (("A",), ("A",), ("good", "A"), ("good",), ("good", "A"))
    assert [await told(*one) for one in ways] == [1, 0, 1, 0, 1]
    cluster.seen.nodes._remove(ObjectKey("ns", "web1"))
    await cluster.reconcile(ObjectKey("ns", "web1"))
    assert await told("good", "A") == 1, "it is another host"
    cluster.queue.shut_down()


@virtual_time.test
async def test_a_revision_that_cannot_be_used_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.put_revision("one", forged=True)
    cluster.put_staged("set", stable="one")
    for name in ("web1", "web2"):
        cluster.put_node(name)
    await cluster.settle()
    assert sum("hosts keep the rights" in one for one in caplog.messages) == 1
    cluster.queue.shut_down()


@virtual_time.test
async def test_hosts_may_read_what_all_revisions_need_that_they_may_have() -> None:
    cluster = Cluster()
    cluster.put_node("web1")
    for secret in ("one", "two", "three"):
        cluster.put_revision(secret)
    cluster.put_staged("set", stable="one", next="two")
    await cluster.settle()
    assert cluster.secrets("web1") == ["one", "two"]
    cluster.put_staged("set", stable="one", refused="two")  # hosts have it until they have returned
    await cluster.settle()
    assert cluster.secrets("web1") == ["one", "two"]
    cluster.put_staged("set", stable="three")
    await cluster.settle()
    assert cluster.secrets("web1") == ["three"]
    cluster.queue.shut_down()


@virtual_time.test
async def test_a_revision_is_decoded_once_for_all_hosts_and_not_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    decoded: list[str] = []
    spec_of = configsetrevision.spec_of

    def counted(revision: ConfigSetRevision, digest: str) -> ConfigSetSpec:
        decoded.append(revision.metadata.name)
        return spec_of(revision, digest)

    monkeypatch.setattr(configsetrevision, "spec_of", counted)
    cluster.put_revision("one")
    cluster.put_staged("set", stable="one")
    cluster.seen.nodes._put(ObjectKey("ns", "x"), ManagedNode(metadata=ObjectMeta(name="x", namespace="ns")))
    await cluster.settle()
    assert decoded == []
    for number in range(HOSTS):
        cluster.put_node(f"host{number}")
    await cluster.settle()
    assert decoded == ["one"]
    cluster.put_revision("two")
    cluster.put_staged("set", stable="one", next="two")
    await cluster.settle()
    assert decoded == ["one", "two"]
    cluster.queue.shut_down()


NAMES = st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(tuple)


@given(needed=st.builds(Needs, NAMES, NAMES, NAMES, st.sampled_from(["", "wg-wg0-a"])))
def test_the_operator_holds_all_that_it_gives(needed: Needs) -> None:
    """Whatever a host needs, the API lets the operator grant it; see docs/adr/0007."""
    held = next(one for one in assembly.manifests("ns") if one["kind"] == "Role")
    given_away = rbac.parse_rules({"rules": host_references.rules(needed)})
    assert escalation.missing(rbac.parse_rules(held), given_away) == []


@pytest.mark.parametrize("name", ["a", "a" * 200, "a-" + "b" * 61 + "-c"])
def test_names_and_labels_are_such_as_the_api_takes(name: str) -> None:
    node = msgspec.convert({"metadata": {"name": name, "namespace": "ns", "uid": "1"}}, ManagedNode)
    role, binding = host_references.objects(node, Needs())
    label = role["metadata"]["labels"][host_references.LABEL]
    assert len(label) <= 63
    assert label[-1].isalnum()
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == f"nodemanager-{name}-references"


@virtual_time.test
async def test_what_is_no_name_is_never_granted(caplog: pytest.LogCaptureFixture) -> None:
    """An older definition of ConfigSets may have let it in: `resourceNames: [""]` is every object."""
    cluster = Cluster()
    cluster.put_node("web1")
    meta = {"name": "set", "namespace": "ns", "labels": {"a": "b"}}
    bad = ["", " ", "*", "One", "a/b", "a,b=c", "one\n"]
    references = {"configMapRefs": [*bad, "one"], "secretRefs": ["`*`", "{{ `A b` }}"]}
    file = {"path": "/x", "template": "x", **references}
    services = [{"name": "x", "lock_group": "*"}, {"name": "y", "lock_group": "good"}]
    body = {"metadata": meta, "spec": {"files": [file], "services": services}}
    cluster.seen.config_sets._put(ObjectKey("ns", "set"), msgspec.convert(body, ConfigSet))
    assert len(await cluster.settle()) == 2
    role = cluster.seen.roles.get(ObjectKey("ns", "nodemanager-web1-references"))
    assert role is not None
    assert [rule["resourceNames"] for rule in role.rules or []] == [["one"], ["good"]]
    assert "configMapRefs[0] of /x" in caplog.text
    cluster.queue.shut_down()


def test_no_needs_are_worth_a_rule_without_names() -> None:
    """Whatever asks for it: a rule about Secrets, ConfigMaps or Leases names them, and by real names."""
    needed = Needs(("", "*"), ("",), ("", "A"))
    assert host_references.rules(needed) == []


def program(*secrets: str) -> dict[str, Any]:
    names = [{"name": f"V{each}", "secret": secret, "key": "k"} for each, secret in enumerate(secrets)]
    return {"execution": {"argv": ["true"], "secretEnv": names}}


@pytest.mark.parametrize("ended", ENDED)
@virtual_time.test
async def test_what_a_task_names_is_readable_until_it_ends(ended: str) -> None:
    cluster = Cluster()
    cluster.put_node("host1")
    cluster.put_node("host2")
    cluster.put_set("base", "base")
    await cluster.settle()
    file = {"path": "/x", "template": "x", "secretRefs": ["of-{{ .Node.Name }}"]}
    steps = ({"name": "a", **program("db")}, {"name": "b", **program("db"), "undo": program("old")},
             {"name": "c", "file": file, "undo": {"file": {**file, "secretRefs": ["before"]}}})  # fmt: skip
    cluster.put_task("host1", *steps)
    assert await cluster.settle() == ["Role nodemanager-host1-references"]
    assert cluster.secrets("host1") == ["base", "before", "db", "of-host1", "old"]
    assert cluster.secrets("host2") == ["base"]
    cluster.put_task("host1", *steps, phase="Running")
    assert await cluster.settle() == []
    cluster.put_task("host1", {"name": "x", **program("db")}, name="later")
    await cluster.settle()
    cluster.put_task("host1", *steps, phase=ended)
    await cluster.settle()
    assert cluster.secrets("host1") == ["base", "db"]
    cluster.seen.tasks._remove(ObjectKey("ns", "later"))
    await cluster.settle()
    assert cluster.secrets("host1") == ["base"]
    cluster.put_task("host1", {"name": "x", "reboot": {"when": "always"}}, name="plain")
    assert await cluster.settle() == []
    cluster.queue.shut_down()
