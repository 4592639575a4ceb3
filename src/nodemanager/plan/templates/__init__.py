"""Templates of files: Go templates with gomplate's functions, and Jinja2, both without any way out.

Pure and deterministic: the same text and the same data give the same bytes, whatever the host, the
clock or the network are doing. The template libraries are imported with the first template. A process with
secrets lets another process render (`nodemanager.rendering`): what a template does to
libraries written in C cannot be bounded from within.
"""

from nodemanager.plan.templates.engine import ENGINES, RenderCache, is_literal, render
from nodemanager.plan.templates.errors import NotRendered, TemplateError
from nodemanager.plan.templates.jobs import Job, Rendered
from nodemanager.plan.templates.peers import may_read, reads_data, reads_peers
from nodemanager.plan.templates.references import References, referenced
from nodemanager.plan.templates.shapes import Data, data_of, node_data, peer_data

__all__ = [
    "ENGINES",
    "Data",
    "Job",
    "NotRendered",
    "References",
    "RenderCache",
    "Rendered",
    "TemplateError",
    "data_of",
    "is_literal",
    "may_read",
    "node_data",
    "peer_data",
    "reads_data",
    "reads_peers",
    "referenced",
    "render",
]
