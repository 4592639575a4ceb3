"""`nodemanager crds`: printed, installed, uninstalled, and what is said when that cannot be."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nodemanager.api import crds, kinds
from nodemanager.api.audit import actors
from nodemanager.api.maintenance import shipped_templates
from nodemanager.kube import manifests
from support import cli
from support.scripted_server import Exchange, serve

NAMES = [crd["metadata"]["name"] for crd in crds.all_crds()]
ESTABLISHED = {"type": "Established", "status": "True"}
PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
POLICIES = "/apis/admissionregistration.k8s.io/v1/"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
WHOSE = ("hosts", "tasks", "revisions", "previews", "operator", "approvals", "audit", "stamps")
POLICY_NAMES = [
    f"nodemanager-{whose}.validatingadmission{kind}.admissionregistration.k8s.io"
    for whose in WHOSE
    for kind in ("policies", "policybindings")
] + [
    f"nodemanager-stamping.mutatingadmission{kind}.admissionregistration.k8s.io"
    for kind in ("policies", "policybindings")
]
STORED = [
    *NAMES,
    *(
        f"validatingadmission{kind}/nodemanager-{whose}"
        for whose in WHOSE
        for kind in ("policies", "policybindings")
    ),
    *(f"mutatingadmission{kind}/nodemanager-stamping" for kind in ("policies", "policybindings")),
]


class FakeCrds:
    """A server that knows CRDs, one answer at a time."""

    def __init__(self, conditions: list[dict[str, str]] | None = None, terminating: int = 0) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.applied: list[dict[str, str]] = []
        self.deleted: list[str] = []
        self.conditions = conditions
        self.objects = 3
        self.has_policies = True
        self.has_mutating_policies = True
        self.learning = 0
        """How often the server refuses to stamp: it does not know the schemas yet."""
        self.stamps = True
        self.hides_bindings = False
        self._terminating = terminating

    async def __call__(self, exchange: Exchange) -> None:
        path = exchange.target.partition("?")[0]
        if path.startswith(POLICIES) and not self.has_policies:
            await exchange.refuse(404, "NotFound")
            return
        if path.startswith(f"{POLICIES}mutating") and not self.has_mutating_policies:
            await exchange.refuse(404, "NotFound")
            return
        if exchange.method == "POST":
            await self._stamp(exchange)
            return
        if path == BINDINGS:
            if self.hides_bindings:
                await exchange.refuse(403, "Forbidden")
            else:
                await exchange.json({"items": [], "metadata": {"resourceVersion": "1"}})
            return
        if not path.startswith((PATH, POLICIES)):
            meta = {"remainingItemCount": self.objects - 1}
            await exchange.json({"items": [{}] if self.objects else [], "metadata": meta})
            return
        name = path.removeprefix(PATH).removeprefix(POLICIES)
        if exchange.method == "PATCH":
            await self._apply(name, exchange)
        elif exchange.method == "DELETE":
            await self._delete(name, exchange)
        elif name not in self.stored:
            await exchange.refuse(404, "NotFound")
        else:
            await exchange.json(self._aged(name))

    async def _stamp(self, exchange: Exchange) -> None:
        """Answer the question what would become of a new object."""
        assert exchange.query["dryRun"] == "All"
        self.learning -= 1
        if self.learning >= 0:
            await exchange.refuse(503, "ServiceUnavailable")
            return
        notes = {actors.REQUESTED_BY: "{}"} if self.stamps else {}
        await exchange.json({"metadata": {"name": "probe", "annotations": notes}})

    def _aged(self, name: str) -> dict[str, Any]:
        crd = self.stored[name]
        if "deletionTimestamp" in crd["metadata"]:
            self._terminating -= 1
            if self._terminating <= 0:
                del self.stored[name]
        return crd

    async def _apply(self, name: str, exchange: Exchange) -> None:
        self.applied.append(exchange.query)
        assert exchange.headers["content-type"] == "application/apply-patch+yaml"
        crd = {**json.loads(exchange.body), "status": {"conditions": self.conditions}}
        if "dryRun" not in exchange.query:
            self.stored[name] = crd
        await exchange.json(crd)

    async def _delete(self, name: str, exchange: Exchange) -> None:
        if name not in self.stored:
            await exchange.refuse(404, "NotFound")
            return
        self.deleted.append(name)
        if not json.loads(exchange.body).get("dryRun"):
            del self.stored[name]
        await exchange.json({"kind": "Status", "status": "Success"})


class Terminal(io.StringIO):
    """A terminal at which somebody has typed ahead."""

    def isatty(self) -> bool:
        return True


async def run(server: FakeCrds, folder: Path, *args: str) -> cli.Ran:
    """Run the command without the templates, which have tests of their own before real servers."""
    args = (*args, "--no-templates") if "--install" in args else args
    async with serve(server) as scripted:
        return await cli.run_against(scripted, folder, "crds", *args)


def lines(result: str) -> list[str]:
    return [f"{name} {result}" for name in (*NAMES, *POLICY_NAMES)]


def removed(result: str) -> list[str]:
    """The policy goes last, so that no host is without it while its objects are still there."""
    return [f"{name} {result}" for name in (*reversed(NAMES), *reversed(POLICY_NAMES))]


def test_printed_as_yaml_and_as_json() -> None:
    assert manifests.load_all(cli.run("crds").stdout, "stdout") == crds.all_crds()
    printed = json.loads(cli.run("crds", "-o", "json").stdout)
    assert (printed["kind"], printed["items"]) == ("List", crds.all_crds())
    templates = json.loads(cli.run("crds", "--templates", "-n", "here", "-o", "json").stdout)
    assert templates["items"] == shipped_templates.templates("here")


async def test_installed_again_and_again(tmp_path: Path) -> None:
    server = FakeCrds([ESTABLISHED])
    first = await run(server, tmp_path, "--install")
    assert first == cli.Ran(0, "\n".join(lines("created")) + "\n", "")
    assert server.applied[0] == {"fieldManager": "nodemanager", "force": "true"}
    again = await run(server, tmp_path, "--install")
    assert again.stdout.splitlines() == lines("unchanged")
    server.stored[NAMES[0]]["spec"] = {"old": True}
    upgraded = await run(server, tmp_path, "--install")
    assert upgraded.stdout.splitlines() == [f"{NAMES[0]} configured", *lines("unchanged")[1:]]


async def test_who_may_not_see_bindings_installs_and_is_told(tmp_path: Path) -> None:
    server = FakeCrds([ESTABLISHED])
    server.hides_bindings = True
    ran = await run(server, tmp_path, "--install")
    assert (ran.code, ran.stdout.splitlines()) == (0, lines("created"))
    assert "warning: cannot rename ClusterRoleBindings of hosts that older versions named" in ran.stderr


async def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    server = FakeCrds([ESTABLISHED])
    ran = await run(server, tmp_path, "--install", "--dry-run")
    assert ran.stdout.splitlines() == lines("created (server dry run)")
    assert server.stored == {}
    await run(server, tmp_path, "--install")
    ran = await run(server, tmp_path, "--uninstall", "--dry-run")
    assert ran.stdout.splitlines() == removed("deleted (server dry run)")
    assert list(server.stored) == STORED


async def test_install_and_uninstall_together_are_refused_and_nothing_is_deleted(tmp_path: Path) -> None:
    server = FakeCrds([ESTABLISHED])
    await run(server, tmp_path, "--install")
    ran = await run(server, tmp_path, "--install", "--uninstall", "--yes")
    assert ran.code == 2
    assert "opposites" in ran.stderr
    assert list(server.stored) == STORED


async def test_a_cluster_without_policies_gets_our_kinds_and_we_are_told(tmp_path: Path) -> None:
    server = FakeCrds([ESTABLISHED])
    server.has_policies = False
    ran = await run(server, tmp_path, "--install")
    assert (ran.code, ran.stdout.splitlines()) == (0, lines("created")[: len(NAMES)])
    assert "warning: this cluster has no validatingadmissionpolicies" in ran.stderr
    assert "warning: this cluster has no mutatingadmissionpolicies" in ran.stderr
    gone = await run(server, tmp_path, "--uninstall", "--yes")
    assert gone.stdout.splitlines() == [
        *removed("deleted")[: len(NAMES)],
        *removed("not found")[len(NAMES) :],
    ]


async def test_a_cluster_without_mutating_policies_gets_all_else_and_we_are_told(tmp_path: Path) -> None:
    server = FakeCrds([ESTABLISHED])
    server.has_mutating_policies = False
    ran = await run(server, tmp_path, "--install")
    assert (ran.code, ran.stdout.splitlines()) == (0, lines("created")[:-2])
    assert ran.stderr == (
        "warning: this cluster has no mutatingadmissionpolicies (Kubernetes 1.36 has): nobody writes down who"
        " asks for something, but for field managers\n"
    )


async def test_a_server_that_learns_to_stamp_is_waited_for(tmp_path: Path) -> None:
    server = FakeCrds([ESTABLISHED])
    server.learning = 2
    ran = await run(server, tmp_path, "--install")
    stamped = [one for one in kinds.KINDS if one.editors]  # each is asked about until it is known
    assert (ran.code, ran.stderr, server.learning) == (0, "", -len(stamped))


async def test_a_server_that_never_stamps_is_told_of(tmp_path: Path) -> None:
    server = FakeCrds([ESTABLISHED])
    server.stamps = False
    ran = await run(server, tmp_path, "--install", "--timeout", "700ms")
    assert (ran.code, ran.stdout.splitlines()) == (0, lines("created"))
    assert "warning: the server does not write down yet who asks for managednodes, after 0.7 s" in ran.stderr


async def test_refused_names_are_an_error_at_once(tmp_path: Path) -> None:
    refused = {"type": "NamesAccepted", "status": "False", "message": '"mn" is already in use'}
    ran = await run(FakeCrds([refused]), tmp_path, "--install")
    assert (ran.code, ran.stdout) == (1, "")
    assert f'cannot install {NAMES[0]}: the cluster refuses its names: "mn" is already in use' in ran.stderr


async def test_one_that_is_never_served_ends_with_the_timeout(tmp_path: Path) -> None:
    ran = await run(FakeCrds(None), tmp_path, "--install", "--timeout", "1500ms")
    assert (ran.code, ran.stdout) == (1, "")
    progress, error = ran.stderr.splitlines()
    assert progress == f"waiting for {NAMES[0]}: it is not served yet"
    assert error.startswith(f"error: cannot go on with {NAMES[0]}: it is not served yet after 1.5 s")


async def test_one_that_is_being_deleted_is_waited_for(tmp_path: Path) -> None:
    server = FakeCrds([ESTABLISHED], terminating=3)
    old = {"metadata": {"name": NAMES[0], "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}}
    server.stored[NAMES[0]] = old
    ran = await run(server, tmp_path, "--install")
    assert ran.stdout.splitlines() == lines("created")
    assert "deletionTimestamp" not in server.stored[NAMES[0]]["metadata"]


async def test_uninstalled_again_and_again(tmp_path: Path) -> None:
    server = FakeCrds([ESTABLISHED])
    await run(server, tmp_path, "--install")
    first = await run(server, tmp_path, "--uninstall", "--yes")
    assert first.stdout.splitlines() == removed("deleted")
    counted = first.stderr.partition("with them ")[2].partition(", from")[0].split(", ")
    assert len(counted) == len(kinds.KINDS)
    assert {"3 ManagedNodes", "3 RolloutPolicies", "3 NodeSeries", "3 AuditSegments"} <= set(counted)
    again = await run(server, tmp_path, "--uninstall", "--yes")
    assert (again.code, again.stdout.splitlines()) == (0, removed("not found"))


async def test_without_a_terminal_nothing_is_deleted_unless_that_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeCrds([ESTABLISHED])
    await run(server, tmp_path, "--install")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    ran = await run(server, tmp_path, "--uninstall")
    assert (ran.code, ran.stdout, server.deleted) == (1, "", [])
    assert "add --yes" in ran.stderr.splitlines()[-1]


@pytest.mark.parametrize(("answer", "code"), [pytest.param("y", 0, id="yes"), pytest.param("n", 1, id="no")])
async def test_at_a_terminal_somebody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    server = FakeCrds([ESTABLISHED])
    await run(server, tmp_path, "--install")
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    ran = await run(server, tmp_path, "--uninstall")
    assert ran.code == code
    assert "Go on? [y/N]" in ran.stderr
    assert server.deleted == ([*NAMES[::-1], *STORED[: len(NAMES) - 1 : -1]] if code == 0 else [])
    assert ("Nothing was removed." in ran.stderr) == (code == 1)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param(["--uninstall", "--templates"], "not for --uninstall", id="templates-and-uninstall"),
        pytest.param(["--yes"], "--dry-run and --yes are for", id="yes-alone"),
        pytest.param(["--dry-run"], "--dry-run and --yes are for", id="dry-run-alone"),
        pytest.param(["--install", "--timeout", "5"], "has no unit", id="timeout-without-unit"),
        pytest.param(["--install", "--timeout", "0"], "no time at all", id="timeout-zero"),
    ],
)
def test_wrong_usage(args: list[str], message: str) -> None:
    ran = cli.run("crds", *args)
    assert (ran.code, ran.stdout) == (2, "")
    assert message in ran.stderr


@pytest.mark.parametrize(("words", "asks"), [((), True), (("YES=1",), False)])
def test_make_uninstall_asks_unless_told_not_to(words: tuple[str, ...], asks: bool) -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        ["make", "--dry-run", "uninstall", *words],
        cwd=root, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "crds --uninstall" in done.stdout
    assert ("--yes" not in done.stdout) == asks
