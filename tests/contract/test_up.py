"""`nodemanager up` on a cluster that is there already: its operator acts as the account that is known."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from nodemanager.client.auth import host_kubeconfig, kubeconfig
from nodemanager.client.subresources import request_token
from nodemanager.host.process import runner
from support import cli
from support.agent_process import Api
from support.either import Place
from support.joined_host import guard
from support.scripted_server import until

RECORDS = "configsetrevisions,auditsegments"
KEPT = {"ConfigSetRevision", "AuditSegment"}
HELLO = """\
apiVersion: common.nodemanager/v1
kind: ConfigSet
metadata: {name: hello}
spec:
  nodeSelector: {matchLabels: {kubernetes.io/hostname: web1}}
  files: [{path: /etc/motd, content: hello}]
"""
ALL_OF_A_NAMESPACE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: all}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
"""


@contextlib.contextmanager
def up(kubeconfig_path: Path, namespace: str, folder: Path) -> Iterator[Path]:
    """Run it with a folder as its host; yields its log."""
    root, log = folder / "root", folder / "up.log"
    root.mkdir()
    argv = [*cli.ARGV, "up", "--kubeconfig", str(kubeconfig_path), "-n", namespace, "--root", str(root)]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*argv, "--hostname", "web1"], stdout=file, stderr=file, env=cli.environment()
        )
    try:
        yield log
        process.send_signal(signal.SIGINT)
        assert process.wait(50) == 0, log.read_text()
    finally:
        process.kill()
        process.wait(50)


async def test_who_may_do_everything_has_revisions_and_an_audit_log(place: Place, tmp_path: Path) -> None:
    await guard(place, tmp_path)
    with up(place.kubeconfig, place.namespace, tmp_path) as log:
        place.kubectl("apply", "-f", "-", stdin=HELLO)

        await until(lambda: {one["kind"] for one in place.shown(RECORDS)["items"]} == KEPT)
    said = log.read_text()
    assert "orbidden" not in said, said
    assert " WARN " not in said, said


async def test_health_is_well_when_all_is_well(place: Place, tmp_path: Path) -> None:
    """Its operator leads, and has seen the host renew its Lease."""
    await guard(place, tmp_path)
    where = ("--kubeconfig", str(place.kubeconfig), "-n", place.namespace)

    def well() -> bool:
        argv = [*cli.ARGV, "health", *where]
        ran = subprocess.run(argv, env=cli.environment(), capture_output=True, text=True, check=False)
        counts = [line.split()[:3] for line in ran.stdout.splitlines()]
        return ran.returncode == 0 and ["hosts", "1", "1"] in counts

    with up(place.kubeconfig, place.namespace, tmp_path):
        place.kubectl("apply", "-f", "-", stdin=HELLO)
        await until(well, 90)


async def test_who_may_less_is_told_once_what_does_not_work(place: Place, api: Api, tmp_path: Path) -> None:
    await guard(place, tmp_path)
    place.kubectl("create", "serviceaccount", "ada")
    place.kubectl("apply", "-f", "-", stdin=ALL_OF_A_NAMESPACE)
    place.kubectl("create", "rolebinding", "ada", "--role=all", f"--serviceaccount={place.namespace}:ada")
    issued = await request_token(api.client, "ada", place.namespace, seconds=600)
    config = kubeconfig.load(path=str(place.kubeconfig), environ={}, run=runner.run)
    own = tmp_path / "ada.kubeconfig"
    own.write_bytes(host_kubeconfig.kubeconfig(config, "ada", place.namespace, issued.token))
    with up(own, place.namespace, tmp_path) as log:
        await until(lambda: "may not act as the account of the operator" in log.read_text(), 50)
        await until(lambda: "operator: started" in log.read_text(), 50)
    assert log.read_text().count("run the operator in the cluster instead") == 1
