"""FreeBSD's rc.d: service and sysrc. What is declared here goes to /etc/rc.conf.d, one file per service.

The `one` commands are used throughout: `service X start` does nothing, successfully, for a service
that is not enabled, and whether it starts at boot is another matter than whether it shall run now.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Final

from nodemanager.host.base import Runner, ServiceKey, ToolFailed
from nodemanager.host.process import runner
from nodemanager.host.services import refusals
from nodemanager.plan.facts import ServiceFact

ASK_SECONDS: Final = 30.0
JOB_SECONDS: Final = 300.0
_ODD: Final = re.compile(r"[^A-Za-z0-9_]")
_UNKNOWN_COMMAND: Final = re.compile(rb"unknown directive|not supported", re.IGNORECASE)


class RcD:
    """rc.d of this host, or of another root, in which nothing can be started."""

    name = "rc.d"

    def __init__(self, run: Runner, start_delay: float, *, booted: bool = True) -> None:
        self._run = run
        self._start_delay = start_delay
        self._booted = booted

    async def observe(self, keys: Iterable[ServiceKey]) -> Mapping[ServiceKey, ServiceFact]:
        """Return the state of each: one process for the names of all, three for each service."""
        wanted = list(keys)
        names: frozenset[str] = frozenset()
        if any(not key.user for key in wanted):
            names = parse_list((await self._ask(["service", "-l"])).check().stdout)
        return {key: await self._look(key, names) for key in wanted}

    async def _look(self, key: ServiceKey, names: frozenset[str]) -> ServiceFact:
        if key.user:
            return ServiceFact(error=refusals.no_users(self.name, key))
        if key.name not in names or not refusals.is_name(key.name):
            return ServiceFact(state="not-found")
        enabled = await self._ask(["service", key.name, "enabled"])
        arguments = (await self._ask(read_arguments_argv(key.name))).stdout
        running = self._booted and await self._runs(key)
        return ServiceFact(
            known=True,
            running=running,
            enabled=enabled.returncode == 0,
            state="running" if running else "not running",
            arguments=arguments.decode("utf-8", "replace").strip(),
        )

    async def refresh(self, user: str = "") -> None:
        """Do nothing: scripts are read whenever they are run."""

    async def enable(self, key: ServiceKey, *, enabled: bool) -> bool:
        """Make it start at boot, or not."""
        await self._set(key, "enable" if enabled else "disable", enable_argv(key.name, enabled=enabled))
        return False

    async def set_arguments(self, key: ServiceKey, arguments: str) -> None:
        """Set its variable of arguments."""
        await self._set(key, "set the arguments of", arguments_argv(key.name, arguments))

    async def start(self, key: ServiceKey) -> None:
        """Start it, and fail unless it still runs after a moment."""
        await self._bring_up(key, "start")

    async def restart(self, key: ServiceKey) -> None:
        """Restart it, and fail unless it still runs after a moment."""
        await self._bring_up(key, "restart")

    async def reload(self, key: ServiceKey) -> bool:
        """Reload it; restart it where its script has no such command."""
        refusals.check_running(self.name, key, "reload", booted=self._booted)
        done = await self._run(["service", key.name, "onereload"], timeout=JOB_SECONDS)
        if done.returncode != 0 and _UNKNOWN_COMMAND.search(done.stderr + done.stdout):
            await self._bring_up(key, "restart")
            return False
        refusals.check(done, f"reload {key.name}")
        await self._verify(key, "reload")
        return True

    async def stop(self, key: ServiceKey) -> None:
        """Stop it and wait until it has stopped."""
        await self._do(key, "stop")
        if await self._runs(key):
            raise ToolFailed(f"cannot stop {key.name}: it still runs; run service {key.name} onestatus")

    async def _bring_up(self, key: ServiceKey, verb: str) -> None:
        await self._do(key, verb)
        await self._verify(key, verb)

    async def _verify(self, key: ServiceKey, verb: str) -> None:
        await asyncio.sleep(self._start_delay)
        if not await self._runs(key):
            advice = f"run service {key.name} onestatus, and look into /var/log/messages"
            raise refusals.exited(verb, key, "not running", advice)

    async def _runs(self, key: ServiceKey) -> bool:
        return (await self._ask(["service", key.name, "onestatus"])).returncode == 0

    async def _do(self, key: ServiceKey, verb: str) -> None:
        refusals.check_running(self.name, key, verb, booted=self._booted)
        done = await self._run(["service", key.name, f"one{verb}"], timeout=JOB_SECONDS)
        refusals.check(done, f"{verb} {key.name}")

    async def _set(self, key: ServiceKey, what: str, argv: list[str]) -> None:
        refusals.check_key(self.name, key)
        refusals.check(await self._ask(argv), f"{what} {key.name}")

    async def _ask(self, argv: list[str]) -> runner.Completed:
        return await self._run(argv, timeout=ASK_SECONDS)


def variable(name: str) -> str:
    """Return how rc.conf calls a service: php-fpm is php_fpm there, as no variable can have a dash."""
    text = _ODD.sub("_", name)
    return f"_{text}" if text[:1].isdigit() else text


def conf_file(name: str) -> str:
    """Return the file that rc.subr reads for a service besides rc.conf."""
    return f"/etc/rc.conf.d/{variable(name)}"


def enable_argv(name: str, *, enabled: bool) -> list[str]:
    """Return the command that makes a service start at boot, or not."""
    return ["sysrc", "-f", conf_file(name), f"{variable(name)}_enable={'YES' if enabled else 'NO'}"]


def arguments_argv(name: str, arguments: str) -> list[str]:
    """Return the command that sets the arguments of a service."""
    return ["sysrc", "-f", conf_file(name), f"{variable(name)}_args={arguments}"]


def read_arguments_argv(name: str) -> list[str]:
    """Return the command that says the arguments of a service, and nothing where there are none."""
    return ["sysrc", "-i", "-n", "-f", conf_file(name), f"{variable(name)}_args"]


def parse_list(output: bytes) -> frozenset[str]:
    """Return the names of all services, from `service -l`: one in a line."""
    return frozenset(output.decode("utf-8", "replace").split())
