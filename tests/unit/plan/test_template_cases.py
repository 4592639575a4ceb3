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
    engine, lax = case.get("engine", "gotemplate"), case.get("lax", False)
    if "output" in case:
        rendered = render(case["template"], DATA, engine=engine, lax=lax)
        assert rendered.encode(errors="surrogateescape") == _bytes(case["output"])
        assert render(case["template"], data(), engine=engine, lax=lax) == rendered, "not deterministic"
        return
    with pytest.raises(TemplateError) as failure:
        render(case["template"], DATA, engine=engine, name="/etc/motd", lax=lax)
    message = str(failure.value)
    assert message.startswith("cannot render /etc/motd: ")
    assert case["error"] in message
    assert not any(secret in message for secret in SECRETS)


def _bytes(output: str | bytes) -> bytes:
    """Return what a case expects; `!!binary` is for bytes that are no text."""
    return output if isinstance(output, bytes) else output.encode()
