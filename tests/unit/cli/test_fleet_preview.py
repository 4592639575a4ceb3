"""How answers are waited for: an API that is away is not told as an operator that is."""

from __future__ import annotations

from typing import Any, cast

import click
import pytest

from nodemanager.api.common.configsetpreview import (
    ASKING,
    CONFIG_SET_PREVIEWS,
    ConfigSetPreview,
    ConfigSetPreviewStatus,
)
from nodemanager.cli import fleet_preview
from nodemanager.client.watch import Page
from nodemanager.kube import errors


class Api:
    """Answers, or fails, and counts how often it lists all answers."""

    def __init__(self, phase: str = "", error: errors.KubeError | None = None) -> None:
        self.phase, self.error, self.lists = phase, error, 0

    async def get(self, resource: Any, *_args: object) -> ConfigSetPreview:
        assert resource is CONFIG_SET_PREVIEWS
        if self.error is not None:
            raise self.error
        return ConfigSetPreview(status=ConfigSetPreviewStatus(phase=self.phase))

    async def list(self, *_args: object) -> Any:
        self.lists += 1
        return Page([], "1")


async def follow(api: Api, hosts: int, timeout: float) -> dict[str, Any]:
    names = [f"h{number}" for number in range(hosts)]
    return await fleet_preview._follow(
        cast("Any", api), "here", "p", names, timeout, lambda _answered, _of: None
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, "no operator took the request within 0.05 s"),
        (
            errors.ServiceUnavailable("connection refused"),
            "the API does not answer: connection refused; ask again",
        ),
    ],
)
async def test_who_is_away_is_named(
    monkeypatch: pytest.MonkeyPatch, error: errors.KubeError | None, said: str
) -> None:
    monkeypatch.setattr(fleet_preview, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(fleet_preview, "TAKEN_SECONDS", 0.05)
    with pytest.raises(click.ClickException, match=said):
        await follow(Api(error=error), 1, 5)


async def test_answers_of_many_hosts_are_read_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_preview, "POLL_SECONDS", 0.01)
    few, many = Api(ASKING), Api(ASKING)
    await follow(few, 10, 0.15)
    await follow(many, 1000, 0.15)
    assert 0 < many.lists <= 2 < few.lists
