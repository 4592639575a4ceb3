"""What `bootstrap` refuses: with a clear error, and the kubeconfig that is there stays as it is."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from support import cli, kubeconfigs
from support.either import Place
from support.joined_host import Joined, join

READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do that to a directory")


@dataclass
class Refusals:
    """A host that has joined, and is to join again in ways that cannot work."""

    host: Joined
    good: Path
    """A bootstrap credential that works."""

    def refused(
        self, *flags: str, source: str | Path = "", target: Path | None = None, within: tuple[str, ...] = ()
    ) -> str:
        """Return what `bootstrap` says; it leaves what is there alone, and no litter."""
        own = self.host.kubeconfig
        before, beside = own.read_bytes(), sorted(own.parent.iterdir())
        argv = [
            *within, *cli.ARGV, "bootstrap", "--bootstrap-kubeconfig", str(source or self.good),
            "--kubeconfig", str(target or own), "--hostname", self.host.name, "-n", self.host.place.namespace,
            *flags,
        ]  # fmt: skip
        done = subprocess.run(
            argv, env=cli.environment(), capture_output=True, text=True, timeout=40, check=False
        )
        assert (done.returncode, done.stdout) == (1, ""), done
        assert (own.read_bytes(), sorted(own.parent.iterdir())) == (before, beside)
        assert "bug" not in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    def changed(self, change: Callable[[dict[str, Any]], None]) -> str:
        """Return the good credential with a change."""
        document = yaml.safe_load(self.good.read_text())
        change(document)
        return kubeconfigs.write(self.good.parent / "changed" / "kubeconfig", document)


@pytest.fixture(name="joined")
async def _joined(place: Place, tmp_path: Path) -> Refusals:
    host = await join(place, tmp_path, "web1")
    return Refusals(host, tmp_path / "web1.bootstrap")


def test_a_wrong_host_name(joined: Refusals) -> None:
    said = joined.refused("--hostname", "web2")
    assert said.startswith("error: cannot get a token for web2: ")
    assert "may not do that" in said
    assert "use the administrator's, or that of web2 itself" in said


def test_a_wrong_namespace(joined: Refusals) -> None:
    said = joined.refused("-n", "default")
    assert said.startswith("error: cannot get a token for web1: ")
    assert "may not do that" in said


def test_a_time_below_the_minimum_of_the_api(joined: Refusals) -> None:
    said = joined.refused("--token-ttl", "9m59s")
    assert said == "error: cannot ask for a token of 599 s: the API issues none for less than 10m\n"


def test_a_ca_that_is_not_there(joined: Refusals) -> None:
    def change(document: dict[str, Any]) -> None:
        cluster = document["clusters"][0]["cluster"]
        del cluster["certificate-authority-data"]
        cluster["certificate-authority"] = "ca.pem"

    said = joined.refused(source=joined.changed(change))
    assert said.startswith("error: cannot read ")
    assert "changed/ca.pem" in said


def test_a_ca_that_is_none(joined: Refusals) -> None:
    def change(document: dict[str, Any]) -> None:
        nonsense = base64.b64encode(b"nonsense").decode()
        document["clusters"][0]["cluster"]["certificate-authority-data"] = nonsense

    said = joined.refused(source=joined.changed(change))
    assert said.startswith("error: cannot ")
    assert "certificate" in said


def test_the_ca_of_another_server(joined: Refusals) -> None:
    def change(document: dict[str, Any]) -> None:
        other = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
        document["clusters"][0]["cluster"]["certificate-authority-data"] = other

    said = joined.refused(source=joined.changed(change))
    assert said.startswith("error: cannot ")
    assert "certificate" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere; it has a test of its own")
def test_a_directory_that_may_not_be_written_to(joined: Refusals) -> None:
    folder = joined.host.kubeconfig.parent
    folder.chmod(0o550)
    try:
        assert "is not writable; run as root, or write elsewhere" in joined.refused()
    finally:
        folder.chmod(0o750)


@ROOT_ONLY
def test_a_read_only_directory(joined: Refusals) -> None:
    folder = joined.host.kubeconfig.parent
    within = ("unshare", "--mount", "sh", "-c", READ_ONLY, "sh", str(folder))
    can = subprocess.run([*within, "true"], capture_output=True, text=True, timeout=20, check=False)
    if can.returncode != 0:
        pytest.skip(f"cannot mount something read-only here: {can.stderr.strip()}")
    said = joined.refused(within=within)
    own = joined.host.kubeconfig
    assert said == f"error: cannot write {own}: the file system of {folder} is mounted read-only\n"


@pytest.fixture(name="immutable")
def _immutable(joined: Refusals) -> Iterator[Path]:
    folder = joined.host.kubeconfig.parent
    done = subprocess.run(
        ["chattr", "+i", str(folder)], capture_output=True, text=True, timeout=20, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"this file system knows no immutable directories: {done.stderr.strip()}")
    yield folder
    subprocess.run(["chattr", "-i", str(folder)], timeout=20, check=True)


@ROOT_ONLY
def test_an_immutable_directory(joined: Refusals, immutable: Path) -> None:
    assert f"{immutable} is not writable; look at lsattr -d" in joined.refused()


@pytest.fixture(name="signing_key")
def _signing_key(request: pytest.FixtureRequest, place: Place) -> bytes:
    """The key with which this server signs tokens."""
    if request.node.callspec.params["place"] == "embedded":
        return Path(request.getfixturevalue("own_server")).with_name("service-account-key.pem").read_bytes()
    return bytes((request.getfixturevalue("kube").folder / "sa.key").read_bytes())


@pytest.mark.parametrize("hours", [0, 2])
def test_a_bootstrap_credential_that_has_expired(joined: Refusals, signing_key: bytes, hours: int) -> None:
    """The same token, as the server would have issued it two hours ago; issued just now, it is good."""
    key = serialization.load_pem_private_key(signing_key, password=None)
    now = int(time.time()) - hours * 3600

    def change(document: dict[str, Any]) -> None:
        user = document["users"][0]["user"]
        header = jwt.get_unverified_header(user["token"])
        claims = jwt.decode(user["token"], options={"verify_signature": False})
        claims |= {"iat": now, "nbf": now, "exp": now + 3600}
        algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        user["token"] = jwt.encode(claims, key, algorithm, headers={"kid": header["kid"]})  # type: ignore[arg-type]

    source = joined.changed(change)
    if hours:
        said = joined.refused(source=source)
        assert said.startswith("error: cannot get a token for web1: the credential that was given")
        assert re.search(r"is not valid, or has expired; run \S.*nodemanager token again\n$", said)
        return
    own = joined.host.kubeconfig
    done = cli.run(
        "bootstrap", "--bootstrap-kubeconfig", source, "--kubeconfig", str(own), "--hostname", "web1",
        "-n", joined.host.place.namespace,
    )  # fmt: skip
    assert done.code == 0, done


def test_a_link_planted_at_the_target(joined: Refusals, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(joined.host.kubeconfig)
    assert "it is a symbolic link; remove it, or name what it points to" in joined.refused(target=link)
    assert link.is_symlink()


@ROOT_ONLY
def test_a_link_planted_above_the_target(joined: Refusals, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    planted = shared / "nodemanager"
    planted.symlink_to(joined.host.kubeconfig.parent)
    os.lchown(planted, 12345, 12345)
    said = joined.refused(target=planted / "kubeconfig")
    assert "nodemanager is a link made by user 12345, which is not followed" in said


def test_a_directory_that_others_may_write_to(joined: Refusals, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert f"others may write to {shared}; run chmod go-w {shared}" in joined.refused(
        target=shared / "kubeconfig"
    )
    assert list(shared.iterdir()) == []


async def test_an_account_that_was_deleted(joined: Refusals) -> None:
    joined.host.place.kubectl("delete", "serviceaccount", "nodemanager-web1")
    said = await asyncio.to_thread(joined.refused)
    forgotten, remembered = "is not valid, or has expired", "there is no ServiceAccount nodemanager-web1"
    assert forgotten in said or remembered in said  # kube-apiserver remembers tokens for some seconds
