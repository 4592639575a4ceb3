"""The options of the operator about its audit log: where a copy goes, and who is sent the records."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nodemanager.cli.settings.log_options import CopyPlace, log_options
from nodemanager.fleet.audit.settings import AuditSettings


def asked(*args: str) -> tuple[int, str, list[AuditSettings]]:
    """Return how a command with these options ends, what it says, and what it is given."""
    given: list[AuditSettings] = []

    @click.command()
    @log_options
    def command(audit: AuditSettings) -> None:
        given.append(audit)

    ran = CliRunner().invoke(command, args)
    return ran.exit_code, ran.output, given


def test_without_options_nothing_leaves_the_cluster() -> None:
    assert asked() == (0, "", [AuditSettings()])


def test_what_is_asked_for_is_given(tmp_path: Path) -> None:
    args = ("--audit-export", str(tmp_path), "--audit-retention", "24h", "--audit-webhook", "siem")
    wanted = AuditSettings(retention=timedelta(days=1), export=str(tmp_path), webhook="siem")
    assert asked(*args, "--audit-on-failure", "stop") == (0, "", [wanted])
    assert asked("--audit-export", "s3://evidence/prod")[2][0].export == "s3://evidence/prod"


@pytest.mark.parametrize("place", ["missing", "file"])
def test_a_place_that_cannot_be_written_is_refused(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, said, given = asked("--audit-export", str(tmp_path / place))
    assert (code, given) == (2, [])
    assert "for object storage write s3://BUCKET/PREFIX" in said.replace("\n", " ")


def test_folders_are_completed_and_buckets_are_not() -> None:
    context, option = click.Context(click.Command("x")), click.Option(["--x"])
    place = CopyPlace()
    assert [one.type for one in place.shell_complete(context, option, "/var")] == ["dir"]
    assert place.shell_complete(context, option, "s3://b") == []
