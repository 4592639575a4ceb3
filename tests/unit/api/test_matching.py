"""Which hosts a ConfigSet is meant for."""

from __future__ import annotations

import pytest

from nodemanager.api.common import matching
from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.kube.objects import ObjectMeta
from nodemanager.kube.selectors import LabelSelector, Requirement

HOST = {
    "kubernetes.io/os": "linux",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/hostname": "web1",
    "nodemanager.io/os": "arch",
    "role": "web",
}
PI = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm", "nodemanager.io/os": "raspbian"}


@pytest.mark.parametrize(
    ("wanted", "host", "expected"),
    [
        pytest.param({}, HOST, False, id="no labels, no host"),
        pytest.param({"role": "web"}, HOST, True, id="one label"),
        pytest.param({"role": "web", "kubernetes.io/hostname": "web1"}, HOST, True, id="all labels"),
        pytest.param({"role": "web", "tier": "gold"}, HOST, False, id="one label too many"),
        pytest.param({"role": "db"}, HOST, False, id="other value"),
        pytest.param({"role": ""}, {"other": "x"}, False, id="empty value is not a missing label"),
        pytest.param({"kubernetes.io/os": "linux"}, HOST, True, id="os as Kubernetes says"),
        pytest.param({"kubernetes.io/os": "arch"}, HOST, True, id="os as the Go agent said"),
        pytest.param({"kubernetes.io/os": "alpine"}, HOST, False, id="other distribution"),
        pytest.param({"kubernetes.io/arch": "amd64"}, HOST, True, id="arch as Kubernetes says"),
        pytest.param({"kubernetes.io/arch": "x86_64"}, HOST, True, id="arch as the Go agent said"),
        pytest.param({"kubernetes.io/arch": "aarch64"}, HOST, False, id="other architecture"),
        pytest.param({"kubernetes.io/arch": "armv7l"}, PI, True, id="32-bit arm"),
        pytest.param({"kubernetes.io/arch": "x86_64"}, {}, False, id="host without labels"),
        pytest.param({"role": "x86_64"}, HOST, False, id="aliases hold for their label only"),
    ],
)
def test_by_labels(wanted: dict[str, str], host: dict[str, str], expected: bool) -> None:
    assert matching.matches(ConfigSet(metadata=ObjectMeta(labels=wanted)), host) is expected


def test_a_selector_is_an_addition_to_the_labels() -> None:
    selector = LabelSelector(match_expressions=[Requirement(key="role", operator="In", values=["db", "web"])])
    spec = ConfigSetSpec(node_selector=selector)
    assert matching.matches(ConfigSet(spec=spec), HOST)
    assert matching.matches(ConfigSet(metadata=ObjectMeta(labels={"app": "flux"}), spec=spec), HOST)
    assert not matching.matches(ConfigSet(spec=spec), PI)


@pytest.mark.parametrize(
    ("labels", "selector", "ways", "foreign"),
    [
        pytest.param({}, None, [], [], id="nothing"),
        pytest.param({"b": "2", "a": "1"}, None, ["labels a=1,b=2"], [], id="labels"),
        pytest.param({}, LabelSelector(), ["any labels (nodeSelector {})"], [], id="everything"),
        pytest.param(
            {"app.kubernetes.io/instance": "site", "role": "web"},
            LabelSelector(match_labels={"role": "web"}),
            ["labels app.kubernetes.io/instance=site,role=web", "nodeSelector role=web"],
            [],
            id="either, and the selector is enough",
        ),
        pytest.param(
            {"argocd.argoproj.io/instance": "x", "kustomize.toolkit.fluxcd.io/name": "x", "role": "web"},
            None,
            ["labels argocd.argoproj.io/instance=x,kustomize.toolkit.fluxcd.io/name=x,role=web"],
            ["argocd.argoproj.io/instance", "kustomize.toolkit.fluxcd.io/name"],
            id="labels of tools",
        ),
    ],
)
def test_how_hosts_are_chosen_in_words(
    labels: dict[str, str], selector: LabelSelector | None, ways: list[str], foreign: list[str]
) -> None:
    found = ConfigSet(metadata=ObjectMeta(labels=labels), spec=ConfigSetSpec(node_selector=selector))
    assert matching.ways(found) == ways
    assert matching.gitops_labels(found) == foreign
