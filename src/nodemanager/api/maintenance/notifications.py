"""Who is told about a maintenance, besides those who look."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from nodemanager.kube.hints import NAME_MAX, PRINTABLE, Rule, meta
from nodemanager.kube.objects import Struct

RUN_STARTED: Final = "RunStarted"
RUN_STOPPED: Final = "RunStopped"
HOST_FAILED: Final = "HostFailed"
WAITING_FOR_APPROVAL: Final = "WaitingForApproval"
WINDOW_CLOSED: Final = "WindowClosed"
DRIFT_ESCALATED: Final = "DriftEscalated"
EVENTS: Final = (
    RUN_STARTED, "RunSucceeded", "RunFailed", "RunAborted", "RunReplaced", RUN_STOPPED, HOST_FAILED,
    WAITING_FOR_APPROVAL, WINDOW_CLOSED, DRIFT_ESCALATED,
)  # fmt: skip
WEBHOOK: Final = "webhook"
SLACK: Final = "slack"
MAIL: Final = "mail"
MAX_TARGETS: Final = 16
_NAME: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class NotifySecret(Struct):
    """Where an address is kept: whoever knows it can write there, so it is a secret itself."""

    name: Annotated[
        str,
        meta("Name of the Secret.", pattern=PRINTABLE, min_length=1, max_length=NAME_MAX, required=True),
    ] = ""
    key: Annotated[
        str,
        meta(
            "Its key that has the address, https:// or http://. With a key ca.crt, the certificate of the "
            "other side must be of that authority.",
            pattern=PRINTABLE,
            min_length=1,
            max_length=NAME_MAX,
            required=True,
        ),
    ] = ""


class Notification(Struct):
    """Somebody who is told about a maintenance."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(self.type == 'mail') == (has(self.to) && size(self.to) > 0)",
            "goes with type: mail, which needs it",
            ".to",
        ),
    )

    name: Annotated[
        str, meta("Its name, for people and the status.", pattern=_NAME, max_length=31, required=True)
    ] = ""
    type: Annotated[
        str,
        meta(
            "What is sent: webhook is a JSON object with all fields, or what template makes; slack is what "
            "Slack and its kin take; mail is to, subject and text, for a gateway that sends mail.",
            enum=(WEBHOOK, SLACK, MAIL),
            required=True,
        ),
    ] = ""
    secret_ref: Annotated[
        NotifySecret, meta("The Secret that has the address.", atomic=True, required=True)
    ] = NotifySecret()
    to: Annotated[
        list[Annotated[str, meta("An address of mail.", pattern=PRINTABLE, min_length=3, max_length=320)]],
        meta("Who gets the mail.", max_items=16),
    ] = []
    events: Annotated[
        list[Annotated[str, meta("What one is told.", enum=EVENTS)]],
        meta(f"What one is told; omitted: everything but {HOST_FAILED}.", max_items=len(EVENTS)),
    ] = []
    template: Annotated[
        str,
        meta(
            "The text, as a Go template with .maintenance, .namespace, .event, .run, .at, .message, .id and "
            ".hosts, which has .total, .succeeded, .failed, .waiting, .running and .skipped. Of a webhook it "
            "is the whole body.",
            max_length=4096,
        ),
    ] = ""

    def wants(self, event: str) -> bool:
        """Tell whether a receiver wants such an event."""
        return event in self.events if self.events else event != HOST_FAILED
