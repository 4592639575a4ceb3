"""Whatever a template may use is there when nothing can be opened any more."""

from __future__ import annotations

import subprocess
import sys

from nodemanager.host.process import runner
from nodemanager.plan.templates import Job, Rendered, TemplateError, render
from nodemanager.plan.templates.functions.library import names
from nodemanager.plan.templates.jinja_filters import FILTERS
from nodemanager.rendering.renderer import Renderer
from support.template_cases import cases, data


async def test_all_cases_come_out_as_they_do_here() -> None:
    shared = data()
    todo = [
        Job(case["template"], shared, case.get("engine", "gotemplate"), lax=case.get("lax", False))
        for (case,) in (p.values for p in cases())
    ]
    todo += [Job(f"{{{{ {name} {args} }}}}", shared) for name in names() for args in ("", "`1`", "`a` 2 `b`")]
    todo += [
        Job(f"{{{{ 'a'|{name}{args} }}}}", shared, "jinja") for name in FILTERS for args in ("", "('a')")
    ]
    async with Renderer(runner.companion) as renderer:
        made = await renderer.render(todo)
        assert renderer.starts == 1
    assert len(todo) > 500
    for job, one in zip(todo, made, strict=True):
        assert _said(one) == _said(_here(job)), job.text


def _here(job: Job) -> Rendered:
    try:
        return render(job.text, job.data, engine=job.engine, lax=job.lax)
    except TemplateError as error:
        return error


def _said(made: Rendered) -> bytes:
    return str(made).encode(errors="surrogateescape")


def test_the_process_is_small() -> None:
    """A small host pays for every module, and what is not there cannot be misused."""
    script = (
        "import sys, importlib\n"
        "from nodemanager.rendering import child\n"
        "for name in child.NEEDED: importlib.import_module(name)\n"
        "print(*sorted({'asyncio', 'ssl', 'socket', 'subprocess', 'click', 'aiohttp',"
        " 'nodemanager.client', 'nodemanager.host', 'gotime', 'goduration', 'gotpl.funcs'}"
        " & set(sys.modules)))\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
