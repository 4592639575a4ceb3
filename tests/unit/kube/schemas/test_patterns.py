"""Regular expressions of Go."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodemanager.kube.go.regex_syntax import RegexError
from nodemanager.kube.schemas import patterns
from support.format_texts import PATTERN_TEXTS, PATTERNS


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("^a$", "a", "a\n"),
        (r"^\d$", "1", "\u0661"),
        ("x(?i)a|b", "xA", "A"),
        ("(?i)a|b", "B", "c"),
        (r"^\p{Lu}$", "É", "é"),
        (r"^[\PL1]$", "1", "é"),
        ("(?i)^é$", "É", "e"),
        (r"^\Q*\E+$", "***", ""),
        ("a{,2}", "a{,2}", "aa"),
        ("^[[:^digit:]]$", "a", "1"),
        ("(?s)^a.b$", "a\nb", "ab"),
        ("(?m)^b$", "a\nb", "ab"),
    ],
)
def test_matches_as_in_go(pattern: str, matching: str, other: str) -> None:
    matcher = patterns.compile_pattern(pattern)
    assert matcher.search(matching)
    assert not matcher.search(other)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("(*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        (r"\*?{2}", "invalid nested repetition operator: `?{2}`"),
        ("{2}", "missing argument to repetition operator: `{2}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        (r"[!-\d]", r"invalid escape sequence: `\d`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?P<a>b)(?P<a>c)", "duplicate capture group name: `a`"),
        (r"\8", r"invalid escape sequence: `\8`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("[\\", "trailing backslash at end of expression: ``"),
        (r"\pX", r"invalid character class range: `\pX`"),
        ("a" * 5000, "expression too large"),
    ],
)
def test_what_go_refuses_is_refused_in_its_words(pattern: str, why: str) -> None:
    with pytest.raises(RegexError) as caught:
        patterns.compile_pattern(pattern)
    assert str(caught.value).startswith(f"error parsing regexp: {why}")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_short_and_long_texts_are_judged_alike(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = patterns.compile_pattern(pattern)
    texts = [text for text in PATTERN_TEXTS if len(text) <= patterns.QUICK_TEXT]
    quick = [matcher.search(text) for text in texts]
    monkeypatch.setattr(patterns, "QUICK_TEXT", -1)
    assert [matcher.search(text) for text in texts] == quick


@pytest.mark.timeout(120)
def test_no_text_is_expensive() -> None:
    assert not patterns.compile_pattern("^(a+)+$").search("a" * 5000 + "!")
    assert not patterns.compile_pattern("^a*a*a*$").search("a" * 200 + "!")


@settings(deadline=None)
@given(st.text(st.sampled_from(r"ab1()[]{}|*+?^$.\\dwzQEp-:,<>P!=i")))
def test_any_text_is_a_pattern_or_is_refused(text: str) -> None:
    try:
        matcher = patterns.compile_pattern(text)
    except RegexError:
        return
    assert matcher.search("ab1") in (True, False)
