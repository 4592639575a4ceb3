"""What is written in a kubeconfig file: `v1 Config`, decoded leniently as kubectl does.

Unknown fields are ignored, null is the same as absent, a value of the wrong type is an
error that names file, entry and field. No message repeats a value of a file: it may be a secret.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from typing import Any

import msgspec

from nodemanager.kube import manifests
from nodemanager.kube.errors import ConfigError
from nodemanager.kube.objects import Struct

EXEC_EXTENSION = "client.authentication.k8s.io/exec"
"""Name of the cluster extension that is meant for the credential plugin."""
LABELS_EXTENSION = "nodemanager.io/labels"
"""Name of the context extension in which a host keeps labels that it was joined with."""
MAX_NODES = 100_000
"""How many values a file may have once YAML aliases are expanded: keeps an alias bomb small."""


class _Entry(Struct, rename="kebab"):
    """Base of what a file consists of."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"  # tokens and keys must not end up in a log


class Extension(_Entry):
    """Something that another program keeps in a kubeconfig."""

    name: str = ""
    extension: Any = None


class Cluster(_Entry):
    """How to reach an API server."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[Extension] = []


class ExecEnv(_Entry):
    """One variable of a credential plugin."""

    name: str = ""
    value: str = ""


class Exec(_Entry, rename="camel"):
    """A program that hands out credentials."""

    command: str = ""
    args: list[str] = []
    env: list[ExecEnv] = []
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(_Entry):
    """A login built into old kubectl versions."""

    name: str = ""


class KubeconfigUser(_Entry):
    """How to say who we are."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: list[str] = msgspec.field(default_factory=list, name="as-groups")
    impersonate_extra: dict[str, list[str]] = msgspec.field(default_factory=dict, name="as-user-extra")
    username: str = ""
    password: str = ""
    auth_provider: AuthProvider | None = None
    exec_: Exec | None = msgspec.field(default=None, name="exec")


class Context(_Entry):
    """A user of a cluster, and the namespace they usually mean."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""
    extensions: list[Extension] = []


class NamedCluster(_Entry):
    """A cluster under its name."""

    name: str = ""
    cluster: Cluster = Cluster()


class NamedUser(_Entry):
    """A user under their name."""

    name: str = ""
    user: KubeconfigUser = KubeconfigUser()


class NamedContext(_Entry):
    """A context under its name."""

    name: str = ""
    context: Context = Context()


class Config(_Entry):
    """One whole file."""

    api_version: str = msgspec.field(default="", name="apiVersion")
    kind: str = ""
    clusters: list[NamedCluster] = []
    users: list[NamedUser] = []
    contexts: list[NamedContext] = []
    current_context: str = ""


def parse(text: str, source: str) -> Config:
    """Return the typed form of the text of a file; an empty file is an empty kubeconfig."""
    try:
        documents = [value for _, value in manifests.documents(text, source) if value is not None]
    except manifests.ManifestError as error:
        # Where, but not what: the file is full of secrets.
        raise ConfigError(
            f"cannot use {source}: line {error.line}: it is not YAML, is nested too deep or repeats"
            " itself without end; check quotes and indentation"
        ) from None
    if len(documents) > 1:
        raise ConfigError(
            f"cannot use {source}: it has {len(documents)} YAML documents;"
            " a kubeconfig is one: merge them, or list several files in KUBECONFIG"
        )
    return decode(documents[0] if documents else {}, source)


def decode(document: object, source: str) -> Config:
    """Return the typed form of a parsed file."""
    plain = _Plain(source).copy(document)
    try:
        config = msgspec.convert(plain, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"cannot use {source}: {_explain(error)}") from None
    if config.api_version not in ("", "v1") or config.kind not in ("", "Config"):
        raise ConfigError(
            f"cannot use {source}: it is {config.api_version} {config.kind}, not a kubeconfig (v1 Config)"
        )
    for section, names in (
        ("clusters", [entry.name for entry in config.clusters]),
        ("users", [entry.name for entry in config.users]),
        ("contexts", [entry.name for entry in config.contexts]),
    ):
        if repeated := next((name for name, count in Counter(names).items() if count > 1), None):
            raise ConfigError(
                f"cannot use {source}: {section} has two entries named {repeated!r}; remove one"
            )
    return config


def decode_base64(text: str, where: str) -> bytes:
    """Return the bytes of a `*-data` field; `where` names it in the error."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):  # ValueError: not ASCII
        raise ConfigError(f"cannot use {where}: it is not base64; paste it again, or name a file") from None


def _explain(error: msgspec.ValidationError) -> str:
    """Turn "Expected `str`, got `int` - at `$.users[0].user.token`" into the field and what is wrong."""
    reason, _, where = str(error).partition(" - at ")
    reason = reason.replace("`", "")
    field = where.strip("`").removeprefix("$").removeprefix(".") or "the file"
    return f"{field}: {reason[:1].lower()}{reason[1:]}"


class _Plain:
    """Copies parsed YAML as a bounded tree without nulls, which kubectl takes for absent."""

    def __init__(self, source: str):
        self._source = source
        self._left = MAX_NODES

    def copy(self, value: object, depth: int = 0, *, keep_nulls: bool = False) -> object:
        """Return the value, or raise ConfigError if it is too large or too deep."""
        self._left -= 1
        if self._left < 0 or depth > manifests.MAX_DEPTH:
            raise ConfigError(f"cannot use {self._source}: it is nested too deep or has too many values")
        if isinstance(value, dict):
            return {
                str(key): self.copy(item, depth + 1, keep_nulls=keep_nulls or key == "extension")
                for key, item in value.items()
                if keep_nulls or item is not None
            }
        if isinstance(value, list):
            return [self.copy(item, depth + 1, keep_nulls=keep_nulls) for item in value]
        return value
