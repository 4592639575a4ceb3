"""Labels that people declare for a host: it sets those and no others, and has them again when made anew."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.kube import conditions
from support.agent_process import Api, Starts, owned
from support.either import Place
from support.host_attempts import OURS, node
from support.joined_host import Joined, ask, guard, join, succeeds

pytestmark = pytest.mark.timeout(120)
MANY = [f"l{number}=yes" for number in range(9)]


def labelled(**labels: str | None) -> dict[str, Any]:
    """Return a patch of labels."""
    return {"metadata": {"labels": labels}}


def flags(*labels: str) -> list[str]:
    return [word for label in labels for word in ("--label", label)]


async def test_a_host_sets_what_is_declared_for_it_and_nothing_else(place: Place, tmp_path: Path) -> None:
    await guard(place, tmp_path)
    web = await join(place, tmp_path, "web", *flags("role=web", "example.com/site=berlin", *MANY))
    other = await join(place, tmp_path, "other", *flags("role=db"))
    nodes = f"{OURS}/{place.namespace}/managednodes"
    async with web.client() as me, other.client() as them:
        for bad in ({"role": "db"}, {"role": "web", "tier": "x"}, {"role=web": "x"}, {"role": "web=web"}):
            reply = await ask(me, "POST", nodes, node("web", place.namespace, metadata={"labels": bad}))
            assert reply.code in {403, 422}, (bad, reply)
        made = node("web", place.namespace, metadata={"labels": {"role": "web"}})
        assert (await ask(me, "POST", nodes, made)).code == 200
        assert (await ask(them, "POST", nodes, node("other", place.namespace))).code == 200
        for patch in (
            labelled(role="db"), labelled(role=""), labelled(role=None), labelled(tier="x"),
            labelled(site="berlin"),
            labelled(**{"example.com/site": "paris"}), labelled(**{"kubernetes.io/hostname": "other"}),
            labelled(**dict.fromkeys((one[:2] for one in MANY), "yes")),
        ):  # fmt: skip
            reply = await ask(me, "PATCH", f"{nodes}/web", patch)
            assert reply.code == 403, (patch, reply)
        reply = await ask(them, "PATCH", f"{nodes}/other", labelled(role="web"))
        assert (reply.code, "nodemanager rbac --label" in reply.message) == (403, True), reply
        few = dict.fromkeys((one[:2] for one in MANY[:7]), "yes") | {"example.com/site": "berlin"}
        assert (await ask(me, "PATCH", f"{nodes}/web", labelled(**few))).code == 200
        assert (await ask(them, "PATCH", f"{nodes}/other", labelled(role="db"))).code == 200


async def with_labels(place: Place, folder: Path, *labels: str) -> Joined:
    """Join web1, which has labels of its own from its bootstrap on; role=web alone is declared for it."""
    web1 = await join(place, folder, "web1", *flags("role=web"))
    here = ("--hostname", "web1", "-n", place.namespace, "--kubeconfig", str(web1.kubeconfig))
    again = ("bootstrap", *here, "--bootstrap-kubeconfig", str(folder / "web1.bootstrap"))
    await asyncio.to_thread(succeeds, *again, *flags(*labels))
    await asyncio.to_thread(succeeds, *again)  # it keeps them
    return web1


def has(**labels: str) -> Any:
    def holds(found: ManagedNode) -> bool:
        return labels.items() <= found.metadata.labels.items() and bool(found.status.configsets)

    return holds


async def test_they_survive_the_managed_node(place: Place, tmp_path: Path, api: Api, start: Starts) -> None:
    await guard(place, tmp_path)
    web1 = await with_labels(place, tmp_path, "role=web")
    await api.config_set("web", {"role": "web"}, files=[owned("/etc/motd", content="web\n")])
    agent = start("web1", kubeconfig=web1.kubeconfig)
    await agent.reads("/etc/motd", "web\n")
    before = await api.until(has(role="web"))
    await api.client.delete(MANAGED_NODES, "web1", place.namespace)
    after = await api.until(has(role="web"))
    assert before.metadata.uid != after.metadata.uid
    assert conditions.get(after.status.conditions, "Labelled") is None
    assert await asyncio.to_thread(agent.stop) == 0


async def test_one_that_nobody_declared_is_told_and_keeps_no_host_from_its_work(
    place: Place, tmp_path: Path, api: Api, start: Starts
) -> None:
    await guard(place, tmp_path)
    web1 = await with_labels(place, tmp_path, "role=web")
    await api.config_set("all", files=[owned("/etc/motd", content="all\n")])
    agent = start("web1", kubeconfig=web1.kubeconfig, flags=("--label", "tier=gold"))

    def said(status: str) -> Any:
        return lambda found: (
            has(role="web")(found)
            and (one := conditions.get(found.status.conditions, "Labelled")) is not None
            and one.status == status
        )

    refused = await api.until(said("False"))
    told = conditions.get(refused.status.conditions, "Labelled")
    assert told is not None
    assert told.message.startswith("cannot label this host tier=gold: nobody declared that for it")
    assert agent.at("/etc/motd").read_text() == "all\n"
    rights = succeeds("rbac", "--hostname", "web1", "-n", place.namespace, *flags("role=web", "tier=gold"))
    place.kubectl("apply", "-f", "-", stdin=rights.stdout)
    agent.signal()
    accepted = await api.until(said("True"))
    assert accepted.metadata.labels["tier"] == "gold"
    assert await asyncio.to_thread(agent.stop) == 0
