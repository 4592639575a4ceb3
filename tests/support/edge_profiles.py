"""EdgeProfiles of tests: those that we ship, changed, and signed."""

from __future__ import annotations

import base64
import copy
import hashlib
from pathlib import Path
from typing import Any

import yaml

from nodemanager.api import manifest_checks
from nodemanager.api.edge import shipped_profiles
from nodemanager.api.edge.edgeprofile import EDGE_PROFILES, SIGNATURE, EdgeProfile
from nodemanager.fleet.edge import profile_trust
from nodemanager.kube.objects import Untyped
from nodemanager.native import ed25519

CASES = Path(__file__).parents[1] / "cases" / "edge"
REFUSED: list[dict[str, Any]] = yaml.safe_load((CASES / "refused_profiles.yaml").read_text())
SEED, KEY_ID = bytes(range(32)), b"siteskey"


def shipped(name: str, called: str = "", patch: dict[str, Any] | None = None) -> Untyped:
    """Return one that we ship, under another name and with a merge patch of its spec."""
    obj = copy.deepcopy(shipped_profiles.profiles()[name])
    obj["metadata"]["name"] = called or name
    obj["spec"] = merged(obj["spec"], patch or {})
    return obj


def merged(value: Any, patch: Any) -> Any:
    """Return a value with a merge patch applied."""
    if not isinstance(patch, dict):
        return patch
    base = dict(value) if isinstance(value, dict) else {}
    for key, wanted in patch.items():
        if wanted is None:
            base.pop(key, None)
        else:
            base[key] = merged(base.get(key), wanted)
    return base


def typed(obj: Untyped) -> EdgeProfile:
    """Return a profile as the operator reads it."""
    return manifest_checks.typed(obj, EDGE_PROFILES, "test")


def public_key(seed: bytes = SEED, key_id: bytes = KEY_ID) -> str:
    """Return the public key as a line of minisign."""
    return base64.b64encode(b"Ed" + key_id + ed25519.public_key(seed)).decode()


def signed(obj: Untyped, comment: str = "") -> Untyped:
    """Return a profile with a signature as minisign makes one."""
    profile = typed(obj)
    said = comment or profile_trust.comment(profile)
    made = ed25519.sign(SEED, hashlib.blake2b(profile_trust.payload(profile)).digest())
    whole = ed25519.sign(SEED, made + said.encode())
    lines = ("untrusted comment: x", base64.b64encode(b"ED" + KEY_ID + made).decode(),
             f"trusted comment: {said}", base64.b64encode(whole).decode())  # fmt: skip
    meta = {**obj["metadata"], "annotations": {SIGNATURE: "\n".join(lines) + "\n"}}
    return {**obj, "metadata": meta}


def plain() -> Untyped:
    """Return the profile k3s-linstor without what only agents with --edge tell of: a bond, and replicas."""
    storage = {"backend": "local-path", "mode": "single", "replicas": None, "pools": None}
    return shipped("k3s-linstor", patch={"network": None, "storage": storage, "workflows": []})
