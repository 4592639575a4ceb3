"""The settings of the agent from command line and file, and the credential that it uses."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

from nodemanager.agent.assembly import HostSetup
from nodemanager.agent.declared.known_sets import CONFIRM_SECONDS
from nodemanager.agent.link.api_reachability import SecretLimits
from nodemanager.agent.link.credential_watch import CredentialWatch
from nodemanager.agent.passes.pruning import GRACE_SECONDS
from nodemanager.agent.upgrades.upgrade import UpgradeSettings
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.renewed_token import RenewedToken
from nodemanager.client.verbs import Client
from nodemanager.host.state.state_key import KeyRefused, cipher_of
from nodemanager.host.state.vault import Vault

log = logging.getLogger("nodemanager.agent")
PERIOD = 600.0
"""Often enough for a foreign change to end soon, and for alerts on `last applied` to stay quiet."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How the agent runs."""

    namespace: str = "nodemanager"
    host: HostSetup = field(default_factory=HostSetup)
    metrics_address: str = ":8080"
    probe_address: str = ":8081"
    period: float = PERIOD
    """Seconds after which to look again without any event; 0 = never."""
    upgrades: UpgradeSettings = field(default_factory=UpgradeSettings)
    pod_identity: bool = False
    """Whether to exchange the token of our pod for that of the host it runs on."""
    secrets: SecretLimits = field(default_factory=SecretLimits)
    key_file: str = ""
    """The key that encrypts Secrets on disk; empty = they are not encrypted."""
    prune_grace: float = GRACE_SECONDS
    """Seconds that no set may declare something before it is taken back."""
    prune_confirm: float = CONFIRM_SECONDS
    """Seconds after which a possible mistake is believed, and something is taken back."""
    realtime: bool = True
    """Whether to hear of changes on the host and repair at once; if not, only periodic passes notice them."""
    every_drift: bool = False
    """Whether each drift is a record of the host's chain; if not, the drifts of an hour share one."""
    edge: bool = False
    """Whether the host is of an edge site: then the agent looks at its links, bonds, DRBD and boot."""


@dataclass(frozen=True, slots=True)
class OwnToken:
    """The credential of the host, if the agent renews it."""

    client: Client
    config: ClientConfig
    token: RenewedToken
    path: Path
    """The kubeconfig of the host."""


@dataclass(frozen=True, slots=True)
class OwnCredential:
    """What the agent does with the credential that it uses."""

    renewed: OwnToken | None = None
    watch: CredentialWatch | None = None
    """Notices another credential on disk."""


def secret_vault(options: AgentOptions) -> Vault | None:
    """Return the store of Secrets; None if they should be encrypted and cannot be."""
    try:
        key = options.key_file
        cipher = cipher_of(key, os.environ.get("CREDENTIALS_DIRECTORY", "")) if key else None
    except KeyRefused as error:
        log.warning("%s; Secrets are not kept, so a start without the API would lack them", error)
        return None
    return Vault(options.host.root, options.host.state, cipher)
