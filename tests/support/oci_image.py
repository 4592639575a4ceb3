"""An image of a release, unpacked and run as Kubernetes runs our operator, without a container runtime."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READ_ONLY = """\
mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount -o remount,ro,bind "$0" || exit 1
exec setpriv --no-new-privs chroot --userspec="$1" "$0" "$2" "${@:3}"
"""


@dataclass(frozen=True)
class OciImage:
    """The one image of a layout."""

    root: Path
    config: dict[str, Any]

    def argv(self, *args: str) -> list[str]:
        """Return how to run it: as its user, with nothing to write to, and with nothing else to be seen."""
        (entry,) = self.config["config"]["Entrypoint"]
        run = ["bash", "-c", READ_ONLY, str(self.root), self.config["config"]["User"], entry, *args]
        return ["unshare", "--mount", "--propagation=private", *run]


def blob(archive: tarfile.TarFile, described: dict[str, Any]) -> bytes:
    """Return a part of the layout that is what it is said to be."""
    kind, _, digest = described["digest"].partition(":")
    read = archive.extractfile(f"blobs/{kind}/{digest}")
    assert read is not None
    data = read.read()
    assert (hashlib.sha256(data).hexdigest(), len(data)) == (digest, described["size"])
    return data


def unpack(file: Path, root: Path) -> OciImage:
    """Unpack an archive as a container runtime does: by digests, from the index on."""
    with tarfile.open(file) as archive:
        index = archive.extractfile("index.json")
        assert index is not None
        (described,) = json.loads(index.read())["manifests"]
        manifest = json.loads(blob(archive, described))
        config = json.loads(blob(archive, manifest["config"]))
        for layer, expected in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
            data = gzip.decompress(blob(archive, layer))
            assert f"sha256:{hashlib.sha256(data).hexdigest()}" == expected
            with tarfile.open(fileobj=io.BytesIO(data)) as files:
                files.extractall(root, filter="tar")
    return OciImage(root, config)
