"""What the steps of tasks do: packages and the way back, services, probes, previews."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http.server
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodemanager.agent.tasks import packages as task_packages
from nodemanager.agent.tasks.attempts import INTERRUPTED, Attempt, AttemptResult
from nodemanager.agent.tasks.ledger import Entry
from nodemanager.agent.tasks.packages import Packages, VersionsBefore
from nodemanager.agent.tasks.previews import PlanPreviews
from nodemanager.agent.tasks.probes import Probes
from nodemanager.agent.tasks.programs import masked
from nodemanager.agent.tasks.reboots import Reboots
from nodemanager.agent.tasks.services import Services
from nodemanager.api.maintenance.nodetask import NodeTaskSpec
from nodemanager.api.maintenance.task_previews import ProposalRef, TaskPreview
from nodemanager.api.maintenance.task_steps import (
    HttpProbe,
    PackagesAction,
    PackagesBefore,
    PreviewAction,
    ProbeAction,
    RebootAction,
    ServiceAction,
    TaskPackage,
    TaskStep,
)
from nodemanager.host.base import HostError, WantedPackage
from nodemanager.host.packages.apt import parse_upgrades
from nodemanager.host.process import environment
from nodemanager.plan.facts import ServiceFact
from nodemanager.plan.tasks.record import StepRecord, TaskPhase, TaskRecord
from support.fake_tools import MemoryServices
from support.task_host import NEW, OLD, FilePackages, TaskHost


@contextlib.asynccontextmanager
async def alone() -> AsyncIterator[None]:
    yield


def forgotten(_wanted: PackagesBefore) -> bytes:
    return b""


async def nothing() -> list[Any]:
    return []


def attempt(inverse: bytes = b"", *, timeout: float = 5, boot: str = "1", barred: str = "") -> Attempt:
    return Attempt("uid/a/1", timeout, StepRecord(boot_id=boot, inverse=inverse), barred)


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> TaskHost:
    host = TaskHost(tmp_path)
    host.make()
    return host


async def test_an_upgrade_is_taken_back_to_the_versions_that_were_there(host: TaskHost) -> None:
    steps = Packages(FilePackages(host), tuple, alone, forgotten)
    action = PackagesAction(upgrade="all")
    before = await steps.prepare(action)
    result = await steps.perform(action, attempt(before))
    assert host.packages() == NEW
    assert result.evidence == {"app": "1 -> 2", "lib": "1 -> 2", "extra": "-> 1"}
    assert msgspec.json.decode(result.inverse, type=VersionsBefore) == VersionsBefore(
        {"app": "1", "lib": "1"}, ["extra"]
    )
    host_packages = {**NEW, "declared": "1"}  # a pass brought it meanwhile: it stays
    FilePackages(host)._put(host_packages)
    assert (await steps.take_back(action, attempt(result.inverse))).succeeded
    assert host.packages() == {**OLD, "declared": "1"}
    assert (await steps.take_back(action, attempt(result.inverse))).succeeded, "once more changes nothing"


async def test_an_earlier_step_is_taken_back_from_what_this_host_wrote_down(host: TaskHost) -> None:
    """Also where there were more packages than a status has room for."""
    many = {f"p{number:03}": "1" for number in range(150)}
    FilePackages(host)._put({**many, "stays": "1"})
    before = msgspec.json.encode(VersionsBefore(many, ["new"]))
    FilePackages(host)._put({**dict.fromkeys(many, "2"), "new": "1", "stays": "1"})
    known = {("task-uid", "up"): before}
    steps = Packages(FilePackages(host), tuple, alone, lambda one: known.get((one.task, one.step), b""))
    action = PackagesAction(restore=PackagesBefore("task-uid", "up"))
    result = await steps.perform(action, attempt(await steps.prepare(action)))
    assert (result.succeeded, result.changed) == (True, True), result.message
    assert host.packages() == {**many, "stays": "1"}
    unknown = PackagesAction(restore=PackagesBefore("task-uid", "other"))
    failed = await _failed(steps.prepare(unknown))
    assert "this host does not remember step other of the task with uid task-uid" in str(failed)
    known["task-uid", "up"] = msgspec.json.encode(VersionsBefore(many))  # nobody knows what it brought
    assert "does not remember step up" in str(await _failed(steps.prepare(action)))


async def test_a_later_task_takes_back_an_upgrade_that_succeeded(host: TaskHost) -> None:
    """Another process, another task: what was there is in the ledger."""

    def entry(uid: str, action: PackagesAction, token: int) -> Entry:
        spec = NodeTaskSpec(node_name="web1", steps=[TaskStep(name="up", packages=action)],
                            deadline="2100-01-01T00:00:00Z", fencing_token=token)  # fmt: skip
        return Entry(uid, spec, TaskRecord(uid, token, TaskPhase.RUNNING, (StepRecord(),)))

    await host.process(entry("first", PackagesAction(upgrade="all"), 1))
    assert host.packages() == NEW
    await host.process(entry("undo", PackagesAction(restore=PackagesBefore("first", "up")), 2))
    assert host.packages() == OLD


async def test_an_upgrade_that_nobody_saw_the_end_of_is_taken_back_from_what_was_there(
    host: TaskHost,
) -> None:
    steps = Packages(FilePackages(host), tuple, alone, forgotten)
    before = await steps.prepare(PackagesAction(upgrade="all"))
    FilePackages(host)._put(NEW)
    assert (await steps.take_back(PackagesAction(upgrade="all"), attempt(before))).succeeded
    assert host.packages() == OLD


async def test_what_a_configset_pins_stays(host: TaskHost) -> None:
    steps = Packages(FilePackages(host), lambda: [WantedPackage("app", "1")], alone, forgotten)
    steps = dataclasses.replace(
        steps, earlier=lambda _wanted: msgspec.json.encode(VersionsBefore({"app": "0"}, []))
    )
    for action in (
        PackagesAction(install=[TaskPackage(name="app", version="2")]), PackagesAction(remove=["app"]),
        PackagesAction(restore=PackagesBefore("task-uid", "up")),
    ):  # fmt: skip
        with pytest.raises(
            HostError, match="cannot change app: a ConfigSet of this host pins it at 1; change"
        ):
            await steps.prepare(action)


async def test_security_is_refused_where_nobody_can_tell(host: TaskHost) -> None:
    steps = Packages(FilePackages(host), tuple, alone, forgotten)
    action = PackagesAction(upgrade="security")
    result = await steps.perform(action, attempt(await steps.prepare(action)))
    assert "only apt can be asked for that" in result.message
    assert host.packages() == OLD
    assert "no package manager" in str(await _failed(Packages(None, tuple, alone, forgotten).prepare(action)))


async def _failed(work: Any) -> HostError:
    with pytest.raises(HostError) as caught:
        await work
    return caught.value


def test_packages_of_the_hosts_own_architecture_count_once() -> None:
    found = {"a": "1", "a:amd64": "1", "a:i386": "2", "b": "3", "b:amd64": "3"}
    assert task_packages.plain(found) == {"a": "1", "a:i386": "2", "b": "3"}


APT = """\
Inst libc6 [2.36-9] (2.36-9+deb12u1 Debian-Security:12/stable-security [amd64]) []
Inst tzdata [2023c-5] (2024a-0+deb12u1 Debian:12.5/stable, Debian:12-updates/stable-updates [all])
Inst openssl [3.0.2-0] (3.0.2-1 Ubuntu:22.04/jammy-updates, Ubuntu:22.04/jammy-security [amd64])
Inst linux-image-6.1.0-18-amd64 (6.1.76-1 Debian:12.5/stable [amd64])
Conf libc6 (2.36-9+deb12u1 Debian-Security:12/stable-security [amd64])
"""


def test_apt_tells_what_is_about_security() -> None:
    every = parse_upgrades(APT, security=False)
    assert every == {
        "libc6": ("2.36-9", "2.36-9+deb12u1"), "tzdata": ("2023c-5", "2024a-0+deb12u1"),
        "openssl": ("3.0.2-0", "3.0.2-1"),
    }  # fmt: skip
    assert set(parse_upgrades(APT, security=True)) == {"libc6", "openssl"}


@dataclass
class PlannedPackages(FilePackages):
    """Packages of a manager that can tell what it would do."""

    host: TaskHost

    def __post_init__(self) -> None:
        super().__init__(self.host)

    async def upgrades(self, hold: Any, *, security: bool) -> dict[str, tuple[str, str]]:
        found = {"app": ("1", "2"), "lib": ("1", "2")}
        return {"lib": found["lib"]} if security else found


async def test_security_upgrades_are_those_that_the_manager_names(host: TaskHost) -> None:
    steps = Packages(PlannedPackages(host), tuple, alone, forgotten)
    action = PackagesAction(upgrade="security")
    assert (await steps.perform(action, attempt(await steps.prepare(action)))).succeeded
    assert host.packages() == {"app": "1", "lib": "2"}


async def test_a_preview_tells_and_changes_nothing(host: TaskHost) -> None:
    steps = PlanPreviews(PlannedPackages(host), tuple, nothing, alone)
    result = await steps.perform(PreviewAction(packages="all", config_sets=True), attempt())
    assert result.output == "2 packages would be upgraded\n0 resources would be changed\n"
    assert result.evidence == {"app": "1 -> 2", "lib": "1 -> 2"}
    assert host.packages() == OLD


async def test_a_proposal_is_not_waited_for_beyond_the_timeout_of_its_step(host: TaskHost) -> None:
    async def hang(_ref: ProposalRef) -> TaskPreview:
        await asyncio.Event().wait()
        raise AssertionError

    steps = PlanPreviews(PlannedPackages(host), tuple, nothing, alone, hang)
    action = PreviewAction(proposal=ProposalRef("p", "d"))
    with pytest.raises(HostError, match=r"cannot preview within 0.01 s"):
        await steps.perform(action, attempt(timeout=0.01))


async def test_services_come_to_a_state_again_and_are_not_restarted_twice() -> None:
    manager = MemoryServices(web=ServiceFact(known=True, running=True, enabled=True))
    steps = Services(manager, alone)
    assert (await steps.perform(ServiceAction(name="web", do="stop"), attempt())).succeeded
    assert (await steps.settle(ServiceAction(name="web", do="start"), attempt())).succeeded
    assert await steps.settle(ServiceAction(name="web", do="restart"), attempt()) == INTERRUPTED
    assert await steps.settle(ServiceAction(name="web", do="start"), attempt(barred="late")) == INTERRUPTED
    result = await Services(None, alone).perform(ServiceAction(name="web", do="start"), attempt())
    assert result.message == "cannot start web: this host has no service manager that we know"


class Machine:
    """A machine that is as many boots old as it was asked for."""

    def __init__(self, *, goes_down: bool = True) -> None:
        self.boots, self.asked, self.goes_down = 1, 0, goes_down

    async def boot_id(self) -> str:
        return str(self.boots)

    async def reboot(self) -> None:
        self.asked += 1
        self.boots += self.goes_down


async def test_a_reboot_is_proven_by_the_boot_id() -> None:
    machine = Machine()

    async def needed() -> str:
        return ""

    steps = Reboots(machine, needed, alone)
    result = await steps.perform(RebootAction(when="ifNeeded"), attempt())
    assert (result.succeeded, machine.asked, result.evidence) == (True, 0, {"reboot": "not needed"})
    result = await steps.perform(RebootAction(when="always"), attempt())
    assert result == AttemptResult(True, changed=True, evidence={"bootBefore": "1", "bootAfter": "2"})
    assert (await steps.settle(RebootAction(when="always"), attempt())).succeeded
    assert machine.asked == 1, "it is another boot already"
    late = await steps.settle(RebootAction(when="always"), attempt(boot="2", barred="its deadline passed"))
    assert late.message == "still in boot 2, and its deadline passed"
    steps = Reboots(Machine(goes_down=False), needed, alone)
    stays = await steps.perform(RebootAction(when="always"), attempt(timeout=0))
    assert stays.message == "the host did not go down within 0 s"


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers with the number that is its path."""

    def do_GET(self) -> None:
        self.send_response(int(self.path[1:]))
        self.send_header("Location", "/200")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture(name="address")
def _address() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def test_an_address_is_asked_itself_and_no_other(address: str) -> None:
    steps = Probes(environment.host_runner(), None, asyncio.Event().wait)  # type: ignore[arg-type]
    for path, wanted, good in (("200", 0, True), ("503", 0, False), ("503", 503, True), ("302", 0, False)):
        probe = ProbeAction(http=HttpProbe(url=f"{address}/{path}", status=wanted))
        result = await steps.perform(probe, attempt(timeout=60 if good else 2))
        assert result.succeeded == good, result
    assert result.message == f"not within 2 s: {address}/302 answers 302, not 200"


async def test_a_service_that_does_not_speak_http_yet_is_asked_again() -> None:
    said = [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200,
        b"HTTP/1.1 200 OK\r\n\r\n",
    ]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said.pop(0))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    steps = Probes(environment.host_runner(), None, asyncio.Event().wait)  # type: ignore[arg-type]
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        probe = ProbeAction(http=HttpProbe(url=f"http://{host}:{port}/"))
        result = await steps.perform(probe, attempt(timeout=60))
    assert (result.succeeded, said) == (True, [])


async def test_probes_say_why_they_failed() -> None:
    services = MemoryServices(web=ServiceFact(known=True))
    steps = Probes(environment.host_runner(), services, asyncio.Event().wait)  # type: ignore[arg-type]
    for probe, why in (
        (ProbeAction(argv=["/bin/sh", "-c", "echo no; exit 3"]), "exit code 3: no"),
        (ProbeAction(argv=["/does/not/exist"]), "cannot run /does/not/exist"),
        (ProbeAction(unit="web"), "web does not run"),
        (ProbeAction(config_sets_hold=True), "not all ConfigSets of this host hold"),
    ):
        result = await steps.perform(probe, attempt(timeout=2))
        assert not result.succeeded
        assert why in result.message
    assert (await steps.perform(ProbeAction(argv=["/bin/true"]), attempt())).succeeded


def test_secrets_are_masked_line_by_line() -> None:
    key = "-----BEGIN\nabc\n-----END\n"
    assert (
        masked("x abc y\n-----BEGIN z pin", {"KEY": key, "PIN": "pin"}) == "x ******** y\n******** z ********"
    )
