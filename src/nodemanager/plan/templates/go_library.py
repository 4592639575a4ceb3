"""gotpl without what no template of a file can reach: HTML, compression, rendering that waits for something.

gotpl imports all that it has, which brings tables of entities, a parser of HTML and three compressors along:
nearly 2 MiB that every agent with a template would hold for its life. So these parts are not imported, and
whoever used something of theirs would get an error. Everybody here imports gotpl through this module.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final

_LEFT_OUT: Final = (
    "gotpl.html", "gotpl.pythonic.compression", "gotpl.pythonic.text", "gotpl.runtime.async_vm"
)  # fmt: skip


class _LeftOut(ModuleType):
    """Stands for a module; it has every name that is asked for, and none of them is good for anything."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*_: object, **__: object) -> None:
            raise NotImplementedError(f"{self.__name__}.{name} is left out of nodemanager")

        return type(name, (), {"__init__": refuse})


for _name in _LEFT_OUT:
    sys.modules.setdefault(_name, _LeftOut(_name))

import gotpl  # noqa: E402 - only now
from gotpl.runtime.gofmt import sprintf  # noqa: E402

__all__ = ["gotpl", "sprintf"]
