"""Templates of files: Go templates with gomplate's functions, and Jinja2, both without any way out.

Pure and deterministic: the same text and the same data give the same bytes, whatever the host, the
clock or the network are doing. The template libraries are imported with the first template.
"""

from nodemanager.plan.templates.engine import ENGINES, RenderCache, render
from nodemanager.plan.templates.errors import TemplateError
from nodemanager.plan.templates.peers import reads_peers
from nodemanager.plan.templates.references import References, referenced
from nodemanager.plan.templates.shapes import Data, data_of, node_data, peer_data

__all__ = [
    "ENGINES",
    "Data",
    "References",
    "RenderCache",
    "TemplateError",
    "data_of",
    "node_data",
    "peer_data",
    "reads_peers",
    "referenced",
    "render",
]
