"""strings.*: texts, in gomplate's order of arguments, the text last."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

from nodemanager.plan.templates.errors import FunctionError
from nodemanager.plan.templates.functions.registry import add, checked_size
from nodemanager.plan.templates.functions.values import as_bytes, as_text, integer, items, text

_NOT_ALNUM = re.compile(r"[\W_]+")
_WORD_START = re.compile(r"(?<![\w'\u2019])\w")


@add("strings.ToUpper", "toUpper")
def _to_upper(value: Any) -> str:
    return text(value).upper()


@add("strings.ToLower", "toLower")
def _to_lower(value: Any) -> str:
    return text(value).lower()


@add("strings.Title", "title")
def _title(value: Any) -> str:
    return _WORD_START.sub(lambda found: found.group().upper(), text(value))


@add("strings.TrimSpace", "trimSpace")
def _trim_space(value: Any) -> str:
    return text(value).strip()


@add("strings.Trim")
def _trim(cutset: str, value: Any) -> str:
    return text(value).strip(cutset) if cutset else text(value)


@add("strings.TrimLeft")
def _trim_left(cutset: str, value: Any) -> str:
    return text(value).lstrip(cutset) if cutset else text(value)


@add("strings.TrimRight")
def _trim_right(cutset: str, value: Any) -> str:
    return text(value).rstrip(cutset) if cutset else text(value)


@add("strings.TrimPrefix")
def _trim_prefix(prefix: str, value: Any) -> str:
    return text(value).removeprefix(prefix)


@add("strings.TrimSuffix")
def _trim_suffix(suffix: str, value: Any) -> str:
    return text(value).removesuffix(suffix)


@add("strings.Contains")
def _contains(part: str, value: Any) -> bool:
    return part in text(value)


@add("strings.HasPrefix")
def _has_prefix(prefix: str, value: Any) -> bool:
    return text(value).startswith(prefix)


@add("strings.HasSuffix")
def _has_suffix(suffix: str, value: Any) -> bool:
    return text(value).endswith(suffix)


@add("strings.Split")
def _split(separator: str, value: Any) -> list[str]:
    return _split_n(separator, -1, value)


@add("strings.SplitN")
def _split_n(separator: str, count: int, value: Any) -> list[str]:
    if count == 0:
        return []
    if not separator:
        whole = text(value)
        return list(whole) if count < 0 else [*whole[: count - 1], *([whole[count - 1 :]] if whole else [])]
    return text(value).split(separator, count - 1 if count > 0 else -1)


def replaced(value: str, old: str, new: str) -> str:
    """Replace all of `old`, after making sure that the result is not too long."""
    checked_size(value.count(old) * max(len(new) - len(old), 0))
    return value.replace(old, new)


@add("strings.ReplaceAll", "replaceAll", "strings.Replace")
def _replace_all(old: str, new: str, value: Any) -> str:
    return replaced(text(value), old, new)


@add("strings.Repeat")
def _repeat(count: int, value: Any) -> str:
    if count < 0:
        raise FunctionError("the count is negative")
    checked_size(len(text(value)) * count)
    return text(value) * count


def indented(value: str, width: int, unit: str = " ") -> str:
    """Put the unit, as often as the width says, before every line that is not empty."""
    if width <= 0:
        raise FunctionError("the width must be greater than 0")
    if "\n" in unit:
        raise FunctionError("the indentation must not contain a line break")
    checked_size((value.count("\n") + 1) * width * len(unit))
    return "\n".join(unit * width + line if line else line for line in value.split("\n"))


@add("strings.Indent", "indent")
def _indent(*arguments: Any) -> str:
    match arguments:
        case (value,):
            return indented(text(value), 1)
        case (int() as width, value):
            return indented(text(value), width)
        case (str() as unit, value):
            return indented(text(value), 1, unit)
        case (int() as width, str() as unit, value):
            return indented(text(value), width, unit)
    raise FunctionError("it takes a width, an indentation, or both, and then a text")


@add("strings.Quote", "quote")
def _quote(value: Any) -> str:
    quoted = json.dumps(text(value), ensure_ascii=False)
    return re.sub(r"\\u00([01][0-9a-f])", r"\\x\1", quoted).replace("\x7f", r"\x7f")


@add("strings.Squote", "squote")
def _squote(value: Any) -> str:
    return "'" + replaced(text(value), "'", "''") + "'"


def shell_quoted(value: Any) -> str:
    """Return one word for a POSIX shell."""
    return "'" + replaced(text(value), "'", "'\"'\"'") + "'"


@add("strings.ShellQuote", "shellQuote")
def _shell_quote(value: Any) -> str:
    return " ".join(map(shell_quoted, value)) if isinstance(value, list) else shell_quoted(value)


@add("strings.Slug")
def _slug(value: Any) -> str:
    spelled = text(value).lower().replace("&", " and ").replace("@", " at ")
    plain = unicodedata.normalize("NFKD", spelled).encode("ascii", "ignore").decode()
    return re.sub(r"-{2,}", "-", re.sub(r"[^a-z0-9_-]+", "-", plain.replace("'", ""))).strip("-_")


@add("strings.Trunc")
def _trunc(length: int, value: Any) -> str:
    return text(value) if length < 0 else as_text(as_bytes(text(value))[:length])


@add("strings.Abbrev")
def _abbrev(*arguments: Any) -> str:
    if len(arguments) not in (2, 3):
        raise FunctionError("it takes a width and a text")
    offset = integer(arguments[0], "the offset") if len(arguments) == 3 else 0
    width, value = integer(arguments[-2], "the width"), text(arguments[-1])
    if len(value) <= width:
        return value
    if width < 4 or (offset > 4 and width < 7):
        raise FunctionError("the width is too small: 4 is the least, 7 with an offset")
    if offset <= 4:
        return value[: width - 3] + "..."
    if offset + width - 3 < len(value):
        return "..." + value[offset : offset + width - 6] + "..."
    return "..." + value[len(value) - (width - 3) :]


@add("strings.Sort")
def _sort(value: Any) -> list[str]:
    return sorted(map(text, items(value)))


@add("strings.RuneCount")
def _rune_count(*values: Any) -> int:
    return sum(len(text(each)) for each in values)


@add("strings.SkipLines")
def _skip_lines(count: int, value: str) -> str:
    if count < 0:
        raise FunctionError("the count is negative")
    rest = value.split("\n", count)
    return rest[count] if len(rest) > count else ""


def _cased(value: Any, glue: str) -> str:
    trimmed = text(value).strip()
    lowered = trimmed.lower()
    if trimmed:
        lowered = lowered.replace(lowered[0], trimmed[0], 1)
    return glue.join(_NOT_ALNUM.sub(" ", lowered).split())


@add("strings.SnakeCase")
def _snake_case(value: Any) -> str:
    return _cased(value, "_")


@add("strings.KebabCase")
def _kebab_case(value: Any) -> str:
    return _cased(value, "-")


@add("strings.CamelCase")
def _camel_case(value: Any) -> str:
    trimmed = text(value).strip()
    titled = _title(trimmed.lower())
    return _NOT_ALNUM.sub("", trimmed[:1] + titled[1:])


@add("strings.WordWrap")
def _word_wrap(*arguments: Any) -> str:
    if not 1 <= len(arguments) <= 3:
        raise FunctionError("it takes a width, a line break, or both, and then a text")
    width, line_break, value = 80, "\n", text(arguments[-1])
    if len(arguments) == 3:
        width, line_break = integer(arguments[0], "the width"), text(arguments[1])
    elif len(arguments) == 2 and isinstance(arguments[0], str):
        line_break = arguments[0]
    elif len(arguments) == 2:
        width = integer(arguments[0], "the width")
    return _wrapped(value, max(width, 1), line_break)


def _wrapped(value: str, width: int, line_break: str) -> str:
    checked_size(len(value) // width * len(line_break))
    out: list[str] = []
    at = 0
    while len(value) - at > width:
        if value[at] == " ":
            at += 1
            continue
        cut = value.rfind(" ", at, at + width + 1)
        if cut < 0:
            cut = value.find(" ", at + width)
        if cut < 0:
            break
        out.append(value[at:cut])
        at = cut + 1
    return line_break.join([*out, value[at:]])


@add("strings.FromBytes")
def _from_bytes(value: Any) -> str:
    """Return the text of a Secret: its bytes, which reach a template in base64."""
    from nodemanager.plan.templates.functions.fn_encodings import decoded

    if isinstance(value, list):
        return as_text(bytes(value))
    return as_text(value if isinstance(value, bytes) else decoded(text(value)))
