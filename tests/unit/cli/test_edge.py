"""`nodemanager edge`: what we ship, and a profile signed by the real minisign."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from nodemanager.api.edge import shipped_profiles
from nodemanager.fleet.edge import profile_trust
from nodemanager.kube import manifests
from support import cli, edge_profiles


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Path:
    path = tmp_path / "site.yaml"
    path.write_text(cli.run("edge", "profiles", "vx-rail").stdout)
    return path


def test_all_are_listed_and_those_that_are_named_are_printed() -> None:
    listed = [line.split()[0] for line in cli.run("edge", "profiles").stdout.splitlines()]
    assert listed == list(shipped_profiles.profiles()) == ["k3s-linstor", "ubuntu-local-path", "vx-rail"]
    printed = cli.run("edge", "profiles", "vx-rail", "k3s-linstor").stdout
    names = [one["metadata"]["name"] for one in manifests.load_all(printed, "stdout")]
    assert names == ["vx-rail", "k3s-linstor"]
    refused = cli.run("edge", "profiles", "moon")
    assert (refused.code, refused.stdout) == (2, "")
    assert "there is no profile 'moon'; there are k3s-linstor, ubuntu-local-path, vx-rail" in refused.stderr


def test_a_file_has_to_have_one_profile(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(cli.run("edge", "profiles", "vx-rail", "k3s-linstor").stdout)
    ran = cli.run("edge", "payload", "-f", str(path))
    assert (ran.code, ran.stderr) == (
        1, f"error: cannot use {path}: there are 2 EdgeProfiles in it, not one\n",
    )  # fmt: skip


def test_signed_by_minisign_attached_and_trusted(site: Path, tmp_path: Path) -> None:
    if shutil.which("minisign") is None:
        pytest.skip("no minisign on PATH: on Debian install minisign")

    def minisign(*args: str) -> None:
        subprocess.run(["minisign", *args], cwd=tmp_path, check=True, capture_output=True, timeout=40)

    minisign("-G", "-W", "-p", "key.pub", "-s", "key")
    minisign("-G", "-W", "-p", "other.pub", "-s", "other")
    said = cli.run("edge", "payload", "-f", str(site), "--comment").stdout
    assert said == "profile:vx-rail\tversion:1.0.0\n"
    (tmp_path / "payload").write_text(cli.run("edge", "payload", "-f", str(site)).stdout)
    minisign("-S", "-s", "key", "-m", "payload", "-t", said.rstrip("\n"))
    signature = str(tmp_path / "payload.minisig")
    where = ("edge", "attach", "-f", str(site), "--signature", signature, "--key")
    refused = cli.run(*where, str(tmp_path / "other.pub"))
    assert (refused.code, refused.stdout) == (1, "")
    assert "cannot attach" in refused.stderr
    assert "is not trusted" in refused.stderr
    obj = yaml.safe_load(cli.run(*where, str(tmp_path / "key.pub")).stdout)
    key = (tmp_path / "key.pub").read_text()
    assert profile_trust.verify(edge_profiles.typed(obj), [key]).key == key.splitlines()[0].split()[-1]


def test_what_is_no_signature_is_refused_and_no_bug(site: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    for content in (b"\xff\xfe", b"", b"x" * 100_000):
        bad.write_bytes(content)
        for signature, key in ((bad, site), (site, bad)):
            ran = cli.run("edge", "attach", "-f", str(site), "--signature", str(signature), "--key", str(key))
            assert (ran.code, ran.stdout) == (1, ""), ran
            assert ran.stderr.startswith(f"error: cannot attach {signature}"), ran.stderr


def test_the_bond_of_a_profile_is_printed_as_its_system_keeps_it(site: Path) -> None:
    printed = cli.run("edge", "bond", "-f", str(site), "--link", "eth1", "--link", "eth2", "--for", "multi")
    assert printed.code == 0, printed.stderr
    assert "# /etc/systemd/network/10-bondstor.netdev (0644)\n[NetDev]\nName=bondstor\n" in printed.stdout
    assert "Mode=balance-rr\n" in printed.stdout
    assert "# /oem/95_nodemanager_network.yaml (0600)\n#cloud-config\n" in printed.stdout
    assert printed.stdout.endswith(
        "# before that counts: kairos-agent validate /oem/95_nodemanager_network.yaml\n"
        "# then: networkctl reload\n"
    )
    single = cli.run("edge", "bond", "-f", str(site), "--link", "eth1", "--link", "eth2").stdout
    assert "Mode=active-backup\n" in single
    assert "PrimarySlave=yes\n" in single


@pytest.mark.parametrize(
    ("profile", "patch", "says"),
    [
        (
            "vx-rail",
            {"os": {"provider": "rhel"}, "workflows": None},
            "cannot use PersistentNet: rhel has none",
        ),
        ("ubuntu-local-path", {}, "EdgeProfile ubuntu-local-path has no spec.network with modes"),
    ],
)
def test_a_bond_that_cannot_be_kept_is_refused(
    tmp_path: Path, profile: str, patch: dict[str, object], says: str
) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(manifests.dump([edge_profiles.shipped(profile, "", patch)]))
    ran = cli.run("edge", "bond", "-f", str(path), "--link", "eth1", "--link", "eth2")
    assert (ran.code, ran.stdout) == (1, "")
    assert says in ran.stderr


def test_rights_to_look_at_storage_and_that_there_are_none_to_give(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    wanted = {"storage": {"linstor": {"url": "https://linstor:3371", "secret": "own"}, "piraeus": "lc"}}
    path.write_text(manifests.dump([edge_profiles.shipped("k3s-linstor", "", wanted)]))
    printed = cli.run("edge", "rbac", "-f", str(path)).stdout
    kinds = [one["kind"] for one in manifests.load_all(printed, "stdout")]
    assert kinds == ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
    path.write_text(manifests.dump([edge_profiles.shipped("k3s-linstor")]))
    refused = cli.run("edge", "rbac", "-f", str(path))
    assert refused.code == 1
    assert "names nothing to look at in the API" in refused.stderr
