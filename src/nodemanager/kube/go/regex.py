"""Go's regular expressions in linear time: a pattern becomes an automaton, so no text is expensive.

Python's own `re` backtracks, and a short pattern can keep it busy for years. Patterns may come from people
that we do not trust.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from nodemanager.kube.go import regex_syntax
from nodemanager.kube.go.regex_syntax import RegexError

MAX_PROGRAM = 10_000
MAX_CACHE = 5_000
MAX_NEW_WORK = 200_000
"""How many new instructions `search` may run; those that it has run before are remembered and cheap."""
MAX_WORK = 1_000_000
"""How many instructions `find` may run, and how many characters `find_all` may look at."""

_WORD = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
Threads = tuple[int, ...]


class TooMuchWork(RegexError):
    """Finding out whether the text matches takes more work than one call may do."""

    def __init__(self) -> None:
        super().__init__("the regular expression takes too long on this text")


@lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> Regex:
    """Return the automaton of a pattern; raise RegexError for what RE2 refuses."""
    return Regex(pattern)


class Regex:
    """The automaton of one pattern: instructions, and what was learnt about them so far."""

    def __init__(self, pattern: str) -> None:
        self._code: list[tuple[Any, ...]] = []
        self._emit(regex_syntax.parse(pattern))
        self._code.append(("match",))
        self._work = 0
        self._steps: dict[tuple[Threads, str, str], tuple[bool, Threads]] = {}

    def search(self, text: str) -> bool:
        """Tell whether the pattern matches anywhere in the text."""
        threads: Threads = ()
        before = ""
        self._work = 0
        for char in text:
            matched, threads = self._step((*threads, 0), before, char)
            if matched:
                return True
            before = char
        return self._step((*threads, 0), before, "")[0]

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Return where the leftmost match begins and ends, the one that Perl would choose."""
        return self._find(text, start)[0]

    def _find(self, text: str, start: int) -> tuple[tuple[int, int] | None, int]:
        """Return the leftmost match, and how many characters were looked at."""
        position = start
        self._work = 0
        best: tuple[int, int] | None = None
        threads: list[tuple[int, int]] = []
        for position in range(start, len(text) + 1):
            before = text[position - 1] if position else ""
            char = text[position] if position < len(text) else ""
            if best is None:
                threads.append((0, position))
            following: list[tuple[int, int]] = []
            seen: set[int] = set()
            for entry, began in threads:
                matched, moved = self._follow(entry, before, char, seen)
                following.extend((each, began) for each in moved)
                if matched:
                    best = (began, position)
                    break  # what comes later has a lower priority
            threads = following
            self._count(len(seen))
            if not threads and best is not None:
                break
        return best, position - start

    def find_all(self, text: str, limit: int) -> list[str]:
        """Return the matches that do not overlap, at most `limit` of them unless it is negative."""
        found: list[str] = []
        position, last_end, work = 0, -1, 0
        while position <= len(text) and (limit < 0 or len(found) < limit):
            place, looked = self._find(text, position)
            work += looked
            if work > MAX_WORK:
                raise TooMuchWork
            if place is None:
                break
            begin, end = place
            if begin != end or begin != last_end:  # an empty match right after another one does not count
                found.append(text[begin:end])
            last_end = end
            position = end if end > begin else end + 1
        return found

    def _count(self, instructions: int, limit: int = MAX_WORK) -> None:
        self._work += instructions
        if self._work > limit:
            raise TooMuchWork

    def _step(self, threads: Threads, before: str, char: str) -> tuple[bool, Threads]:
        key = (threads, _context(before), char)
        known = self._steps.get(key)
        if known is not None:
            return known
        seen: set[int] = set()
        moved: list[int] = []
        matched = False
        for entry in threads:
            hit, found = self._follow(entry, before, char, seen)
            matched = matched or hit
            moved.extend(found)
        self._count(len(seen), MAX_NEW_WORK)
        if len(self._steps) >= MAX_CACHE:
            self._steps.clear()
        result = (matched, tuple(dict.fromkeys(moved)))
        self._steps[key] = result
        return result

    def _follow(self, entry: int, before: str, char: str, seen: set[int]) -> tuple[bool, list[int]]:
        """Run one thread up to the next character: did it match, and where does it go on."""
        stack: list[int] = [entry]
        moved: list[int] = []
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            instruction = self._code[at]
            match instruction[0]:
                case "match":
                    return True, moved
                case "set":
                    if char and _within(ord(char), instruction[1]):
                        moved.append(at + 1)
                case "jump":
                    stack.append(instruction[1])
                case "split":
                    stack.extend((instruction[2], instruction[1]))
                case "assert":
                    if _holds(instruction[1], before, char):
                        stack.append(at + 1)
        return False, moved

    def _emit(self, tree: regex_syntax.Tree) -> None:
        if len(self._code) > MAX_PROGRAM:
            raise RegexError("error parsing regexp: expression too large")
        match tree[0]:
            case "cat":
                for part in tree[1]:
                    self._emit(part)
            case "group":
                self._emit(tree[1])
            case "alt":
                self._emit_alternatives(tree[1])
            case "repeat":
                self._emit_repeat(tree[1], tree[2], tree[3], greedy=tree[4])
            case _:
                self._code.append(tree)

    def _emit_alternatives(self, parts: tuple[regex_syntax.Tree, ...]) -> None:
        jumps: list[int] = []
        for part in parts[:-1]:
            split = self._reserve()
            self._emit(part)
            jumps.append(self._reserve())
            self._code[split] = ("split", split + 1, len(self._code))
        self._emit(parts[-1])
        for jump in jumps:
            self._code[jump] = ("jump", len(self._code))

    def _emit_repeat(self, part: regex_syntax.Tree, least: int, most: int | None, *, greedy: bool) -> None:
        for _ in range(least):
            self._emit(part)
        if most is None:
            split = self._reserve()
            self._emit(part)
            self._code.append(("jump", split))
            self._code[split] = self._split(split + 1, len(self._code), greedy=greedy)
            return
        splits: list[int] = []
        for _ in range(most - least):
            splits.append(self._reserve())
            self._emit(part)
        for split in splits:
            self._code[split] = self._split(split + 1, len(self._code), greedy=greedy)

    def _reserve(self) -> int:
        self._code.append(())
        return len(self._code) - 1

    @staticmethod
    def _split(first: int, second: int, *, greedy: bool) -> tuple[Any, ...]:
        return ("split", first, second) if greedy else ("split", second, first)


def _within(code: int, ranges: regex_syntax.Ranges) -> bool:
    return any(low <= code <= high for low, high in ranges)


def _context(before: str) -> str:
    """Return what an assertion can tell about the character before."""
    if before in ("", "\n"):
        return before
    return "w" if before in _WORD else "-"


def _holds(kind: str, before: str, char: str) -> bool:
    if kind == "begin":
        return before == ""
    if kind == "end":
        return char == ""
    if kind == "begin-line":
        return before in ("", "\n")
    if kind == "end-line":
        return char in ("", "\n")
    return ((before in _WORD) != (char in _WORD)) == (kind == "word")
