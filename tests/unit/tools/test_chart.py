"""The Helm chart says what the plain manifests say, to the letter, and its values do what they promise."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from nodemanager import __version__
from nodemanager.api.maintenance.shipped_templates import MANAGED_BY
from support import chart
from support.chart import CHART, ROOT, by_helm, named, plain, rendered

CRD = "CustomResourceDefinition"
AGENT = {"agent": {"enabled": True}}
OTHERS: dict[str, Any] = {
    "namespace": "hosts",
    "image": {"repository": "registry.example/x", "tag": "1.2.3", "pullSecrets": [{"name": "pull"}]},
    "operator": {"replicas": 3, "listenAddress": "[::]", "nodeSelector": {"zone": "a"},
                 "tolerations": [{"key": "k", "operator": "Exists"}], "resources": {}},
    "agent": {"enabled": True, "namespace": "agents", "logLevel": "DEBUG", "nodeSelector": {"role": "web"}},
}  # fmt: skip


EMPTY: dict[str, Any] = {
    "createNamespaces": False,
    "agent": {"enabled": True, "nodeSelector": None, "tolerations": [], "resources": {}},
}


def without_helm(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Return objects without what only Helm reads."""
    for one in objects:
        notes = one["metadata"].get("annotations", {})
        if notes.pop("helm.sh/resource-policy", None) and not notes:
            del one["metadata"]["annotations"]
        labels = one["metadata"].get("labels", {})
        if labels.get(MANAGED_BY) == "Helm":
            labels[MANAGED_BY] = "nodemanager"
    return named(objects)


def without_crds(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return named([one for one in objects if one["kind"] != CRD])


def test_by_default_it_is_what_the_plain_manifests_are() -> None:
    assert without_helm(rendered()) == without_crds([*plain("config"), *plain("config/operation-templates")])


def test_users_are_stamped_where_the_server_can_do_that() -> None:
    kind = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
    with_it, without = without_helm(rendered(kind)), without_helm(rendered())
    path = ROOT / "config" / "policy" / "stamping.yaml"
    stamping = named([one for one in yaml.safe_load_all(path.read_text()) if one])
    assert with_it == without | stamping
    assert len(stamping) == 2
    assert not stamping.keys() & without_helm(rendered(kind, policy={"install": False})).keys()


def test_with_the_agent_too() -> None:
    folders = ("config", "config/operation-templates", "config/agent")
    assert without_helm(rendered(**AGENT)) == without_crds([one for name in folders for one in plain(name)])


def test_its_kinds_are_those_of_the_plain_manifests() -> None:
    shipped = [yaml.safe_load(path.read_text()) for path in sorted((CHART / "crds").glob("*"))]
    assert named(shipped) == named([one for one in plain("config") if one["kind"] == CRD])
    files = sorted(path.name for path in (ROOT / "config" / "crd").iterdir())
    assert files == sorted(path.name for path in (CHART / "crds").iterdir())


def test_everything_has_the_version_of_the_program() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (about["version"], about["appVersion"]) == (__version__, __version__)
    objects = without_crds([*plain("config"), *plain("config/agent")])
    for name in ("Deployment/nodemanager-operator", "DaemonSet/nodemanager-agent"):
        (container,) = objects[name]["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"nodemanager:{__version__}"


@pytest.mark.parametrize(
    "values", [{}, AGENT, OTHERS, EMPTY, {"createNamespaces": False, "policy": {"install": False}}]
)
def test_helm_makes_the_same_of_it(values: dict[str, Any]) -> None:
    assert named(by_helm(**values)) == named(rendered(**values))


def test_values_reach_what_they_are_for() -> None:
    objects = named(rendered(**OTHERS))
    assert {name for name in objects if name.startswith("Namespace/")} == {
        "Namespace/hosts",
        "Namespace/agents",
    }
    places = {one["metadata"].get("namespace", "") for one in objects.values()}
    assert places == {"", "hosts", "agents"}
    operator = objects["Deployment/nodemanager-operator"]["spec"]
    pod = operator["template"]["spec"]
    (container,) = pod["containers"]
    assert operator["replicas"] == 3
    assert container["image"] == "registry.example/x:1.2.3"
    assert "--namespace=hosts" in container["args"]
    assert "--health-probe-bind-address=[::]:8081" in container["args"]
    assert (pod["imagePullSecrets"], pod["nodeSelector"]) == ([{"name": "pull"}], {"zone": "a"})
    agent = objects["DaemonSet/nodemanager-agent"]["spec"]["template"]["spec"]
    assert {"--namespace=hosts", "--log-level=DEBUG"} <= set(agent["containers"][0]["args"])
    assert agent["nodeSelector"] == {"kubernetes.io/os": "linux", "role": "web"}
    subjects = objects["RoleBinding/nodemanager-operator"]["subjects"]
    assert subjects == [{"kind": "ServiceAccount", "name": "nodemanager-operator", "namespace": "hosts"}]


def test_parts_can_be_left_out() -> None:
    off = {"install": False}
    bare = named(
        rendered(createNamespaces=False, policy=off, operationTemplates=off, operator={"enabled": False})
    )
    assert bare == {}
    alone = named(
        rendered(operator={"replicas": 1})
    )  # a budget for one would keep its node from being drained
    assert "PodDisruptionBudget/nodemanager-operator" not in alone


@pytest.mark.parametrize(
    "wrong",
    [
        "operator.replicas=0",
        "operatr.enabled=true",
        "agent.namespace=Agents",
        "operator.logLevel=LOUD",
        "operator.listenAddress=x #",
    ],
)
def test_values_that_mean_nothing_are_refused(wrong: str) -> None:
    done = chart.helm("template", "release", str(CHART), "--set", wrong)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


def test_agents_get_no_place_beside_the_operator_and_the_secrets() -> None:
    """There, whoever may create a pod would be root on every node, and the operator not be `restricted`."""
    with pytest.raises(Exception, match="must not be namespace"):
        rendered(namespace="hosts", agent={"enabled": True, "namespace": "hosts"})
    rendered(namespace="hosts", agent={"enabled": False, "namespace": "hosts"})


def test_helm_finds_nothing_to_complain_about() -> None:
    done = chart.helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_the_notes_say_what_to_do_next() -> None:
    notes = chart.TEMPLATES / "NOTES.txt"
    assert "--daemonset=agents | kubectl apply -f -" in chart.text(notes, **OTHERS)
    assert "WARNING" not in chart.text(notes, **OTHERS)
    assert "WARNING" in chart.text(notes, policy={"install": False})
