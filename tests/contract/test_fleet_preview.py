"""`plan --fleet`: agents of folders tell what proposed ConfigSets would do, and nothing changes."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.cli import fleet_preview
from nodemanager.client.verbs import Client
from nodemanager.kube import core
from support.agent_process import owned
from support.either import Place
from support.preview_site import PreviewSite, everything, preview_site
from support.root_tree import needs_root

pytestmark = needs_root
HOSTS = {"embedded": 20, "kube-apiserver": 8}
"""Each is an agent, of which the second server need not see as many again."""
PASSWORD = "correct-horse-battery"
HASHES = "root:$6$never-to-be-seen:19000::::::"
DIARY = "behind a directory that is not for everybody"
TEMPLATE = '={{ with (ds "data").Node }}{{ index .Secrets "password" | base64.Decode }}{{ end }}\n'


def config_set(name: str, selector: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"nodeSelector": {"matchLabels": selector}, **spec}}


def base(motd: str, template: str, *more: dict[str, Any], **spec: Any) -> dict[str, Any]:
    secret = owned("/etc/app.conf", template=template, secretRefs=["db"], mode="0644")
    return config_set(
        "base", {"fleet": "one"}, files=[owned("/etc/motd", content=motd), secret, *more], **spec
    )


@pytest.fixture(name="site")
async def _site(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PreviewSite]:
    monkeypatch.setattr(fleet_preview, "POLL_SECONDS", 0.1)
    async with preview_site(place, tmp_path) as site:
        yield site


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return where everything in the API is noted, as it is when all hosts have answered."""
    seen: list[str] = []
    follow = fleet_preview._follow

    async def and_look(client: Client, namespace: str, *args: Any) -> Any:
        answers = await follow(client, namespace, *args)
        seen.append(await everything(client, namespace))
        return answers

    monkeypatch.setattr(fleet_preview, "_follow", and_look)
    return seen


async def test_twenty_hosts_tell_and_nothing_changes(
    site: PreviewSite,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    count = HOSTS[request.node.callspec.params["place"]]
    for number in range(count):
        tier = {7: {"tier": "seven"}, 2: {"tier": "db"}}.get(number, {})
        root = await site.host(f"web{number}", fleet="one", **tier)
        (root / "etc/shadow").write_text(HASHES)
        (root / "etc/shadow").chmod(0o600)
        (root / "root").mkdir(mode=0o700)
        (root / "root/diary").write_text(DIARY)
    secret = {"metadata": {"name": "db"}, "stringData": {"password": PASSWORD}}
    await site.client.create(core.SECRETS, secret, site.place.namespace)
    kept = owned("/etc/kept", content="kept\n")
    await site.declare(base("one\n", f"password{TEMPLATE}", kept))
    ran_by = [{"command": "/bin/sh", "args": ["-c", "touch /etc/ran"], "onlyIf": {"command": "/bin/true"}}]
    proposed = [
        base(
            "one\ntwo\n",
            f"pass{TEMPLATE}",
            owned("/etc/shadow", content="mine\n"),
            owned("/root/diary", content="mine\n"),
            executions=ran_by,
        ),
        config_set("db", {"tier": "db"}, files=[owned("/etc/motd", content="db\n")]),
        config_set("seven", {"tier": "seven"}, files=[owned("/etc/seven", content="7\n")]),
    ]
    seen = watched(monkeypatch)
    async with site.operator(), site.agents():
        before, began = site.snapshot(), time.monotonic()
        ran = await site.plan(proposed, "--all", "-o", "json")
        took = time.monotonic() - began
        assert site.snapshot() == before, "something changed on a host"
        text = await site.plan(proposed, "--sample", "3")
        async with asyncio.timeout(90):  # nothing is left of it
            while "ConfigSetPreview" in await everything(site.client, site.place.namespace):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    with capsys.disabled():
        sys.stdout.write(f"\n{count} hosts told in {took:.1f} s\n")
    assert ran.code == 2, ran
    said = json.loads(ran.stdout)
    many, db, seven = said["groups"]
    assert (len(many["hosts"]), db["hosts"], seven["hosts"]) == (count - 2, ["web2"], ["web7"])
    assert (said["hosts"], said["unchanged"], said["silent"]) == (count, [], [])
    changes = {one["resource"]: one for one in many["changes"]}
    assert changes["file:/etc/motd"]["details"].splitlines()[-2:] == [" one", "+two"]
    assert changes["file:/etc/kept"]["verb"] == "release"
    (run,) = [one for name, one in changes.items() if name.startswith("exec:")]
    assert (run["verb"], run["reason"]) == ("may run", "its conditions are programs, and a preview runs none")
    hidden = [changes[f"file:{path}"]["details"] for path in ("/etc/app.conf", "/etc/shadow", "/root/diary")]
    assert hidden[0].startswith("(made of Secrets, not shown: digest ")
    assert all(one.startswith("(what is there is not shown") for one in hidden[1:])
    (conflict,) = [one for one in db["changes"] if one.get("blocked")]
    assert 'ConfigSets "base", "db" declare file:/etc/motd differently' in conflict["reason"]
    assert {"file:/etc/seven"} == {one["resource"] for one in seven["changes"]} - set(changes)
    assert (text.code, "web2: " in text.stdout, "web7: " in text.stdout) == (2, True, True), text
    assert f"It is about {count} hosts, of which 3 were asked" in text.stdout
    assert "ConfigSetPreview" in seen[0]
    assert many["digest"] in seen[0], "the answers are not in it"
    for secret_text in (PASSWORD, HASHES, DIARY):
        for form in (secret_text, base64.b64encode(secret_text.encode()).decode()):
            assert form not in "".join(seen) + ran.stdout + text.stdout
