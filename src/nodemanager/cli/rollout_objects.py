"""A ConfigSet and its revisions, for commands about rollouts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final, NamedTuple

import click

from nodemanager.api.common import choosing, configsetrevision, matching
from nodemanager.api.common.configset import CONFIG_SETS, ConfigSet
from nodemanager.api.common.configsetrevision import CONFIG_SET_REVISIONS, BadRevision, ConfigSetRevision
from nodemanager.api.common.rollout import RevisionRef
from nodemanager.cli import completing, kinds
from nodemanager.cli.settings import connect
from nodemanager.client.calls import Selection
from nodemanager.client.verbs import Client
from nodemanager.kube import errors

NAME: Final = click.argument("name", shell_complete=functools.partial(completing.names, CONFIG_SETS.plural))


class KnownSet(NamedTuple):
    """A set and its revisions, oldest first."""

    config_set: ConfigSet
    revisions: list[ConfigSetRevision]

    def numbered(self, number: int, doing: str) -> ConfigSetRevision:
        """Return a revision by its number, or say which ones there are."""
        for one in self.revisions:
            if one.spec.revision == number:
                return one
        name = self.config_set.metadata.name
        there = ", ".join(str(one.spec.revision) for one in self.revisions)
        raise click.ClickException(
            f"cannot {doing} {name}: it has no revision {number}; there are {there or 'none'}"
        )

    def of(self, ref: RevisionRef | None) -> ConfigSetRevision | None:
        """Return the revision that a status names."""
        return next((one for one in self.revisions if ref and one.metadata.name == ref.name), None)

    @property
    def newest(self) -> ConfigSetRevision | None:
        """What the set says now, once the operator has seen it."""
        return self.revisions[-1] if self.revisions else None

    @property
    def previous(self) -> ConfigSetRevision | None:
        """What hosts had before what the set says now, also where no operator has seen that yet."""
        newest = self.newest
        if newest is None:
            return None
        return self.before(newest.spec.revision + (not self.says(newest)))

    def says(self, revision: ConfigSetRevision) -> bool:
        """Tell whether the set says now what a revision said."""
        try:
            said = configsetrevision.spec_of(revision, revision.spec.digest)
        except BadRevision:
            return False
        same = configsetrevision.same_content(said, self.config_set.spec)
        return same and self.labels_of(revision) == self.config_set.metadata.labels

    def labels_of(self, revision: ConfigSetRevision) -> dict[str, str]:
        """Return the labels that a revision chooses hosts by, with those that GitOps knows the set by now."""
        chosen = {
            name: value for name, value in revision.spec.labels.items() if not matching.is_of_gitops(name)
        }
        now = self.config_set.metadata.labels.items()
        return {**chosen, **{name: value for name, value in now if matching.is_of_gitops(name)}}

    def before(self, number: int) -> ConfigSetRevision | None:
        """Return what hosts had before a revision: what is stable, or else the last that says otherwise."""
        status = self.config_set.status.rollout
        stable = self.of(status.stable) if status else None
        if stable is not None and stable.spec.revision < number:
            return stable
        known = {one.spec.revision: one for one in self.revisions}
        digest = known[number].spec.digest if number in known else ""
        older = [one for one in self.revisions if one.spec.revision < number and one.spec.digest != digest]
        return older[-1] if older else None


async def get(client: Client, settings: connect.Settings, name: str, doing: str) -> ConfigSet:
    """Return a set, or say that there is none."""
    try:
        with kinds.installed(CONFIG_SETS):
            return await client.get(CONFIG_SETS, name, settings.namespace)
    except errors.NotFound as error:
        if not error.details.name:
            raise
        raise click.ClickException(
            f"cannot {doing} {name}: there is no such ConfigSet in namespace {settings.namespace}; see"
            " nodemanager get configsets -A"
        ) from error


async def together(client: Client, settings: connect.Settings, config_set: ConfigSet) -> list[ConfigSet]:
    """Return the other sets that a set moves with."""
    if not choosing.is_grouped(config_set):
        return []
    sets = (await client.list(CONFIG_SETS, Selection(settings.namespace))).items
    return list(choosing.members_of(config_set, choosing.by_name(sets)))


def with_group(config_set: ConfigSet, others: Sequence[ConfigSet]) -> str:
    """Return what has to be said of the group of a set; empty = it has none."""
    if not choosing.is_grouped(config_set):
        return ""
    status, names = config_set.status.rollout, [one.metadata.name for one in others]
    published = status.group.name if status is not None and status.group is not None else ""
    group = choosing.group_of(config_set) or published
    return f", and with it group {group}" + (f" ({', '.join(names)})" if names else "")


async def known(client: Client, settings: connect.Settings, name: str, doing: str) -> KnownSet:
    """Return a set with its revisions."""
    config_set = await get(client, settings, name, doing)
    with kinds.installed(CONFIG_SET_REVISIONS):
        found = (await client.list(CONFIG_SET_REVISIONS, Selection(settings.namespace))).items
    uid = config_set.metadata.uid
    own = [one for one in found if any(owner.uid == uid for owner in one.metadata.owner_references)]
    return KnownSet(config_set, sorted(own, key=lambda one: one.spec.revision))
