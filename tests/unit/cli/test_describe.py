"""Descriptions: golden texts of full and of bare objects, and what must never be in them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.api.common.configset import ConfigSet
from nodemanager.api.common.configsetrevision import ConfigSetRevision
from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.nodetask import NodeTask
from nodemanager.cli.views.describe import configset, configsetrevision, nodetask
from nodemanager.cli.views.describe import node as describe_node
from nodemanager.kube import core, manifests
from support import cases, cli
from support.scripted_server import Exchange, serve

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECRET = "do-not-show-this"
NODE = """\
apiVersion: common.nodemanager/v1
kind: ManagedNode
metadata:
  name: web1
  namespace: nodemanager
  uid: u1
  generation: 3
  creationTimestamp: "2025-12-30T03:04:05Z"
  deletionTimestamp: "2026-01-02T03:03:05Z"
  finalizers: [nodemanager.io/cleanup]
  labels: {role: web, nodemanager.io/os: debian}
  annotations: {upgrade.nodemanager/hold: ""}
spec:
  domain: example.net
  reconcilePeriod: 1h
  upgrade: {schedule: "30 3 * * 0", group: web}
  wireGuard: {enabled: true}
status:
  release: 6.1.0
  agentVersion: 0.1.0
  heartbeat: {leaseName: web1}
  kubernetesNodeCordoned: "2026-01-02T03:00:00Z"
  jailed: true
  lastUpgrade: "2026-01-01T03:04:05Z"
  upgrade: {nextSlots: ["2026-01-02T03:04:00Z", "2026-01-04T03:30:00Z"]}
  fileBackups: {/etc/motd: abc}
  drift:
    repaired: 4
    observed: 1
    lastTime: "2026-01-02T03:03:05Z"
    lastResource: "file:/etc/motd"
    recent:
    - {sequence: 4, time: "2026-01-02T03:03:05Z", resource: "file:/etc/motd", outcome: repaired,
       message: content differs, by: "vim[4711], uid 0"}
    - {sequence: 5, time: "2026-01-02T03:03:35Z", resource: "file:/etc/issue", outcome: observed,
       message: "content differs\\n--- declared\\n+++ found\\n-one\\n+mi\\x1bne"}
  leftDrifts:
    asks: [{configset: web, since: "2026-01-02T03:03:35Z", resources: 2}]
    escalated: [{configset: base, since: "2026-01-02T03:03:35Z", resources: 1}]
  conditions:
  - {type: Ready, status: "False", reason: ApplyFailed, message: "file:/etc/x:\\n no space",
     observedGeneration: 2, lastTransitionTime: "2026-01-02T02:54:05Z"}
  configsets:
  - {name: base, lastApplied: "2026-01-02T03:03:05Z", conflicts: ['file:/etc/motd (also in configset "web")']}
  - {name: web, error: "cannot write /etc/x: no space", revision: 3}
  interfaces: {eth0: {ipv4: [10.0.0.1, 10.0.0.2], ipv6: ["fd00::1"]}, eth1: {}}
  sshHostKeys:
  - {algorithm: 4, fingerprintType: 2, fingerprint: aabb}
  - {algorithm: 9, fingerprintType: 7, fingerprint: ccdd}
  wireGuard: [{name: wg0, publicKey: "KEY=", listenPort: 51820}]
"""
NODE_TEXT = """\
Name:           web1
Namespace:      nodemanager
Labels:         nodemanager.io/os=debian
                role=web
Created:        2025-12-30T03:04:05Z (3d ago)
Being deleted:  since 2026-01-02T03:03:05Z (60s ago), held by nodemanager.io/cleanup
Release:        6.1.0
Agent:          0.1.0
Alive:          not judged yet; the operator does that
Heartbeat:      Lease web1
Domain:         example.net
Reconciles:     every 1h
Jailed:         yes
Cordoned:       since 2026-01-02T03:00:00Z (4m5s ago)
Backups:        1 file can be restored
Upgrade:        schedule 30 3 * * 0, group web
                last 2026-01-01T03:04:05Z (24h ago)
                next 2026-01-02T03:04:00Z (is over)
                next 2026-01-04T03:30:00Z (in 2d)
                held back by annotation upgrade.nodemanager/hold
Drift:          4 foreign changes undone
                last file:/etc/motd, 2026-01-02T03:03:05Z (60s ago)
                1 change seen and left alone
                waits: 1 resource of ConfigSet base for a person since 2026-01-02T03:03:35Z (30s ago)
                waits: 2 resources of ConfigSet web for its turn since 2026-01-02T03:03:35Z (30s ago)
Conditions:
  TYPE    STATUS             REASON        SINCE   MESSAGE
  Ready   False (outdated)   ApplyFailed   10m     file:/etc/x: no space
ConfigSets:
  NAME   APPLIED   REVISION   CONFLICTS   MESSAGE
  base   60s ago   -          1           <none>
  web    never     3          0           cannot write /etc/x: no space
Conflicts:
  CONFIGSET   HELD BACK
  base        file:/etc/motd (also in configset "web")
Last drifts:
  SEEN   RESOURCE          OUTCOME    WHAT DIFFERED     BY
  30s    file:/etc/issue   observed   content differs   <none>
  60s    file:/etc/motd    repaired   content differs   vim[4711], uid 0
Differences:
  RESOURCE          DECLARED (-), FOUND (+)
  file:/etc/issue   --- declared
  file:/etc/issue   +++ found
  file:/etc/issue   -one
  file:/etc/issue   +mi?ne
Interfaces:
  NAME   IPV4                 IPV6
  eth0   10.0.0.1, 10.0.0.2   fd00::1
  eth1   <none>               <none>
WireGuard:
  INTERFACE   PUBLIC KEY   PORT
  wg0         KEY=         51820
SSH host keys:
  ALGORITHM     HASH      FINGERPRINT
  Ed25519       SHA-256   aabb
  algorithm 9   hash 7    ccdd
Events:
  TYPE      REASON   AGE                    FROM    MESSAGE
  Normal    First    2m5s                   agent   began
  Warning   Drift    60s (x3 over 2m5s)     agent   /etc/motd was changed
"""
SET = f"""\
apiVersion: common.nodemanager/v1
kind: ConfigSet
metadata:
  name: web
  namespace: nodemanager
  labels: {{role: web}}
spec:
  priority: 10
  nodeSelector: {{}}
  packages: [{{name: nginx, version: 1.26.2}}, {{name: apache2, ensure: absent}}]
  files:
  - {{path: /etc/motd, content: "{SECRET}", mode: "0644", owner: root, group: adm, createOnly: true}}
  - {{path: /etc/app.conf, template: "{SECRET}", engine: jinja, secretRefs: [app-db], configMapRefs: [app],
      validate: {{command: appctl, args: ["{SECRET}"]}}}}
  - {{path: /etc/current, ensure: symlink, target: v3}}
  services:
  - {{name: nginx, ensure: running, enable: true, reload: true,
      subscribe_files: [/etc/app.conf], lock_group: web}}
  - {{name: syncthing, user: alice, enable: false}}
  executions:
  - {{command: make, args: [all], subscribe_files: [/a, /b], creates: /srv/x, timeout: 90s}}
  - {{command: b, onlyIf: {{command: test, args: [-e, "/a b"]}}, unless: {{command: c}}}}
  notifies: [{{apiVersion: common.nodemanager/v1, kind: Jail}}]
status:
  nodes: {{matched: 4, applied: 2, failed: 1, conflicted: 1}}
"""
SET_TEXT = """\
Name:           web
Namespace:      nodemanager
Labels:         role=web
Created:        <none>
Priority:       10
For hosts with: labels role=web
                OR any labels (nodeSelector {})
Hosts:          4 matched, 2 applied, 1 failed, 1 conflicted
Conditions:     <none>
Packages (2):
  NAME      ENSURE      VERSION
  nginx     installed   1.26.2
  apache2   absent      <none>
Files (3):
  PATH  ENSURE  MODE  OWNER  CONTENT  USES
  /etc/motd      file     0644    root:adm  text of 16 B, written once        <none>
  /etc/app.conf  file     <none>  <none>    jinja of 16 B, checked by appctl  secret app-db, configmap app
  /etc/current   symlink  <none>  <none>    -> v3                             <none>
Services (2):
  NAME   ENSURE   AT BOOT   ON CHANGE
  nginx   running   enabled   reload when /etc/app.conf changes, one host of web at a time
  syncthing (of user alice)   left alone   disabled   <none>
Executions (2):
  COMMAND    RUNS                                              TIMEOUT
  make all   when one of 2 files changes, until /srv/x exists   90s
  b          if test -e '/a b', unless c                       5m
Notifies (1):
  KIND   NAME   NAMESPACE
  Jail   all    <none>
Events:         <none>
"""


def event(reason: str, message: str, last: str | None, **fields: Any) -> core.Event:
    base = {"metadata": {"creationTimestamp": "2026-01-02T03:02:00Z"}, "involvedObject": {}, "reason": reason,
            "message": message, "lastTimestamp": last, "source": {"component": "agent"}}  # fmt: skip
    return msgspec.convert({**base, **fields}, core.Event)


def typed(text: str, kind: type[Any]) -> Any:
    (obj,) = manifests.load_all(text, "test")
    return msgspec.convert(obj, kind)


def squeezed(text: str) -> list[list[str]]:
    """Return lines as words, so that a test fails for what is said and not for how wide a column is."""
    return [line.split() for line in text.splitlines()]


def test_a_host() -> None:
    repeated = {"type": "Warning", "count": 3, "firstTimestamp": "2026-01-02T03:02:00Z"}
    happened = [
        event("Drift", "/etc/motd was changed", "2026-01-02T03:03:05Z", **repeated),
        event("First", "began", None, type="Normal"),
    ]
    assert squeezed(describe_node.render(typed(NODE, ManagedNode), happened, NOW)) == squeezed(NODE_TEXT)


def test_a_config_set() -> None:
    text = configset.render(typed(SET, ConfigSet), [], NOW)
    assert squeezed(text) == squeezed(SET_TEXT)


def test_columns_of_a_description_are_aligned() -> None:
    lines = configset.render(typed(SET, ConfigSet), [], NOW).splitlines()
    start = lines.index("Packages (2):")
    assert lines[start + 1 : start + 4] == [
        "  NAME      ENSURE      VERSION",
        "  nginx     installed   1.26.2",
        "  apache2   absent      <none>",
    ]


def test_content_is_never_shown() -> None:
    assert SECRET in SET
    assert SECRET not in configset.render(typed(SET, ConfigSet), [], NOW)


def test_objects_of_which_nothing_is_known_yet() -> None:
    node = describe_node.render(ManagedNode(), [], NOW)
    assert "has not reported yet" in node
    assert "never by itself" in node
    unseen = configset.render(typed(SET.partition("status:")[0], ConfigSet), [], NOW)
    assert "not counted yet: no operator of namespace nodemanager has looked at it" in unseen
    assert "it is for no host" in configset.render(ConfigSet(), [], NOW)


@pytest.mark.parametrize("path", cases.manifests("accepted"))
def test_whatever_is_accepted_can_be_described(path: Path) -> None:
    for obj in manifests.load_all(path.read_text(encoding="utf-8"), path.name):
        name = obj["metadata"]["name"]
        if obj["kind"] == "ConfigSet":
            text = configset.render(msgspec.convert(obj, ConfigSet), [], NOW)
            for file in obj.get("spec", {}).get("files", []):
                assert file["path"] in text
        else:
            text = describe_node.render(msgspec.convert(obj, ManagedNode), [], NOW)
        assert text.splitlines()[0].split() == ["Name:", name]
        assert all(line.isprintable() for line in text.splitlines())


def test_the_layers_of_a_set_are_named_and_what_they_say_is_not() -> None:
    path = cases.MANIFESTS / "accepted" / "host-data.yaml"
    config_set = msgspec.convert(manifests.load_all(path.read_text(), path.name)[0], ConfigSet)
    said = configset.render(config_set, [], NOW)
    assert [" ".join(line.split()) for line in said.partition("Data (3):")[2].splitlines()[1:5]] == [
        "KIND NAME FOR HOSTS WITH",
        "ConfigMap defaults any labels",
        "Secret passwords zone in (a,b)",
        "ConfigSet site any labels",
    ]
    assert "10.0.0.1" not in said


def test_long_lists_are_cut() -> None:
    many = typed(SET, ConfigSet)
    packages = [msgspec.structs.replace(many.spec.packages[0], name=f"p{i}") for i in range(60)]
    long = msgspec.structs.replace(many, spec=msgspec.structs.replace(many.spec, packages=packages))
    text = configset.render(long, [], NOW)
    assert "Packages (60):" in text
    assert "p49 " in text
    assert "p50 " not in text
    assert "... and 10 more" in text


async def test_the_command_reads_the_object_and_its_events(tmp_path: Path) -> None:
    (obj,) = manifests.load_all(NODE, "test")

    async def handler(exchange: Exchange) -> None:
        if "/events" in exchange.target:
            fields = dict(one.split("=") for one in exchange.query["fieldSelector"].split(","))
            about = {"kind": "ManagedNode", "name": "web1", "uid": "u1"}
            assert fields == {f"involvedObject.{name}": value for name, value in about.items()}
            meta = {"metadata": {"name": "e1"}, "involvedObject": {}, "source": {}}
            event = {**meta, "reason": "Applied", "firstTimestamp": None}
            await exchange.json({"items": [event], "metadata": {"resourceVersion": "7"}})
        elif exchange.target.endswith("/web1"):
            await exchange.json(obj)
        else:
            details = {"name": "nope", "kind": "managednodes"}
            await exchange.json({"code": 404, "reason": "NotFound", "message": "no", "details": details}, 404)

    async with serve(handler) as server:
        ran = await cli.run_against(server, tmp_path, "describe", "mn", "nope", "web1")
    assert ran.code == 1
    assert ran.stdout.startswith("Name:           web1\n")
    assert "Applied" in ran.stdout
    assert ran.stderr == "error: cannot get managednodes.common.nodemanager nodemanager/nope: no\n"


HOSTS = """\
apiVersion: common.nodemanager/v1
kind: ManagedNode
metadata: {name: web1, labels: {role: web}}
status:
  configsets: [{name: web, observedGeneration: 4, lastApplied: "2026-01-02T03:02:05Z"}]
---
apiVersion: common.nodemanager/v1
kind: ManagedNode
metadata: {name: web2, labels: {role: web}}
status:
  conditions:
  - {type: Ready, status: "False", reason: ApplyFailed, lastTransitionTime: "2026-01-02T02:04:05Z"}
  configsets:
  - {name: web, observedGeneration: 4, lastApplied: "2026-01-02T03:02:05Z", error: "package:nginx: no"}
---
apiVersion: common.nodemanager/v1
kind: ManagedNode
metadata: {name: web3, labels: {role: web}}
status:
  configsets: [{name: web, observedGeneration: 3, lastApplied: "2026-01-02T03:03:05Z"}]
---
apiVersion: common.nodemanager/v1
kind: ManagedNode
metadata: {name: web4, labels: {role: web}}
status:
  conditions:
  - {type: Alive, status: "False", reason: LeaseExpired, lastTransitionTime: "2026-01-02T03:03:35Z"}
  configsets: [{name: web, observedGeneration: 4, lastApplied: "2026-01-02T03:02:05Z"}]
---
apiVersion: common.nodemanager/v1
kind: ManagedNode
metadata: {name: web5, labels: {role: web}}
status:
  configsets: [{name: web, observedGeneration: 4, conflicts: ["file:/a", "file:/b"]}]
---
apiVersion: common.nodemanager/v1
kind: ManagedNode
metadata: {name: web6, labels: {role: web}}
---
apiVersion: common.nodemanager/v1
kind: ManagedNode
metadata: {name: db1, labels: {role: db}}
"""
ON_HOSTS = """\
On hosts (6):
  HOST   STATE        SINCE    REASON
  web2   failed       60m      package:nginx: no
  web5   conflicted   <none>   file:/a and 1 more
  web4   silent       30s      no sign of life
  web3   applying     60s      has generation 3, not 4 yet
  web6   applying     <none>   has not reported it yet
  web1   applied      2m       <none>
"""


def test_how_a_set_goes_on_each_host() -> None:
    config = typed(SET, ConfigSet)
    meta = msgspec.structs.replace(config.metadata, generation=4)
    spec = msgspec.structs.replace(config.spec, node_selector=None)
    nodes = [msgspec.convert(obj, ManagedNode) for obj in manifests.load_all(HOSTS, "test")]
    text = configset.render(msgspec.structs.replace(config, metadata=meta, spec=spec), [], NOW, nodes=nodes)
    begin = text.index("On hosts")
    assert squeezed(text[begin : text.index("Packages (2)")]) == squeezed(ON_HOSTS)


async def test_events_that_cannot_be_read_do_not_hide_the_rest(tmp_path: Path) -> None:
    async def handler(exchange: Exchange) -> None:
        if "/events" in exchange.target or exchange.target.partition("?")[0].endswith("/managednodes"):
            await exchange.refuse(403, "Forbidden", "no")
        else:
            await exchange.json({"metadata": {"name": "base", "namespace": "nodemanager", "uid": "u2"}})

    async with serve(handler) as server:
        ran = await cli.run_against(server, tmp_path, "describe", "cs/base")
    assert ran.code == 0
    assert "base" in ran.stdout
    assert "On hosts" not in ran.stdout
    assert [line.split(" in ")[0] for line in ran.stderr.splitlines()] == [
        "warning: cannot list events",
        "warning: cannot list managednodes.common.nodemanager",
    ]


def test_a_name_is_needed() -> None:
    ran = cli.run("describe", "mn")
    assert ran.code == 2
    assert "name the ManagedNode" in ran.stderr


def test_a_task_is_described_with_what_became_of_each_step() -> None:
    path = cases.MANIFESTS / "made_by_operator/task.yaml"
    (obj,) = manifests.load_all(path.read_text(encoding="utf-8"), path.name)
    fresh = nodetask.render(msgspec.convert(obj, NodeTask), [], NOW)
    assert "Phase:          not taken yet" in fresh
    assert "Wanted by:      NodeMaintenance monday-upgrades" in fresh
    obj["status"] = {
        "phase": "Undone",
        "message": "step upgrade failed:\x1b[31m no space",
        "claim": {"time": "2026-01-02T03:00:05Z"},
        "finishedAt": "2026-01-02T03:03:05Z",
        "steps": [
            {"name": "upgrade", "phase": "Undone", "attempts": 2, "exitCode": 100, "message": "no space"}
        ],
    }
    obj["spec"]["steps"].append({"name": "later", "teleport": {}})  # an action of a newer version
    lines = nodetask.render(msgspec.convert(obj, NodeTask), [], NOW).splitlines()
    rows = {line.split()[0]: line.split() for line in lines if line.startswith("  ")}
    assert rows["upgrade"] == ["upgrade", "packages", "undo", "Undone", "2", "100", "no", "space"]
    assert rows["stop-web"] == ["stop-web", "service", "stop", "Pending", "0", "-", "<none>"]
    assert rows["later"][1] == "<unknown>"
    assert "Taken:          2026-01-02T03:00:05Z (4m ago)" in lines
    assert "Ended:          2026-01-02T03:03:05Z (60s ago)" in lines
    assert all(line.isprintable() for line in lines)


def test_a_revision_and_a_set_in_stages_say_how_far_it_is() -> None:
    spec = {
        "configSet": "web", "revision": 3, "digest": "ab", "content": {"files": []},
        "changedBy": {"manager": "kubectl", "time": "2026-01-02T03:00:05Z"}, "change": "https://git.test/\x1b1",
    }  # fmt: skip
    text = configsetrevision.render(msgspec.convert({"spec": spec}, ConfigSetRevision), [], NOW)
    assert "Changed by:     kubectl (fieldManager) at 2026-01-02T03:00:05Z" in text
    assert "Declares:       files (nodemanager rollout history web --revision 3)" in text
    assert all(line.isprintable() for line in text.splitlines())
    raw = {
        "metadata": {"name": "web", "generation": 2}, "spec": {"rollout": {"strategy": "Staged"}},
        "status": {"rollout": {"observedGeneration": 2, "phase": "Soaking", "reason": "Soaking",
                               "message": "stage 1 of 4", "next": {"revision": 3},
                               "counts": {"hosts": 9, "healthy": 1}}},
    }  # fmt: skip
    told = configset.render(msgspec.convert(raw, ConfigSet), [], NOW)
    assert "Soaking (Soaking), 1 of 9 hosts are healthy with revision 3: stage 1 of 4." in told
    raw["metadata"] = {"name": "web", "generation": 3}
    assert "waits for the operator" in configset.render(msgspec.convert(raw, ConfigSet), [], NOW)
