"""Fingerprints of the SSH host keys, as SSHFP records have them; read from the public keys themselves."""

from __future__ import annotations

import base64
import binascii
import hashlib

from nodemanager.api.common.managednode import SSHHostKey
from nodemanager.host.files import file_facts
from nodemanager.host.files.tree import Tree
from nodemanager.host.state import state_files

FOLDERS = ("/etc/ssh", "/usr/local/etc/ssh")
_MAX = 64 * 1024
_ALGORITHMS = {"ssh-rsa": 1, "ssh-dss": 2, "ssh-ed25519": 4, "ssh-ed448": 6}
_HASHES = ((1, hashlib.sha1), (2, hashlib.sha256))


def host_keys(tree: Tree) -> list[SSHHostKey]:
    """Return the fingerprints of all host keys, by algorithm and kind of fingerprint."""
    found: list[SSHHostKey] = []
    for folder in FOLDERS:
        for name in file_facts.list_names(tree, folder) or ():
            if not (name.startswith("ssh_host_") and name.endswith("_key.pub")):
                continue
            try:
                data = state_files.read(tree, f"{folder}/{name}", _MAX)
            except OSError:
                continue
            found += fingerprints((data or b"").decode("ascii", "replace"))
    tree.forget()
    return sorted(found, key=lambda key: (key.algorithm, key.fingerprint_type, key.fingerprint))


def fingerprints(line: str) -> list[SSHHostKey]:
    """Return the fingerprints of a public key in OpenSSH's form; none of anything else."""
    words = line.split()
    if len(words) < 2:
        return []
    algorithm = 3 if words[0].startswith("ecdsa-sha2-") else _ALGORITHMS.get(words[0])
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        return []
    if algorithm is None or not blob:
        return []
    return [
        SSHHostKey(algorithm=algorithm, fingerprint_type=number, fingerprint=make(blob).hexdigest())
        for number, make in _HASHES
    ]
