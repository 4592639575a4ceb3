"""Credential plugins, as real scripts run by the real runner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nodemanager.client.auth import exec_plugin
from nodemanager.client.auth.commands import CommandResult
from nodemanager.client.auth.config import TlsIdentity
from nodemanager.client.auth.kubeconfig_types import Exec, ExecEnv
from nodemanager.host.process import runner
from nodemanager.kube.errors import ConfigError
from support import pems, scripts
from support.gates import Gate

ENVIRON = {"PATH": "/usr/bin:/bin", "INHERITED": "yes", "OVERRIDDEN": "no"}
NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
ONE = pems.make()


class Clocks:
    """Both clocks, standing still until moved."""

    def __init__(self) -> None:
        self.now = NOW

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now - NOW

    def stamp(self, seconds: float) -> str:
        return datetime.fromtimestamp(self.now + seconds, UTC).isoformat().replace("+00:00", "Z")


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def config(command: str, version: str = "v1", **fields: Any) -> Exec:
    fields = {"interactive_mode": "Never", **fields}
    return Exec(command=command, api_version=f"client.authentication.k8s.io/{version}", **fields)


def credentials(
    command: str, clocks: Clocks | None = None, version: str = "v1", **fields: Any
) -> exec_plugin.ExecCredentials:
    plugin = exec_plugin.plugin(config(command, version, **fields), "user 'x'", ENVIRON)
    clocks = clocks or Clocks()
    return exec_plugin.ExecCredentials(plugin, runner.run, clock=clocks.monotonic, wall_clock=clocks.wall)


async def token(plugin: exec_plugin.ExecCredentials) -> str:
    return str((await plugin.headers()).get("Authorization", "")).removeprefix("Bearer ")


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_token(tmp_path: Path, version: str) -> None:
    command = scripts.write_plugin(tmp_path / "plugin", scripts.exec_credential(version, token="t"))
    plugin = credentials(command, version=version)
    assert await plugin.headers() == {"Authorization": "Bearer t"}
    assert await plugin.tls_identity() is None
    assert scripts.runs_of(command) == 1


async def test_certificate(tmp_path: Path) -> None:
    answer = scripts.exec_credential(
        clientCertificateData=ONE.certificate.decode(), clientKeyData=ONE.key.decode(), token=None
    )
    plugin = credentials(scripts.write_plugin(tmp_path / "plugin", answer))
    assert await plugin.headers() == {}
    assert await plugin.tls_identity() == TlsIdentity(ONE.certificate, ONE.key)


async def test_arguments_and_environment(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    command = scripts.write_python(
        tmp_path / "plugin",
        "import json, os, sys\n"
        f"json.dump([sys.argv[1:], dict(os.environ), sys.stdin.read()], open({str(seen)!r}, 'w'))\n"
        f"print({scripts.exec_credential(token='t')!r})",
    )
    env = [ExecEnv(name="OVERRIDDEN", value="yes"), ExecEnv(name="ADDED", value="a=b c")]
    await credentials(command, args=["--one", "two three"], env=env).headers()
    arguments, environ, stdin = json.loads(seen.read_text())
    assert arguments == ["--one", "two three"]
    assert stdin == ""
    assert {name: environ[name] for name in ("INHERITED", "OVERRIDDEN", "ADDED")} == {
        "INHERITED": "yes",
        "OVERRIDDEN": "yes",
        "ADDED": "a=b c",
    }
    assert json.loads(environ["KUBERNETES_EXEC_INFO"]) == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"interactive_mode": "Always"}, "interactiveMode Always needs a person", id="Always"),
        pytest.param({"interactive_mode": ""}, "v1 needs it: set it to Never", id="v1 without mode"),
        pytest.param(
            {"interactive_mode": "Maybe"}, "interactiveMode 'Maybe' is not one of", id="unknown mode"
        ),
        pytest.param({"version": "v1alpha1"}, "io/v1alpha1' is not supported; update", id="v1alpha1"),
        pytest.param({"version": "v2"}, "io/v2' is not supported", id="v2"),
        pytest.param({"command": ""}, "command is missing", id="no command"),
        pytest.param(
            {"env": [ExecEnv(value="x")]}, "env has an entry without a name", id="nameless variable"
        ),
    ],
)
def test_refused_configuration(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot use exec of user 'x': .*{message}"):
        exec_plugin.plugin(config(**{"command": "c", **fields}), "user 'x'", ENVIRON)


@pytest.mark.parametrize(("version", "mode"), [("v1", "IfAvailable"), ("v1beta1", ""), ("v1beta1", "Never")])
def test_accepted_modes(version: str, mode: str) -> None:
    accepted = exec_plugin.plugin(config("c", version, interactive_mode=mode), "user 'x'", ENVIRON)
    assert accepted.argv == ("c",)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param("", "it is not JSON", id="nothing"),
        pytest.param("hunter2", "it is not JSON", id="text"),
        pytest.param('{"a":' * 50_000, "it is not JSON", id="deep"),
        pytest.param("[]", "Expected object, got array", id="list"),
        pytest.param(
            '{"status": {"token": 5}}', r"Expected str \| null, got int - at \$.status.token", id="type"
        ),
        pytest.param("{}", "ExecCredential, got nothing of the kind", id="empty"),
        pytest.param(scripts.exec_credential("v1beta1", token="hunter2"), "got .*v1beta1", id="version"),
        pytest.param(
            scripts.exec_credential(token="hunter2").replace("ExecCredential", "Pod"), "got .*Pod", id="kind"
        ),
        pytest.param(scripts.exec_credential(), "neither a token nor a certificate", id="empty status"),
        pytest.param(
            scripts.exec_credential(token=""), "neither a token nor a certificate", id="empty token"
        ),
        pytest.param(scripts.exec_credential(token="hunter2 x"), "cannot use the token of", id="bad token"),
        pytest.param(
            scripts.exec_credential(clientKeyData="hunter2"), "only one of certificate", id="only key"
        ),
        pytest.param(
            scripts.exec_credential(clientCertificateData="x", clientKeyData="hunter2"),
            "clientCertificateData of .*no PEM certificate",
            id="no PEM",
        ),
        pytest.param(
            scripts.exec_credential(token="hunter2", expirationTimestamp="soon"),
            "expirationTimestamp 'soon' is no RFC 3339",
            id="expiry",
        ),
        pytest.param(
            scripts.exec_credential(token="hunter2", expirationTimestamp="2026-01-01T00:00:00"),
            "is no RFC 3339",
            id="expiry without zone",
        ),
    ],
)
async def test_unusable_answer(tmp_path: Path, answer: str, message: str) -> None:
    plugin = credentials(scripts.write_plugin(tmp_path / "plugin", answer))
    with pytest.raises(ConfigError, match=message) as caught:
        await plugin.headers()
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).startswith("cannot use ")
    assert f"the credential plugin {tmp_path}/plugin of user 'x'" in str(caught.value)


async def test_missing_program_shows_the_hint_without_escape_sequences() -> None:
    plugin = credentials("/no/such/login", install_hint="run: \x1b[1mbrew install login")
    with pytest.raises(ConfigError) as caught:
        await plugin.headers()
    assert str(caught.value) == (
        "cannot run the credential plugin /no/such/login of user 'x': it is not installed:"
        " run: ?[1mbrew install login"
    )


async def test_missing_program_without_a_hint() -> None:
    with pytest.raises(ConfigError, match="it is not installed; install it, or correct command"):
        await credentials("/no/such/login").headers()


async def test_failure_tells_status_and_the_end_of_stderr(tmp_path: Path) -> None:
    command = scripts.write(tmp_path / "plugin", "seq 1 9999 >&2; echo 'session expired' >&2; exit 4")
    with pytest.raises(ConfigError, match=r"exit status 4: \.\.\.[\s\S]*session expired$") as caught:
        await credentials(command).headers()
    assert len(str(caught.value)) < 1500


async def test_program_that_cannot_run(tmp_path: Path) -> None:
    (tmp_path / "plugin").write_text("not executable")
    with pytest.raises(ConfigError, match=r"cannot run the credential plugin .*Permission denied"):
        await credentials(str(tmp_path / "plugin")).headers()


async def test_plugin_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_plugin, "TIMEOUT", 0.3)
    command = scripts.write(tmp_path / "plugin", "exec sleep 300")
    with pytest.raises(ConfigError, match=r"it did not answer within 0\.3 s"):
        await credentials(command).headers()


async def test_answer_without_expiry_is_kept(tmp_path: Path, clocks: Clocks) -> None:
    command = scripts.write_plugin(tmp_path / "plugin", scripts.exec_credential(token="t"))
    plugin = credentials(command, clocks)
    for _ in range(3):
        assert await token(plugin) == "t"
        clocks.now += 1_000_000
    assert scripts.runs_of(command) == 1


@pytest.mark.parametrize(("lifetime", "kept"), [(3600.0, 3539.0), (100.0, 89.0)])
async def test_plugin_runs_ahead_of_expiry(
    tmp_path: Path, clocks: Clocks, lifetime: float, kept: float
) -> None:
    answer = scripts.exec_credential(token="one", expirationTimestamp=clocks.stamp(lifetime))
    command = scripts.write_plugin(tmp_path / "plugin", answer)
    plugin = credentials(command, clocks)
    assert await token(plugin) == "one"
    scripts.write_plugin(tmp_path / "plugin", scripts.exec_credential(token="two"))
    clocks.now += kept
    assert await token(plugin) == "one"
    clocks.now += 2
    assert await token(plugin) == "two"
    assert scripts.runs_of(command) == 2


async def test_failed_renewal_matters_only_after_expiry(tmp_path: Path, clocks: Clocks) -> None:
    answer = scripts.exec_credential(token="one", expirationTimestamp=clocks.stamp(1000))
    command = scripts.write_plugin(tmp_path / "plugin", answer)
    plugin = credentials(command, clocks)
    await plugin.headers()
    scripts.write(tmp_path / "plugin", "echo 'cloud is down' >&2; exit 1")
    clocks.now += 950
    assert await token(plugin) == "one"
    clocks.now += 50
    with pytest.raises(ConfigError, match="cloud is down"):
        await plugin.headers()
    scripts.write_plugin(tmp_path / "plugin", scripts.exec_credential(token="two"))
    clocks.now += exec_plugin.MIN_INTERVAL
    assert await token(plugin) == "two"


async def test_answer_that_is_expired_already_does_not_fork_for_every_request(
    tmp_path: Path, clocks: Clocks
) -> None:
    answer = scripts.exec_credential(token="old", expirationTimestamp=clocks.stamp(-10))
    command = scripts.write_plugin(tmp_path / "plugin", answer)
    plugin = credentials(command, clocks)
    for _ in range(5):
        assert await token(plugin) == "old"
    assert scripts.runs_of(command) == 1
    clocks.now += exec_plugin.MIN_INTERVAL
    await plugin.headers()
    assert scripts.runs_of(command) == 2


async def test_failing_plugin_does_not_fork_for_every_request(tmp_path: Path, clocks: Clocks) -> None:
    command = scripts.write_plugin(tmp_path / "plugin", "garbage")
    plugin = credentials(command, clocks)
    for _ in range(5):
        with pytest.raises(ConfigError, match="it is not JSON"):
            await plugin.headers()
        assert not await plugin.refresh()
    assert scripts.runs_of(command) == 1


async def test_refresh_runs_again_but_not_within_seconds(tmp_path: Path, clocks: Clocks) -> None:
    command = scripts.write_plugin(tmp_path / "plugin", scripts.exec_credential(token="one"))
    plugin = credentials(command, clocks)
    assert await token(plugin) == "one"
    scripts.write_plugin(tmp_path / "plugin", scripts.exec_credential(token="two"))
    assert await plugin.refresh()  # what is there is a moment old: try that
    assert (await token(plugin), scripts.runs_of(command)) == ("one", 1)
    clocks.now += exec_plugin.MIN_INTERVAL
    assert await plugin.refresh()
    assert (await token(plugin), scripts.runs_of(command)) == ("two", 2)


async def test_refresh_that_fails_says_that_trying_again_is_no_use(tmp_path: Path, clocks: Clocks) -> None:
    command = scripts.write_plugin(tmp_path / "plugin", scripts.exec_credential(token="one"))
    plugin = credentials(command, clocks)
    await plugin.headers()
    scripts.write(tmp_path / "plugin", "exit 1")
    clocks.now += exec_plugin.MIN_INTERVAL
    assert not await plugin.refresh()
    assert await token(plugin) == "one"  # not expired: the server may change its mind


async def test_concurrent_callers_share_one_run(tmp_path: Path, clocks: Clocks) -> None:
    command = scripts.write_plugin(tmp_path / "plugin", scripts.exec_credential(token="t"))
    plugin = credentials(command, clocks)
    tokens = await asyncio.gather(
        *(token(plugin) for _ in range(20)), plugin.refresh(), plugin.tls_identity()
    )
    assert tokens == ["t"] * 20 + [True, None]
    assert scripts.runs_of(command) == 1


async def test_cancelled_caller_does_not_spoil_it_for_the_others(tmp_path: Path, clocks: Clocks) -> None:
    gate, started = tmp_path / "gate", asyncio.Event()
    command = scripts.write_plugin(tmp_path / "plugin", scripts.exec_credential(token="t"))

    async def run(
        argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float
    ) -> CommandResult:
        started.set()
        waiting = ["/bin/sh", "-c", f"while ! test -e {gate}; do :; done; exec {command}"]
        return await runner.run(waiting, env=env, timeout=timeout)

    plugin = exec_plugin.ExecCredentials(
        exec_plugin.plugin(config(command), "user 'x'", ENVIRON),
        run,
        clock=clocks.monotonic,
        wall_clock=clocks.wall,
    )
    first, second = asyncio.create_task(token(plugin)), asyncio.create_task(token(plugin))
    await started.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.touch()
    assert await second == "t"


def test_reprs_have_no_secrets() -> None:
    plugin = exec_plugin.plugin(config("c", env=[ExecEnv(name="K", value="hunter2")]), "user 'x'", ENVIRON)
    assert "hunter2" not in repr(plugin)
    answer = exec_plugin.read_answer(scripts.exec_credential(token="hunter2").encode(), plugin, NOW)
    assert "hunter2" not in repr(answer)


async def test_a_plugin_slower_than_its_callers_still_gets_to_answer(tmp_path: Path) -> None:
    with Gate(tmp_path) as gate:
        answer = scripts.exec_credential(token="late")
        plugin = credentials(scripts.write_plugin(tmp_path / "slow", answer, before=gate.wait))
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await plugin.headers()
        gate.open()
        async with asyncio.timeout(50):
            assert await token(plugin) == "late"
