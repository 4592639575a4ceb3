"""What is in all that a release is made of, as CycloneDX 1.6 in JSON: for scanners of known weaknesses."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Final

from tools.release import interpreter
from tools.release.sources import CannotBuild, Source

SPACE: Final = uuid.UUID("3c3cd6c4-0c6e-5a8f-9d0e-6e6f64656d67")
"""Of which the serial number is made: the same programs have the same."""


SUFFIX: Final = ".cdx.json"
IMAGE: Final = ".oci.tar"


@dataclass(frozen=True, slots=True)
class Component:
    """A part that somebody else wrote."""

    name: str
    version: str
    purl: str
    licence: str = ""
    sha256: str = ""
    cpe: str = ""
    """By which weaknesses of it are published, where a purl says too little."""

    def document(self) -> dict[str, Any]:
        """Return it as the format has it."""
        written: dict[str, Any] = {
            "type": "library", "bom-ref": self.purl, "name": self.name, "version": self.version,
            "purl": self.purl,
        }  # fmt: skip
        if self.licence:
            written["licenses"] = (
                [{"expression": self.licence}]
                if _is_expression(self.licence)
                else [{"license": {"name": self.licence}}]
            )
        if self.cpe:
            written["cpe"] = self.cpe
        if self.sha256:
            written["hashes"] = [{"alg": "SHA-256", "content": self.sha256}]
        return written


def _is_expression(licence: str) -> bool:
    return " " not in licence or any(f" {word} " in licence for word in ("AND", "OR", "WITH"))


def of_sources(locked: Iterable[Source]) -> list[Component]:
    """Return the parts in C; patches are part of what they mend."""
    return [
        Component(each.name, each.version, each.purl, each.licence, each.sha256)
        for each in locked
        if not each.name.endswith("-patches")
    ]


def of_interpreter(python: Path) -> list[Component]:
    """Return what others wrote of the interpreter, by what its sources say of them."""
    said = json.loads(python.joinpath(interpreter.BILL).read_text(encoding="utf-8"))
    named = {each["name"]: each for each in said["packages"]}
    missing = sorted(interpreter.BUNDLED.keys() - named)
    if missing:
        raise CannotBuild(
            f"cannot list what is in the programs: {interpreter.BILL} of python does not name {missing[0]};"
            " look at interpreter.py"
        )
    return [_bundled(named[name], licence) for name, licence in interpreter.BUNDLED.items()]


def _bundled(said: Mapping[str, Any], licence: str) -> Component:
    name, version = said["name"], said["versionInfo"]
    references = (each["referenceLocator"] for each in said.get("externalRefs", ()))
    cpe = next((each for each in references if each.startswith("cpe:")), "")
    return Component(name, version, f"pkg:generic/{name}@{version}", licence, cpe=cpe)


def of_compiler(zig: str) -> list[Component]:
    """Return what the compiler adds of its own; its C libraries have no other version than it."""
    found = {"compiler-rt (of zig)": "lib/compiler_rt", "musl (of zig)": "lib/libc/musl"}
    return [Component(name, zig, f"pkg:pypi/ziglang@{zig}#{path}", "MIT") for name, path in found.items()]


def of_site(site: Path, own: str = "nodemanager") -> list[Component]:
    """Return the Python packages of a folder, by what they say of themselves."""
    found = []
    for path in sorted(site.glob("*.dist-info/METADATA")):
        said = HeaderParser().parsestr(path.read_text(encoding="utf-8"))
        name, version = said["Name"], said["Version"]
        if name != own:
            licence = (said["License-Expression"] or said["License"] or "").strip().partition("\n")[0]
            found.append(Component(name, version, f"pkg:pypi/{name.lower()}@{version}", licence))
    return found


def lists(name: str, version: str) -> bool:
    """Tell whether a file of a release is one of those that the document of a version lists."""
    return bool(re.match(rf"nodemanager[-_]{re.escape(version)}[-_.]", name)) and not name.endswith(SUFFIX)


def document(version: str, epoch: int, parts: Iterable[Component], files: Mapping[str, str]) -> str:
    """Return the whole document; `files` are programs and what is made of them, and their SHA-256."""
    components = [part.document() for part in sorted(parts, key=lambda part: part.name.lower())]
    made = [_file(name, digest) for name, digest in sorted(files.items())]
    own = f"pkg:generic/nodemanager@{version}"
    content = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(SPACE, json.dumps([components, made]))}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat().replace("+00:00", "Z"),
            "component": {
                "type": "application", "bom-ref": own, "name": "nodemanager", "version": version, "purl": own,
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": [*components, *made],
        "dependencies": [
            {"ref": own, "dependsOn": [each["bom-ref"] for each in components]},
            *({"ref": each["name"], "dependsOn": [own]} for each in made),
        ],
    }  # fmt: skip
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _file(name: str, digest: str) -> dict[str, Any]:
    kind = "container" if name.endswith(IMAGE) else "file"
    return {"type": kind, "bom-ref": name, "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
