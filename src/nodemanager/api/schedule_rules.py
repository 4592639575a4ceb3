"""CEL rules for cron schedules, so that an unreadable one is refused when it is written.

They accept what `api.schedules` reads: 5 fields; 6 with a year at the end; 7 with seconds at the
beginning, too; or a name such as @daily. There is a rule per field, so that the message names the wrong one.
"""

from __future__ import annotations

from typing import Final

from nodemanager.kube.hints import Rule

MONTHS: Final = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"
DAYS: Final = "SUN MON TUE WED THU FRI SAT"
STEP: Final = "(/0*[1-9][0-9]{0,8})?"
_UPPER = "self.upperAscii()"
_SIXTY = "0*[1-5]?[0-9]"
_DAY = "0*([1-9]|[12][0-9]|3[01])"
_MONTH = f"(0*([1-9]|1[0-2])|({MONTHS.replace(' ', '|')})(UARY|RUARY|CH|IL|E|Y|UST|TEMBER|OBER|EMBER)?)"
_WEEKDAY = f"(0*[0-7]|({DAYS.replace(' ', '|')})(DAY|SDAY|NESDAY|RSDAY|URDAY)?)"
YEAR: Final = "(19[7-9][0-9]|20[0-9][0-9])"


def _term(number: str, *others: str) -> str:
    return f"({'|'.join([f'([*?]|{number}(-{number})?){STEP}', *others])})"


def _field(place: int, term: str, message: str) -> Rule:
    """Return the rule of a field, by its place among five; that there are as many is another rule."""
    field = f"{term}(,{term})*"
    other_count = r"|@\S*|\S+(\s+\S+){0,3}|\S+(\s+\S+){7,}"
    if place < 0:
        placed = rf"\S+(\s+\S+){{4,5}}|{field}(\s+\S+){{6}}"
    elif place == 5:
        placed = rf"\S+(\s+\S+){{4}}|(\S+\s+){{5,6}}{field}"
    else:
        plain = rf"(\S+\s+){{{place}}}{field}(\s+\S+){{{4 - place},{5 - place}}}"
        placed = rf"{plain}|(\S+\s+){{{place + 1}}}{field}(\s+\S+){{{5 - place}}}"
    return Rule(rf"{_UPPER}.matches(r'^\s*({other_count}|{placed})\s*$')", message)


# Patterns, too, for what numbers would tell more easily: the API server takes what a function of CEL finds in
# a text for endlessly long, and refuses a rule that looks at it for what that might cost.


def _backwards() -> str:
    """Return a pattern of all ranges that begin with their higher end; years may be in either order."""
    found = ["[1-9][0-9]-0*[0-9]", *(f"{tens}[0-9]-0*[1-{tens - 1}][0-9]" for tens in range(2, 6))]
    for tens in ("", *"12345"):
        found += [f"{tens}{unit}-0*{tens}[0-{unit - 1}]" for unit in range(1, 10)]
    for first, names in enumerate((DAYS.split(), MONTHS.split())):
        both = [f"{number}|{name}[A-Z]*" for number, name in enumerate(names, first)]
        found += [f"({both[i]})-0*({'|'.join(both[:i])})" for i in range(1, len(both))]
    return f"(^|[^0-9A-Z])0*({'|'.join(found)})($|[^0-9A-Z])"


def _never() -> str:
    """Return a pattern of schedules for days that their months do not have, whatever the weekday."""
    short = "|".join(
        rf"{days}(,{days})*\s+({months})(,({months}))*"
        for days, months in (
            ("0*31(-0*31)?", "0*([2469]|11)|(FEB|APR|JUN|SEP|NOV)[A-Z]*"),
            ("0*3[01](-0*3[01])?", "0*2|FEB[A-Z]*"),
        )
    )
    return rf"^\s*(\S+\s+){{2,3}}({short})\s+[*?]\S*(\s+\S+)?\s*$"


SCHEDULE: Final = (
    Rule(
        rf"self == '' || {_UPPER}.matches(r'^\s*(@(HOURLY|DAILY|WEEKLY|MONTHLY|YEARLY|ANNUALLY)"
        r"|\S+(\s+\S+){4,6})\s*$')",
        'must be a cron schedule of 5 to 7 fields, such as "30 3 * * 0", or a name, such as "@daily"',
    ),
    _field(-1, _term(_SIXTY), "the seconds, first of 7 fields, must be 0 to 59, such as 0 or 30"),
    _field(0, _term(_SIXTY), "the minute must be 0 to 59, such as 30, 0,30, 10-20 or */15"),
    _field(1, _term("0*(1?[0-9]|2[0-3])"), "the hour must be 0 to 23, such as 3, 1,13, 2-4 or */6"),
    _field(
        2, _term(_DAY, f"LW?{STEP}"), "the day of the month must be 1 to 31, L or LW, such as 1, 1-7 or */2"
    ),
    _field(3, _term(_MONTH), "the month must be 1 to 12 or Jan to Dec, such as 6, Jan-Mar or */3"),
    _field(
        4,
        _term(_WEEKDAY, f"{_WEEKDAY}L", f"{_WEEKDAY}#0*[1-5]"),
        "the weekday must be 0 to 7 or Sun to Sat, such as 0, Mon-Fri, 5L (last Friday) or 1#2",
    ),
    _field(
        5, _term(YEAR), "the year, last of 6 or 7 fields, must be 1970 to 2099, such as 2030 or 2030-2032"
    ),
    Rule(
        f"!{_UPPER}.matches(r'{_backwards()}')",
        'a range must begin with its lower end, such as 1-5; write "22-23,0-4" for one across midnight',
    ),
    Rule(f"!{_UPPER}.matches(r'{_never()}')", "no month of this schedule has that day"),
)
