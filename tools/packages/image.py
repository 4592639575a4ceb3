"""The container image of the static program, from scratch: an OCI image layout as one tar.

    skopeo copy oci-archive:nodemanager-0.1.0-linux-amd64.oci.tar docker://registry.example.org/nodemanager:0.1.0

There is nothing in it but the program, the user that it runs as, and licences: no shell, no library, nothing
else that anybody could run or would have to mend. Made without any tool for containers; the same program
gives the same digests.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tools.packages import archives
from tools.packages.contents import EXECUTABLE, PLAIN, Files, Program

ARCHITECTURES: Final = {
    "linux-amd64": {"architecture": "amd64"},
    "linux-arm64": {"architecture": "arm64"},
    "linux-arm": {"architecture": "arm", "variant": "v7"},
}
USER: Final = 65532
"""As distroless images have it, and the manifests of the operator."""
PROGRAM: Final = "usr/bin/nodemanager"
LICENCES: Final = "usr/share/licenses/nodemanager"
_TYPE: Final = "application/vnd.oci.image"


def build(program: Program, folder: Path) -> Path:
    """Build the image, and return where it is."""
    blobs: Files = {}
    tar = archives.tar(files_of(program), program.epoch)
    layer = _blob(blobs, gzip.compress(tar, program.effort, mtime=0), f"{_TYPE}.layer.v1.tar+gzip")
    config = _blob(blobs, _json(_config(program, hashlib.sha256(tar).hexdigest())), f"{_TYPE}.config.v1+json")
    manifest = {
        "schemaVersion": 2, "mediaType": f"{_TYPE}.manifest.v1+json", "config": config, "layers": [layer],
    }  # fmt: skip
    described = _blob(blobs, _json(manifest), f"{_TYPE}.manifest.v1+json")
    described["platform"] = {"os": "linux", **ARCHITECTURES[program.target]}
    described["annotations"] = {"org.opencontainers.image.ref.name": program.version}
    index = {"schemaVersion": 2, "mediaType": f"{_TYPE}.index.v1+json", "manifests": [described]}
    files: Files = {
        "oci-layout": (_json({"imageLayoutVersion": "1.0.0"}), PLAIN), "index.json": (_json(index), PLAIN),
        **dict(sorted(blobs.items())),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"nodemanager-{program.version}-{program.target}.oci.tar"
    target.write_bytes(archives.tar(files, program.epoch))
    return target


def files_of(program: Program) -> Files:
    """Return the files of the image."""
    name = "nodemanager"
    return {
        "etc/group": (f"{name}:x:{USER}:\n".encode(), PLAIN),
        "etc/passwd": (f"{name}:x:{USER}:{USER}:{name}:/:/sbin/nologin\n".encode(), PLAIN),
        PROGRAM: (program.path.read_bytes(), EXECUTABLE),
        **{f"{LICENCES}/{one}": (text, PLAIN) for one, text in sorted(program.licences.items())},
    }


def _config(program: Program, layer: str) -> dict[str, Any]:
    created = datetime.fromtimestamp(program.epoch, UTC).isoformat().replace("+00:00", "Z")
    labels = {
        "org.opencontainers.image.title": "nodemanager", "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": program.version,
    }  # fmt: skip
    return {
        "created": created, "os": "linux", **ARCHITECTURES[program.target],
        "config": {
            "User": f"{USER}:{USER}", "Entrypoint": [f"/{PROGRAM}"], "Cmd": ["--help"], "WorkingDir": "/",
            "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"], "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
        "history": [{"created": created, "created_by": "make release"}],
    }  # fmt: skip


def _blob(blobs: Files, data: bytes, kind: str) -> dict[str, Any]:
    """Keep a part under its digest, and return how others refer to it."""
    digest = hashlib.sha256(data).hexdigest()
    blobs[f"blobs/sha256/{digest}"] = (data, PLAIN)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
