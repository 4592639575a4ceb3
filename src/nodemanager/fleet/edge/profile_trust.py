"""Whether an EdgeProfile was signed by a key that a site trusts; the signature is one of minisign."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from nodemanager.api.edge.edgeprofile import SIGNATURE, EdgeProfile
from nodemanager.tlog import minisign

PROFILE: Final = "profile"
"""The signed comment must begin with this, so that a signature is for a profile and for no other file."""


class Untrusted(Exception):
    """A profile has no signature that the site trusts; the message says why."""


class Signed(NamedTuple):
    """The signature of a profile: whose key it is."""

    key: str


def payload(profile: EdgeProfile) -> bytes:
    """Return what is signed: name and spec in one form, without what only repeats a default."""
    signed = {"name": profile.metadata.name, "spec": msgspec.to_builtins(profile.spec)}
    return json.dumps(signed, sort_keys=True, separators=(",", ":")).encode("ascii") + b"\n"


def comment(profile: EdgeProfile) -> str:
    """Return the comment that must be signed with it."""
    return f"{PROFILE}:{profile.metadata.name}\tversion:{profile.spec.version}"


def verify(profile: EdgeProfile, keys: Sequence[str], signature: str | None = None) -> Signed:
    """Return who signed a profile, or raise Untrusted; without `signature`, its annotation is read."""
    text = profile.metadata.annotations.get(SIGNATURE, "") if signature is None else signature
    if not text:
        raise Untrusted("it is not signed")
    if len(text) > minisign.MAX_BYTES:
        raise Untrusted(f"its signature is longer than {minisign.MAX_BYTES} bytes")
    try:
        trusted = [key for one in keys for key in minisign.parse_keys(one)]
        found = minisign.parse_signature(text)
        said = minisign.verify(trusted, found, hashlib.blake2b(payload(profile)).digest())
    except (minisign.BadSignature, minisign.UnusableKey) as error:
        raise Untrusted(str(error)) from error
    about = said.get(PROFILE, ""), said.get("version", "")
    if about != (profile.metadata.name, profile.spec.version):
        raise Untrusted(
            f"its signature is for profile {about[0] or '(none)'} version {about[1] or '(none)'}, not for"
            f" {profile.metadata.name} version {profile.spec.version}: sign it with minisign -t"
            f" '{comment(profile)}'"
        )
    return Signed(minisign.key_name(found.key_id))
