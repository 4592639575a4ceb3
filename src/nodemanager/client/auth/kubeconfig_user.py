"""From the user entry of a kubeconfig to credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nodemanager.client.auth import credential_files, credentials
from nodemanager.client.auth import kubeconfig_types as types
from nodemanager.client.auth.commands import CommandRunner
from nodemanager.client.auth.config import Credentials
from nodemanager.kube.errors import ConfigError


@dataclass(frozen=True, slots=True)
class UserEntryContext:
    """What a user entry cannot say by itself."""

    folder: Path
    """Where relative paths of the entry start: the folder of its kubeconfig."""
    name: str
    """The entry and its file, for messages."""
    environ: Mapping[str, str]
    run: CommandRunner
    cluster: Mapping[str, Any]
    """The facts about the cluster for a credential plugin, if it asks for them."""

    def __repr__(self) -> str:
        return f"UserEntryContext({self.name})"  # an environment often has secrets in it


def credentials_of(user: types.KubeconfigUser, context: UserEntryContext, *, secure: bool) -> Credentials:
    """Return the credentials of a user; files are read once now, so that mistakes show at the start.

    Over plain HTTP no secret is sent, as in kubectl: only the impersonated user remains.
    """
    _check(user, context.name)
    parts: list[Credentials] = []
    if secure:
        parts += [part for part in (_authorization(user, context), _certificate(user, context)) if part]
        if user.exec_ is not None and not parts:  # fixed credentials win over a plugin
            parts.append(_exec(user.exec_, context))
    if user.impersonate:
        parts.append(
            credentials.Impersonation(
                user.impersonate, user.impersonate_uid, user.impersonate_groups, user.impersonate_extra
            )
        )
    return credentials.combine(parts)


def _check(user: types.KubeconfigUser, name: str) -> None:
    """Refuse what contradicts itself."""
    if user.auth_provider is not None:
        raise ConfigError(
            f"cannot use {name}: auth-provider {user.auth_provider.name!r} is not supported (kubectl dropped"
            " its built-in cloud logins); use an exec plugin (such as gke-gcloud-auth-plugin or kubelogin)"
            " or a token"
        )
    if (user.token or user.token_file) and (user.username or user.password):
        raise ConfigError(f"cannot use {name}: it has a token and a password; remove one of them")
    if (user.impersonate_uid or user.impersonate_groups or user.impersonate_extra) and not user.impersonate:
        raise ConfigError(
            f"cannot use {name}: it has as-uid, as-groups or as-user-extra without as; name the user in as"
        )
    has_certificate = bool(user.client_certificate or user.client_certificate_data)
    has_key = bool(user.client_key or user.client_key_data)
    if has_certificate != has_key:
        absent = "client-key" if has_certificate else "client-certificate"
        raise ConfigError(f"cannot use {name}: {absent} is missing; set {absent} or {absent}-data")


def _authorization(user: types.KubeconfigUser, context: UserEntryContext) -> Credentials | None:
    if user.token_file:
        token_file = credential_files.TokenFile(context.folder / user.token_file, initial=user.token)
        token_file.prime()
        return token_file
    if user.token:
        return credentials.BearerToken(user.token, source=context.name)
    if user.username or user.password:
        return credentials.BasicAuth(user.username, user.password)
    return None


def _certificate(user: types.KubeconfigUser, context: UserEntryContext) -> Credentials | None:
    if not (user.client_certificate or user.client_certificate_data):
        return None
    pair = credential_files.ClientCertificate(
        _pem(user.client_certificate_data, user.client_certificate, "client-certificate", context),
        _pem(user.client_key_data, user.client_key, "client-key", context),
        source=context.name,
    )
    pair.prime()
    return pair


def _pem(data: str, file: str, field: str, context: UserEntryContext) -> credential_files.PemSource:
    if data:
        return credential_files.PemInline(types.decode_base64(data, f"{field}-data of {context.name}"))
    return credential_files.PemFile(context.folder / file, f"{field} of {context.name}")


def _exec(config: types.Exec, context: UserEntryContext) -> Credentials:
    from nodemanager.client.auth import exec_plugin

    if "/" in config.command:  # otherwise it is looked up in PATH
        config = msgspec.structs.replace(config, command=str(context.folder / config.command))
    plugin = exec_plugin.plugin(config, context.name, context.environ, context.cluster)
    return exec_plugin.ExecCredentials(plugin, context.run)
