"""Object storage: a real implementation of S3 in a thread, on which something may happen to requests."""

from __future__ import annotations

import contextlib
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

REGION = "eu-central-1"
Answer = tuple[str, str]
"""A status line, and the code that S3 gives as reason."""
Fault = Callable[[str, str], Answer | None]
"""Looks at method and path of a request, and may answer it."""


@dataclass
class Bucket:
    """A bucket, and what happens to those who use it."""

    name: str
    url: str
    before: Fault = lambda _method, _path: None
    """Answers instead of the storage."""
    after: Fault = lambda _method, _path: None
    """Answers in the place of what the storage answered, which has done its work then."""
    requests: list[tuple[str, str]] = field(default_factory=list)

    def objects(self) -> dict[str, bytes]:
        """Return what is in it."""
        from moto.s3.models import s3_backends

        found = s3_backends["123456789012"]["aws"].buckets[self.name].keys
        return {key: found[key].value for key in sorted(found)}

    def put(self, key: str, data: bytes) -> None:
        """Put an object there as somebody else."""
        _send("PUT", f"{self.url}/{self.name}/{key}", data)


@contextlib.contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """Serve a bucket of its own, and have the environment say where and who."""
    bucket = Bucket(f"audit-{uuid4().hex[:12]}", "")
    inner = DomainDispatcherApplication(create_backend_app)

    def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        bucket.requests.append((method, path))
        if (instead := bucket.before(method, path)) is not None:
            return _answer(instead, start)
        held: list[Any] = []
        body = list(inner(environ, lambda *args: held.append(args)))
        if (instead := bucket.after(method, path)) is not None:
            return _answer(instead, start)
        start(*held[0])
        return body

    server = make_server("127.0.0.1", 0, application, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    bucket.url = f"http://127.0.0.1:{server.server_port}"
    for name, value in {
        "AWS_ENDPOINT_URL": bucket.url,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "not-to-be-seen",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    where = f"<CreateBucketConfiguration><LocationConstraint>{REGION}</LocationConstraint>"
    _send("PUT", f"{bucket.url}/{bucket.name}", f"{where}</CreateBucketConfiguration>".encode())
    try:
        yield bucket
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _send(method: str, url: str, data: bytes) -> None:
    kind = {"content-type": "application/octet-stream"}
    with urllib.request.urlopen(urllib.request.Request(url, data, kind, method=method), timeout=30):
        pass


def _answer(answer: Answer, start: Callable[..., Any]) -> list[bytes]:
    status, code = answer
    start(status, [("content-type", "application/xml")])
    return [f"<Error><Code>{code}</Code><Message>x</Message></Error>".encode()]
