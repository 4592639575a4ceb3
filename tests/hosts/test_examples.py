"""Every example, applied to a host with the real programs on it, until it holds; of Debian, and of Ubuntu.

On Ubuntu the agent is the static program of `make release`: its Python is another one than bin/manager needs.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodemanager.kube import manifests
from support import debian_root, static_program
from support.bridge import Bridge
from support.fleet import MANAGER, Host, check_manager, serving, until
from support.nspawn import Machine

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGES = ("bind9", "nginx", "openssl", "systemd-timesyncd")
UBUNTU = (*PACKAGES, "python3", "wireguard-tools")
DROP_INS = {
    # A container may not set the clock, and its kernel need not know WireGuard.
    "systemd-timesyncd.service": (
        "[Unit]\nConditionCapability=\nConditionVirtualization=\n"
        "[Service]\nType=exec\nAmbientCapabilities=\nExecStart=\nExecStart=/bin/sleep inf\n"
    ),
    "wg-quick@.service": "[Service]\nExecStart=\nExecStart=/usr/bin/wg-quick strip %i\nExecStop=\n",
}
STATUS = "import urllib.request as r; print(r.urlopen('http://localhost/status', timeout=60).status)"


@pytest.fixture(name="web1", scope="module", params=[debian_root.SUITE, "noble"])
def _web1(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host by the name that the examples use, joined, with no set for it yet."""
    check_manager()
    debian = request.param == debian_root.SUITE
    program = MANAGER if debian else static_program.find()
    base = debian_root.base_root(*PACKAGES) if debian else debian_root.bare_root(request.param, *UBUNTU)
    with contextlib.ExitStack() as stack:
        bridge = stack.enter_context(Bridge())
        api = stack.enter_context(serving(tmp_path_factory.mktemp("api"), bridge.address))
        network, address = bridge.plug("web1")
        machine = stack.enter_context(Machine.boot(base=base, network=network))
        machine.write("/etc/hostname", "web1\n")
        machine.run("hostname", "web1")
        for unit, text in DROP_INS.items():
            machine.write(f"/etc/systemd/system/{unit}.d/tests.conf", text)
        machine.run("systemctl", "daemon-reload")
        host = Host("web1", address, machine, api, program)
        host.join()
        until(lambda: host.condition("Ready") == "True", "web1 is ready")
        yield host


def apply(host: Host, example: str) -> None:
    """Apply the folder of an example, with the labels that it asks for on the host."""
    for path in sorted((EXAMPLES / example).glob("*.yaml")):
        host.api.apply(*manifests.load_all(path.read_text(), str(path)))


def label(host: Host, **labels: str) -> None:
    host.api.apply(host.api.managed_node("web1", labels=labels))


def test_the_clock(web1: Host) -> None:
    apply(web1, "01-clock")
    web1.converge("clock-debian")
    assert web1.is_active("systemd-timesyncd")
    assert web1.text("/etc/systemd/timesyncd.conf.d/pool.conf") == "[Time]\nNTP=pool.ntp.org\n"
    assert not web1.entry("clock"), "that one is for Arch"


def test_the_web_server(web1: Host) -> None:
    apply(web1, "02-selector")
    label(web1, **{"serves-web": "yes"})
    web1.converge("web")
    assert web1.machine.run("python3", "-c", STATUS).stdout == "204\n"
    assert "DH PARAMETERS" in web1.text("/etc/nginx/dhparam.pem")
    began = web1.shows("nginx", "MainPID")
    good = web1.text("/etc/nginx/nginx.conf")
    broken = manifests.load_all((EXAMPLES / "02-selector/web.yaml").read_text(), "web.yaml")[0]
    broken["spec"]["files"][0]["template"] = "events {"
    web1.api.apply(broken)
    assert "its validation failed" in web1.error("web")
    assert web1.text("/etc/nginx/nginx.conf") == good
    apply(web1, "02-selector")
    web1.converge("web")
    assert web1.shows("nginx", "MainPID") == began


def test_the_secret(web1: Host) -> None:
    apply(web1, "03-secret-template")
    web1.converge("app")
    assert web1.text("/etc/app/app.conf") == "level = info\npassword = change-me\n"
    assert web1.stat("/etc/app/app.conf") == "root root 600"
    began = web1.shows("app", "MainPID")
    web1.api.secret("db-web1", password="changed")
    until(lambda: "changed" in web1.text("/etc/app/app.conf"), "the file follows the Secret")
    until(lambda: web1.shows("app", "MainPID") not in ("0", began), "the service is restarted")


def test_the_bytes(web1: Host) -> None:
    apply(web1, "06-binary-content")
    web1.converge("keytab")
    assert held(web1, "/etc/krb5.keytab") == "BQIAAAA7AAEAC0VYQU1QTEUuT1JH/w=="
    assert web1.stat("/etc/krb5.keytab") == "root root 600"
    assert held(web1, "/usr/share/pixmaps/site.ico") == "AAABAAEAEBD//g=="
    assert held(web1, "/etc/site.magic") == "/v8AAQI="
    data = bytes(range(256)) * 1024
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keytab-web1"}}
    web1.api.apply({**secret, "data": {"krb5.keytab": base64.b64encode(data).decode()}})
    wanted = base64.b64encode(data).decode()
    until(lambda: held(web1, "/etc/krb5.keytab") == wanted, "the file follows the Secret, byte for byte")


def held(host: Host, path: str) -> str:
    """Return the bytes of a file in base64."""
    return host.machine.run("base64", "-w0", path).stdout.strip()


def test_the_mesh(web1: Host) -> None:
    apply(web1, "04-wireguard-mesh")
    web1.converge("mesh")
    (told,) = until(lambda: web1.status().get("wireGuard", []), "a report of its key")
    assert len(told["publicKey"]) == 44
    assert "Address = 10.10.0.1/24" in web1.text("/etc/wireguard/wg0.conf")
    assert web1.stat("/etc/wireguard/wg0.conf") == "root root 600"
    assert web1.is_active("wg-quick@wg0")


def test_the_zone(web1: Host) -> None:
    blob = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()
    web1.machine.write("/etc/ssh/ssh_host_ed25519_key.pub", f"ssh-ed25519 {blob} root@web1\n")
    apply(web1, "05-sshfp-zone")
    label(web1, **{"serves-dns": "yes"})
    web1.look_again()
    line = "web1 IN SSHFP 4 2 "
    until(lambda: line in web1.text("/etc/bind/sshfp.zone"), "the zone has the key of this host")
    web1.converge("sshfp-zone")
    # Each reload logs some 195 lines, so the end of the journal need not hold the one that says it.
    reload = "received control channel command 'reload'"
    until(
        lambda: reload in web1.machine.journal("-u", "named", "--grep", reload),
        "the server has read the zone again",
    )
