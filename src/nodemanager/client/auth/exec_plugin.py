"""Credential plugins: programs that a kubeconfig names to hand out tokens or certificates.

The contract is `client.authentication.k8s.io` v1 and v1beta1. The plugin runs before its last
answer expires and after a 401, at most once per few seconds however many requests ask for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from nodemanager.client.auth import credential_files, credentials
from nodemanager.client.auth.commands import CommandRunner
from nodemanager.client.auth.config import Headers, TlsIdentity
from nodemanager.client.auth.kubeconfig_types import Exec
from nodemanager.kube.errors import MAX_FOREIGN_TEXT, ConfigError
from nodemanager.kube.objects import Struct

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
INFO_VARIABLE = "KUBERNETES_EXEC_INFO"
TIMEOUT = 60.0
"""Seconds a plugin may take; some talk to a cloud on a slow link."""
MIN_INTERVAL = 5.0
"""Seconds between two runs, however often the credentials are refused or the plugin fails."""
REFRESH_AHEAD = 60.0
"""Seconds before expiry at which to run the plugin again (at most a tenth of the lifetime)."""


_log = logging.getLogger(__name__)


class _Status(Struct):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(Struct):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a plugin handed out, ready for use."""

    headers: Headers = field(repr=False)
    identity: TlsIdentity | None
    refresh_at: float
    """Wall-clock time from which to ask for the next one."""
    expires_at: float


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin as a kubeconfig describes it, checked."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    api_version: str
    install_hint: str = ""
    user: str = ""
    """Name of the kubeconfig entry, for messages."""

    def __str__(self) -> str:
        return f"the credential plugin {self.argv[0]} of {self.user}"


def plugin(
    config: Exec, user: str, environ: Mapping[str, str], cluster: Mapping[str, Any] | None = None
) -> Plugin:
    """Check the `exec` part of a user; `cluster` is passed to a plugin that asks for it."""
    if not config.command:
        raise ConfigError(f"cannot use exec of {user}: command is missing; name the program to run")
    if config.api_version not in VERSIONS:
        raise ConfigError(
            f"cannot use exec of {user}: apiVersion {config.api_version!r} is not supported;"
            f" update the plugin and its entry to {VERSIONS[0]} (or v1beta1)"
        )
    _check_interactive_mode(config, user)
    if any(not variable.name for variable in config.env):
        raise ConfigError(f"cannot use exec of {user}: env has an entry without a name")
    spec: dict[str, Any] = {"interactive": False}
    if config.provide_cluster_info and cluster is not None:
        spec["cluster"] = cluster
    info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
    return Plugin(
        argv=(config.command, *config.args),
        env={
            **environ,
            **{variable.name: variable.value for variable in config.env},
            INFO_VARIABLE: msgspec.json.encode(info).decode(),
        },
        api_version=config.api_version,
        install_hint=_printable(config.install_hint),
        user=user,
    )


class ExecCredentials:
    """Credentials that come from a plugin; concurrent callers share one run."""

    def __init__(
        self,
        plugin: Plugin,
        run: CommandRunner,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ):
        self._plugin = plugin
        self._run = run
        self._clock = clock
        self._wall_clock = wall_clock
        self._asking: asyncio.Task[None] | None = None
        self._answer: _Answer | None = None
        self._problem: ConfigError | None = None
        self._ran_at = -float("inf")

    async def headers(self) -> Headers:
        """Return the token, if the plugin gives one."""
        return (await self._current()).headers

    async def tls_identity(self) -> TlsIdentity | None:
        """Return the certificate, if the plugin gives one."""
        return (await self._current()).identity

    async def refresh(self) -> bool:
        """Run the plugin anew unless it ran a moment ago; trying again helps if it has an answer."""
        if self._may_run():
            await self._ask()
        return self._problem is None

    async def _current(self) -> _Answer:
        answer = self._answer
        if (answer is None or self._wall_clock() >= answer.refresh_at) and self._may_run():
            await self._ask()
        return self._usable()

    def _usable(self) -> _Answer:
        """Return the last good answer; a failed renewal matters only once that one has expired."""
        answer = self._answer
        if answer is not None and (self._problem is None or self._wall_clock() < answer.expires_at):
            return answer
        # A new exception each time: a shared one would collect the tracebacks of all its raisers.
        raise ConfigError(str(self._problem))

    def _may_run(self) -> bool:
        return self._is_running() or self._clock() - self._ran_at >= MIN_INTERVAL

    def _is_running(self) -> bool:
        return self._asking is not None and not self._asking.done()

    async def _ask(self) -> None:
        """Wait for the run that is under way, or start one.

        A run has no owner: a caller whose deadline is too short for a slow plugin gives up,
        and the next one finds the answer.
        """
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._run_once(), name=f"run {self._plugin}")
        await asyncio.shield(self._asking)

    async def _run_once(self) -> None:
        """Run the plugin and keep its answer, or what went wrong."""
        try:
            self._answer = await self._obtain()
            self._problem = None
        except ConfigError as error:
            self._problem = error
            if self._answer is not None:  # no caller sees the error while the last answer is still good
                _log.warning("%s", error)
        self._ran_at = self._clock()  # at the end: a run that was cancelled does not count

    async def _obtain(self) -> _Answer:
        plugin = self._plugin
        try:
            completed = await self._run(plugin.argv, env=plugin.env, timeout=TIMEOUT)
        except FileNotFoundError:
            hint = f": {plugin.install_hint}" if plugin.install_hint else "; install it, or correct command"
            raise ConfigError(f"cannot run {plugin}: it is not installed{hint}") from None
        except TimeoutError:
            raise ConfigError(f"cannot run {plugin}: it did not answer within {TIMEOUT:g} s") from None
        except OSError as error:
            raise ConfigError(f"cannot run {plugin}: {error}") from error
        if completed.returncode != 0:
            said = _printable(completed.stderr.decode("utf-8", "replace")) or "it said nothing"
            raise ConfigError(f"cannot run {plugin}: exit status {completed.returncode}: {said}")
        return read_answer(completed.stdout, plugin, self._wall_clock())


def read_answer(stdout: bytes, plugin: Plugin, now: float) -> _Answer:
    """Return what a plugin wrote; its text stays out of every message: it is a secret."""
    try:
        credential = msgspec.json.decode(stdout, type=_ExecCredential)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = str(error) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
        raise ConfigError(f"cannot use the answer of {plugin}: {why.replace('`', '')}") from None
    if credential.api_version != plugin.api_version or credential.kind != "ExecCredential":
        got = _printable(f"{credential.api_version} {credential.kind}").strip() or "nothing of the kind"
        raise ConfigError(
            f"cannot use the answer of {plugin}: expected {plugin.api_version} ExecCredential, got {got}"
        )
    status = credential.status or _Status()
    if not (status.token or status.client_certificate_data or status.client_key_data):
        raise ConfigError(f"cannot use the answer of {plugin}: status has neither a token nor a certificate")
    expires_at = _expiry(status.expiration_timestamp, plugin)
    return _Answer(
        headers=credentials.bearer_headers(status.token, str(plugin)) if status.token else {},
        identity=_identity(status, plugin),
        refresh_at=expires_at - min(REFRESH_AHEAD, max(0.0, expires_at - now) / 10),
        expires_at=expires_at,
    )


def _identity(status: _Status, plugin: Plugin) -> TlsIdentity | None:
    certificate, key = status.client_certificate_data, status.client_key_data
    if not certificate and not key:
        return None
    if not certificate or not key:
        raise ConfigError(f"cannot use the answer of {plugin}: it has only one of certificate and key")
    identity = TlsIdentity(certificate.encode("utf-8", "replace"), key.encode("utf-8", "replace"))
    credential_files.check_certificate(identity.certificate, f"clientCertificateData of {plugin}")
    credential_files.check_key(identity.key, f"clientKeyData of {plugin}")
    return identity


def _expiry(timestamp: str | None, plugin: Plugin) -> float:
    if not timestamp:
        return float("inf")
    try:
        moment = datetime.fromisoformat(timestamp)
        if moment.tzinfo is None:
            raise ValueError("no time zone")
        return moment.timestamp()
    except (ValueError, OverflowError):
        raise ConfigError(
            f"cannot use the answer of {plugin}: expirationTimestamp {_printable(timestamp)!r} is no RFC 3339"
        ) from None


def _check_interactive_mode(config: Exec, user: str) -> None:
    mode = config.interactive_mode
    if not mode and config.api_version == VERSIONS[1]:
        mode = "IfAvailable"
    if mode == "Always":
        raise ConfigError(
            f"cannot use exec of {user}: interactiveMode Always needs a person at a terminal;"
            " use a plugin that supports Never or IfAvailable, or a token"
        )
    if mode not in ("Never", "IfAvailable"):
        raise ConfigError(
            f"cannot use exec of {user}: interactiveMode {mode!r} is not one of Never, IfAvailable, Always;"
            f" {VERSIONS[0]} needs it: set it to Never"
        )


def _printable(text: str) -> str:
    """Return the end of a foreign text without escape sequences."""
    text = "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text.strip())
    return text if len(text) <= MAX_FOREIGN_TEXT else "..." + text[-MAX_FOREIGN_TEXT:]
