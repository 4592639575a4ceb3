"""What is left out of gotpl is an error for whoever uses it, and no silence."""

from __future__ import annotations

import pytest

from nodemanager.plan.templates.go_library import gotpl


def test_what_is_left_out_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"gotpl\.html\.HTMLTemplate is left out"):
        gotpl.HTMLTemplate("{{ . }}")
