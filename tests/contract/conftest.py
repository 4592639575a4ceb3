"""The two servers for tests of foreign clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.client.verbs import Client
from support import either
from support.agent_process import Agent, Api, Starts, api_of
from support.either import Place
from support.joined_host import guard, join
from support.maintenance_site import Site, site_at


@pytest.fixture(scope="session")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a `nodemanager server` that all tests of one worker share."""
    with either.own(tmp_path_factory.mktemp("own")) as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where kubectl remembers what each server serves."""
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture(
    params=[
        "embedded",
        pytest.param("kube-apiserver", marks=[pytest.mark.xdist_group("apiserver"), pytest.mark.apiserver]),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path, caches: Path) -> Place:
    """Each of the two servers in turn, with a namespace of our own."""
    if request.param == "embedded":
        kubeconfig = request.getfixturevalue("own_server")
    else:
        kubeconfig = request.getfixturevalue("kube").kubeconfig
    return either.prepared(kubeconfig, tmp_path, caches / request.param)


@pytest.fixture(name="me")
async def _me(place: Place, tmp_path: Path) -> AsyncIterator[Client]:
    """Host b, which has all the rights that a host can be given, as somebody else uses them."""
    await guard(place, tmp_path)
    flags = ("--wide-secrets", "--lock-group", "db", "--kubernetes-node")
    async with (await join(place, tmp_path, "b", *flags)).client() as client:
        yield client


@pytest.fixture(name="api")
async def _api(place: Place) -> AsyncIterator[Api]:
    async with api_of(place.kubeconfig, place.namespace) as found:
        yield found


@pytest.fixture(name="start")
async def _start(place: Place, tmp_path: Path) -> AsyncIterator[Starts]:
    """Start agents, each of which ends with the test."""
    started: list[Agent] = []

    def start(hostname: str = "web1", **options: Any) -> Agent:
        root = tmp_path / "hosts" / hostname
        (root / "etc").mkdir(parents=True, exist_ok=True)
        options.setdefault("kubeconfig", place.kubeconfig)
        agent = Agent(root, place.namespace, hostname=hostname, **options)
        started.append(agent)
        agent.start()
        return agent

    yield start
    for one in started:
        one.end()


@pytest.fixture(name="site")
async def _site(place: Place) -> AsyncIterator[Site]:
    """A namespace with hosts that only pretend, for an operator and its maintenances."""
    async with site_at(place) as site:
        yield site
