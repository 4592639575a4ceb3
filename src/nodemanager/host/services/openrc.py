"""OpenRC: rc-service and rc-update. The state of a service is what its own exit status says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Final

from nodemanager.host.base import NotSupported, Runner, ServiceKey, ToolFailed
from nodemanager.host.process import runner
from nodemanager.host.services import refusals
from nodemanager.plan.facts import ServiceFact

RUNLEVEL: Final = "default"
ASK_SECONDS: Final = 30.0
JOB_SECONDS: Final = 300.0
_STATES: Final = {
    0: "started", 3: "stopped", 4: "stopping", 8: "starting", 16: "inactive", 32: "crashed",
}  # fmt: skip
"""Exit statuses of `rc-service X status`; only these are reliable, as rc-status always exits with 0."""
_NOT_BOOTING: Final = frozenset(("off", "shutdown", "recovery", "single", "nonetwork"))
_COMMAND: Final = re.compile(r"^\s*\*?\s*([a-z_-]+)\s*:", re.MULTILINE)


class OpenRC:
    """OpenRC of this host, or of another root, in which nothing can be started."""

    name = "OpenRC"

    def __init__(self, run: Runner, start_delay: float, *, booted: bool = True) -> None:
        self._run = run
        self._start_delay = start_delay
        self._booted = booted

    async def observe(self, keys: Iterable[ServiceKey]) -> Mapping[ServiceKey, ServiceFact]:
        """Return the state of each: one process for all runlevels, one or two for each service."""
        wanted = list(keys)
        levels: dict[str, tuple[str, ...]] = {}
        if any(not key.user for key in wanted):
            levels = parse_show((await self._ask(["rc-update", "show"])).check().stdout)
        return {key: await self._look(key, bool(boot_levels(levels, key.name))) for key in wanted}

    async def _look(self, key: ServiceKey, enabled: bool) -> ServiceFact:
        if key.user:
            return ServiceFact(error=refusals.no_users(self.name, key))
        if not refusals.is_name(key.name):
            return ServiceFact(error=refusals.no_name(key))
        if (await self._ask(["rc-service", "--exists", key.name])).returncode != 0:
            return ServiceFact(state="not-found")
        if not self._booted:
            return ServiceFact(known=True, enabled=enabled, state="not running")
        done = await self._ask(["rc-service", "--nocolor", key.name, "status"])
        state = _STATES.get(done.returncode)
        if state is None:
            said = runner.tail(done.stderr or done.stdout)
            return ServiceFact(error=f"cannot tell whether {key.name} runs: rc-service said {said}")
        return ServiceFact(
            known=True,
            running=state in ("started", "inactive"),  # inactive: up, and waiting for something
            enabled=enabled,
            state=state,
            unsettled=state in ("starting", "stopping"),
        )

    async def refresh(self, user: str = "") -> None:
        """Do nothing: scripts are read whenever they are run."""

    async def enable(self, key: ServiceKey, *, enabled: bool) -> bool:
        """Add it to the default runlevel, or take it out of all that are part of booting."""
        refusals.check_key(self.name, key)
        levels = boot_levels(parse_show((await self._ask(["rc-update", "show"])).check().stdout), key.name)
        if bool(levels) != enabled:
            done = await self._ask(enable_argv(key.name, () if enabled else levels))
            refusals.check(done, f"{'enable' if enabled else 'disable'} {key.name}")
        return False

    async def set_arguments(self, key: ServiceKey, arguments: str) -> None:
        """Refuse: each script reads variables of its own."""
        raise NotSupported(
            f"cannot set arguments {arguments!r} of {key.name}: OpenRC has no such thing; declare the file"
            f" /etc/conf.d/{key.name}"
        )

    async def start(self, key: ServiceKey) -> None:
        """Start it, and fail unless it still runs after a moment."""
        await self._bring_up(key, "start")

    async def restart(self, key: ServiceKey) -> None:
        """Restart it, and fail unless it still runs after a moment."""
        await self._bring_up(key, "restart")

    async def reload(self, key: ServiceKey) -> bool:
        """Reload it; restart it where its script has no such command."""
        refusals.check_running(self.name, key, "reload", booted=self._booted)
        told = await self._ask(["rc-service", "--nocolor", key.name, "describe"])
        can = "reload" in parse_describe(told.stdout + told.stderr)
        await self._bring_up(key, "reload" if can else "restart")
        return can

    async def stop(self, key: ServiceKey) -> None:
        """Stop it and wait until it has stopped."""
        await self._do(key, "stop")
        fact = await self._look(key, enabled=False)
        if fact.running:
            raise ToolFailed(
                f"cannot stop {key.name}: it is {fact.state} still; run rc-service {key.name} status"
            )

    async def _bring_up(self, key: ServiceKey, verb: str) -> None:
        await self._do(key, verb)
        await asyncio.sleep(self._start_delay)
        fact = await self._look(key, enabled=False)
        if not fact.running:
            raise refusals.exited(verb, key, fact.state, f"run rc-service {key.name} status")

    async def _do(self, key: ServiceKey, verb: str) -> None:
        refusals.check_running(self.name, key, verb, booted=self._booted)
        done = await self._run(["rc-service", "--nocolor", key.name, verb], timeout=JOB_SECONDS)
        refusals.check(done, f"{verb} {key.name}")

    async def _ask(self, argv: list[str]) -> runner.Completed:
        return await self._run(argv, timeout=ASK_SECONDS)


def enable_argv(name: str, levels: Iterable[str]) -> list[str]:
    """Return the command that makes a service start at boot; or not, by the runlevels it is in.

    Not `rc-update --all del`: it exits with 1 for every runlevel that the service is not in.
    """
    taken = sorted(levels)
    return ["rc-update", "del", name, *taken] if taken else ["rc-update", "add", name, RUNLEVEL]


def boot_levels(levels: Mapping[str, tuple[str, ...]], name: str) -> frozenset[str]:
    """Return the runlevels of a service that are entered when the host boots."""
    return frozenset(levels.get(name, ())) - _NOT_BOOTING


def parse_show(output: bytes) -> dict[str, tuple[str, ...]]:
    """Return the runlevels by service, from `rc-update show`: lines of `name | level level`."""
    found = {}
    for line in output.decode("utf-8", "replace").splitlines():
        name, bar, levels = line.partition("|")
        if bar and name.strip():
            found[name.strip()] = tuple(levels.split())
    return found


def parse_describe(output: bytes) -> frozenset[str]:
    """Return the extra commands of a script, from `rc-service X describe`: lines of ` * name: text`."""
    return frozenset(_COMMAND.findall(output.decode("utf-8", "replace")))
