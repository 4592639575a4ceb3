"""What the agent reads off its host: addresses, keys, names. Whatever is there, nothing breaks."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import struct
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.host.files.tree import Tree
from nodemanager.host.inventory import identity, network, ssh_keys, wireguard
from nodemanager.host.inventory.identity import Identity
from nodemanager.host.process.runner import Completed, RunError
from support.fake_wg import host_with_wg, host_without_wg

IFCONFIG = """\
em0: flags=1008843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST,LOWER_UP> metric 0 mtu 1500
\tether 52:54:00:12:34:56
\tinet 192.0.2.10 netmask 0xffffff00 broadcast 192.0.2.255
\tinet6 fe80::5054:ff:fe12:3456%em0 prefixlen 64 scopeid 0x1
\tinet6 2001:db8::10 prefixlen 64
em1: flags=8802<BROADCAST,SIMPLEX,MULTICAST> metric 0 mtu 1500
\tinet 192.0.2.99 netmask 0xffffff00
lo0: flags=8049<UP,LOOPBACK,RUNNING,MULTICAST> metric 0 mtu 16384
\tinet 127.0.0.1 netmask 0xff000000
"""
DUMP = (
    "wg0\tcHJpdmF0ZQ==\tcHVibGlj\t51820\toff\n"
    "wg0\tcGVlcg==\t(none)\t192.0.2.1:51820\t10.0.0.2/32\t0\t0\t0\toff\n"
    "wg1\t(none)\t(none)\t0\toff\n"
)

TEXTS = st.binary(max_size=300).map(lambda data: data.decode("utf-8", "replace"))
"""Any text, without the tables of all characters, which take seconds to make."""


def attribute(kind: int, data: bytes) -> bytes:
    padded = data + bytes(-len(data) % 4)
    return struct.pack("=HH", 4 + len(data), kind) + padded


def message(kind: int, payload: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(payload), kind, 0, 1, 0) + payload


def link(number: int, name: bytes, flags: int) -> bytes:
    return message(16, struct.pack("=BxHiII", 0, 1, number, flags, 0) + attribute(3, name + b"\0"))


def address(number: int, text: str, *, peer: str = "") -> bytes:
    packed = ipaddress.ip_address(text).packed
    attributes = (
        attribute(2, packed) + attribute(1, ipaddress.ip_address(peer).packed)
        if peer
        else attribute(1, packed)
    )
    return message(20, struct.pack("=BBBBI", 2 if len(packed) == 4 else 10, 24, 0, 0, number) + attributes)


def test_netlink_is_read() -> None:
    links = network.parse_links(
        network.messages(link(1, b"lo", 9) + link(2, b"eth0", 1) + link(3, b"down", 0))
    )
    data = b"".join(
        (
            address(1, "127.0.0.1"), address(2, "192.0.2.7"), address(2, "10.0.0.1", peer="10.0.0.2"),
            address(2, "fe80::1"), address(2, "2001:db8::7"), address(3, "192.0.2.8"),
            address(9, "192.0.2.9"),
        )
    )  # fmt: skip
    found = network.collect(links, network.parse_addresses(network.messages(data)))
    assert list(found) == ["eth0"]
    assert (found["eth0"].ipv4, found["eth0"].ipv6) == (["10.0.0.1", "192.0.2.7"], ["2001:db8::7"])


@given(st.binary(max_size=400))
def test_netlink_of_any_bytes(data: bytes) -> None:
    found = list(network.messages(data))
    network.collect(network.parse_links(found), network.parse_addresses(found))
    wrapped = [(kind, data) for kind in (16, 20)]
    network.collect(network.parse_links(wrapped), network.parse_addresses(wrapped))


async def test_this_host_has_no_loopback_to_report() -> None:
    async def run(*_: object, **__: object) -> Completed:
        raise RunError("cannot run ifconfig")

    found = await network.interfaces(run)
    assert "lo" not in found
    assert all(one.ipv4 or one.ipv6 for one in found.values())


def test_ifconfig_is_read() -> None:
    found = network.parse_ifconfig(IFCONFIG)
    assert list(found) == ["em0"]
    assert (found["em0"].ipv4, found["em0"].ipv6) == (["192.0.2.10"], ["2001:db8::10"])


@given(st.text(alphabet="em0: flags=<UP>\n\tinet6 fe80::1%./", max_size=200) | TEXTS)
def test_ifconfig_of_any_text(text: str) -> None:
    for found in network.parse_ifconfig(text).values():
        for one in (*found.ipv4, *found.ipv6):
            ipaddress.ip_address(one)


def test_wg_is_read_without_its_private_keys() -> None:
    (found,) = wireguard.parse_dump(DUMP)
    assert (found.name, found.public_key, found.listen_port) == ("wg0", "cHVibGlj", 51820)


@given(st.text(alphabet="wg0\t\n(none)1²", max_size=100) | TEXTS)
def test_wg_of_any_text(text: str) -> None:
    wireguard.parse_dump(text)


async def test_no_wg_is_no_interface() -> None:
    async def missing(*_: object, **__: object) -> Completed:
        raise RunError("cannot run wg")

    assert await wireguard.interfaces(missing) == []


async def test_keys_are_those_of_cryptography(tmp_path: Path) -> None:
    run = host_with_wg(tmp_path)
    private = await wireguard.new_private_key(run)
    judge = X25519PrivateKey.from_private_bytes(base64.b64decode(private))
    public = base64.b64encode(judge.public_key().public_bytes_raw()).decode()
    assert await wireguard.public_key(run, private) == public
    assert await wireguard.new_private_key(run) != private


@pytest.mark.parametrize("text", ["", "AAAA", "not base64!", "ä"])
async def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError):
        await wireguard.public_key(host_with_wg(tmp_path), text)


async def test_a_host_without_wg_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"this host has no wg; declare the package wireguard-tools"):
        await wireguard.new_private_key(host_without_wg(tmp_path))
    with pytest.raises(RunError, match=r"this host has no wg; declare the package wireguard-tools"):
        await wireguard.public_key(host_with_wg(tmp_path, "raise SystemExit(127)"), "AAAA")  # in a chroot


async def test_a_key_is_in_no_message(tmp_path: Path) -> None:
    run = host_with_wg(tmp_path, "print('PRIVATE'); raise SystemExit(3)")
    with pytest.raises(RunError, match="exit status 3: it said nothing"):
        await wireguard.new_private_key(run)
    with pytest.raises(RunError, match="cannot run wg pubkey: exit status 3: it said nothing"):
        await wireguard.public_key(run, "PRIVATE")


@pytest.mark.parametrize(
    ("name", "number"),
    [("ssh-rsa", 1), ("ssh-dss", 2), ("ecdsa-sha2-nistp256", 3), ("ssh-ed25519", 4), ("ssh-ed448", 6)],
)
def test_fingerprints_by_algorithm(name: str, number: int) -> None:
    found = ssh_keys.fingerprints(f"{name} {base64.b64encode(b'blob').decode()} root@host\n")
    assert [(one.algorithm, one.fingerprint_type) for one in found] == [(number, 1), (number, 2)]
    assert found[1].fingerprint == hashlib.sha256(b"blob").hexdigest()


@given(TEXTS | st.text(alphabet="ssh-rsa A=\n", max_size=60))
def test_fingerprints_of_any_text(text: str) -> None:
    assert len(ssh_keys.fingerprints(text)) in (0, 2)


def test_host_keys_of_a_root(tmp_path: Path) -> None:
    folder = tmp_path / "etc/ssh"
    folder.mkdir(parents=True)
    good = base64.b64encode(b"blob").decode()
    (folder / "ssh_host_rsa_key.pub").write_text(f"ssh-rsa {good}\n")
    (folder / "ssh_host_rsa_key").write_text("private")
    (folder / "ssh_host_odd_key.pub").write_bytes(b"\xff\xfe")
    (folder / "ssh_host_dir_key.pub").mkdir()
    (folder / "ssh_host_link_key.pub").symlink_to("/etc/shadow")
    tree = Tree(str(tmp_path))
    assert {one.algorithm for one in ssh_keys.host_keys(tree)} == {1}
    tree.close()


@given(TEXTS | st.text(alphabet="ID=_LIKE\"'\\\n# abc", max_size=80))
def test_os_release_of_any_text(text: str) -> None:
    for name, value in identity.parse_release(text).items():
        assert name.isidentifier()
        assert "\n" not in name
        assert isinstance(value, str)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ID=arch", "arch"),
        ('ID="opensuse-leap"', "opensuse-leap"),
        ("ID='alpine'", "alpine"),
        ("  ID=debian  ", "debian"),
        ("ID=void # comment", "void"),
        ('ID="unclosed', None),
        ("#ID=x", None),
    ],
)
def test_os_release_quotes_as_a_shell_does(line: str, expected: str | None) -> None:
    assert identity.parse_release(f"NAME=x\n{line}\n").get("ID") == expected


def test_the_release_of_a_root_is_found_through_its_link(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/os-release").write_text("ID=inside\n")
    (tmp_path / "etc/os-release").symlink_to("../usr/lib/os-release")
    tree = Tree(str(tmp_path))
    assert identity.read_release(tree)["ID"] == "inside"
    tree.close()


@pytest.mark.parametrize("name", ["web1\n", "-web", "a" * 64, "", "ü"])
def test_what_is_no_label_value_is_no_label(name: str) -> None:
    found = Identity(name, "debian", (), "linux", "x86_64", "6").labels()
    assert found == {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "nodemanager.io/os": "debian",
    }
