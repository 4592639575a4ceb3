"""Chains of hosts that somebody bent, and honest ones, judged by what was seen of them before."""

from __future__ import annotations

import random

import pytest

from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import Record, RecordedObject
from nodemanager.api.common.audit_chain import AuditChain
from nodemanager.fleet.audit import host_chains
from nodemanager.fleet.audit.host_chains import ChainVerdict, KnownChain, judge
from nodemanager.tlog import merkle
from support import examples


def grown(lines: list[bytes], count: int, word: str, chain: str = "aa") -> list[bytes]:
    """Return a chain with that many records more."""
    lines = list(lines)
    for _ in range(count):
        number = len(lines)
        previous = merkle.leaf_hash(lines[-1]).hex() if lines else ""
        verb, about = ("apply", RecordedObject()) if lines else ("begin", RecordedObject(uid=chain))
        one = Record(number, previous, verb=verb, object=about, message=f"{word} {number}")
        lines.append(records.encode(one))
    return lines


def end(lines: list[bytes], chain: str = "aa", first: int = 0) -> AuditChain:
    return AuditChain(chain, len(lines), merkle.leaf_hash(lines[-1]).hex(), first)


def known(*ends: AuditChain) -> KnownChain:
    found = KnownChain()
    for one in ends:
        found = host_chains.after(found, one)
    return found


def test_an_honest_chain_grows() -> None:
    lines = grown([], 5, "a")
    more = grown(lines, 4, "a")
    assert judge(KnownChain(), end(lines)).verdict == ChainVerdict.FINE
    assert judge(known(end(lines)), end(lines)).verdict == ChainVerdict.FINE
    assert judge(known(end(lines)), end(more)).verdict == ChainVerdict.FINE
    assert judge(known(end(lines)), end(more), more).verdict == ChainVerdict.FINE
    assert judge(known(end(lines)), end(more, first=5), more[5:]).verdict == ChainVerdict.FINE
    assert judge(KnownChain(), None).verdict == ChainVerdict.UNKNOWN


def test_what_nobody_read_before_it_was_dropped_is_unknown() -> None:
    more = grown([], 9, "a")
    judged = judge(known(end(more[:3])), end(more, first=6), more[6:])
    assert (judged.verdict, judged.record) == (ChainVerdict.UNKNOWN, 3)


def test_a_host_that_was_installed_anew_says_so() -> None:
    old, new = grown([], 5, "a"), grown([], 2, "b", "bb")
    judged = judge(known(end(old)), end(new, "bb"), new)
    assert judged.verdict == ChainVerdict.BEGUN
    assert "5 records were told of" in judged.message
    both = known(end(old), end(new, "bb"))
    assert judge(both, end(grown(old, 1, "a"))).verdict == ChainVerdict.FORKED


def test_a_shortened_and_a_rewritten_chain_are_told_apart() -> None:
    lines = grown([], 8, "a")
    seen = known(end(lines[:4]), end(lines))
    assert (judge(seen, end(lines[:6])).verdict, judge(seen, end(lines[:6])).record) == (
        ChainVerdict.SHORTENED,
        6,
    )
    assert judge(seen, None).verdict == ChainVerdict.SHORTENED
    other = grown(lines[:6], 2, "b")
    assert judge(seen, end(other)).verdict == ChainVerdict.REWRITTEN
    longer = grown(lines[:6], 5, "b")
    judged = judge(seen, end(longer), longer)
    assert (judged.verdict, judged.record) == (ChainVerdict.REWRITTEN, 4)


def test_two_machines_of_one_name_are_a_fork() -> None:
    base = grown([], 5, "a")
    one, two = grown(base, 3, "one"), grown(base, 2, "two")
    seen = known(end(base), end(one), end(two))
    assert judge(seen, end(one)).verdict == ChainVerdict.FORKED
    longer = grown(one, 4, "one")
    assert judge(seen, end(longer), longer).verdict == ChainVerdict.FORKED


TAMPERINGS = ("alter", "drop", "swap", "insert", "cut", "replay")


def bent(lines: list[bytes], how: str, drawn: random.Random) -> list[bytes]:
    """Return records with something done to those that were told of."""
    lines, at = list(lines), drawn.randrange(1, len(lines) - 2)
    if how == "alter":
        lines[at] = records.encode(Record(at, records.decode(lines[at]).previous, message="other"))
    elif how == "drop":
        del lines[at]
    elif how == "swap":
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    elif how == "insert":
        lines.insert(at, lines[at])
    elif how == "cut":
        del lines[at:]
    else:
        return grown(lines[:at], len(lines) - at + drawn.randrange(4), "forged")
    return lines


@pytest.mark.parametrize("how", TAMPERINGS)
def test_every_tampering_is_noticed(how: str) -> None:
    drawn = random.Random()
    for _ in range(examples.some(20)):
        lines = grown([], drawn.randrange(5, 30), "a")
        places = sorted(drawn.sample(range(1, len(lines)), min(3, len(lines) - 1)))
        seen = known(*(end(lines[:place]) for place in places), end(lines))
        assert judge(seen, end(lines), lines).verdict == ChainVerdict.FINE
        made = bent(lines, how, drawn)
        said = end(lines) if how in ("alter", "drop", "swap", "insert") else end(made)
        assert judge(seen, said, made).verdict.is_alarm, (how, made)
        if how in ("alter", "drop", "swap", "insert"):
            assert host_chains.check([], made), how
        assert host_chains.check([], made, end(lines)), how
