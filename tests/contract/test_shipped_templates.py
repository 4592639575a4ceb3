"""The templates that we ship, before both servers: installed, upgraded, and left alone once changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodemanager.api.maintenance import shipped_templates
from nodemanager.api.maintenance.shipped_templates import DIGEST, MANAGED_BY
from nodemanager.kube import manifests
from support import cli, server_process
from support.either import Place

pytestmark = pytest.mark.usefixtures("place")
SUFFIX = ".nodeoperationtemplates.maintenance.nodemanager"
SHIPPED = {one["metadata"]["name"]: one for one in shipped_templates.templates("any")}


def install(place: Place, *args: str, namespace: str = "") -> cli.Ran:
    where = ("--kubeconfig", str(place.kubeconfig), "--namespace", namespace or place.namespace)
    return cli.run("crds", "--install", *where, *args)


def results(ran: cli.Ran) -> dict[str, str]:
    assert ran.code == 0, ran.stderr
    said = dict(line.split(" ", 1) for line in ran.stdout.splitlines())
    return {name.removesuffix(SUFFIX): result for name, result in said.items() if name.endswith(SUFFIX)}


def specs(place: Place) -> dict[str, object]:
    return {one["metadata"]["name"]: one["spec"] for one in place.shown("notmpl")["items"]}


def test_installed_as_they_are_and_again(place: Place) -> None:
    assert results(install(place)) == dict.fromkeys(SHIPPED, "created")
    assert specs(place) == {name: one["spec"] for name, one in SHIPPED.items()}
    again = install(place)
    assert (results(again), again.stderr) == (dict.fromkeys(SHIPPED, "unchanged"), "")


def test_an_old_one_is_upgraded_and_a_changed_one_stays(place: Place) -> None:
    install(place)
    old = {"description": "as it was", "version": "0.9.0", "parameters": [{"name": "gone"}],
           "steps": [{"name": "old", "reboot": {"when": "always"}}]}  # fmt: skip
    notes = {"metadata": {"annotations": {DIGEST: shipped_templates.digest(old), "note": "mine"}}}
    patch = [
        {"op": "replace", "path": "/spec", "value": old},
        {"op": "replace", "path": "/metadata/annotations", "value": notes["metadata"]["annotations"]},
    ]
    place.kubectl("patch", "notmpl", "fstrim", "--type=json", "-p", json.dumps(patch))
    place.kubectl("patch", "notmpl", "reboot", "--type=merge", "-p", '{"spec": {"description": "mine"}}')
    place.kubectl("delete", "notmpl", "time-sync")
    place.kubectl("label", "notmpl", "smart-check", "--overwrite", f"{MANAGED_BY}=Helm")
    ran = install(place)
    odd = {name: result for name, result in results(ran).items() if result != "unchanged"}
    assert odd == {"fstrim": "configured", "reboot": "kept", "smart-check": "kept", "time-sync": "created"}
    assert "note: template reboot stays as it is: somebody changed it; to get ours, delete it" in ran.stderr
    assert "note: template smart-check stays as it is: Helm manages it" in ran.stderr
    fstrim = place.shown("notmpl", "fstrim")
    assert fstrim["spec"] == SHIPPED["fstrim"]["spec"]
    assert fstrim["metadata"]["annotations"]["note"] == "mine"
    assert place.shown("notmpl", "reboot")["spec"]["description"] == "mine"


def test_a_dry_run_and_leaving_them_out_make_none(place: Place) -> None:
    assert results(install(place, "--dry-run")) == dict.fromkeys(SHIPPED, "created (server dry run)")
    assert results(install(place, "--no-templates")) == {}
    assert specs(place) == {}


def test_without_the_namespace_it_says_what_to_do(place: Place) -> None:
    ran = install(place, namespace="nowhere")
    assert results(ran) == {}
    assert "not installed: there is no namespace nowhere; create it and run this again" in ran.stderr


def test_what_is_printed_is_what_is_installed(place: Place) -> None:
    printed = cli.run("crds", "--templates", "--namespace", place.namespace).stdout
    assert manifests.load_all(printed, "stdout") == shipped_templates.templates(place.namespace)
    done = place.kubectl("apply", "-f", "-", stdin=printed)
    assert done.count(" created") == len(SHIPPED)
    assert results(install(place)) == dict.fromkeys(SHIPPED, "unchanged")


def test_the_embedded_api_brings_them_and_leaves_changed_ones(tmp_path: Path) -> None:
    def shown(server: server_process.Server) -> dict[str, str]:
        said = server.cli("get", "notmpl", "-o", "json").stdout
        return {one["metadata"]["name"]: one["spec"]["description"] for one in json.loads(said)["items"]}

    data = tmp_path / "data"
    with server_process.running(data, first=True) as server:
        assert list(shown(server)) == list(SHIPPED)
        Place(server.kubeconfig, "nodemanager", tmp_path).kubectl(
            "patch", "notmpl", "fstrim", "-n", "nodemanager", "--type=merge", "-p",
            '{"spec": {"description": "mine"}}',
        )  # fmt: skip
    with server_process.running(data, first=True) as server:
        found = shown(server)
    assert found.pop("fstrim") == "mine"
    assert found == {name: one["spec"]["description"] for name, one in SHIPPED.items() if name != "fstrim"}
