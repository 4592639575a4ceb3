"""Nobody changes history, on both servers: attempts with the tokens of a host, an editor, the operator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from nodemanager.api.audit.auditcheckpoint import AUDIT_CHECKPOINTS, NAME
from nodemanager.api.audit.auditsegment import AUDIT_SEGMENTS, name_of
from nodemanager.client.verbs import Client
from support import audit_site
from support.accounts import account, acting, operating, rule
from support.agent_process import Api
from support.audit_site import Site
from support.either import Place
from support.joined_host import ask, ran

OK, FORBIDDEN, INVALID = 200, 403, 422
SEGMENT = f"/{name_of(0)}"
LOG = f"/{NAME}"
STATUS = {
    "status": {"exported": {"at": "2026-01-01T00:00:00Z", "to": "x"}, "expired": "2026-01-01T00:00:00Z"}
}


class Attempt(NamedTuple):
    """A change of history."""

    method: str
    kind: str
    path: str
    body: Any = None


ATTEMPTS = {
    "rewrite": Attempt("PATCH", "segment", SEGMENT, {"spec": {"lines": "forged\n"}}),
    "shorten": Attempt("PATCH", "segment", SEGMENT, {"spec": {"lines": None}}),
    "renumber": Attempt("PATCH", "segment", SEGMENT, {"spec": {"first": 7}}),
    "unlink": Attempt("PATCH", "segment", SEGMENT, {"spec": {"previous": "1" * 64}}),
    "delete": Attempt("DELETE", "segment", SEGMENT),
    "delete all": Attempt("DELETE", "segment", ""),
    "expire": Attempt("PATCH", "segment", f"{SEGMENT}/status", STATUS),
    "shrink": Attempt("PATCH", "checkpoint", LOG, {"spec": {"size": 0}}),
    "sign otherwise": Attempt("PATCH", "checkpoint", LOG, {"spec": {"note": "forged", "root": "1" * 64}}),
    "forget": Attempt("DELETE", "checkpoint", LOG),
}


@pytest.fixture(name="log")
async def _log(place: Place, api: Api, me: Client) -> AsyncIterator[Site]:
    """A log, where the policies are in force."""
    del me
    async with operating(place) as client, audit_site.writing(client, place.namespace) as site:
        async with asyncio.timeout(90):  # a kube-apiserver takes a moment for its policies
            probe = {"metadata": {"name": "probe"}, "spec": {"size": 0, "root": "0" * 64, "note": "x"}}
            folder = AUDIT_CHECKPOINTS.path(place.namespace)
            body = {"apiVersion": AUDIT_CHECKPOINTS.api_version, "kind": AUDIT_CHECKPOINTS.kind, **probe}
            while (await ask(api.client, "POST", f"{folder}?dryRun=All", body)).code == OK:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await site.write()
        yield site


def target(place: Place, attempt: Attempt) -> str:
    resource = AUDIT_SEGMENTS if attempt.kind == "segment" else AUDIT_CHECKPOINTS
    return resource.path(place.namespace) + attempt.path


async def test_nobody_changes_history(place: Place, api: Api, me: Client, log: Site) -> None:
    before = await log.log(), (await log.checkpoint()).spec
    everything = account("editor", place.namespace, [rule("*", ["*"], "*")])  # all that RBAC can give
    await asyncio.to_thread(place.kubectl, "apply", "-f", "-", stdin=everything)
    print(f"{'':15} host editor administrator operator")  # noqa: T201
    async with acting(place, api, "editor") as editor:
        for name, attempt in ATTEMPTS.items():
            tries = [
                await ask(client, attempt.method, target(place, attempt), attempt.body)
                for client in (me, editor, api.client, log.client)
            ]
            print(f"{name:15} {' '.join(str(one.code) for one in tries)}")  # noqa: T201
            assert {one.code for one in tries} <= {FORBIDDEN, INVALID}, (name, tries)
    assert (await log.log(), (await log.checkpoint()).spec) == before
    assert (await log.verified()).intact


async def test_a_sealed_segment_takes_no_line_and_goes_only_when_it_is_copied_and_expired(
    place: Place, log: Site
) -> None:
    await log.journal.store.seal("2026-11-17T08:00:00Z", log.journal.signing.sign)
    at = AUDIT_SEGMENTS.path(place.namespace) + SEGMENT
    lines = (await log.log())[0].lines
    added = await ask(log.client, "PATCH", at, {"spec": {"lines": lines + "{}\n"}})
    unsealed = await ask(log.client, "PATCH", at, {"spec": {"sealed": None}})
    assert (added.code, unsealed.code) == (INVALID, INVALID)
    expired = {"status": {"expired": "2026-11-17T09:00:00Z"}}
    assert (await ask(log.client, "PATCH", f"{at}/status", expired)).code == FORBIDDEN
    copied = {"status": {"exported": {"at": "2026-11-17T08:30:00Z", "to": "there"}}}
    assert (await ask(log.client, "PATCH", f"{at}/status", copied)).code == OK
    assert (await ask(log.client, "DELETE", at)).code == FORBIDDEN
    assert (await ask(log.client, "PATCH", f"{at}/status", {"status": {"exported": None}})).code == FORBIDDEN
    assert (await ask(log.client, "PATCH", f"{at}/status", expired)).code == OK
    assert (await ask(log.client, "DELETE", at)).code == OK


async def test_a_namespace_that_is_deleted_takes_its_log_along(place: Place, log: Site) -> None:
    controller = "system:serviceaccount:kube-system:namespace-controller"
    kinds = f"{AUDIT_SEGMENTS.plural},{AUDIT_CHECKPOINTS.plural}"
    who = ("--as", controller, "--as-group", "system:masters", "-n", place.namespace)
    await asyncio.to_thread(place.kubectl, "delete", kinds, "--all", *who)
    assert await log.log() == []


async def test_people_read_and_check_the_log_with_the_command(place: Place, log: Site) -> None:
    published = (await log.checkpoint()).spec
    said = await asyncio.to_thread(ran, place, "audit", "verify", "--namespace", place.namespace)
    assert f"{published.size} of {published.size} signed" in said.stdout
    listed = await asyncio.to_thread(ran, place, "audit", "log", "--namespace", place.namespace)
    assert "begin" in listed.stdout


async def test_an_auditor_who_may_see_the_log_alone_checks_it(place: Place, api: Api, log: Site) -> None:
    rights = [rule(AUDIT_SEGMENTS.group, [AUDIT_SEGMENTS.plural, AUDIT_CHECKPOINTS.plural], "get", "list")]
    await asyncio.to_thread(
        place.kubectl, "apply", "-f", "-", stdin=account("auditor", place.namespace, rights)
    )
    size = (await log.checkpoint()).spec.size
    async with acting(place, api, "auditor"):
        own = f"{place.kubeconfig}.{place.namespace}.auditor"
        asked = ("audit", "verify", "--kubeconfig", own, "--namespace", place.namespace)
        said = await asyncio.to_thread(ran, place, *asked)
    assert f"{size} of {size} signed" in said.stdout
    assert "not compared: what hosts tell of their chains now" in said.stdout
