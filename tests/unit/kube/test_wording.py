"""Texts that are cut keep their end, where they say what to do; and one is not many."""

from __future__ import annotations

import pytest

from nodemanager.kube import wording

LONG = "cannot do x: " + "because " * 100 + "; do y"


@pytest.mark.parametrize("limit", [20, 100, 400])
def test_what_is_left_out_is_in_the_middle(limit: int) -> None:
    for cut in (wording.shorten(LONG, limit), wording.shorten_bytes(LONG, limit)):
        assert limit - 12 <= len(cut) <= limit
        assert cut.startswith("cannot")
        assert cut.endswith("; do y")
        assert wording.GAP in cut
    assert wording.shorten(LONG, len(LONG)) == LONG


@pytest.mark.parametrize("limit", range(30, 90))
def test_words_are_left_whole(limit: int) -> None:
    text = (
        "bondstor is half-flipped: active-backup on node0, balance-rr on node1; every second packet is lost"
    )
    for cut in (wording.shorten(text, limit), wording.shorten_bytes(text, limit)):
        assert len(cut) <= limit
        head, _, tail = cut.partition(wording.GAP)
        assert text.startswith(head + " ")
        assert text.endswith(" " + tail)


def test_a_word_that_is_too_long_is_cut() -> None:
    cut = wording.shorten("see " + "x" * 200, 100)
    assert len(cut) == 100
    assert cut.startswith("see x")


def test_no_character_is_cut_in_half() -> None:
    for limit in range(20, 60):
        cut = wording.shorten_bytes("木" * 50, limit)
        assert len(cut.encode()) <= limit
        assert set(cut) == {"木", " ", "."}
    assert wording.shorten_bytes("caf\udce9", 100) == "caf?"


def test_numbers() -> None:
    assert [wording.plural(count, "host") for count in (0, 1, 2)] == ["0 hosts", "1 host", "2 hosts"]
    assert wording.plural(2, "entry", "entries") == "2 entries"


def test_some_names_are_listed_and_the_others_counted() -> None:
    assert wording.listed(["a", "b"], 3) == "a, b"
    assert wording.listed(["a", "b", "c"], 2) == "a, b and 1 more"
    assert wording.listed(["a", "b"], 5, total=7) == "a, b and 5 more"
