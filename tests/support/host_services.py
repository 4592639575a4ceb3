"""Drives our service managers in a test machine, or in a root of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from nodemanager.plan.facts import ServiceFact
from support import host_python

_DRIVER = "/opt/nodemanager/tests/support/service_driver.py"


class Place(Protocol):
    """Where commands can be run: a Machine."""

    def run(self, *argv: str, stdin: str = "", env: Any = None) -> Any:
        """Run a command."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """The service manager of a machine."""

    machine: Place
    root: str = "/"

    def look(self, name: str, user: str = "") -> ServiceFact:
        """Return the fact of one service."""
        return self.look_all((name, user))[0]

    def look_all(self, *keys: tuple[str, str]) -> list[ServiceFact]:
        """Return the facts of many services, in order."""
        return [ServiceFact(**fact) for fact in self._order(observe=keys)["facts"]]

    def do(self, deed: str, name: str = "", user: str = "", delay: float = 0.3) -> str:
        """Do something to a service; return why not, or an empty string."""
        return str(self._order(do=deed, name=name, user=user, delay=delay).get("error", ""))

    def reload(self, name: str) -> bool:
        """Reload a service; return whether it was, or had to be restarted."""
        return bool(self._order(do="reload", name=name)["returned"])

    def _order(self, **order: Any) -> dict[str, Any]:
        argv = (*host_python.COMMAND, _DRIVER)
        text = json.dumps({"root": self.root, **order})
        done = self.machine.run(*argv, stdin=text, env=host_python.ENVIRONMENT)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer
