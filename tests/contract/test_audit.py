"""The audit log of `nodemanager server`, as a real process."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support import cli
from support.server_process import NAMESPACE, Server, admin_session, issue, running, session

CORE = f"/api/v1/namespaces/{NAMESPACE}"
HIDDEN = base64.b64encode(b"nobody shall read this").decode()
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  verbs: [get, list, watch]
  resources: [{group: "", resources: [namespaces]}]
- level: RequestResponse
  resources: [{group: ""}]
"""


def told(server: Server) -> list[dict[str, Any]]:
    """Return all events of the log; each line is one."""
    text = (server.folder / "audit.log").read_text()
    assert HIDDEN not in text
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


async def send(http: aiohttp.ClientSession, method: str, path: str, **options: Any) -> None:
    """Send a request, and wait for the end of the answer, whatever it is."""
    async with http.request(method, path, **options) as response:
        await response.read()


def shown(event: dict[str, Any]) -> tuple[str, str, str, int]:
    about = event["objectRef"]
    return event["verb"], about["resource"], about.get("name", ""), event["responseStatus"]["code"]


async def test_by_default_it_is_told_who_changed_what_and_no_more(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server:
        async with admin_session(server) as http:
            secret = {"metadata": {"name": "a"}, "data": {"key": HIDDEN}}
            await send(http, "POST", f"{CORE}/secrets", json=secret)
            await send(
                http,
                "POST",
                f"{CORE}/secrets",
                json={"metadata": {"name": "b"}, "data": {"key": f"!{HIDDEN}"}},
            )
            await send(http, "GET", f"{CORE}/secrets/a")
            await send(http, "GET", f"{CORE}/secrets?watch=true&timeoutSeconds=1")
            await send(
                http, "DELETE", f"{CORE}/configmaps/none?fieldManager=me", headers={"User-Agent": "x" * 5000}
            )
            token = await issue(server, http, "robot")
        async with session(server, token=token) as http:
            await send(http, "DELETE", f"{CORE}/secrets/a", headers={"Impersonate-User": "admin"})
            await send(http, "DELETE", f"{CORE}/secrets/a")
        async with session(server) as http:
            await send(http, "DELETE", f"{CORE}/secrets/a")
        events = told(server)
        assert (server.folder / "audit.log").stat().st_mode & 0o777 == 0o600
    assert [shown(event) for event in events] == [
        ("create", "secrets", "a", 201),
        ("create", "secrets", "", 400),
        ("delete", "configmaps", "none", 404),
        ("create", "serviceaccounts", "robot", 201),
        ("create", "roles", "robot", 201),
        ("create", "rolebindings", "robot", 201),
        ("create", "serviceaccounts", "robot", 201),
        ("delete", "secrets", "a", 403),
        ("delete", "secrets", "a", 403),
    ]
    assert {event["level"] for event in events} == {"Metadata"}
    assert {event["kind"] + event["apiVersion"] for event in events} == {"Eventaudit.k8s.io/v1"}
    assert len({event["auditID"] for event in events}) == len(events)
    assert token not in json.dumps(events)
    deleted = events[2]
    assert deleted["user"]["username"] == "admin"
    assert deleted["requestURI"] == f"{CORE}/configmaps/none?fieldManager=me"
    assert deleted["sourceIPs"] == ["127.0.0.1"]
    assert len(deleted["userAgent"]) < 3000
    assert deleted["responseStatus"]["reason"] == "NotFound"
    assert deleted["requestReceivedTimestamp"] < deleted["stageTimestamp"]
    robot = f"system:serviceaccount:{NAMESPACE}:robot"
    assert [event["user"]["username"] for event in events[-2:]] == [robot, robot]
    assert events[-1]["annotations"] == {"authorization.k8s.io/decision": "forbid"}


async def test_a_policy_has_contents_told_but_never_those_of_secrets(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    with running(tmp_path / "data", "--audit-policy-file", str(tmp_path / "policy.yaml")) as server:
        async with admin_session(server) as http:
            await send(
                http, "POST", f"{CORE}/secrets", json={"metadata": {"name": "a"}, "data": {"key": HIDDEN}}
            )
            await send(http, "GET", f"{CORE}/secrets/a")
            await send(http, "GET", f"{CORE}/secrets")
            as_alice = {"Impersonate-User": "alice", "Impersonate-Group": "system:masters"}
            config = {"metadata": {"generateName": "c-"}, "data": {"a": "1"}}
            async with http.post(f"{CORE}/configmaps", json=config, headers=as_alice) as response:
                name = (await response.json())["metadata"]["name"]
            patch = {"Content-Type": "application/merge-patch+json"}
            await send(http, "PATCH", f"{CORE}/configmaps/{name}", json={"data": {"a": "2"}}, headers=patch)
            await send(http, "GET", "/api/v1/namespaces/default")
            await send(http, "GET", "/version")
        events = told(server)
    assert [shown(event)[:3] for event in events] == [
        ("create", "secrets", "a"), ("get", "secrets", "a"), ("list", "secrets", ""),
        ("create", "configmaps", name), ("patch", "configmaps", name),
    ]  # fmt: skip
    assert [event["level"] for event in events] == ["Metadata"] * 3 + ["RequestResponse"] * 2
    created, patched = events[3:]
    assert (created["user"]["username"], created["impersonatedUser"]["username"]) == ("admin", "alice")
    assert created["requestObject"]["data"] == {"a": "1"}
    assert created["responseObject"]["metadata"]["name"] == name
    assert patched["requestObject"] == {"data": {"a": "2"}}
    assert patched["responseObject"]["data"] == {"a": "2"}


async def test_it_can_be_nowhere(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--audit-log-path", "0") as server:
        async with admin_session(server) as http:
            await send(http, "POST", f"{CORE}/configmaps", json={"metadata": {"name": "a"}})
    assert not list((tmp_path / "data").glob("audit*"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "apiVersion and kind: 'None None'"),
        ("rules: [", "cannot read the audit policy"),
        ("", "it has 0 documents"),
        (None, "No such file"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_at_the_start(
    tmp_path: Path, text: str | None, why: str
) -> None:
    path = tmp_path / "policy.yaml"
    if text is not None:
        path.write_text(text)
    ran = cli.run("server", "--data-dir", str(tmp_path / "data"), "--audit-policy-file", str(path))
    assert ran.code == 1
    assert why in ran.stderr
    assert not (tmp_path / "data").exists()
