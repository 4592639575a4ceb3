"""Kubeconfig files as kubectl reads them: which files, how they merge, what a context means."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec

from nodemanager.client.auth import credential_files, kubeconfig_user
from nodemanager.client.auth import kubeconfig_types as types
from nodemanager.client.auth.commands import CommandRunner
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.http import proxy_env
from nodemanager.kube import selectors
from nodemanager.kube.errors import ConfigError

MAX_FILE_BYTES = 8 * 1024 * 1024
_SHOWN_NAMES = 10


class Origin(NamedTuple):
    """Where an entry is written; relative paths in it start from the folder of that file."""

    file: Path
    name: str

    def resolve(self, path: str) -> Path:
        """Return a path of the entry as an absolute one."""
        return self.file.parent / path


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One or several files, merged: of entries with the same name, the one of the first file counts."""

    files: list[Path] = field(default_factory=list)
    clusters: dict[str, tuple[Origin, types.Cluster]] = field(default_factory=dict)
    users: dict[str, tuple[Origin, types.KubeconfigUser]] = field(default_factory=dict)
    contexts: dict[str, tuple[Origin, types.Context]] = field(default_factory=dict)
    current_context: str = ""
    warnings: list[str] = field(default_factory=list)
    """What is not wrong but not well either, such as secrets that every user of this host can read."""

    @property
    def source(self) -> str:
        """The files, for messages."""
        return ", ".join(str(file) for file in self.files) or "no kubeconfig"


def load(
    *, path: str = "", context: str = "", environ: Mapping[str, str], run: CommandRunner
) -> ClientConfig:
    """Return the client configuration of a context (default: the current one).

    Files are `path`, or those in $KUBECONFIG, or ~/.kube/config.
    """
    found = read(path=path, environ=environ)
    if not found.files:
        tried = ", ".join(str(file) for file in candidates(environ)) or "~/.kube/config (HOME is not set)"
        raise ConfigError(f"cannot find a kubeconfig: there is no {tried}; name one with --kubeconfig")
    return client_config(found, context=context, environ=environ, run=run)


def candidates(environ: Mapping[str, str]) -> list[Path]:
    """Return the files to look at when none is named: those in $KUBECONFIG, or ~/.kube/config."""
    if listed := environ.get("KUBECONFIG", ""):
        return [Path(name) for name in dict.fromkeys(listed.split(os.pathsep)) if name]
    home = environ.get("HOME", "")
    return [Path(home, ".kube", "config")] if home else []


def read(*, path: str = "", environ: Mapping[str, str]) -> Kubeconfig:
    """Read and merge; a file that was named must exist, others may be missing."""
    merged = Kubeconfig()
    current_context = ""
    for file in [Path(path)] if path else candidates(environ):
        text = _read_text(file, required=bool(path))
        if text is None:
            continue
        absolute = file.absolute()  # now: a later change of the working directory must not matter
        config = types.parse(text, str(file))
        merged.files.append(absolute)
        _merge(merged, absolute, config)
        current_context = current_context or config.current_context
    return replace(merged, current_context=current_context)


def client_config(
    config: Kubeconfig, *, context: str = "", environ: Mapping[str, str], run: CommandRunner
) -> ClientConfig:
    """Return what a context of a kubeconfig means."""
    name = context or config.current_context
    chosen = _context(config, name)
    source = f"context {name!r} of {config.source}"
    if chosen.cluster not in config.clusters:
        raise ConfigError(_missing(source, "cluster", chosen.cluster, list(config.clusters)))
    if chosen.user and chosen.user not in config.users:
        raise ConfigError(_missing(source, "user", chosen.user, list(config.users)))
    origin, cluster = config.clusters[chosen.cluster]
    where = f"cluster {origin.name!r} of {origin.file}"
    server = _server(cluster.server, where)
    ca = _authority(cluster, origin, where)
    proxy = proxy_env.check_url(cluster.proxy_url, f"proxy-url of {where}") if cluster.proxy_url else ""
    user_origin, user = config.users.get(chosen.user, (origin, types.KubeconfigUser()))
    told = _told(cluster, server, ca)
    return ClientConfig(
        server=server,
        namespace=chosen.namespace or "default",
        ca=ca,
        tls_server_name=cluster.tls_server_name,
        insecure=cluster.insecure_skip_tls_verify,
        proxy=proxy or proxy_env.from_environment(server, environ),
        credentials=kubeconfig_user.credentials_of(
            user,
            kubeconfig_user.UserEntryContext(
                user_origin.file.parent,
                f"user {user_origin.name!r} of {user_origin.file}",
                environ,
                run,
                told,
            ),
            secure=server.startswith("https:"),
        ),
        labels=_labels(chosen, source),
        source=source,
    )


def _labels(context: types.Context, source: str) -> dict[str, str]:
    """Return the labels that a host was joined with."""
    found: dict[str, str] = {}
    for one in context.extensions:
        if one.name == types.LABELS_EXTENSION:
            try:
                found = dict(
                    selectors.parse_label(f"{key}={value}")
                    for key, value in msgspec.convert(one.extension, dict[str, str]).items()
                )
            except (msgspec.ValidationError, ValueError) as error:
                raise ConfigError(f"cannot use extension {one.name} of {source}: {error}") from error
    return found


def _read_text(file: Path, *, required: bool) -> str | None:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        if required:
            raise ConfigError(f"cannot read the kubeconfig {file}: it does not exist") from None
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the name
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot read the kubeconfig {str(file)!r}: {why}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"cannot read the kubeconfig {file}: it is larger than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"cannot read the kubeconfig {file}: byte {error.start} is not UTF-8; save it as UTF-8"
        ) from None


def _merge(merged: Kubeconfig, file: Path, config: types.Config) -> None:
    for cluster in config.clusters:
        merged.clusters.setdefault(cluster.name, (Origin(file, cluster.name), cluster.cluster))
    for user in config.users:
        merged.users.setdefault(user.name, (Origin(file, user.name), user.user))
    for context in config.contexts:
        merged.contexts.setdefault(context.name, (Origin(file, context.name), context.context))
    secret = any(
        entry.user.token or entry.user.password or entry.user.client_key_data for entry in config.users
    )
    if secret and _readable_by_others(file):
        merged.warnings.append(f"{file} holds secrets that others can read; run: chmod 600 {file}")


def _readable_by_others(file: Path) -> bool:
    try:
        return file.stat().st_mode & 0o044 != 0
    except OSError:
        return False


def _context(config: Kubeconfig, name: str) -> types.Context:
    if not name:
        raise ConfigError(
            f"cannot use {config.source}: it has no current-context; name one with --context"
            f" ({_listed(list(config.contexts))}) or run: kubectl config use-context NAME"
        )
    if name not in config.contexts:
        raise ConfigError(
            f"cannot use context {name!r}: {config.source} does not have it, only"
            f" {_listed(list(config.contexts))}"
        )
    return config.contexts[name][1]


def _missing(source: str, kind: str, name: str, present: list[str]) -> str:
    if not name:
        return f"cannot use {source}: it names no {kind}; set its {kind} to one of {_listed(present)}"
    return f"cannot use {source}: it names the {kind} {name!r}, but {kind}s has only {_listed(present)}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN_NAMES]) or "none"
    return f"{shown}, ..." if len(names) > _SHOWN_NAMES else shown


def _server(server: str, where: str) -> str:
    """Return the base URL in one form: with a scheme, without query and trailing slash."""
    if not server:
        raise ConfigError(f"cannot use {where}: server is missing; set it to https://HOST:PORT")
    # As in kubectl, a bare host:port is plain HTTP; credentials are never sent there.
    parts = _split(server if "://" in server else f"http://{server}")
    if parts is None or not server.isascii() or not server.isprintable() or " " in server:
        shown = server if parts is not None and "@" not in server else "server"
        raise ConfigError(f"cannot use {where}: {shown!r} is not a URL; set server to https://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"cannot use {where}: server has a user name in it; put it into username and password of the user"
        )
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an unfinished [IPv6] or a port that is no number
        return None
    return parts if usable else None


def _authority(cluster: types.Cluster, origin: Origin, where: str) -> bytes | None:
    data, file = cluster.certificate_authority_data, cluster.certificate_authority
    if not data and not file:
        return None
    if cluster.insecure_skip_tls_verify:
        raise ConfigError(
            f"cannot use {where}: it has a certificate authority and insecure-skip-tls-verify: true,"
            " which contradict each other; remove one of them"
        )
    if data:
        ca = types.decode_base64(data, f"certificate-authority-data of {where}")
    else:
        ca = credential_files.read_credential(
            origin.resolve(file), f"certificate-authority of cluster {origin.name!r}"
        )
    credential_files.check_certificate(ca, f"the certificate authority of {where}")
    return ca


def _told(cluster: types.Cluster, server: str, ca: bytes | None) -> dict[str, Any]:
    """Return the facts about the cluster for a credential plugin, if it asks for them."""
    told: dict[str, Any] = {
        "server": server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": ca,
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
    }
    told = {key: value for key, value in told.items() if value}
    for extension in cluster.extensions:
        if extension.name == types.EXEC_EXTENSION and extension.extension is not None:
            told["config"] = extension.extension
    return told
