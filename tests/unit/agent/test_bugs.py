"""One test for each known bug of the Go project's core, by its number in our list.

Not here: 1 to 4 are about upgrades, 5 and 20 about rights and tokens, 17 needs an API (see
tests/contract/test_agent_templates.py), 22 was about manifests that we do not have. What 12, 13 and 14
say about OpenRC, systemd and pacman themselves is tested with these adapters.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nodemanager.agent import service
from nodemanager.agent.assembly import HostSetup
from nodemanager.agent.declared.contents import Contenter
from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.agent.declared.desired_state import DesiredStateCache
from nodemanager.agent.options import PERIOD, AgentOptions
from nodemanager.agent.report import status
from nodemanager.agent.report.node_object import NodeObject
from nodemanager.api import manifest_checks
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.managednode import MANAGED_NODES, Drift, ManagedNode, ManagedNodeStatus
from nodemanager.client.auth.config import ClientConfig
from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import identity
from nodemanager.host.inventory.identity import Identity
from nodemanager.kube import errors
from nodemanager.kube.manifests import ManifestError
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan import merge, steps
from nodemanager.plan.desired import Content
from nodemanager.plan.facts import Facts, FileFact, Kind
from nodemanager.plan.files import plan_files
from nodemanager.runtime import probes
from nodemanager.runtime.cache import Cache
from nodemanager.runtime.metrics import Registry
from support.clients import connected
from support.memory_host import DOWN, UP, Host
from support.rendering import Inline
from support.root_tree import RootTree, config_set, literal_contents, needs_root, outcomes
from support.scripted_server import Exchange, serve

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[Host]:
    found = Host(tmp_path)
    yield found
    found.tree.close()


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Iterator[RootTree]:
    (tmp_path / "root").mkdir()
    found = RootTree(tmp_path / "root")
    yield found
    found.tree.close()


def declared(**spec: Any) -> ConfigSet:
    """Return a ConfigSet as the API would accept it, or raise what it would say."""
    manifest = {"apiVersion": "common.nodemanager/v1", "kind": "ConfigSet", "metadata": {"name": "a"}}
    return manifest_checks.typed({**manifest, "spec": spec}, CONFIG_SETS, "test")


def subscribed(host: Host, content: str = "one", **more: Any) -> ConfigSet:
    """Return a set with a file and a service that restarts with it."""
    path = str(host.folder / "f")
    unit = {"name": "nginx", "ensure": "running", "subscribe_files": [path], **more}
    return config_set("a", files=[{"path": path, "content": content}], services=[unit])


@needs_root
@pytest.mark.parametrize("why", ["the restart fails", "the lock is busy"])
async def test_bug_06_lost_notifications(host: Host, why: str) -> None:
    wanted = subscribed(host, lock_group="web")
    host.services.broken = {"nginx"} if why == "the restart fails" else set()
    host.locks.busy = {"web"} if why == "the lock is busy" else set()
    assert outcomes(await host.converge(wanted))["service:nginx"] in ("failed", "blocked")
    host.restart()  # the agent crashes, too
    host.services.broken, host.locks.busy = set(), set()
    results = outcomes(await host.converge(wanted))
    assert (results[f"file:{host.folder}/f"], results["service:nginx"]) == ("unchanged", "changed")


@needs_root
async def test_bug_07_hangup_does_not_reach_configsets(host: Host, tmp_path: Path) -> None:
    wanted = config_set("a", files=[{"path": str(host.folder / "f"), "content": "x"}])
    await host.converge(wanted)
    (host.folder / "f").write_text("y")
    await host.converge(wanted)  # a pass, whatever asked for it, looks at the files
    assert (host.folder / "f").read_text() == "x"
    async with connected(ClientConfig("http://127.0.0.1:1")) as client:
        options = AgentOptions(host=HostSetup(str(tmp_path), "web1"))
        agent = service.build(client, options, Registry())
        queue = agent.requests.queue
        queue.done(await queue.get())  # the first pass of all
        agent.requests.pass_now()  # what SIGHUP calls
        assert await queue.get() == agent.requests.key
        agent.close()


def test_bug_08_last_applied_is_not_refreshed() -> None:
    done = status.Pass([config_set("a")], {}, [], Drift())
    first = status.of_pass(ManagedNodeStatus(), done, NOW, 1)
    soon = status.of_pass(first, done, NOW + timedelta(minutes=10), 1)
    late = status.of_pass(first, done, NOW + timedelta(minutes=61), 1)
    assert soon == first
    assert late.configsets[0].last_applied == "2026-01-02T04:05:05Z"
    assert PERIOD < 1800  # so that the alert on stale sets stays quiet while nothing happens


@needs_root
async def test_bug_09_symlinks_directories_and_empty_files(root: RootTree) -> None:
    root.at("/dangling").symlink_to("/nowhere")
    root.at("/gone").symlink_to("/nowhere")
    results = await root.converge(
        declared(
            files=[
                {"path": "/new", "ensure": "symlink", "target": "/etc"},
                {"path": "/dangling", "ensure": "symlink", "target": "/etc"},
                {"path": "/gone", "ensure": "absent"},
                {"path": "/a/b/c", "ensure": "directory", "owner": "12", "group": "34"},
                {"path": "/empty", "content": ""},
                {"path": "/tool", "content": "x", "mode": "04755"},
            ]
        )
    )
    assert set(outcomes(results).values()) == {"changed"}
    assert [str(root.at(name).readlink()) for name in ("/new", "/dangling")] == ["/etc", "/etc"]
    assert not root.at("/gone").is_symlink()
    made = root.at("/a/b/c").stat()
    assert (made.st_mode & 0o7777, made.st_uid, made.st_gid) == (0o755, 12, 34)
    assert root.at("/empty").read_bytes() == b""
    assert root.at("/tool").stat().st_mode & 0o7777 == 0o4755


def test_bug_09_decimal_modes() -> None:
    with pytest.raises(ManifestError, match="octal with a leading zero"):
        declared(files=[{"path": "/x", "content": "x", "mode": "644"}])


@needs_root
async def test_bug_09_writes_in_place_and_readable_secrets(
    root: RootTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.at("/x").write_text("old")
    before = root.at("/x").stat().st_ino
    desired = merge.merge([config_set("a", files=[{"path": "/x"}])])
    made = {"/x": Content(b"hush", "0" * 64, secret=True)}
    facts = Facts(files={"/x": FileFact(Kind.FILE, 0o644)}, users={"root": 0}, groups={"root": 0})
    seen: list[tuple[int, bytes]] = []
    rename = os.rename

    def watched(source: Any, target: Any, **folders: Any) -> None:
        if str(target) == "x":
            seen.append(
                (os.stat(source, dir_fd=folders["src_dir_fd"]).st_mode & 0o777, root.at("/x").read_bytes())
            )
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", watched)
    await root.apply(plan_files(desired, made, facts))
    assert [old for _, old in seen] == [b"old"]  # whole until it is replaced as a whole
    assert not seen[0][0] & 0o007
    assert root.at("/x").stat().st_ino != before
    monkeypatch.undo()
    root.at("/x").unlink()
    await root.apply(
        plan_files(desired, made, Facts(files={"/x": FileFact()}, users={"root": 0}, groups={"root": 0}))
    )
    assert root.at("/x").stat().st_mode & 0o777 == 0o600


@needs_root
async def test_bug_09_purge(root: RootTree) -> None:
    wanted = config_set(
        "a", files=[{"path": "/d", "ensure": "directory", "purge": True}, {"path": "/d/mine"}]
    )
    desired = merge.merge([wanted])
    facts = Facts(files={"/d": FileFact(Kind.DIRECTORY, 0o755), "/d/mine": FileFact()}, listings={"/d": None})
    found = plan_files(desired, literal_contents(desired), facts)
    assert not [one for one in found if isinstance(one, steps.RemovePath)]
    assert [str(one.id) for one in found if isinstance(one, steps.Blocked)] == ["file:/d"]
    root.at("/d").mkdir()
    root.at("/d/theirs").write_text("precious")
    await root.converge(wanted)
    assert sorted(path.name for path in root.at("/d").iterdir()) == ["mine"]
    assert root.bucket.read(root.bucket.find("/d/theirs")) == b"precious"


@needs_root
async def test_bug_10_backups_overwrite_the_useful_one(root: RootTree) -> None:
    root.at("/x").write_text("original")
    for content in ("one", "one", "one", "two"):
        await root.converge(config_set("a", files=[{"path": "/x", "content": content}]))
    kept = [root.bucket.read(one) for one in root.bucket.backups()]
    assert sorted(kept) == [b"one", b"original"]  # one for each replacement, none for passes that did nothing
    first = status.of_pass(ManagedNodeStatus(), status.Pass([], {}, [], Drift(), {"/x": "original"}), NOW, 1)
    again = status.of_pass(first, status.Pass([], {}, [], Drift(), {"/x": "one"}), NOW, 1)
    assert again.file_backups == {"/x": "original"}


def test_bug_11_executions_that_never_run() -> None:
    with pytest.raises(ManifestError, match="subscribe_files"):
        declared(executions=[{"command": "true"}])


@needs_root
async def test_bug_11_executions_run_twice_or_for_ever(host: Host) -> None:
    paths = [str(host.folder / name) for name in "ab"]
    ran = host.folder / "ran"
    runs = {"command": "sh", "args": ["-c", f"echo x >> {ran}"], "subscribe_files": paths}
    hangs = {"command": "sleep", "args": ["60"], "timeout": "50ms", "creates": "/proc/none"}
    fails = {"command": "sh", "args": ["-c", "echo oh no >&2; exit 3"], "creates": "/proc/none"}
    files = [{"path": path, "content": "c"} for path in paths]
    results = await host.converge(config_set("a", files=files, executions=[runs, hangs, fails]))
    assert ran.read_text() == "x\n"
    said = {one.message for one in results if one.outcome == "failed"}
    assert any("did not finish within 0.05 s" in text for text in said)
    assert any("exit status 3: oh no" in text and "%!w" not in text for text in said)


@needs_root
async def test_bug_12_stopped_services_are_never_started(host: Host) -> None:
    """The engine's part: what is not running is started, also when its manager does not say it is enabled."""
    await host.converge(config_set("a", services=[{"name": "app", "ensure": "running"}]))
    assert host.services.calls == ["start app"]


@needs_root
async def test_bug_13_enable_omitted_disables_and_is_called_every_pass(host: Host) -> None:
    quiet = config_set("a", services=[{"name": "nginx", "ensure": "running"}])
    await host.converge(quiet)
    assert host.services.calls == []
    loud = config_set("a", services=[{"name": "app", "ensure": "running", "enable": True}])
    for _ in range(3):
        await host.converge(loud)
    assert host.services.calls == ["enable app", "start app", "refresh"]
    assert (UP.enabled, DOWN.enabled) == (True, False)


@needs_root
async def test_bug_14_one_transaction_for_all_packages(host: Host) -> None:
    """The engine's part; that pacman is never called with -Sy alone or -Rcs is tested with its adapter."""
    await host.converge(config_set("a", packages=[{"name": "nginx"}, {"name": "jq", "version": "1.6"}]))
    assert host.packages.calls == ["install nginx jq"]
    host.packages.offered["jq"] = "1.7"  # a newer one is no reason to leave the pinned version
    assert set(
        outcomes(await host.converge(config_set("a", packages=[{"name": "jq", "version": "1.6"}]))).values()
    ) == {"unchanged"}


def test_bug_15_package_without_ensure() -> None:
    assert declared(packages=[{"name": "jq"}]).spec.packages[0].ensure == "installed"
    with pytest.raises(ManifestError, match="ensure"):
        declared(packages=[{"name": "jq", "ensure": ""}])


@needs_root
async def test_bug_16_conflicts_block_everything(host: Host) -> None:
    shared, mine = host.folder / "both", str(host.folder / "mine")
    both = str(shared)
    equal = {"name": "jq"}
    first = config_set("a", packages=[equal], files=[{"path": both, "content": "1"}, {"path": mine}])
    second = config_set("b", packages=[equal], files=[{"path": both, "content": "2"}])
    results = outcomes(await host.converge(first, second))
    assert (results["package:jq"], results[f"file:{mine}"]) == ("changed", "changed")
    assert not shared.exists()
    ranked = config_set("b", priority=1, files=[{"path": both, "content": "2"}])
    await host.converge(first, ranked)
    assert shared.read_text() == "2"
    users = [
        config_set(name, services=[{"name": "s", "user": name, "ensure": "running"}]) for name in ("u", "v")
    ]
    assert len(merge.merge(users).services) == 2
    assert not merge.merge(users).held


@needs_root
async def test_bug_18_pass_timeout_and_random_order(host: Host, tmp_path: Path) -> None:
    async with connected(ClientConfig("http://127.0.0.1:1")) as client:
        agent = service.build(client, AgentOptions(host=HostSetup(str(tmp_path), "web1")), Registry())
        (loop,) = [part for part in agent.manager._others if part.name == "host"]
        assert loop.timeout is None  # type: ignore[attr-defined]
        agent.close()
    path = str(host.folder / "f")
    names = [f"s{number}" for number in range(12)]
    host.services.facts.update({type(next(iter(host.services.facts)))(name): UP for name in names})
    units = [{"name": name, "ensure": "running", "subscribe_files": [path]} for name in names]
    await host.converge(config_set("a", files=[{"path": path, "content": "x"}], services=units))
    assert host.services.calls == [f"restart {name}" for name in names]


def test_bug_19_servers_listen_on_all_interfaces() -> None:
    for address in (AgentOptions().metrics_address, AgentOptions().probe_address):
        parsed = probes.parse_address(address)
        assert parsed is not None
        assert parsed[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("", ("linux", ())),
        ("ID=zorin\nID_LIKE='ubuntu debian'\n", ("zorin", ("ubuntu", "debian"))),
        ('ID="nixos"\n', ("nixos", ())),
    ],
)
def test_bug_21_unknown_distributions(
    tmp_path: Path, release: str, expected: tuple[str, tuple[str, ...]]
) -> None:
    (tmp_path / "etc").mkdir()
    if release:
        (tmp_path / "etc/os-release").write_text(release)
    tree = Tree(str(tmp_path))
    found = identity.identify(tree, "web1")
    tree.close()
    assert (found.os_id, found.os_like) == expected


@pytest.mark.parametrize("code", [401, 403, 429, 500, 503])
async def test_bug_23_creates_on_any_error(code: int) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.refuse(code, "Scripted", **({"retry-after": "0"} if code == 429 else {}))

    async with serve(handler) as server, connected(ClientConfig(server.url)) as client:
        who = Identity("web1", "debian", (), "linux", "x86_64", "6.1")
        node = NodeObject(client, Cache(client, MANAGED_NODES), "n", who)
        with pytest.raises(errors.KubeError):
            await node.ensure()
        assert {one.method for one in server.requests} == {"GET"}


async def test_bug_24_a_process_for_each_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    renderer = Inline()
    desired_states = DesiredStateCache(Contenter(renderer))
    node = ManagedNode(metadata=ObjectMeta(name="web1"))
    for _ in range(3):  # declarations as they come from the API: new objects, equal content
        sets = [config_set("a", files=[{"path": "/x", "template": "{{ .Node.Name }}"}])]
        desired_state = await desired_states.make(sets, DeclaredInputs(tuple(sets), (node,)), node)
    found = desired_state.contents["/x"]
    assert isinstance(found, Content)
    assert (found.data, renderer.asked) == (b"web1", [["{{ .Node.Name }}"]])
