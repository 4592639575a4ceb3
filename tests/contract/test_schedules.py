"""Both servers refuse the schedules that no host can read, and tell which part is wrong."""

from __future__ import annotations

from nodemanager.api.common.managednode import MANAGED_NODES
from nodemanager.client.calls import WriteOptions
from nodemanager.kube import errors
from support import schedule_cases
from support.agent_process import Api

DRY = WriteOptions(dry_run=True)


async def refusal(api: Api, schedule: str) -> str:
    """Return what the server says about a schedule; empty = it takes it."""
    body = {"metadata": {"name": "web1"}, "spec": {"upgrade": {"schedule": schedule}}}
    try:
        await api.client.create(MANAGED_NODES, body, api.namespace, options=DRY)
    except errors.Invalid as error:
        return str(error)
    return ""


async def test_what_hosts_can_read_is_accepted(api: Api) -> None:
    assert [one for one in schedule_cases.accepted() if await refusal(api, one)] == []


async def test_what_no_host_can_read_is_refused_by_field_and_value(api: Api) -> None:
    for schedule, said in schedule_cases.refused().items():
        message = await refusal(api, schedule)
        assert f'spec.upgrade.schedule: Invalid value: "{schedule}": ' in message
        assert said in message
