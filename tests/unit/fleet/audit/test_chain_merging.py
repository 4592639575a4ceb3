"""What hosts tell of their own chains becomes records in order; what cannot be becomes an alarm, once."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from nodemanager.api.audit import host_records
from nodemanager.api.audit import record as records
from nodemanager.api.audit.record import ADMISSION, Actor, Record, RecordedObject
from nodemanager.api.common.audit_chain import MAX_TOLD, MAX_TOLD_LINE, AuditChain
from nodemanager.fleet.audit import chain_merging
from nodemanager.fleet.audit.chain_merging import EVERY, HOUR, MAX_ALARMS, MAX_AN_HOUR, ChainMemory
from nodemanager.fleet.audit.changes import ObjectId
from nodemanager.fleet.audit.observed import HostTold, SeenObject
from nodemanager.kube import times
from nodemanager.tlog import merkle
from support import examples

WHICH = ObjectId("ManagedNode", "prod", "web1")
ADA = Actor(name="ada", known=ADMISSION)


def seen(told: HostTold | None, uid: str = "u") -> SeenObject:
    about = RecordedObject(kind="ManagedNode", namespace="prod", name="web1", uid=uid)
    return SeenObject(object=about, actor=ADA, host="web1", told=told)


@dataclass
class Host:
    """A host with a chain, which somebody may bend."""

    chain: str = "aa"
    lines: list[bytes] = field(default_factory=list)

    def do(self, verb: str = "apply", who: str = "agent", message: str = "", aspect: str = "x") -> Host:
        previous = merkle.leaf_hash(self.lines[-1]).hex() if self.lines else self.chain
        actor = Actor(name=who, known=records.HOST)
        one = Record(len(self.lines), previous, actor=actor, verb=verb, aspect=aspect, message=message)
        self.lines.append(records.encode(one))
        return self

    def told(self, accepted: str = "") -> HostTold:
        end = AuditChain(self.chain, len(self.lines), merkle.leaf_hash(self.lines[-1]).hex())
        return HostTold(end, host_records.told(self.lines[-32:]), accepted)


@dataclass
class Operator:
    """One who records, and may start anew at any time."""

    memory: ChainMemory = field(default_factory=ChainMemory)
    log: list[Record] = field(default_factory=list)
    at: datetime = datetime(2026, 11, 17, 8, 0, tzinfo=UTC)

    def sees(self, told: HostTold | None, after: timedelta = EVERY, uid: str = "u") -> list[Record]:
        self.at += after
        return self._written(self.memory.take(WHICH, seen(told, uid), self.at))

    def looks(self, after: timedelta) -> list[Record]:
        self.at += after
        return self._written(self.memory.due(self.at))

    def _written(self, found: list[Record]) -> list[Record]:
        now = times.rfc3339_micro(self.at)
        stored = [
            records.decode(records.encode(records.bounded(msgspec.structs.replace(one, time=now))))
            for one in found
        ]
        self.log += stored
        return stored

    def restarts(self) -> None:
        self.memory = ChainMemory()
        self.memory.note(self.log)

    @property
    def alarm(self) -> str:
        found = self.memory.alarms().get("web1")
        return found.verdict if found is not None else ""


def brief(found: list[Record]) -> list[tuple[str, str, str]]:
    return [(one.verb, one.aspect, one.actor.name) for one in found]


def test_ends_become_anchors_not_too_often_and_none_is_forgotten() -> None:
    host, operator = Host().do(), Operator()
    assert brief(operator.sees(host.told())) == [("anchor", "chain", "web1")]
    assert operator.sees(host.do().told(), timedelta(minutes=1)) == []
    assert operator.sees(host.told()) == operator.log[1:], "the time came with the next look"
    assert operator.sees(host.do().told(), timedelta(minutes=1)) == []
    assert operator.looks(timedelta(minutes=1)) == []
    (one,) = operator.looks(EVERY)
    assert one.chain is not None
    assert (one.chain.index, one.chain.id, one.from_.split()[0]) == (2, "aa", "2")
    assert operator.looks(EVERY) == []


def test_what_people_did_and_drifts_are_taken_once_in_their_order() -> None:
    host, operator = Host().do(), Operator()
    operator.sees(host.told())
    host.do("restore", "root", "as it was", "/etc/motd").do("apply").do("repair", aspect="file:/etc/motd")
    found = operator.sees(host.told(), timedelta(seconds=1))
    assert brief(found) == [("restore", "/etc/motd", "root"), ("repair", "file:/etc/motd", "web1")]
    assert [one.chain.index for one in found if one.chain] == [1, 3]
    assert {one.actor.known for one in found} == {"host"}
    for _ in range(2):
        assert operator.sees(host.told()) == []
        operator.restarts()
    assert brief(operator.sees(host.do("hold", "root").told())) == [("hold", "x", "root")]


def test_by_hand_is_told_although_much_followed() -> None:
    host = Host().do().do("hold", "root")
    for _ in range(20):
        host.do()
    told = [records.decode(one) for one in host.told().lines]
    assert len(told) == MAX_TOLD
    assert [one.sequence for one in told] == [1, *range(15, 22)]
    host.do(message="x" * MAX_TOLD_LINE).do(message="\N{RIGHT-TO-LEFT OVERRIDE}")
    assert [records.decode(one).sequence for one in host.told().lines] == [1, *range(15, 22)]


def test_a_host_cannot_say_what_others_say() -> None:
    host, operator = Host().do().do(), Operator()
    operator.sees(host.told())
    host.lines.pop()
    operator.sees(host.told())
    assert operator.alarm == "Shortened"
    for verb in ("accept", "delete", "alarm", "anchor", "create", "approve"):
        host.do(verb, "ada", aspect="chain")
    found = operator.sees(host.told())
    assert brief(found) == [("anchor", "chain", "web1")]
    operator.restarts()
    assert operator.alarm == "Shortened"


def shortened(host: Host) -> None:
    host.lines.pop()


def removed(host: Host) -> None:
    host.chain, host.lines = "bb", []
    host.do()


def replaced(host: Host) -> None:
    host.lines.pop()
    host.do("apply", message="other")


def overgrown(host: Host) -> None:
    """Change the last record, and add so many that the end alone tells nothing."""
    replaced(host)
    host.do().do()


@pytest.mark.parametrize(
    ("bend", "verdict"),
    [(shortened, "Shortened"), (removed, "Begun"), (replaced, "Rewritten"), (overgrown, "Rewritten")],
    ids=lambda one: getattr(one, "__name__", one),
)
@pytest.mark.parametrize("restart", [False, True])
def test_a_bent_chain_is_an_alarm_until_a_person_accepts_it(
    bend: object, verdict: str, restart: bool
) -> None:
    host, operator = Host().do().do().do(), Operator()
    operator.sees(host.told())
    assert callable(bend)
    bend(host)
    if restart:
        operator.restarts()
    (alarm, *_) = operator.sees(host.told(), timedelta(seconds=1))
    assert (alarm.verb, alarm.reason, alarm.actor.known) == ("alarm", verdict, "operator")
    assert operator.sees(host.told(), timedelta(seconds=1)) == [], "it is said once"
    if restart:
        operator.restarts()
    assert operator.alarm == verdict
    token = alarm.message.rpartition("=")[2]
    operator.sees(host.do(message="later").told("another"))
    assert operator.alarm == verdict
    accepted = operator.sees(host.told(token))
    assert ("accept", "chain", "ada") in brief(accepted)
    operator.restarts()
    assert operator.alarm == ""
    assert operator.sees(host.do(message="much later").told(token)) == operator.log[-1:]
    assert operator.alarm == ""


def test_a_chain_that_is_gone_is_an_alarm_and_a_fork_is_named() -> None:
    host, operator = Host().do().do(), Operator()
    operator.sees(host.told())
    assert brief(operator.sees(HostTold())) == [("alarm", "chain", "nodemanager-operator")]
    operator.restarts()
    assert operator.alarm == "Shortened"
    assert operator.sees(HostTold()) == []
    operator.sees(host.told())
    assert operator.alarm == "Forked", "what was gone is back"


def test_another_managed_node_of_the_same_name_begins_with_nothing() -> None:
    operator = Operator()
    operator.sees(Host().do().do().told())
    assert brief(operator.sees(Host("bb").do().told(), uid="v")) == [("anchor", "chain", "web1")]
    assert operator.alarm == ""
    operator.log.append(Record(verb="delete", aspect="spec", object=seen(None).object))
    operator.restarts()
    assert operator.sees(HostTold()) == []


@pytest.mark.parametrize("restart", [False, True])
def test_what_was_accepted_once_accepts_no_second_time(restart: bool) -> None:
    host, operator, second = Host().do().do(), Operator(), timedelta(seconds=1)
    operator.sees(host.told())
    snapshot = list(host.lines[:1])
    token = ""
    for number in range(4):
        host.lines = list(snapshot)
        (alarm, *_) = operator.sees(host.told(token), second)
        assert alarm.verb == "alarm"
        operator.sees(host.told(token), second)
        if restart:
            operator.restarts()
        operator.sees(host.told(token), HOUR)
        assert operator.alarm == "Shortened", "the annotation of the last time is still there"
        token = alarm.message.rpartition("=")[2]
        operator.sees(host.told(token), second)
        assert operator.alarm == ""
        operator.sees(host.do(message=f"after {number}").told(token), second)
        assert operator.alarm == ""
    assert [one.verb for one in operator.log].count("accept") == 4


def test_what_was_accepted_stays_so_although_its_alarm_was_one_too_many() -> None:
    host, operator, second = Host(), Operator(), timedelta(seconds=1)
    for number in range(MAX_ALARMS + 3):
        host = Host(f"c{number}").do()
        operator.sees(host.told(), second)
    told = operator.memory.alarms()["web1"].token
    operator.sees(host.told(told), second)
    operator.restarts()
    operator.sees(host.do().told(told), second)
    assert operator.alarm == ""


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("deletion", ["seen", "missed"])
def test_a_managed_node_that_is_made_anew_excuses_no_chain_that_went_back(
    restart: bool, deletion: str
) -> None:
    host, operator, second = Host().do().do().do(), Operator(), timedelta(seconds=1)
    operator.sees(host.told())
    if deletion == "seen":
        operator.memory.take(WHICH, None, operator.at)
        operator.log.append(Record(verb="delete", aspect="spec", object=seen(None).object))
    if restart:
        operator.restarts()
    operator.sees(HostTold(), second, uid="v")
    assert operator.alarm == "", "it has told nothing yet"
    assert brief(operator.sees(host.told(), second, uid="v")) == [("anchor", "chain", "web1")]
    host.lines.pop()
    operator.sees(host.told(), second, uid="w")
    assert operator.alarm == "Shortened"
    operator.sees(host.do(message="later").told(), second, uid="x")
    assert operator.alarm == "Shortened", "nor is what stands forgotten"


def test_what_the_log_no_longer_has_is_still_known_to_who_saw_it() -> None:
    host, operator = Host().do().do(), Operator()
    operator.sees(host.told())
    host.lines.pop()
    operator.sees(host.told())
    later = ChainMemory()  # of a log whose old segments were removed
    later.keep(operator.memory)
    operator.memory = later
    assert operator.alarm == "Shortened"
    assert brief(operator.sees(host.do(message="later").told())) == [("anchor", "chain", "web1")]


def test_a_number_that_a_host_tells_is_one_that_others_can_read() -> None:
    host, operator = Host().do(), Operator()
    line = json.loads(host.lines[0]) | {"verb": "repair", "count": 10**300}
    host.lines[0] = records.canonical({"actor": line["actor"]})[:-1] + b"," + json.dumps(line)[1:].encode()
    (one,) = operator.sees(host.told())
    assert one.count == 2**53 - 1


def test_a_host_floods_nothing() -> None:
    host, operator, second = Host().do(), Operator(), timedelta(seconds=1)
    for _ in range(MAX_AN_HOUR + 20):
        operator.sees(host.do("hold", "root").told(), second)
    assert [one.verb for one in operator.log].count("hold") == MAX_AN_HOUR
    operator.sees(host.do().told(), HOUR)
    assert sum(one.count for one in operator.log if one.verb == "anchor") == 20
    for number in range(3 * MAX_ALARMS):
        operator.sees(Host(f"c{number}").do().told(), second)
    assert [one.verb for one in operator.log].count("alarm") == MAX_ALARMS


def test_honest_hosts_raise_no_alarm_and_bent_ones_always_do() -> None:
    seed = examples.seed()
    chance = random.Random(seed)
    for _ in range(examples.some(60)):
        host, operator = Host(), Operator()
        wanted = []
        for _ in range(chance.randrange(1, 12)):
            for _ in range(chance.randrange(1, 4)):
                verb, who = chance.choice([("apply", "agent"), ("repair", "agent"), ("hold", "root")])
                host.do(verb, who)
                wanted += [len(host.lines) - 1] if verb != "apply" else []
            operator.sees(host.told(), timedelta(seconds=chance.randrange(900)))
            if chance.random() < 0.3:
                operator.restarts()
        assert operator.alarm == "", seed
        taken = [one.chain.index for one in operator.log if one.verb != "anchor" and one.chain]
        assert taken == wanted, seed
        cut = chance.randrange(len(host.lines))
        before = len(host.lines)
        operator.sees(host.told())  # who starts anew looks at all hosts, and anchors what is due
        host.lines = host.lines[:cut]
        for _ in range(chance.randrange(1, 4) if cut >= before - MAX_TOLD + 3 else before - cut):
            host.do(message=json.dumps("other"))
        operator.restarts()
        operator.sees(host.told(), timedelta(seconds=1))
        assert operator.alarm in ("Shortened", "Rewritten"), (seed, cut, before)
        assert any(chain_merging.token(host.told().chain) in one.message for one in operator.log), seed
