"""Which hosts a series means, and in which order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.api.common.managednode import ManagedNode
from nodemanager.api.maintenance.series import SeriesSpec
from nodemanager.fleet.series import LeftOut, members
from nodemanager.kube.objects import ObjectMeta
from nodemanager.kube.selectors import LabelSelector


def node(name: str, **labels: str) -> ManagedNode:
    return ManagedNode(metadata=ObjectMeta(namespace="ns", name=name, labels=labels))


def having(**labels: str) -> LabelSelector:
    return LabelSelector(match_labels=labels)


FLEET = [
    node("web2", role="web", zone="b"),
    node("web1", role="web", zone="a", canary="true"),
    node("web3", role="web", zone="a"),
    node("db1", role="db", zone="b"),
    node("cp1", role="control-plane", zone="a"),
    node("lonely"),
]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (SeriesSpec(), [("", "cp1 db1 lonely web1 web2 web3")]),
        (SeriesSpec(selector=having(role="web")), [("", "web1 web2 web3")]),
        (SeriesSpec(selector=LabelSelector()), [("", "cp1 db1 lonely web1 web2 web3")]),
        (SeriesSpec(names=["web3", "db1", "web3"]), [("", "db1 web3")]),
        (SeriesSpec(names=["web3", "db1"], selector=having(role="db")), [("", "db1")]),
        (SeriesSpec(exclude=having(role="web")), [("", "cp1 db1 lonely")]),
        (
            SeriesSpec(canaries=having(canary="true"), last=having(role="control-plane")),
            [("canaries", "web1"), ("", "db1 lonely web2 web3"), ("last", "cp1")],
        ),
        (SeriesSpec(canaries=having(role="web"), last=having(role="web")),
         [("canaries", "web1 web2 web3"), ("", "cp1 db1 lonely")]),
        (SeriesSpec(group_by="zone"), [("a", "cp1 web1 web3"), ("b", "db1 web2"), ("", "lonely")]),
        (SeriesSpec(group_by="zone", order=["b", "z"]),
         [("b", "db1 web2"), ("a", "cp1 web1 web3"), ("", "lonely")]),
        (SeriesSpec(selector=having(role="nobody")), []),
    ],
    ids=["all", "selector", "empty-selector", "names", "both", "exclude", "ends", "canary-wins", "zones",
         "order", "nobody"],
)  # fmt: skip
def test_members(spec: SeriesSpec, expected: list[tuple[str, str]]) -> None:
    found = members(spec, FLEET)
    assert [(group.name, " ".join(group.hosts)) for group in found.groups] == expected
    assert found.not_found == ()


def test_names_that_no_host_has_are_told_once() -> None:
    assert members(SeriesSpec(names=["web9", "web1", "web9"]), FLEET).not_found == ("web9",)


GPU = having(gpu="yes")


@pytest.mark.parametrize(
    ("spec", "hosts", "agentless", "nodeless"),
    [
        (SeriesSpec(node_selector=GPU), "web2 web3", "gone stray", "cp1 lonely"),
        (SeriesSpec(node_selector=GPU, names=["web3", "stray", "lonely"]), "web3", "stray", "lonely"),
        (SeriesSpec(node_selector=GPU, selector=having(zone="a")), "web3", "gone stray", "cp1"),
        (SeriesSpec(node_selector=LabelSelector()), "db1 web1 web2 web3", "gone plain stray", "cp1 lonely"),
        (SeriesSpec(), "cp1 db1 lonely web1 web2 web3", "", ""),
    ],
    ids=["alone", "with-names", "with-selector", "every-node", "without"],
)
def test_a_node_selector_chooses_hosts_by_their_nodes_and_names_who_is_left_out(
    spec: SeriesSpec, hosts: str, agentless: str, nodeless: str
) -> None:
    nodes = {
        "web1": {}, "web2": {"gpu": "yes"}, "web3": {"gpu": "yes"}, "db1": {"gpu": "no"},
        "stray": {"gpu": "yes"}, "gone": {"gpu": "yes"}, "plain": {},
    }  # fmt: skip
    found = members(spec, FLEET, nodes)
    assert " ".join(found.hosts) == hosts
    assert tuple(" ".join(part) for part in found.left_out) == (agentless, nodeless)


def test_who_is_left_out_is_said_in_few_words() -> None:
    assert LeftOut().words() == ""
    said = LeftOut(tuple("abcdefg"), ("x",)).words(3)
    assert said == (
        "7 Kubernetes Nodes without an agent, left out: a, b, c and 4 more; "
        "1 host without a Kubernetes Node, left out: x"
    )


labels = st.dictionaries(st.sampled_from(["role", "zone", "canary"]), st.sampled_from(["a", "b"]))
selectors = st.none() | st.builds(LabelSelector, match_labels=labels)


@given(
    st.builds(
        SeriesSpec, selector=selectors, exclude=selectors, canaries=selectors, last=selectors,
        names=st.lists(st.sampled_from(["h1", "h2", "h3", "x"])), group_by=st.sampled_from(["", "zone"]),
        order=st.lists(st.sampled_from(["a", "b"])),
    ),
    st.lists(labels, max_size=6),
    st.randoms(),
)  # fmt: skip
def test_every_host_once_in_an_order_that_does_not_depend_on_ours(spec, fleet, random) -> None:  # type: ignore[no-untyped-def]
    nodes = [node(f"h{place}", **each) for place, each in enumerate(fleet)]
    found = members(spec, nodes)
    assert len(found.hosts) == len(set(found.hosts))
    assert set(found.hosts) <= {one.metadata.name for one in nodes}
    random.shuffle(nodes)
    assert members(spec, nodes) == found
