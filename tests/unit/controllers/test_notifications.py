"""Notices: which there are, in which form they are sent, where to, and how often that is tried."""

from __future__ import annotations

import base64
import json
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import trustme

from nodemanager.api.maintenance.maintenance_status import (
    Delivery,
    HostCounts,
    NodeMaintenanceStatus,
    Notice,
    PlanState,
    RealtimePlan,
    RunState,
)
from nodemanager.api.maintenance.nodemaintenance import NODE_MAINTENANCES, NodeMaintenance
from nodemanager.api.maintenance.notifications import Notification
from nodemanager.client.http.posting import Address, NotDelivered
from nodemanager.controllers.node_maintenances.status import noticing
from nodemanager.controllers.node_maintenances.status.maintenance_conditions import REALTIME_KEPT
from nodemanager.controllers.node_maintenances.status.noticing import StatusChange
from nodemanager.controllers.notifications import due, messages, sending
from nodemanager.controllers.notifications.due import Due
from nodemanager.controllers.notifications.messages import Message
from nodemanager.fleet.maintenance.decide import MaintenanceDecision
from nodemanager.fleet.maintenance.progress import HostStage, RunProgress
from nodemanager.fleet.maintenance.reasons import Reason
from nodemanager.kube import conditions
from nodemanager.kube.conditions import Condition
from nodemanager.plan.templates import jobs
from support import virtual_time
from support.scripted_server import Exchange, serve

NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)
WHERE = "key url of Secret hook"
EMPTY = Message(b"{}")


def maintenance(status: NodeMaintenanceStatus, **target: Any) -> NodeMaintenance:
    notify = [{"name": "ops", "type": "webhook", **target}]
    meta = {"name": "monday", "namespace": "fleet", "uid": "u-1", "generation": 1}
    made = msgspec.convert({"metadata": meta, "spec": {"notify": notify}}, NodeMaintenance)
    return msgspec.structs.replace(made, status=status)


def failing(*hosts: str) -> MaintenanceDecision:
    found = {
        name: RunProgress(HostStage.FAILED, reason=Reason.TASK_FAILED, ended=NOW + timedelta(seconds=number))
        for number, name in enumerate(hosts)
    }
    return MaintenanceDecision(progress=found)


def test_every_failed_host_is_told_once_also_in_the_next_run_and_after_a_retry() -> None:
    status = NodeMaintenanceStatus(run=RunState(id="r1"), hosts=HostCounts(failed=7))  # of an earlier run

    def look(decision: MaintenanceDecision) -> list[str]:
        nonlocal status
        before = len(status.notices)
        seen = maintenance(status, events=["HostFailed"])
        status = noticing.noticed(StatusChange(seen, status, decision, None, NOW, enforced=True))
        return [one.message for one in status.notices[before:]]

    assert look(failing()) == []
    assert look(failing("a")) == ["failed in run r1: a (TaskFailed)"]
    assert look(failing("a")) == []
    assert look(failing("a", "b", "c")) == ["failed in run r1: c (TaskFailed), b (TaskFailed)"]
    assert look(failing()) == []  # somebody had it go on
    assert look(failing("a")) == ["failed in run r1: a (TaskFailed)"]
    assert [one.number for one in status.notices] == [1, 2, 3]
    many = look(failing(*"abcdefgh"))
    assert many[0].endswith("and 2 more")


def test_what_nobody_wants_to_be_told_is_not_written_and_numbers_go_on_when_old_ones_are_forgotten() -> None:
    status = NodeMaintenanceStatus(run=RunState(id="r1"))
    seen = maintenance(status)
    change = StatusChange(seen, status, failing("a"), None, NOW, enforced=True)
    assert not noticing.noticed(change).notices
    old = [Notice(number=number) for number in range(1, 21)]
    status = NodeMaintenanceStatus(run=RunState(id="r1"), notices=old)
    seen = maintenance(status, events=["HostFailed"])
    change = StatusChange(seen, status, failing("a"), None, NOW, enforced=True)
    found = noticing.noticed(change).notices
    assert (len(found), found[0].number, found[-1].number) == (20, 2, 21)


def test_each_plan_that_waits_for_an_approval_is_told_once_of_a_run_and_of_what_is_enforced() -> None:
    status = NodeMaintenanceStatus(plan=PlanState(hash="old"))  # of an earlier run

    def look(*, enforced: bool = False, **made: Any) -> list[str]:
        nonlocal status
        before = len(status.notices)
        kept = Condition(type=REALTIME_KEPT, status=conditions.TRUE if enforced else conditions.FALSE)
        seen = maintenance(status, events=["WaitingForApproval"])
        made_now = msgspec.structs.replace(status, **made)
        noticed = noticing.noticed(StatusChange(seen, made_now, None, None, NOW, enforced))
        status = msgspec.structs.replace(noticed, conditions=[kept])
        return [one.message.partition(":")[0] for one in status.notices[before:]]

    def sshd(plan: str) -> str:
        return f"nothing of sshd is enforced before somebody approves plan {plan}"

    first, second = (RealtimePlan(hash=plan, operations=["sshd"]) for plan in ("r-1", "r-2"))
    waits: dict[str, Any] = {"phase": "WaitingForApproval"}
    assert look(realtime=first, **waits) == [sshd("r-1")]
    assert look() == []
    assert look(realtime=second) == [sshd("r-2")]
    assert look(run=RunState(id="r1"), plan=PlanState(hash="p-1"), phase="Running") == []
    assert look(**waits) == ["run r1 waits for an approval of plan p-1"]
    assert look() == []
    assert look(plan=PlanState(hash="p-2")) == ["run r1 waits for an approval of plan p-2"]
    assert look(run=None) == []
    assert look(enforced=True, phase="WaitingForSlot") == []
    assert look(**waits) == [sshd("r-2")]  # the approval was taken back


def pending(template: str = "", kind: str = "webhook", message: str = "run r1 has begun") -> Due:
    target = Notification(name="ops", type=kind, template=template, to=["ops@example.org"])
    return Due(target, Notice(number=3, event="RunStarted", run="r1", message=message), Delivery(name="ops"))


def sent(one: Due) -> Message:
    made = maintenance(NodeMaintenanceStatus())
    rendered = None
    if one.target.template:
        answer = next(iter(jobs.answers([messages.job(made, one)]))).of("template")
        assert isinstance(answer, str), answer
        rendered = answer
    return messages.message(made, one, rendered)


@pytest.mark.parametrize(
    ("template", "body", "kind"),
    [
        ("{{ .namespace }}/{{ .maintenance }} {{ .event }}", b"fleet/monday RunStarted", messages.PLAIN),
        ('{"n": {{ .hosts.total }}, "id": "{{ .id }}"}', b'{"n": 0, "id": "u-1-3"}', messages.JSON),
    ],
)
def test_a_template_is_the_whole_body_of_a_webhook(template: str, body: bytes, kind: str) -> None:
    assert sent(pending(template)) == Message(body, kind)


@pytest.mark.parametrize(
    ("kind", "template", "wanted"),
    [
        ("webhook", "", {
            "apiVersion": NODE_MAINTENANCES.api_version, "kind": "Notification", "id": "u-1-3",
            "event": "RunStarted", "maintenance": "monday", "namespace": "fleet", "run": "r1", "at": "",
            "message": "a < b", "text": "fleet/monday: RunStarted: a < b",
            "hosts": dict.fromkeys(("total", "waiting", "running", "succeeded", "failed", "skipped"), 0),
        }),
        ("mail", "", {
            "id": "u-1-3", "to": ["ops@example.org"], "subject": "[nodemanager] fleet/monday: RunStarted",
            "text": "fleet/monday: RunStarted: a < b",
        }),
        ("mail", "{{ .message }}", {
            "id": "u-1-3", "to": ["ops@example.org"], "subject": "[nodemanager] fleet/monday: RunStarted",
            "text": "a < b",
        }),
        ("slack", "", {"text": "fleet/monday: RunStarted: a &lt; b"}),
    ],
)  # fmt: skip
def test_what_each_kind_of_receiver_gets(kind: str, template: str, wanted: dict[str, Any]) -> None:
    assert json.loads(sent(pending(template, kind, "a < b")).body) == wanted


def test_a_receiver_is_told_when_it_was_and_of_how_many_hosts() -> None:
    one = pending()
    notice = msgspec.structs.replace(
        one.notice, at="2027-01-31T12:00:00Z", hosts=HostCounts(total=4, failed=1)
    )
    found = messages.fields(maintenance(NodeMaintenanceStatus()), one._replace(notice=notice))
    assert (found["at"], found["hosts"]["total"], found["hosts"]["failed"]) == ("2027-01-31T12:00:00Z", 4, 1)


def test_a_long_text_is_cut_off() -> None:
    assert (
        len(json.loads(sent(pending(kind="slack", message="x" * 10_000)).body)["text"]) == messages.MAX_TEXT
    )


def test_in_a_chat_nothing_of_ours_mentions_anybody() -> None:
    loud = "<!channel> & <https://x|y>"
    quiet = "&lt;!channel&gt; &amp; &lt;https://x|y&gt;"
    assert json.loads(sent(pending(kind="slack", message=loud)).body)["text"].endswith(quiet)
    assert json.loads(sent(pending("*{{ .message }}*", "slack", loud)).body) == {"text": f"*{quiet}*"}


def test_tries_are_further_and_further_apart_then_it_is_given_up_and_the_next_one_begins() -> None:
    notices = [Notice(number=number, event="RunStarted", to=["ops"]) for number in (1, 2)]
    seen = maintenance(NodeMaintenanceStatus(notices=notices))
    told: dict[str, Delivery] = {}
    waits = []
    for _ in range(due.MAX_TRIES):
        one = next(due.pending(seen, told))
        assert one.notice.number == 1
        told["ops"] = due.after(one, "it answers 500", NOW)
        waits.append((replace_due(one, told["ops"]).at(NOW) - NOW).total_seconds())
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600, 600, 0]
    assert (told["ops"].number, told["ops"].dropped) == (1, 1)
    one = next(due.pending(seen, told))
    told["ops"] = due.after(one, "", NOW)
    assert (told["ops"].number, told["ops"].dropped, told["ops"].failure) == (2, 1, "")
    assert not list(due.pending(seen, told))


def replace_due(one: Due, delivery: Delivery) -> Due:
    return one._replace(delivery=delivery)


def test_what_we_wrote_counts_until_the_status_has_it() -> None:
    status = NodeMaintenanceStatus(
        deliveries=[Delivery(name="ops", number=1), Delivery(name="gone", number=1)]
    )
    found = due.known(maintenance(status), {"ops": Delivery(name="ops", number=2)})
    assert found == {"ops": Delivery(name="ops", number=2)}
    assert due.known(maintenance(status), {"ops": Delivery(name="ops")})["ops"].number == 1
    first = {"ops": Delivery(name="ops", number=1)}
    assert due.known(maintenance(NodeMaintenanceStatus()), first) == first
    shown = Delivery(name="ops", number=1, failure="it answers 500")
    again = NodeMaintenanceStatus(deliveries=[shown])
    assert due.known(maintenance(again), {"ops": Delivery(name="ops", number=1)})["ops"] == shown
    tried = Delivery(name="ops", number=1, tries=1)
    assert due.known(maintenance(again), {"ops": tried})["ops"] == tried


def test_a_receiver_that_was_removed_is_remembered_while_there_are_notices_for_it() -> None:
    gone = Delivery(name="gone", number=1)
    for to, found in ((["ops"], {}), (["ops", "gone"], {"gone": gone})):
        status = NodeMaintenanceStatus(deliveries=[gone], notices=[Notice(number=1, to=to)])
        assert due.known(maintenance(status), {}) == found


# Sending


async def accept(exchange: Exchange) -> None:
    await exchange.answer(204, b"")


async def refusal(url: str, message: Message = EMPTY, ca: bytes | None = None) -> str:
    """Return why something is not delivered, which never has the address in it."""
    with pytest.raises(NotDelivered) as caught:
        await sending.send(Address(url, ca, WHERE), message, "id")
    assert "127.0.0.1" not in str(caught.value)
    assert "token" not in str(caught.value)
    return str(caught.value)


async def test_user_and_password_of_an_address_are_sent_as_such_and_shown_nowhere() -> None:
    async with serve(accept) as server:
        to = Address(server.url.replace("//", "//me:se%3Acret@") + "/x?token=1", None, WHERE)
        await sending.send(to, Message(b"{}"), "u-1-3")
    request = server.requests[0]
    assert (request.method, request.target, request.body) == ("POST", "/x?token=1", b"{}")
    assert request.headers["authorization"] == f"Basic {base64.b64encode(b'me:se:cret').decode()}"
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert repr(to) == f"Address({WHERE})"


async def test_certificates_are_verified_by_the_authorities_of_the_system_or_by_the_one_of_the_secret() -> (
    None
):
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    async with serve(accept, context) as server:
        url = f"{server.url}/token"
        said = await refusal(url)
        assert said.startswith("its certificate is not accepted: write its authority into key ca.crt")
        assert "not accepted" in await refusal(url, ca=trustme.CA().cert_pem.bytes())
        assert "whether key ca.crt is PEM" in await refusal(url, ca=b"nonsense")
        assert not server.requests
        await sending.send(Address(url, ca.cert_pem.bytes(), WHERE), Message(b"{}"), "id")
        assert len(server.requests) == 1


async def test_redirects_are_refused_and_large_messages_are_not_sent() -> None:
    async def away(exchange: Exchange) -> None:
        await exchange.answer(307, b"", location=f"{exchange.server.url}/elsewhere")

    async with serve(away) as server:
        said = await refusal(f"{server.url}/token")
        assert said == (
            f"it redirects (307), which is not followed: write the address where it leads into {WHERE}"
        )
        assert [one.target for one in server.requests] == ["/token"]
        large = Message(b"x" * (messages.MAX_BODY + 1))
        assert "the message has 32769 bytes, at most 32768 are sent" in await refusal(server.url, large)
        assert len(server.requests) == 1


@virtual_time.test
async def test_who_hangs_is_left_after_ten_seconds() -> None:
    async def hang(exchange: Exchange) -> None:
        await exchange.hang()

    async with serve(hang) as server:
        assert (await refusal(f"{server.url}/token")).startswith(
            "it does not answer within 10 s: see whether"
        )


@pytest.mark.parametrize(
    "text",
    ["", "example.org/token", "ftp://127.0.0.1/token", "http://", "http://127.0.0.1:x/", "http://a\n.b/"],
)
def test_what_is_no_address_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(NotDelivered, match=f"^{WHERE} is no address: write https://HOST/PATH into it$"):
        Address(text, None, WHERE)


async def test_who_is_not_there_is_said_to_be_out_of_reach() -> None:
    async with serve(accept) as server:
        url = server.url
    assert (await refusal(f"{url}/token")).startswith("it cannot be reached: see whether the address in")
