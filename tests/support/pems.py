"""Certificates and keys for tests, made once per process."""

from __future__ import annotations

import base64
import functools
from typing import NamedTuple

import trustme


class Pems(NamedTuple):
    """A CA and one client certificate of it, all PEM."""

    ca: bytes
    certificate: bytes
    key: bytes


@functools.cache
def make(name: str = "client") -> Pems:
    """Return real certificates; a different `name` gives different ones."""
    ca = trustme.CA()
    leaf = ca.issue_cert(f"{name}.test", common_name=name)
    return Pems(ca.cert_pem.bytes(), leaf.cert_chain_pems[0].bytes(), leaf.private_key_pem.bytes())


def b64(data: bytes) -> str:
    """Return data as a kubeconfig has it inline."""
    return base64.b64encode(data).decode()
