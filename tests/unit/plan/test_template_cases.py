"""Every case under cases/templates: the language, the functions, the refusals, the hostile ones."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.plan.templates import TemplateError, render
from support.template_cases import cases, data

DATA = data()
SECRETS = ("hunter22", "aHVudGVyMjI", "private-key", "cHJpdmF0ZS1rZXk")


@pytest.mark.parametrize("case", cases())
def test_a_template_renders_or_fails_as_its_case_says(case: dict[str, Any]) -> None:
    engine = case.get("engine", "gotemplate")
    if "output" in case:
        rendered = render(case["template"], DATA, engine=engine)
        assert rendered == case["output"]
        assert render(case["template"], data(), engine=engine) == rendered, "not deterministic"
        return
    with pytest.raises(TemplateError) as failure:
        render(case["template"], DATA, engine=engine, name="/etc/motd")
    message = str(failure.value)
    assert message.startswith("cannot render /etc/motd: ")
    assert case["error"] in message
    assert not any(secret in message for secret in SECRETS)
