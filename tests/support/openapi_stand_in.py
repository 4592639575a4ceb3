"""A server with discovery and our OpenAPI documents, and nothing behind them: what kubectl sees of them.

Objects are answered from a table; what kubectl writes is recorded and echoed.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from nodemanager.api.crds import all_crds
from nodemanager.server.access.core import REVIEWS
from nodemanager.server.kinds.crds import kinds_of
from nodemanager.server.openapi.documents import Documents
from nodemanager.server.openapi.http import OpenApiRequest, respond
from nodemanager.server.openapi.kinds import Published, published
from support import cli

STATUS = {"status": ("get", "patch", "update")}
RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
STORED = [
    Published("", "v1", "ConfigMap", "configmaps"),
    Published("", "v1", "Secret", "secrets"),
    Published("", "v1", "ServiceAccount", "serviceaccounts", subresources={"token": ("create",)}),
    Published("", "v1", "Event", "events"),
    Published("", "v1", "Pod", "pods", subresources={**STATUS, "eviction": ("create",)}),
    Published("", "v1", "Node", "nodes", namespaced=False, subresources=STATUS),
    Published(
        "", "v1", "Namespace", "namespaces", namespaced=False, subresources=STATUS,
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    ),
    Published("events.k8s.io", "v1", "Event", "events"),
    Published("coordination.k8s.io", "v1", "Lease", "leases"),
    Published("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", subresources=STATUS),
    Published(RBAC, "v1", "Role", "roles"),
    Published(RBAC, "v1", "RoleBinding", "rolebindings"),
    Published(RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False),
    Published(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    Published(
        ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False,
        subresources=STATUS,
    ),
    Published(
        ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings",
        namespaced=False,
    ),
    Published(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions",
        namespaced=False, subresources=STATUS,
    ),
]  # fmt: skip
CUSTOM = [published(kind) for definition in all_crds() for kind in kinds_of(definition)]
SERVED = [*STORED, *map(published, REVIEWS), *CUSTOM]


@dataclass
class StandIn:
    """The running server: what it serves, and what was written to it."""

    server: str
    folder: Path
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Objects by their paths."""
    written: list[tuple[str, str, str, Any]] = field(default_factory=list)
    """Method, path with query, content type and body of every write."""

    def kubectl(self, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl against it, with a cache of its own."""
        argv = ["kubectl", "--server", self.server, "--cache-dir", str(self.folder / "cache"), *args]
        env = cli.environment(HOME=str(self.folder), KUBECONFIG="/dev/null")
        return subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=60, check=False, env=env
        )


@contextlib.contextmanager
def running(folder: Path, kinds: list[Published]) -> Iterator[StandIn]:
    """Serve these kinds on loopback until the end of the block."""
    with _Server(folder, kinds) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.stand_in
        finally:
            server.shutdown()
            thread.join(timeout=10)


def discovery(kinds: list[Published]) -> dict[str, Any]:
    """Return the discovery documents of these kinds, by their paths."""
    groups = sorted({(kind.group, kind.version) for kind in kinds if kind.group})
    versions = {
        group: {"groupVersion": f"{group}/{version}", "version": version} for group, version in groups
    }
    found: dict[str, Any] = {
        "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [
                {"name": group, "versions": [version], "preferredVersion": version}
                for group, version in versions.items()
            ],
        },
    }
    for path in {kind.group_path for kind in kinds}:
        here = [kind for kind in kinds if kind.group_path == path]
        found[f"/{path}"] = {
            "kind": "APIResourceList",
            "groupVersion": path.removeprefix("apis/").removeprefix("api/"),
            "resources": [
                {
                    "name": kind.plural,
                    "singularName": kind.kind.lower(),
                    "kind": kind.kind,
                    "namespaced": kind.namespaced,
                    "verbs": list(kind.verbs),
                }
                for kind in here
            ],
        }
    return found


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path, kinds: list[Published]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.stand_in = StandIn(f"http://127.0.0.1:{self.server_port}", folder)
        self.documents = Documents(kinds)
        self.pages = discovery(kinds)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        page = self.server.pages.get(url.path) or self.server.stand_in.objects.get(url.path)
        if url.path.startswith("/openapi/"):
            self._openapi(url.path, parse_qs(url.query).get("hash", [""])[0])
        elif page is not None:
            self._json(200, page)
        else:
            self._json(404, {"kind": "Status", "apiVersion": "v1", "reason": "NotFound", "code": 404})

    def do_POST(self) -> None:
        self._write(201)

    def do_PATCH(self) -> None:
        self._write(200)

    def _write(self, code: int) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        stand_in = self.server.stand_in
        stand_in.written.append((self.command, self.path, self.headers["Content-Type"], body))
        self._json(code, stand_in.objects.get(urlsplit(self.path).path, body))

    def _openapi(self, path: str, wanted: str) -> None:
        accept, known = (self.headers.get(name, "") for name in ("Accept", "If-None-Match"))
        reply = respond(self.server.documents, OpenApiRequest(path, wanted, accept, known), datetime.now(UTC))
        self._send(reply.status, dict(reply.headers), reply.body)

    def _json(self, code: int, body: Any) -> None:
        self._send(code, {"Content-Type": "application/json"}, json.dumps(body).encode())

    def _send(self, code: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class names it so
        """Say nothing."""
