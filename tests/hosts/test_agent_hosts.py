"""Real agents on three real hosts: the documentation's examples, one lock for all, and who may do what."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from nodemanager.client.patches import MergePatch
from nodemanager.kube import errors, manifests
from support.fleet import ROOT, Fleet, Host, apt_repository, until
from support.fleet_api import NAMESPACE, FleetApi, resource_of

HOSTS = ("alpha", "beta", "gamma")
GUIDE = ROOT / "tests/cases/manifests/accepted"
UPSTREAM = ROOT / "tests/cases/templates/upstream_examples.yaml"
CHRONYD = """\
[Service]
ExecStartPre=/bin/sh -c 'cp /etc/chrony.conf /run/chrony.seen; echo start >> /run/chrony.starts'
ExecStart=/bin/sleep inf
[Install]
WantedBy=multi-user.target
"""
NAMED = """\
[Service]
ExecStart=/bin/sleep inf
ExecStartPost=/bin/sh -c 'sleep 0.3; echo up $(date +%%s.%%N) >> /run/named.times'
ExecStartPost=/bin/cp /var/named/sshfp.zone /run/named.zone
ExecStop=/bin/sh -c 'echo down $(date +%%s.%%N) >> /run/named.times; sleep 0.3'
[Install]
WantedBy=multi-user.target
"""
WG_QUICK = '#!/bin/sh\necho "$@" >> /run/wg-quick.calls\n'


@pytest.fixture(scope="module")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three hosts that are name servers and form a mesh; apt knows a chrony of our own."""
    folder = tmp_path_factory.mktemp("fleet")
    with apt_repository(folder / "apt") as repository:
        repository.publish("chrony", "4.3-2", files={"/lib/systemd/system/chronyd.service": CHRONYD})
    with Fleet.up(folder, *HOSTS, repository=repository.repo) as fleet:
        for host in fleet.hosts.values():
            prepare(host)
            labels = {"mesh": "wg0", "role": "nameserver"}
            host.join(labels=labels, spec={"wireGuard": {"enabled": True, "interface": "wg0"}})
        yield fleet


@pytest.fixture
def fleet(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """The three hosts; what their agents wrote is printed when a test fails."""
    with shared_fleet.watched(request) as fleet:
        yield fleet


def prepare(host: Host) -> None:
    """Give a host what the examples expect of it; its SSH keys are made as sshd's package makes them."""
    machine = host.machine
    key = ed25519.Ed25519PrivateKey.generate().public_key()
    public = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    machine.write("/etc/ssh/ssh_host_ed25519_key.pub", f"{public} root@{host.name}\n")
    machine.write("/usr/local/sbin/wg-quick", WG_QUICK, 0o755)
    machine.write("/etc/systemd/system/named.service", NAMED)
    machine.run("groupadd", "--gid", "70", "database")
    machine.run("useradd", "--system", "postgres")


def example(name: str, kind: str = "ConfigSet") -> dict[str, Any]:
    """Return an object of an example of the documentation, as it is there."""
    found = manifests.load_all((GUIDE / name).read_text(), name)
    return next(one for one in found if one["kind"] == kind)


def upstream(name: str) -> str:
    """Return a template of the Go project's documentation, as it is there."""
    return next(str(one["template"]) for one in yaml.safe_load(UPSTREAM.read_text()) if one["name"] == name)


def await_text(host: Host, path: str, text: str) -> None:
    """Wait until a file of a host contains a text."""
    until(lambda: text in host.text(path), f"{text!r} in {path} of {host.name}")


def fingerprint(host: Host) -> str:
    blob = base64.b64decode(host.text("/etc/ssh/ssh_host_ed25519_key.pub").split()[1])
    return hashlib.sha256(blob).hexdigest()


def test_the_clock_is_installed_configured_running_and_restarted_on_change(fleet: Fleet) -> None:
    clock = example("go-clock.yaml")
    clock["metadata"]["labels"] = {"kubernetes.io/os": "debian"}  # the example is for Arch
    fleet.api.apply(clock)
    for host in fleet.hosts.values():
        host.converge("clock")
        wanted = clock["spec"]["files"][0]["content"]
        assert "installed" in host.machine.run("dpkg-query", "-W", "-f", "${Status}", "chrony").stdout
        assert (host.text("/etc/chrony.conf"), host.stat("/etc/chrony.conf")) == (wanted, "root root 644")
        assert (host.shows("chronyd", "ActiveState"), host.shows("chronyd", "UnitFileState")) == (
            "active", "enabled",
        )  # fmt: skip
        assert host.text("/run/chrony.seen") == wanted
    clock["spec"]["files"][0]["content"] += "rtcsync\n"
    fleet.api.apply(clock)
    for host in fleet.hosts.values():
        host.converge("clock")
        assert host.text("/run/chrony.seen").endswith("rtcsync\n")
        assert host.text("/run/chrony.starts").count("start") == 2
    alpha = fleet["alpha"]
    alpha.machine.write("/etc/motd", "nobody manages this\n")
    fleet.api.config_set("after-clock", alpha.name, files=[{"path": "/etc/after-clock", "content": "x"}])
    alpha.converge("after-clock")  # a whole pass more
    assert alpha.text("/run/chrony.starts").count("start") == 2


def test_a_mesh_of_three_hosts_exchanges_keys(fleet: Fleet) -> None:
    fleet.api.apply(example("go-wireguard.yaml"))
    public: dict[str, str] = {}
    for name, host in fleet.hosts.items():
        host.converge("mesh")
        secret = until(partial(fleet.api.get, "Secret", f"wg-wg0-{host.name}"), f"the key of {name}")["data"]
        private = base64.b64decode(secret["private-key"]).decode()
        public[name] = base64.b64decode(secret["public-key"]).decode()
        assert host.machine.run("wg", "pubkey", stdin=private).stdout.strip() == public[name]
        told = until(partial(wireguard, host), f"a report of the key of {name}")
        assert [(one["name"], one["publicKey"]) for one in told] == [("wg0", public[name])]
    for host in fleet.hosts.values():
        own = base64.b64decode(fleet.api.get("Secret", f"wg-wg0-{host.name}")["data"]["private-key"]).decode()
        for key in public.values():
            await_text(host, "/etc/wireguard/wg0.conf", key)
        assert own not in host.log()
        assert f"PrivateKey = {own}\n" in host.text("/etc/wireguard/wg0.conf")
        assert host.stat("/etc/wireguard/wg0.conf") == "root root 600"
        await_text(host, "/run/wg-quick.calls", "up wg0")
        assert own not in host.log()
    assert len(set(public.values())) == len(HOSTS)


def wireguard(host: Host) -> list[dict[str, Any]]:
    """Return what a host reports of its keys."""
    found: list[dict[str, Any]] = host.status().get("wireGuard", [])
    return found


def owes(host: Host, name: str) -> bool:
    """Tell whether a host still has to restart something: that is on disk before the file changes."""
    return name in host.text("/var/lib/nodemanager/pending.json")


def test_a_zone_file_with_all_host_keys_reaches_the_name_servers_one_after_the_other(fleet: Fleet) -> None:
    fleet.api.apply(example("go-sshfp.yaml"))
    for host in fleet.hosts.values():
        for peer in fleet.hosts.values():
            line = f"{peer.name} IN SSHFP 4 2 {fingerprint(peer)}\n"
            await_text(host, "/var/named/sshfp.zone", line)
            await_text(host, "/run/named.zone", line)
        host.converge("sshfp")
    for host in fleet.hosts.values():
        # The zone grew host by host, and a restart may have read what a further one is still owed for.
        until(lambda host=host: not owes(host, "service:named"), f"{host.name} to owe nothing")  # type: ignore[misc]
        host.machine.run("rm", "--force", "/run/named.times")
    zone = example("go-sshfp.yaml")
    zone["spec"]["files"][0]["template"] += "\n; the second edition\n"
    fleet.api.apply(zone)
    for host in fleet.hosts.values():
        await_text(host, "/run/named.zone", "second edition")
        host.converge("sshfp")
    spans = sorted(downtime(host) for host in fleet.hosts.values())
    for earlier, later in itertools.pairwise(spans):
        assert earlier[1] < later[0], f"two name servers were down at once: {spans}"


def downtime(host: Host) -> tuple[float, float]:
    """Return when the name server went down, and when it was up again; it did so once."""
    lines = [line.split() for line in host.text("/run/named.times").splitlines()]
    assert [line[0] for line in lines] == ["down", "up"], lines
    return float(lines[0][1]), float(lines[1][1])


def test_a_secret_reaches_its_file_and_nothing_else(fleet: Fleet) -> None:
    host = fleet["beta"]
    fleet.api.secret("database", password="correct horse")
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "database-settings"}}
    fleet.api.apply({**settings, "data": {"port": "5432"}})
    database = example("go-secret.yaml")
    database["metadata"]["labels"] = {"kubernetes.io/hostname": host.name}
    fleet.api.apply(database)
    host.converge("database")
    assert host.text("/etc/database.env") == "PASSWORD=correct horse\nPORT=5432\n"
    assert host.stat("/etc/database.env") == "postgres database 600"
    fleet.api.secret("database", password="battery staple")
    until(lambda: "battery staple" in host.text("/etc/database.env"), "the new password")
    assert host.stat("/etc/database.env") == "postgres database 600"
    for text in (host.log(), str(host.status()), host.machine.journal()):
        assert "correct horse" not in text
        assert "battery staple" not in text


def test_templates_of_the_documentation_work_as_they_are(fleet: Fleet) -> None:
    host = fleet["gamma"]
    fleet.api.secret("guide", password="hunter22", privateKey="a-private-key")
    files = {
        "/etc/guide/secret": "a Secret by index and strings.FromBytes",
        "/etc/guide/label": "a label in square brackets, an address in the other spelling",
        "/etc/guide/mesh": "a WireGuard mesh",
        "/etc/guide/zone": "an SSHFP zone file",
    }
    fleet.api.config_set(
        "guide", host.name,
        files=[{"path": path, "template": upstream(name), "secretRefs": ["guide"]}
               for path, name in files.items()],
    )  # fmt: skip
    host.converge("guide")
    assert host.text("/etc/guide/secret") == "password=hunter22\n"
    own = f"# {host.name}\naddress={host.address}\n"
    until(lambda: host.text("/etc/guide/label") == own, "its address")
    for peer in fleet.hosts.values():  # they may not have told yet what they are
        await_text(host, "/etc/guide/mesh", f"# {peer.name}\n")
        await_text(host, "/etc/guide/mesh", f"Endpoint = {peer.address}:")
        await_text(host, "/etc/guide/zone", f"{peer.name} IN SSHFP 4 2 {fingerprint(peer)}\n")
    assert host.stat("/etc/guide/secret") == "root root 600"


def test_a_host_cannot_touch_what_belongs_to_another(fleet: Fleet, tmp_path: Path) -> None:
    alpha, beta = fleet["alpha"], fleet["beta"]
    credential = tmp_path / "beta.kubeconfig"
    credential.write_text(beta.machine.read("/etc/nodemanager/kubeconfig"))
    api = FleetApi(credential)
    secret = f"wg-wg0-{alpha.name}"
    until(lambda: fleet.api.get("Secret", secret), "the key of the other host")
    until(lambda: fleet.api.get("Lease", f"nodemanager-{alpha.name}"), "the heartbeat of the other host")
    touch = MergePatch({"metadata": {"annotations": {"touched": "by another host"}}})
    node, key = resource_of("ManagedNode"), resource_of("Secret")
    lease, sets = resource_of("Lease"), resource_of("ConfigSet")
    account = resource_of("ServiceAccount")
    stranger = FleetApi.managed_node("stranger")
    refused = {
        "change its ManagedNode": lambda c: c.patch(node, alpha.name, NAMESPACE, touch),
        "write its status": lambda c: c.patch(
            node, alpha.name, NAMESPACE, MergePatch({"status": {"release": "0"}}), subresource="status"
        ),
        "delete its ManagedNode": lambda c: c.delete(node, alpha.name, NAMESPACE),
        "make a ManagedNode of another name": lambda c: c.create(node, stranger, NAMESPACE),
        "read its private key": lambda c: c.get(key, secret, NAMESPACE),
        "list all Secrets": lambda c: c.list(key),
        "make a Secret for it": lambda c: c.create(key, {"metadata": {"name": f"{secret}-x"}}, NAMESPACE),
        "renew its Lease": lambda c: c.patch(lease, f"nodemanager-{alpha.name}", NAMESPACE, touch),
        "change a ConfigSet": lambda c: c.patch(sets, "clock", NAMESPACE, touch),
        "take its token": lambda c: c.create_subresource(
            account, f"nodemanager-{alpha.name}", NAMESPACE, "token", {"spec": {"expirationSeconds": 600}}
        ),
        "give itself a label": lambda c: c.patch(
            node, beta.name, NAMESPACE, MergePatch({"metadata": {"labels": {"role": "database"}}})
        ),
    }  # fmt: skip
    allowed = [what for what, act in refused.items() if not is_refused(api, act)]
    assert allowed == []
    api.call(lambda c: c.get(node, beta.name, NAMESPACE))
    assert "touched" not in alpha.node()["metadata"].get("annotations", {})


def is_refused(api: FleetApi, act: Any) -> bool:
    try:
        api.call(act)
    except errors.Forbidden:
        return True
    except errors.Invalid as error:  # by the admission policy
        return "nodemanager-hosts" in str(error)
    return False
