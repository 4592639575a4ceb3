"""What a DaemonSet left, decoded: what is known is recognised, and nothing is guessed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nodemanager.api.edge.bridge_parts import HeartbeatSource, StateSource
from nodemanager.fleet.edge import decoding
from nodemanager.fleet.edge.decoding import DecodedState, UnreadableText

STATES = ["Idle", "Busy", "Done"]
JSON = StateSource(key="k", field="at", direction_field="way", rollback=["back"], lock_field="lock")
TEXT = StateSource(key="k")


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        (TEXT, " Busy\n", DecodedState("Busy", 2)),
        (TEXT, "busy", DecodedState("busy", 0)),
        (JSON, '{"at": "Done"}', DecodedState("Done", 3)),
        (JSON, '{"at": "Busy", "way": "back", "lock": "n1"}', DecodedState("Busy", 2, "back", "n1", True)),
        (JSON, '{"at": "Busy", "way": null, "lock": null}', DecodedState("Busy", 2)),
        (JSON, '{"at": "Busy", "way": "forth"}', DecodedState("Busy", 2, "forth")),
        (JSON, '{"at": 7}', DecodedState("7", 0)),
        (JSON, '{"at": 7.5}', DecodedState("7.5", 0)),
        (JSON, f'{{"at": "Busy", "way": "{"w" * 64}"}}', DecodedState("Busy", 2, "w" * 63)),
        (TEXT, "Busy".ljust(65536), DecodedState("Busy", 2)),  # as long as it may be
        (JSON, '{"at": "Bu\\u001bsy"}', DecodedState("Bu?sy", 0)),
    ],
)
def test_states(source: StateSource, text: str, expected: DecodedState) -> None:
    assert decoding.state(source, STATES, text) == expected


@pytest.mark.parametrize(
    ("source", "text", "why"),
    [
        (TEXT, " ", "names no state"),
        (TEXT, "x" * 65537, "longer than 65536"),
        (JSON, "", "no JSON"),
        (JSON, '{"at": "Bu', "no JSON"),
        (JSON, "[" * 65000, "no JSON"),
        (JSON, '["Busy"]', "no JSON object"),
        (JSON, '{"at": "Busy", "at": "Idle"}', "a name is there twice"),
        (JSON, '{"state": "Busy"}', "names no state"),
        (JSON, '{"at": true}', "neither a text nor a number"),
        (JSON, '{"at": null}', "names no state"),
        (JSON, '{"at": []}', "neither a text nor a number"),
        (JSON, '{"at": "Busy", "lock": {}}', "its field lock is neither"),
    ],
)
def test_what_is_no_state(source: StateSource, text: str, why: str) -> None:
    with pytest.raises(UnreadableText, match=why):
        decoding.state(source, STATES, text)


MOMENT = datetime(2026, 3, 1, 4, 5, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("form", "field", "text", "at"),
    [
        ("rfc3339", "", "2026-03-01T04:05:06Z\n", MOMENT),
        ("rfc3339", "t", '{"t": "2026-03-01T05:05:06+01:00"}', MOMENT),
        ("unix", "", str(int(MOMENT.timestamp())), MOMENT),
        ("unix", "t", f'{{"t": {int(MOMENT.timestamp())}}}', MOMENT),
        ("unix-milli", "", str(int(MOMENT.timestamp() * 1000)), MOMENT),
        ("opaque", "", "beat 17", None),
    ],
)
def test_signs_of_life(form: str, field: str, text: str, at: datetime | None) -> None:
    found = decoding.beat(HeartbeatSource(format=form, field=field), text)
    assert (found.at, len(found.digest)) == (at, 16)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("rfc3339", ""), ("rfc3339", "yesterday"), ("rfc3339", "2026-03-01T04:05:06"), ("unix", "inf"),
        ("rfc3339", "9999-12-31T23:59:59-23:59"), ("rfc3339", "0001-01-01T00:00:00+23:59"),
        ("unix", "nan"), ("unix", "1e300"), ("unix", "1e17"), ("unix-milli", "x"), ("opaque", " "),
    ],
)  # fmt: skip
def test_what_is_no_sign_of_life(form: str, text: str) -> None:
    with pytest.raises(UnreadableText):
        decoding.beat(HeartbeatSource(format=form), text)
