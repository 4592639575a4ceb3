"""How a host joins, and how little its credential is good for; on the embedded API and on kube-apiserver."""

from __future__ import annotations

import re
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodemanager.api.common.node_conditions import CREDENTIAL_RENEWED
from nodemanager.client.auth.renewed_token import lifetime
from nodemanager.client.verbs import Client
from nodemanager.kube import conditions
from support import host_attempts
from support.agent_process import Api, Starts, owned
from support.apiserver import free_port
from support.either import Place
from support.host_attempts import LEASES, OURS, event, lease, node
from support.joined_host import Joined, ask, guard, join, ran, run

FORBIDDEN = 403


@pytest.fixture(name="guarded")
async def _guarded(place: Place, tmp_path: Path) -> Place:
    """An API whose policies are in force, which a kube-apiserver takes a moment for."""
    await guard(place, tmp_path)
    return place


@pytest.fixture(name="web1")
async def _web1(guarded: Place, tmp_path: Path) -> Joined:
    return await join(guarded, tmp_path, "web1")


@pytest.fixture(name="me")
async def _me(web1: Joined) -> AsyncIterator[Client]:
    """The API, as host web1 sees it."""
    async with web1.client() as client:
        yield client


async def test_a_host_that_is_let_in_by_hand_works_and_is_kept_to_itself(
    guarded: Place, tmp_path: Path, api: Api, start: Starts
) -> None:
    """The role of config/rbac/node-role.yaml, an account, a binding and a token are all that it takes."""
    role = Path(__file__).parents[2] / "config" / "rbac" / "node-role.yaml"
    guarded.kubectl("apply", "-f", str(role))
    guarded.kubectl("create", "serviceaccount", "nodemanager-web1")
    account = f"--serviceaccount={guarded.namespace}:nodemanager-web1"
    guarded.kubectl("create", "rolebinding", "web1", "--clusterrole=nodemanager-host", account)
    token = guarded.kubectl("create", "token", "nodemanager-web1").strip()
    config = yaml.safe_load(guarded.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    own = tmp_path / "own.kubeconfig"
    own.write_text(yaml.safe_dump(config))
    await api.config_set("motd", files=[owned("/etc/motd", content="by hand\n")])
    agent = start(kubeconfig=own)
    await agent.reads("/etc/motd", "by hand\n")
    await api.ready("motd")
    async with Joined("web1", guarded, own).client() as me:
        assert (await ask(me, "GET", f"/api/v1/namespaces/{guarded.namespace}/secrets")).code == FORBIDDEN
        other = node("web2", guarded.namespace)
        refused = await ask(me, "POST", f"{OURS}/{guarded.namespace}/managednodes", other)
        assert refused.code in (403, 422)


async def test_from_rbac_to_a_running_agent(guarded: Place, tmp_path: Path, api: Api, start: Starts) -> None:
    """The story of the documentation, and an agent that needs nothing more than it grants."""
    rights = ran(guarded, "rbac", "--hostname", "web1", "-n", guarded.namespace).stdout
    guarded.kubectl("apply", "-f", "-", stdin=rights)
    again = guarded.kubectl("apply", "-f", "-", stdin=rights).splitlines()
    assert [line.split()[-1] for line in again] == ["unchanged"] * 8
    short, own = tmp_path / "bootstrap.kubeconfig", tmp_path / "etc" / "kubeconfig"
    printed = ran(guarded, "token", "--hostname", "web1", "-n", guarded.namespace)  # as for an ssh pipe
    assert "token issued (expires 20" in printed.stderr
    short.write_text(printed.stdout)
    ran(
        guarded, "bootstrap", "--bootstrap-kubeconfig", str(short), "--kubeconfig", str(own),
        "--hostname", "web1", "-n", guarded.namespace,
    )  # fmt: skip
    host = Joined("web1", guarded, own)
    assert stat.S_IMODE(host.kubeconfig.stat().st_mode) == 0o600
    assert stat.S_IMODE(host.kubeconfig.parent.stat().st_mode) == 0o750
    agent = start("web1", kubeconfig=host.kubeconfig)
    await api.config_set("motd", files=[owned("/etc/motd", content="hello\n")])
    reported = await api.ready("motd")
    assert agent.at("/etc/motd").read_text() == "hello\n"
    assert reported.metadata.labels["kubernetes.io/hostname"] == "web1"
    agent.at("/etc/motd").write_text("changed by hand\n")
    agent.signal()
    await agent.reads("/etc/motd", "hello\n")
    await api.until(lambda one: one.status.drift is not None)
    assert agent.stop() == 0
    log = agent.log.read_text()
    assert "orbidden" not in log, log
    assert "cannot" not in log, log


async def test_all_three_commands_may_be_run_again(web1: Joined, tmp_path: Path) -> None:
    before = web1.kubeconfig.read_text()
    again = await join(web1.place, tmp_path, "web1")
    assert again.kubeconfig.read_text() != before
    async with again.client() as client:
        listed = await ask(client, "GET", f"{OURS}/{web1.place.namespace}/managednodes")
    assert listed.code == 200


async def test_a_host_can_do_nothing_to_another(web1: Joined, tmp_path: Path, api: Api) -> None:
    """Every verb on every object of web1, as web2: all it may do is read what is meant for all hosts."""
    here = web1.place.namespace
    for what, (folder, _, body) in host_attempts.belongings("web1", here, "web2").items():
        made = await ask(api.client, "POST", folder, body)
        assert made.code == 200, (what, made)
    async with (await join(web1.place, tmp_path, "web2")).client() as web2:
        codes = await host_attempts.tried(web2, "web1", here, "web2")
    print(host_attempts.table(codes))  # noqa: T201 - for pytest -rP
    assert host_attempts.allowed(codes) == host_attempts.DOCUMENTED
    assert len(codes) >= 200


async def test_what_a_host_may_say_about_itself(web1: Joined, me: Client, api: Api) -> None:
    place = web1.place
    mine, nodes = f"{OURS}/{place.namespace}/managednodes/web1", f"{OURS}/{place.namespace}/managednodes"
    with_spec = node("web1", place.namespace, spec={"domain": "evil.test"})
    with_role = node("web1", place.namespace, metadata={"labels": {"role": "db"}})
    held = node("web1", place.namespace, metadata={"finalizers": ["evil.test/stay"]})
    for body in (with_spec, with_role, held, node("web2", place.namespace)):
        assert (await ask(me, "POST", nodes, body)).code == FORBIDDEN
    good = {"kubernetes.io/hostname": "web1", "kubernetes.io/os": "debian", "nodemanager.io/os": "debian"}
    assert (
        await ask(me, "POST", nodes, node("web1", place.namespace, metadata={"labels": good}))
    ).code == 200
    await api.patch_node({"metadata": {"labels": {"role": "web"}}, "spec": {"domain": "good.test"}})
    for change, why in (
        ({"metadata": {"labels": {"role": "db"}}}, "may only set these labels on itself"),
        ({"metadata": {"labels": {"role": None}}}, "may only set these labels on itself"),
        ({"metadata": {"labels": {"tier": "1"}}}, "may only set these labels on itself"),
        ({"metadata": {"labels": {"kubernetes.io/hostname": "web2"}}}, "of another"),
        ({"metadata": {"finalizers": ["evil.test/stay"]}}, "how long its ManagedNode stays"),
        ({"spec": {"domain": "evil.test"}}, "may not change its spec"),
        ({"spec": {"upgrade": {"group": "db"}}}, "may not change its spec"),
        ({"spec": None}, "may not change its spec"),
    ):
        reply = await ask(me, "PATCH", mine, change)
        assert (reply.code, why in reply.message) == (FORBIDDEN, True), (change, reply)
    through_status = {"metadata": {"labels": {"role": "db"}}, "status": {"agentVersion": "9"}}
    assert (await ask(me, "PATCH", f"{mine}/status", through_status)).code in {200, FORBIDDEN}
    assert (await ask(me, "PATCH", mine, {"metadata": {"labels": {"kubernetes.io/os": "arch"}}})).code == 200
    assert (await ask(me, "PATCH", mine, {"metadata": {"annotations": {"a": "b"}}})).code == 200
    assert (await ask(me, "DELETE", mine)).code == FORBIDDEN
    found = await api.node()
    assert (found.metadata.labels["role"], found.spec.domain) == ("web", "good.test")


async def test_leases_events_and_keys_only_in_its_own_name(web1: Joined, me: Client, api: Api) -> None:
    place = web1.place
    here = place.namespace
    leases, events = f"{LEASES}/{here}/leases", f"/api/v1/namespaces/{here}/events"
    secrets = f"/api/v1/namespaces/{here}/secrets"
    for body in (
        lease("nodemanager-web2", here, "web1"), lease("nodemanager-operator", here, "web1"),
        lease("any-lock", here, "web1"), lease("nodemanager-web1", here, "web2"),
    ):  # fmt: skip
        assert (await ask(me, "POST", leases, body)).code == FORBIDDEN, body
    assert (await ask(me, "POST", leases, lease("nodemanager-web1", place.namespace, "web1"))).code == 200
    other = {"spec": {"holderIdentity": "web2"}}
    assert (await ask(me, "PATCH", f"{leases}/nodemanager-web1", other)).code == FORBIDDEN
    assert (await ask(me, "POST", events, event("web1.one", place.namespace, "web1"))).code == 200
    assert (await ask(me, "PATCH", f"{events}/web1.one", {"count": 2})).code == 200
    assert (await ask(me, "POST", events, event("web1.two", place.namespace, "web2"))).code == FORBIDDEN
    assert (await ask(api.client, "POST", events, event("three", place.namespace, "web2"))).code == 200
    for change in ({"message": "lies"}, {"involvedObject": {"name": "web1"}}):
        assert (await ask(me, "PATCH", f"{events}/three", change)).code == FORBIDDEN
    assert (await ask(me, "POST", secrets, {"metadata": {"name": "wg-wg0-web1"}})).code == FORBIDDEN


async def test_with_wide_secrets_it_still_creates_no_secret_but_its_key(
    guarded: Place, tmp_path: Path
) -> None:
    secrets = f"/api/v1/namespaces/{guarded.namespace}/secrets"
    host = await join(guarded, tmp_path, "b", "--wide-secrets", "--lock-group", "db")
    async with host.client() as me:
        for name, code in (
            ("wg-wg0-b", 200), ("wg-wg0-a-b", FORBIDDEN), ("wg-wg0-web2", FORBIDDEN), ("wg--b", FORBIDDEN),
            ("wg-b", FORBIDDEN), ("b", FORBIDDEN), ("token", FORBIDDEN),
        ):  # fmt: skip
            assert (await ask(me, "POST", secrets, {"metadata": {"name": name}})).code == code, name
        assert (await ask(me, "GET", secrets)).code == 200
        assert (await ask(me, "PATCH", f"{secrets}/wg-wg0-b", {"data": {"a": "Yg=="}})).code == FORBIDDEN
        leases = f"{LEASES}/{guarded.namespace}/leases"
        assert (await ask(me, "POST", leases, lease("db", guarded.namespace, "b"))).code == 200
        assert (await ask(me, "POST", leases, lease("web", guarded.namespace, "b"))).code == FORBIDDEN


async def test_only_a_kubernetes_node_may_be_drained(guarded: Place, tmp_path: Path, api: Api) -> None:
    name = f"n{guarded.namespace[-8:]}"
    made = await ask(api.client, "POST", "/api/v1/nodes", {"metadata": {"name": name}})
    assert made.code == 200
    cordon = {"spec": {"unschedulable": True}}
    async with (await join(guarded, tmp_path, name)).client() as plain:
        assert (await ask(plain, "GET", f"/api/v1/nodes/{name}")).code == FORBIDDEN
        assert (await ask(plain, "GET", "/api/v1/pods")).code == FORBIDDEN
    async with (await join(guarded, tmp_path, name, "--kubernetes-node")).client() as node_too:
        assert (await ask(node_too, "PATCH", f"/api/v1/nodes/{name}", cordon)).code == 200
        assert (await ask(node_too, "PATCH", "/api/v1/nodes/another", cordon)).code == FORBIDDEN
        assert (await ask(node_too, "GET", "/api/v1/pods")).code == 200
        assert (await ask(node_too, "GET", "/api/v1/nodes")).code == FORBIDDEN
    await ask(api.client, "DELETE", f"/api/v1/nodes/{name}")


async def test_a_credential_of_another_host_gets_no_token(web1: Joined, tmp_path: Path) -> None:
    """`bootstrap` under a wrong name says so, and leaves what is there alone."""
    place = web1.place
    await join(place, tmp_path, "web2")
    before = web1.kubeconfig.read_bytes()
    done = run(
        place, "bootstrap", "--bootstrap-kubeconfig", str(tmp_path / "web2.bootstrap"), "--hostname", "web1",
        "--kubeconfig", str(web1.kubeconfig), "-n", place.namespace,
    )  # fmt: skip
    assert done.returncode == 1
    assert "cannot get a token for web1: the credential that was given may not do that" in done.stderr
    assert web1.kubeconfig.read_bytes() == before
    missing = run(place, "token", "--hostname", "nobody", "-n", place.namespace)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert re.search(r"run \S.*nodemanager rbac --hostname nobody [|] kubectl apply -f -", missing.stderr)


async def test_an_agent_tells_when_its_token_ends_and_leaves_an_administrators_alone(
    web1: Joined, api: Api, start: Starts, tmp_path: Path
) -> None:
    admin = tmp_path / "admin.kubeconfig"
    admin.write_bytes(web1.place.kubeconfig.read_bytes())
    before = admin.read_bytes()
    life = lifetime(yaml.safe_load(web1.kubeconfig.read_text())["users"][0]["user"]["token"])
    assert life is not None
    port = free_port()
    agent = start("web1", kubeconfig=web1.kubeconfig, metrics=f"127.0.0.1:{port}")
    other = start("web2", kubeconfig=admin)
    await api.ready()
    said = conditions.get((await api.node()).status.conditions, CREDENTIAL_RENEWED)
    assert said is not None
    until = datetime.fromtimestamp(life.expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (said.status, said.reason, said.message) == ("True", "Good", f"good until {until}")
    await other.logs("agent of web2")
    administrators = await api.until(lambda node: node.status.conditions, "web2")
    assert conditions.get(administrators.status.conditions, CREDENTIAL_RENEWED) is None
    _, text = await agent.get(f"127.0.0.1:{port}", "/metrics")
    found = re.search(
        r'^nodemanager_token_expiry_timestamp_seconds\{node="web1"\} (\S+)$', text, re.MULTILINE
    )
    assert found is not None
    assert float(found[1]) == life.expires
    assert other.stop() == 0
    assert admin.read_bytes() == before


async def test_a_node_may_cordon_itself_and_change_nothing_else_of_its_node(
    guarded: Place, api: Api, tmp_path: Path
) -> None:
    """With labels and taints a node that was broken into could draw the pods of others to itself."""
    name = f"m{guarded.namespace[-8:]}"
    mine = f"/api/v1/nodes/{name}"
    labels = {"node-restriction.kubernetes.io/zone": "public"}
    taint = {"key": "quarantine", "value": "yes", "effect": "NoSchedule"}
    body = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": [taint]}}
    assert (await ask(api.client, "POST", "/api/v1/nodes", body)).code == 200
    host = await join(guarded, tmp_path, name, "--kubernetes-node")
    wrong: list[dict[str, Any]] = [
        {"metadata": {"labels": {"node-restriction.kubernetes.io/zone": "vault"}}},
        {"metadata": {"labels": {"role": "db"}}},
        {"metadata": {"labels": None}},
        {"metadata": {"finalizers": ["example.com/stay"]}},
        {"spec": {"taints": None}},
    ]
    async with host.client() as me:
        for change in wrong:
            reply = await ask(me, "PATCH", mine, change)
            assert reply.code == FORBIDDEN, change
            assert "a host may only cordon its Node" in reply.message
        for unschedulable, mark in ((True, "us"), (None, None)):
            meta = {"annotations": {"upgrade.nodemanager/cordoned-by": mark}}
            cordon = {"metadata": meta, "spec": {"unschedulable": unschedulable}}
            assert (await ask(me, "PATCH", mine, cordon)).code == 200
    assert (await ask(api.client, "DELETE", mine)).code == 200


async def test_a_credential_that_comes_through_a_pipe_is_never_on_disk(web1: Joined) -> None:
    place, before = web1.place, web1.kubeconfig.read_bytes()
    short = ran(place, "token", "--hostname", "web1", "-n", place.namespace).stdout
    done = run(
        place, "bootstrap", "--bootstrap-kubeconfig", "/dev/stdin", "--hostname", "web1",
        "--kubeconfig", str(web1.kubeconfig), "-n", place.namespace, stdin=short,
    )  # fmt: skip
    assert (done.returncode, "readable" in done.stderr) == (0, False), done.stderr
    assert web1.kubeconfig.read_bytes() != before
