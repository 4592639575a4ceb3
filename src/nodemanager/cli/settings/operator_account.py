"""Who the operator is to the API: policies leave some kinds to its own account alone."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.rights import operator_rights
from nodemanager.cli.settings import connect
from nodemanager.client.auth.config import ClientConfig
from nodemanager.client.auth.credentials import Combined, Impersonation
from nodemanager.client.calls import Selection
from nodemanager.client.http.transport import HttpTransport
from nodemanager.client.verbs import Client
from nodemanager.kube import errors
from nodemanager.kube.rbac import identity

log = logging.getLogger("nodemanager.operator")
CHECK_SECONDS: Final = 10.0


def as_itself(config: ClientConfig, namespace: str) -> ClientConfig:
    """Return the same way to the API as the account that policies know for the operator, with all rights."""
    user = identity.service_account_user(namespace, operator_rights.NAME)
    somebody = Impersonation(user, "", [identity.MASTERS], {})
    return replace(config, credentials=Combined([config.credentials, somebody]))


async def may_be_itself(settings: connect.Settings) -> bool:
    """Return whether our credential may act as that account, as one that may do everything can.

    Where it may not, what will not work is said once, here, and not by every single write.
    """
    client = Client(HttpTransport(as_itself(connect.client_config(settings), settings.namespace)))
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await client.page(CONFIG_SETS.untyped(), Selection(settings.namespace), limit=1)
    except errors.Forbidden as error:
        log.warning(
            "your credential may not act as the account of the operator (%s): the policies of our kinds leave"
            " revisions, tasks and the audit log to it, so that rollouts and maintenances do not begin; run"
            " the operator in the cluster instead, and here: nodemanager agent",
            error,
        )
        return False
    except (errors.KubeError, TimeoutError):
        return True  # on any error, the operator itself waits or reports it
    finally:
        await client.close()
    return True
