"""Lets the operator ask hosts what the ConfigSets of manifests would do to them; waits for the answers.

People may not make NodeTasks. So a proposal is an object of its own, a ConfigSetPreview, and the
operator makes tasks of that. It is removed again at the end, and the answers with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import msgspec

from nodemanager.agent.declared.declared_inputs import DeclaredInputs
from nodemanager.api.common import configsetpreview
from nodemanager.api.common.configset import CONFIG_SETS
from nodemanager.api.common.configsetpreview import (
    ASKED,
    CONFIG_SET_PREVIEWS,
    MAX_BYTES,
    MAX_HOSTS,
    MAX_SETS,
    REFUSED,
    ConfigSetPreview,
)
from nodemanager.api.common.managednode import MANAGED_NODES, ManagedNode
from nodemanager.api.maintenance.nodemaintenance import ANNOTATION_PREVIEW
from nodemanager.api.maintenance.nodetask import NODE_TASKS, NodeTask
from nodemanager.cli import kinds
from nodemanager.cli.manifests import manifest_folder
from nodemanager.cli.watch_printer import may_pass
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.fleet.previews import asking, grouping, proposing
from nodemanager.fleet.previews.grouping import Answer, GroupedAnswers, Silence
from nodemanager.fleet.previews.proposing import Proposal
from nodemanager.kube import conditions, errors, selectors
from nodemanager.kube.wording import listed

POLL_SECONDS: Final = 0.5
TAKEN_SECONDS: Final = 10.0
"""An operator that is there says so within a moment."""
NAMES: Final = 5
ANSWERS: Final = 100
"""With more hosts than this, answers are read less often, because each read gets all of them."""

Show = Callable[[int, int], None]
"""Called with the number of hosts that have answered, and of all."""


@dataclass(frozen=True, slots=True)
class PreviewQuestion:
    """The question of the user."""

    paths: tuple[Path, ...]
    selector: str = ""
    sample: int | None = proposing.SAMPLE
    """How many hosts are asked; None = all."""
    prune: bool = False
    timeout: float = 120.0


class PreviewOutcome(NamedTuple):
    """What is known then."""

    proposal: Proposal
    concerned: int
    """How many hosts it is about."""
    result: GroupedAnswers
    left_out: Mapping[str, Silence]
    """Hosts that it concerns, and that cannot be part of a sample."""
    warnings: tuple[str, ...] = ()


async def look(client: Client, namespace: str, question: PreviewQuestion, show: Show) -> PreviewOutcome:
    """Return what hosts say."""
    inputs = manifest_folder.load(question.paths)
    for one in inputs.config_sets:
        if one.metadata.namespace not in ("", namespace):
            raise click.ClickException(
                f"cannot preview: ConfigSet {one.metadata.name} is of namespace {one.metadata.namespace}, and"
                f" hosts of {namespace} are asked; ask one namespace at a time, with -n"
            )
    hosts = await _hosts(client, namespace, question.selector)
    with kinds.installed(CONFIG_SETS):
        known = (await client.list(CONFIG_SETS, Selection(namespace))).items
    proposal = proposing.propose(inputs.config_sets, known, prune=question.prune)
    concerned = proposing.concerned(proposal, hosts)
    unfit = {
        host.metadata.name: Silence(why, asking.WORDS[why])
        for host in concerned
        if (why := asking.unfit(host)) is not None
    }
    fit = [host for host in concerned if host.metadata.name not in unfit]
    asked = fit if question.sample is None else proposing.sample(proposal, fit, question.sample)
    names = sorted(host.metadata.name for host in asked)
    answers = await _answers(client, namespace, proposal, names, question.timeout, show) if names else {}
    if question.sample is None or not names:
        names, answers, unfit = [*names, *unfit], {**answers, **unfit}, {}
    result = grouping.result(names, answers)
    return PreviewOutcome(proposal, len(concerned), result, unfit, tuple(_unsent(inputs)))


def _unsent(inputs: DeclaredInputs) -> list[str]:
    """Return what of the manifests matters to hosts, and is not proposed."""
    nodes = [one.metadata.name for one in inputs.nodes]
    unsent = (("Secret", inputs.secrets), ("ConfigMap", inputs.config_maps), ("ManagedNode", nodes))
    return [
        f"{kind} {listed(sorted(names), NAMES)} of the manifests: hosts use what the API has"
        for kind, names in unsent
        if names
    ]


async def _hosts(client: Client, namespace: str, selector: str) -> list[ManagedNode]:
    try:
        selectors.parse_selector(selector)
    except ValueError as error:  # exit code 1: that of wrong usage means something else here
        raise click.ClickException(f"cannot use --selector: {error}") from None
    with kinds.installed(MANAGED_NODES):
        found = (await client.list(MANAGED_NODES, Selection(namespace, selector))).items
    if not found:
        which = f" with labels {selector}" if selector else ""
        raise click.ClickException(
            f"cannot ask hosts: namespace {namespace} has no ManagedNode{which}; see `nodemanager get mn`"
        )
    return found


async def _answers(
    client: Client, namespace: str, proposal: Proposal, hosts: Sequence[str], timeout: float, show: Show
) -> dict[str, Answer]:
    """Have the hosts asked, and return what each of them says in time, or why it does not."""
    name = f"preview-{secrets.token_hex(5)}"
    body = _body(proposal, hosts, name)
    try:
        with kinds.installed(CONFIG_SET_PREVIEWS):
            await client.create(CONFIG_SET_PREVIEWS, body, namespace)
    except errors.Forbidden as error:
        raise click.ClickException(
            f"cannot ask hosts: {error}; who asks has to be allowed to create ConfigSetPreviews and to update"
            " ConfigSets, as with the role nodemanager-editor: ask somebody who is"
        ) from error
    try:
        return await _follow(client, namespace, name, hosts, timeout, show)
    finally:
        with contextlib.suppress(errors.KubeError):  # then the operator removes it, after a while
            await client.delete(CONFIG_SET_PREVIEWS, name, namespace)


def _body(proposal: Proposal, hosts: Sequence[str], name: str) -> dict[str, Any]:
    sets, removed = proposal.contents(), proposal.removed
    if len(hosts) > MAX_HOSTS:
        raise click.ClickException(
            f"cannot ask {len(hosts)} hosts: {MAX_HOSTS} at most; choose some with --selector or --sample"
        )
    if (most := max(len(sets), len(removed))) > MAX_SETS:
        raise click.ClickException(
            f"cannot propose {most} ConfigSets: {MAX_SETS} at most; name fewer with -f"
        )
    spec = {
        "sets": msgspec.to_builtins(sets),
        "removed": removed,
        "hosts": list(hosts),
        "digest": configsetpreview.digest_of(sets, removed),
    }
    if (size := len(json.dumps(spec).encode())) > MAX_BYTES:
        raise click.ClickException(
            f"cannot propose {size} bytes of ConfigSets: {MAX_BYTES} at most; name fewer with -f"
        )
    return {"metadata": {"name": name}, "spec": spec}


async def _follow(
    client: Client, namespace: str, name: str, hosts: Sequence[str], timeout: float, show: Show
) -> dict[str, Answer]:
    loop = asyncio.get_running_loop()
    began, tasks, answers = loop.time(), dict[str, NodeTask](), dict[str, Answer]()
    of_ours = Selection(namespace, f"{ANNOTATION_PREVIEW}={name}")
    taken, patience, trouble = False, min(TAKEN_SECONDS, timeout), ""
    pause = POLL_SECONDS * max(1.0, len(hosts) / ANSWERS)
    show(0, len(hosts))
    while len(answers) < len(hosts) and loop.time() - began < (timeout if taken else patience):
        await asyncio.sleep(pause)
        try:
            found = await client.get(CONFIG_SET_PREVIEWS, name, namespace)
            tasks = {one.spec.node_name: one for one in (await client.list(NODE_TASKS, of_ours)).items}
        except errors.NotFound as error:
            raise click.ClickException(
                f"cannot go on: somebody removed {name} meanwhile; ask again"
            ) from error
        except errors.KubeError as error:
            if not may_pass(error):
                raise
            trouble = str(error)
            continue
        trouble = ""
        taken, known = _is_taken(found), len(answers)
        answers = {
            one.name: Silence(one.reason, one.message) for one in found.status.unasked if one.name in hosts
        }
        answers |= {
            host: said
            for host, task in tasks.items()
            if host in hosts and (said := grouping.answer(task)) is not None
        }
        if len(answers) != known:
            show(len(answers), len(hosts))
    if not taken and trouble:
        raise click.ClickException(f"cannot ask hosts: the API does not answer: {trouble}; ask again")
    if not taken:
        raise click.ClickException(
            f"cannot ask hosts: no operator took the request within {patience:g} s; it does not run, or"
            " is older than this command; see whether it runs, and upgrade it"
        )
    return {host: answers.get(host) or grouping.late(tasks.get(host)) for host in hosts}


def _is_taken(found: ConfigSetPreview) -> bool:
    """Tell whether an operator has seen the request, or raise what it says against it."""
    if found.status.phase == REFUSED:
        said = conditions.get(found.status.conditions, ASKED)
        raise click.ClickException(f"cannot ask hosts: the operator refuses: {said.message if said else ''}")
    return bool(found.status.phase)
