"""What an author of manifests may write who means harm: grammars, seeded,
so that a case can be had again."""

from __future__ import annotations

import os
import random
from typing import Any, Final

SEED: Final = int(os.environ.get("NODEMANAGER_AUTHOR_SEED", "11"))
CASES: Final = int(os.environ.get("NODEMANAGER_AUTHOR_CASES", "2000"))
MARK: Final = "pwned"
"""What a program of theirs would leave behind, somewhere in the working directory."""

_WORDS: Final = (
    "nm-lib", "nm-app", "nginx", "g++", "libstdc++6", "python3.11", "linux-image-amd64", "a", "0ad", "_x",
    "nm_lib",
    "perl:any", "nm-lib:amd64", "nm-lib.noarch", "nm-lib-1.0-1", "getty@tty1", "dbus.socket", "-.mount",
    "base",
)  # fmt: skip
_BEFORE: Final = (
    "-", "--", "--option=", "-o", "-oDPkg::Pre-Invoke::=touch ", "--config=", "-c", "@", "+", "/", "./",
    "../", "~",
    "?", "^", "!", "*", "file://", "https://evil.example/", "test/", "test::", "\\", " ", "\t", "=", ":",
    "$(", "`",
)  # fmt: skip
_AFTER: Final = (
    "-", "+", "=", "=1.0-1", "/stable", "/../../etc/passwd", "*", "?", "[a]", ".*", "$", "^", "|sh",
    ";touch pwned",
    "\n", "\nnm-app", "\r\n", "\x00", " ", " nm-app", "\t", ",nm-app", "<2", ">=1", "~bookworm", "#", "%s",
    "{a,b}",
    "(x)", "'", '"', "&", ".deb", ".rpm", ".pkg.tar.zst", "@.service", ".service.d", ":arm64", "--",
    "\\x2d",
)  # fmt: skip
_INSIDE: Final = (
    "\u2010", "\u2212", "\uff0d", "\u00ad", "\u200b", "\u202e", "\ufeff", "\u0430", "\u0131", "\u2044",
    "\uff1d",
    "\x85", "\u2028", "\x1b[2J", "\x7f", "\ud7ff", "\U0001f4a3", "e\u0301", "\uffff", "\u0663",
)  # fmt: skip
_PLAIN: Final = "abcxyz0189-_.+:@=/~^*?[]{}()$\\ \n\t,;!'\"%#&|<>"


class Author:
    """Writes one hostile thing after the other."""

    def __init__(self, seed: int = SEED) -> None:
        self.random = random.Random(seed)

    def name(self) -> str:
        """Return what may become an argument of a package or service manager."""
        rng = self.random
        text = rng.choice(_WORDS)
        for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 3))):
            text = rng.choice((self._before, self._after, self._inside, self._noise, self._long))(text)
        return text

    def _before(self, text: str) -> str:
        return self.random.choice(_BEFORE) + text

    def _after(self, text: str) -> str:
        return text + self.random.choice(_AFTER)

    def _inside(self, text: str) -> str:
        at = self.random.randrange(len(text) + 1)
        return text[:at] + self.random.choice(_INSIDE) + text[at:]

    def _noise(self, text: str) -> str:
        made = "".join(self.random.choice(_PLAIN) for _ in range(self.random.randrange(1, 12)))
        return made if self.random.random() < 0.3 else text + made

    def _long(self, text: str) -> str:
        if len(text) > 100 or self.random.random() < 0.8:
            return text
        return text * self.random.choice((2, 16, 64, 300, 5000))

    def version(self) -> str:
        """Return what may become a version."""
        rng = self.random
        return rng.choice(("", "1.0-1", "2:1.0~rc1-1", "1.0", "0", self.name(), f"1{rng.choice(_AFTER)}"))

    def schedule(self) -> str:
        """Return something like a cron schedule."""
        rng = self.random
        if rng.random() < 0.1:
            return rng.choice(("@", "@daily", "@reboot", "@every 1s", "", " ", self.name()))
        return rng.choice((" ", "  ", "\t", "\n")).join(
            self._field() for _ in range(rng.choice((1, 4, 5, 5, 5, 6, 7, 8)))
        )

    def _field(self) -> str:
        rng = self.random
        number = rng.choice(
            (
                "0",
                "1",
                "7",
                "23",
                "29",
                "31",
                "59",
                "60",
                "99",
                "2026",
                "1970",
                "2099",
                "9" * 30,
                "-1",
                "\u0663",
            )
        )
        return rng.choice((
            "*", "?", number, f"{number}-{number}", f"*/{number}", f"{number}/{number}",
            f"{number},{number}", "L", "LW",
            "15W", f"{number}#{number}", "MON", "MON-FRI", "SUNDAYL", "JAN,DEC", ",", "-", "/", "*/0",
            "1-", "0/0",
            f"{number}L", ",".join([number] * rng.choice((2, 40, 4000))), self.name()[:20],
        ))  # fmt: skip

    def selector(self) -> str:
        """Return something like a label selector."""
        rng = self.random
        forms = (
            "{}={}",
            "{}=={}",
            "{}!={}",
            "{} in ({})",
            "{} notin ({},{})",
            "!{}",
            "{}",
            "({})",
            "{} in {}",
        )
        made = []
        for _ in range(rng.choice((1, 1, 2, 3, 500))):
            words = [rng.choice(("role", "example.com/x", "", self.name()[:200])) for _ in range(3)]
            made.append(rng.choice(forms).format(*words))
        return rng.choice((",", ", ", ",,", " ")).join(made)

    def duration(self) -> str:
        """Return something like a duration."""
        rng = self.random
        units = ("ns", "us", "\u00b5s", "ms", "s", "m", "h", "d", "", "S", "e3s", "s-")
        number = ("1", "0", "-1", "+1", "1.5", ".5", "1.", "9" * 40, "0x1", "1e3", "\u0663", "1_0")
        return "".join(
            rng.choice(number) + rng.choice(units) for _ in range(rng.choice((0, 1, 1, 2, 60, 3000)))
        )

    def expression(self) -> str:
        """Return something like CEL."""
        rng = self.random
        parts = (
            "self", "1", "'a'", "true", "[1,2]", "{'a': 1}", "(", ")", "[", "]", "{", "}", ".", "+", "-",
            "!", "&&", "||",
            "?", ":", "in", "has(self.a)", "self.matches('(a*)*b')", "[1].map(x, x)", "duration('1h')",
            "quantity('1Ki')",
            "semver('1.0.0')", "99999999999999999999", "0x", "'", '"""', "\\", "\n", "//", "r'\\'", "b'x'",
            "1e999", ",",
        )  # fmt: skip
        return rng.choice((" ", "")).join(
            rng.choice(parts) for _ in range(rng.choice((1, 2, 3, 5, 9, 30, 2000)))
        )

    def pattern(self) -> str:
        """Return something like a regular expression."""
        rng = self.random
        parts = ("a", "(", ")", "*", "+", "?", "{2}", "{1000}", "{1001}", "[a-z]", "[", "]", "^", "$", "|",
        ".", "\\p{L}",
                 "\\x{2028}", "(?i)", "(?P<n>", "\\1", "\\Q", "\\", "(a*)*", "(a|a)*", "(?=a)")  # fmt: skip
        return "".join(rng.choice(parts) for _ in range(rng.choice((1, 2, 3, 5, 9, 400, 3000))))

    def number(self) -> str:
        """Return something like a quantity or a version."""
        rng = self.random
        parts = (
            "1",
            "0",
            ".",
            "-",
            "+",
            "e",
            "E9",
            "Ki",
            "Mi",
            "m",
            "k",
            "v",
            "rc",
            "9" * 25,
            " ",
            "n",
            "\u0663",
            "~",
        )
        return "".join(rng.choice(parts) for _ in range(rng.choice((1, 2, 3, 5, 9, 400, 30000))))

    def config_set(self) -> dict[str, Any]:
        """Return a ConfigSet that is mostly right, with something hostile in some places."""
        rng = self.random

        def text(usual: str) -> Any:
            odd = rng.random()
            return usual if odd < 0.7 else self.name() if odd < 0.97 else rng.choice((None, 1, [], {}, True))

        package = {"name": text("nm-lib"), "version": text("1.0-1"), "ensure": text("installed")}
        service = {"name": text("nginx.service"), "user": text(""), "ensure": text("running"),
        "arguments": text("-x"),
                   "subscribe_files": [text("/etc/motd")], "lock_group": text("web")}  # fmt: skip
        file = {"path": text("/etc/motd"), "content": text("x"), "owner": text("root"),
        "group": text("root"),
                "mode": text("0644"), "target": text("/x"), "ensure": text("file"),
                "configMapRefs": [text("a")]}  # fmt: skip
        execution = {
            "command": text("true"),
            "args": [text("x")],
            "creates": text("/x"),
            "timeout": text(self.duration()),
        }
        chosen = {"packages": [package], "services": [service], "files": [file], "executions": [execution]}
        spec: dict[str, Any] = {key: chosen[key] for key in rng.sample(sorted(chosen), rng.randrange(1, 4))}
        if rng.random() < 0.1:
            spec[self.name()] = text("x")
        spec["nodeSelector"] = (
            {"matchLabels": {text("role") or "x": text("web")}} if rng.random() < 0.2 else None
        )
        return {
            "apiVersion": "common.nodemanager/v1", "kind": "ConfigSet",
            "metadata": {"name": text("web"), "namespace": "nodemanager"}, "spec": spec,
        }  # fmt: skip
