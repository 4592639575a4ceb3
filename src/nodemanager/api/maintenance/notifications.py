"""Who is told about a maintenance, besides those who look."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.kube.hints import NAME_MAX, Rule, meta
from nodemanager.kube.objects import Struct

EVENTS: Final = ("Started", "Succeeded", "Failed", "Stopped", "HostFailed", "WaitingForApproval")


class NotifySecret(Struct):
    """Where an address is kept that is a secret itself."""

    name: Annotated[str, meta("Name of the Secret.", min_length=1, max_length=NAME_MAX, required=True)] = ""
    key: Annotated[str, meta("Its key.", min_length=1, max_length=NAME_MAX, required=True)] = ""


class Notification(Struct):
    """An address that is told about a maintenance."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.url) && self.url != '') != has(self.secretRef)",
            "must have either url or secretRef",
        ),
    )

    url: Annotated[
        str,
        meta(
            "Where to; write it into a Secret if it has a password in it.",
            Rule(
                "self == '' || self.startsWith('http://') || self.startsWith('https://')",
                "must be http:// or https://",
            ),
            max_length=2048,
        ),
    ] = ""
    secret_ref: Annotated[NotifySecret | None, meta("A Secret that has the address.", atomic=True)] = None
    format: Annotated[
        str,
        meta(
            "json (default) is an object with all fields; slack is a text that Slack and its kin take.",
            enum=("json", "slack"),
        ),
    ] = ""
    events: Annotated[
        list[Annotated[str, meta("What one is told.", enum=EVENTS)]],
        meta("What one is told; omitted: everything but HostFailed.", max_items=len(EVENTS)),
    ] = []
    template: Annotated[
        str,
        meta(
            "The text, with {maintenance}, {event}, {reason}, {message}, {done}, {total} and {failed} "
            "filled in.",
            max_length=2048,
        ),
    ] = ""
