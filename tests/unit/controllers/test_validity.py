"""The condition `Invalid` of a ConfigSet: what cannot work is said by the operator, before any host tries."""

from __future__ import annotations

import pytest

from nodemanager.api.common.configset import ConfigSet, ConfigSetSpec
from nodemanager.api.common.declarations import File
from nodemanager.controllers.configsets import rollup, validity
from nodemanager.controllers.configsets.validity import Validity
from nodemanager.host.process import runner
from nodemanager.kube.conditions import Condition
from nodemanager.kube.objects import ObjectMeta
from nodemanager.plan.templates import NotRendered
from nodemanager.rendering.limits import NAMES
from nodemanager.rendering.renderer import Renderer
from support.rendering import Inline


def declaring(*files: File, generation: int = 1, labels: dict[str, str] | None = None) -> ConfigSet:
    meta = ObjectMeta(namespace="ns", name="web", generation=generation, labels=labels or {"role": "web"})
    return ConfigSet(metadata=meta, spec=ConfigSetSpec(files=list(files)))


async def judged(config_set: ConfigSet) -> Condition:
    return await Validity(Inline()).condition(config_set)


async def test_a_template_that_cannot_be_read_is_told_by_file_line_and_column() -> None:
    """By the process that renders, whose limits hold for templates that are only read, too."""
    good = File(path="/etc/good", template="{{ .Node.Nonsense }}")  # which only a host can tell
    bad = File(path="/etc/motd", template="hello\n  {{ .Node.Name | toUper }}\n")
    jinja = File(path="/etc/issue", engine="jinja", template="{% if %}")
    async with Renderer(runner.companion, NAMES) as renderer:
        found = await Validity(renderer).condition(declaring(good, bad, jinja))
    assert (found.type, found.status, found.reason) == ("Invalid", "True", "Findings")
    assert found.message == (
        "spec.files[1].template: line 2, column 19: /etc/motd: there is no function toUper; did you mean "
        "toUpper?; "
        "spec.files[2].template: line 1, column 1: /etc/issue: Expected an expression, got 'end of statement "
        "block'"
    )


async def test_a_template_that_takes_for_ever_to_read_holds_up_nobody() -> None:
    """It meets a limit of the process that reads it, which another set does not notice."""
    endless = File(
        path="/etc/endless", engine="jinja", template="{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}"
    )
    async with Renderer(runner.companion, NAMES) as renderer:
        validity = Validity(renderer)
        first = await validity.condition(declaring(endless))
        other = await validity.condition(declaring(File(path="/etc/motd", template="{{ .X }}"), generation=2))
    assert first.status in ("True", "Unknown")
    assert first.message
    assert (other.status, other.reason) == ("False", "NoFindings")


async def test_labels_of_a_gitops_tool_are_a_warning() -> None:
    found = await judged(declaring(labels={"role": "web", "argocd.argoproj.io/instance": "site"}))
    assert (found.status, found.reason) == ("False", "Warnings")
    assert found.message == (
        "metadata.labels: argocd.argoproj.io/instance: labels of a GitOps tool, which no host has, keep the "
        "set from matching by label; use spec.nodeSelector"
    )


async def test_a_set_is_read_again_only_if_it_changed() -> None:
    renderer = Inline()
    validity = Validity(renderer)
    file = File(path="/etc/motd", template="{{ .Node.Name }}")
    first = await validity.condition(declaring(file))
    assert (first.status, first.reason, first.message) == ("False", "NoFindings", "")
    assert await validity.condition(declaring(file)) is first
    assert len(renderer.asked) == 1
    assert (await validity.condition(declaring(file, generation=2))).observed_generation == 2
    assert len(renderer.asked) == 2


async def test_what_could_not_be_read_for_now_is_unknown_and_tried_again() -> None:
    renderer = Inline()
    renderer.failing = NotRendered("/etc/motd", "it takes too long")
    validity = Validity(renderer)
    found = await validity.condition(declaring(File(path="/etc/motd", template="{{ .X }}")))
    assert (found.status, found.reason) == ("Unknown", "NotChecked")
    assert "it takes too long" in found.message
    renderer.failing = None
    found = await validity.condition(declaring(File(path="/etc/motd", template="{{ .X }}")))
    assert found.status == "False"


async def test_sets_that_were_looked_at_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validity, "MAX_KNOWN", 2)
    renderer = Inline()
    known = Validity(renderer)
    file = File(path="/etc/motd", template="{{ .Node.Name }}")
    for generation in (1, 2, 3, 3, 2):
        await known.condition(declaring(file, generation=generation))
    assert len(renderer.asked) == 3
    await known.condition(declaring(file, generation=1))
    assert len(renderer.asked) == 4, "the first one was forgotten, and no other"


@pytest.mark.parametrize(("count", "more"), [(5, ""), (6, "; and 1 more")])
async def test_five_findings_are_told(count: int, more: str) -> None:
    bad = [File(path=f"/etc/{number}", template="{{ end }}") for number in range(count)]
    found = await judged(declaring(*bad))
    assert found.message.count("unexpected end") == 5
    assert found.message.partition("; and ")[2] == more.removeprefix("; and ")


async def test_many_findings_are_counted() -> None:
    bad = [File(path=f"/etc/{number}", template="{{ end }}") for number in range(9)]
    found = await judged(declaring(*bad))
    assert found.message.count("unexpected end") == 5
    assert found.message.endswith("; and 4 more")


async def test_the_status_has_the_condition_and_how_hosts_are_chosen() -> None:
    config_set = declaring(File(path="/etc/motd", template="{{ end }}"))
    status = rollup.summarise(config_set, [], "2026-01-01T00:00:00Z", await judged(config_set))
    assert status.chosen_by == "labels role=web"
    assert [(one.type, one.status) for one in status.conditions] == [
        ("Ready", "Unknown"), ("Conflicted", "False"), ("Invalid", "True"),
    ]  # fmt: skip
