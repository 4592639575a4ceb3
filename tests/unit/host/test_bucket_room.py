"""How much of the disk backups may take: what is refused, what has to go, and when nobody has to look."""

from __future__ import annotations

import pytest

from nodemanager.host.files.bucket_room import Caps, Holding, Room, choose

EVE, BOB = 1000, 1001
CAPS = Caps(total=1000, user=100)


def holding(name: str, size: int, owner: int = 0) -> Holding:
    """Return a backup that is as old as its name says."""
    return Holding(owner, name, size, (name, f"/{name}"))


def names(found: list[Holding]) -> str:
    return " ".join(one.since for one in found)


@pytest.mark.parametrize(
    ("caps", "owner", "size", "refused"),
    [
        (CAPS, 0, 1000, False), (CAPS, 0, 1001, True), (CAPS, EVE, 100, False), (CAPS, EVE, 101, True),
        (CAPS, 0, 101, False), (Caps(user=100), 0, 10**9, False), (Caps(user=100), EVE, 101, True),
        (Caps(total=1000), EVE, 1000, False), (Caps(total=1000), EVE, 1001, True),
        (Caps(), EVE, 10**9, False),
    ],
)  # fmt: skip
def test_what_is_too_large_for_all_room_is_refused(caps: Caps, owner: int, size: int, refused: bool) -> None:
    assert caps.refuses(owner, size) is refused


@pytest.mark.parametrize(
    ("owner", "size", "gone"),
    [
        pytest.param(EVE, 40, "", id="it fits to the byte"),
        pytest.param(EVE, 41, "b", id="hers, the oldest first, with some to spare"),
        pytest.param(EVE, 50, "b", id="so that a tenth is free"),
        pytest.param(EVE, 60, "b", id="so that a tenth is free, to the byte"),
        pytest.param(EVE, 61, "b c", id="as many as it takes"),
        pytest.param(EVE, 100, "b c", id="all of hers, and no spare of what it takes itself"),
        pytest.param(BOB, 100, "", id="another user's are not hers"),
        pytest.param(0, 840, "", id="all of it fits to the byte"),
        pytest.param(0, 841, "b c a", id="users' go before root's"),
    ],
)
def test_who_goes(owner: int, size: int, gone: str) -> None:
    held = [holding("c", 30, EVE), holding("a", 100), holding("b", 30, EVE)]
    assert names(choose(held, owner, size, CAPS)) == gone


def test_what_goes_for_its_owner_is_not_gone_twice() -> None:
    held = [holding("a", 60, EVE), holding("b", 30, EVE), holding("c", 950)]
    assert names(choose(held, EVE, 60, CAPS)) == "a b c"


def test_users_make_room_for_root_as_long_as_they_can() -> None:
    held = [holding("a", 500), holding("b", 90, EVE), holding("c", 90, BOB), holding("d", 90, EVE + 2)]
    assert names(choose(held, 0, 300, CAPS)) == "b c"


def test_without_a_limit_nothing_goes() -> None:
    held = [holding("a", 10**9, EVE), holding("b", 10**9)]
    assert choose(held, EVE, 10**9, Caps()) == []
    assert names(choose(held, EVE, 10, Caps(user=100))) == "a"
    assert choose(held, 0, 10**9, Caps(user=100)) == []


class Looks:
    """A folder of backups that counts how often it is looked through."""

    def __init__(self, *held: Holding) -> None:
        self.held = list(held)
        self.count = 0

    def __call__(self) -> list[Holding]:
        self.count += 1
        return self.held


def test_the_folder_is_looked_through_once_and_then_only_where_room_is_short() -> None:
    look, room = Looks(holding("a", 50, EVE), holding("b", 30, EVE), holding("c", 500)), Room(CAPS)
    room.add(EVE, 10**6)  # nothing is counted yet
    assert room.make(EVE, 20, look) == []
    assert look.count == 1
    room.add(EVE, 20)
    assert room.make(EVE, 0, look) == []
    assert room.make(0, 400, look) == []
    assert look.count == 1
    look.held.append(holding("d", 20, EVE))
    assert names(room.make(EVE, 1, look)) == "a"
    assert look.count == 2


def test_what_was_made_and_what_went_is_counted() -> None:
    look, room = Looks(holding("a", 90, EVE)), Room(CAPS)
    assert room.make(EVE, 10, look) == []
    room.add(EVE, -90)
    look.held.clear()
    assert room.make(EVE, 100, look) == []
    room.add(EVE, -(10**6))  # never less than nothing
    room.add(EVE, 60)
    room.add(BOB, 60)
    assert room.make(EVE, 40, look) == []
    assert look.count == 1
    assert room.make(EVE, 41, look) == []  # it looks again, and finds that nothing is there
    assert look.count == 2
    assert room.make(EVE, 100, look) == []  # and counts from there on
    assert look.count == 2


def test_who_had_nothing_begins_with_nothing() -> None:
    look, room = Looks(holding("a", 10)), Room(CAPS)
    assert room.make(EVE, 0, look) == []
    room.add(EVE, 100)
    assert room.make(EVE, 0, look) == []
    assert look.count == 1


def test_all_users_together_are_counted_too() -> None:
    held = [holding(f"u{number}", 99, 1000 + number) for number in range(10)]
    look, room = Looks(*held), Room(CAPS)
    assert room.make(0, 10, look) == []
    assert look.count == 1
    assert names(room.make(0, 11, look)) == "u0 u1"
    assert look.count == 2


def test_no_limits_need_no_counting_of_users() -> None:
    look, room = Looks(holding("a", 500, EVE)), Room(Caps(total=1000))
    assert room.make(EVE, 500, look) == []
    assert names(room.make(EVE, 501, look)) == "a"
