"""One of two servers, with a table of admission policies in force: the embedded one, or kube-apiserver.

Every case has a namespace of its own and a policy that looks only there, so that all of them can be
in force at the same time; kube-apiserver needs a moment for that, which is waited for once.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nodemanager.cli.embedded import embedded_api
from nodemanager.server.embedded import EmbeddedServer
from nodemanager.server.http.endpoint import Endpoint
from support import file_limit, seeds
from support.policy_table import CRD, Case
from support.raw_api import Answer, Connection

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{GROUP}/validatingadmissionpolicies", f"{GROUP}/validatingadmissionpolicybindings"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WAIT = 90.0


class Server(Connection):
    """A connection as the administrator of a kubeconfig; other users are impersonated."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]).decode())
        with tempfile.NamedTemporaryFile(suffix=".pem") as pem:
            pem.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            pem.flush()
            context.load_cert_chain(pem.name)
        super().__init__(cluster["server"], context)
        self.run = f"p{uuid.uuid4().hex[:6]}"

    def make(self, path: str, body: Any) -> Any:
        """Create something that must be taken."""
        answer = self.ask("POST", path, body)
        assert answer.code in (200, 201), answer
        return answer.body

    def until(
        self, method: str, path: str, body: Any, code: int, headers: Mapping[str, str] | None = None
    ) -> None:
        """Repeat a request until it is answered with that code."""
        deadline = time.monotonic() + WAIT
        while (answer := self.ask(method, path, body, headers)).code != code:
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)  # a foreign server says nowhere else when it is ready

    def name(self, case: Case) -> str:
        """Return the name of a case's policy, binding and namespace."""
        return f"{self.run}-{case.name}"

    def filled(self, case: Case, value: Any) -> Any:
        """Return text and objects of a case with its names put in."""
        return json.loads(json.dumps(value).replace("<ns>", self.name(case)).replace("<run>", self.run))

    def install(self, cases: Sequence[Case]) -> None:
        """Create what the cases need, then their policies; return when all of them are in force."""
        if self.ask("GET", f"{CRDS}/{CRD['metadata']['name']}").code == 404:
            self.make(CRDS, CRD)
        self.until("GET", f"/apis/{CRD['spec']['group']}/v1/things", None, 200)
        for case in cases:
            self.make("/api/v1/namespaces", {"metadata": {"name": self.name(case), "labels": case.labels}})
            for path, body in self.filled(case, case.before):
                self.make(path, body)
        for case in cases:
            self.make(POLICIES, self.policy(case))
            self.make(BINDINGS, self.binding(case))
        self.wait_in_force("canary")

    def wait_in_force(self, name: str) -> None:
        """Add a last policy; when that one refuses, those before it are known as well."""
        canary = f"{self.run}-{name}"
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["configmaps"],
        }
        constraints = {"resourceRules": [{**rule, "resourceNames": [canary]}]}
        spec = {"matchConstraints": constraints, "validations": [{"expression": "false"}]}
        self.make(POLICIES, {"metadata": {"name": canary}, "spec": spec})
        bound = {"policyName": canary, "validationActions": ["Deny"]}
        self.make(BINDINGS, {"metadata": {"name": canary}, "spec": bound})
        path = "/api/v1/namespaces/default/configmaps?dryRun=All"
        self.until("POST", path, {"metadata": {"name": canary}}, 422)

    def policy(self, case: Case) -> Any:
        """Return the policy of a case; it looks only at its namespace unless it says otherwise."""
        spec = self.filled(case, case.policy)
        spec.setdefault("validations", [{"expression": "false", "message": "no"}])
        constraints = spec.setdefault("matchConstraints", {})
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
        constraints.setdefault("resourceRules", [rule])
        own = {"matchLabels": {"kubernetes.io/metadata.name": self.name(case)}}
        constraints.setdefault("namespaceSelector", own)
        return {"metadata": {"name": self.name(case)}, "spec": spec}

    def binding(self, case: Case) -> Any:
        """Return the binding of a case."""
        spec = {
            "policyName": self.name(case),
            "validationActions": ["Deny"],
            **self.filled(case, case.binding),
        }
        return {"metadata": {"name": self.name(case)}, "spec": spec}

    def clean(self) -> None:
        """Remove all policies of this run: others share the server."""
        for path in (BINDINGS, POLICIES):
            for item in self.ask("GET", path).body["items"]:
                if item["metadata"]["name"].startswith(self.run):
                    self.ask("DELETE", f"{path}/{item['metadata']['name']}")

    def carry_out(self, case: Case) -> Answer:
        """Send the request of a case."""
        method, path, body = self.filled(case, case.request)
        return self.ask(method, path, body, self.filled(case, case.headers))


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)


@contextlib.contextmanager
def embedded(folder: Path) -> Iterator[Server]:
    """Run the embedded server, with TLS and RBAC, in a thread."""
    seeds.plant(folder)
    server = EmbeddedServer(embedded_api.options(folder, Endpoint(port=0)))
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    loop = runner.get_loop()
    task = loop.create_task(server.run())

    async def serve() -> None:
        await asyncio.wait({task})

    def run() -> None:
        with runner:  # which ends all that the loop still does before it closes it
            runner.run(serve())

    thread = threading.Thread(target=run, name="embedded server")
    with file_limit.kept():
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(server.ready(), loop).result(WAIT)
            with contextlib.closing(Server(server.kubeconfig)) as api:
                yield api
        finally:
            loop.call_soon_threadsafe(task.cancel)
            thread.join(WAIT)
