"""Every part that is linked into the program has its licence go with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tools.release import licences, sbom, sources, toolchain
from tools.release.sbom import Component
from tools.release.sources import CannotBuild
from tools.release.targets import TARGETS
from tools.release.toolchain import Toolchain

BSD = """\
/*
 * Copyright (c) 2008-2020 Stefan Krah. All rights reserved.
 *
 * 1. Redistributions of source code must retain the above copyright
 *    notice.
 */


#include "mpdecimal.h"
/* Copyright of nobody */
"""
CC0 = "/*\n   BLAKE2\n\n   dedicated all copyright\n   to the public domain\n*/\n#include <stdint.h>\n"
PYTHON = {
    "LICENSE": "PSF", "Doc/license.rst": "Mersenne Twister", "Modules/_decimal/libmpdec/mpdecimal.c": BSD,
    "Modules/_blake2/impl/blake2b.c": CC0,
    "Modules/_hacl/Hacl_Hash_SHA2.c": "/* MIT License\n *\n * Copyright (c) INRIA\n */\nvoid f(void);\n",
}  # fmt: skip
BILL = {"packages": [{"name": name, "versionInfo": "1"} for name in ("hacl-star", "libb2", "mpdecimal")]}


def put(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    for name, folder in (("python-dateutil", "python_dateutil-2.9.0.post0"), ("PyYAML", "pyyaml-6.0.3")):
        said = f"Name: {name}\nVersion: {folder.partition('-')[2]}\n"
        put(site / f"{folder}.dist-info", METADATA=said, **{"licenses/LICENSE.txt": name})
    return site


@pytest.fixture(name="tools")
def _tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    """The sources of all parts, as they are left when these are compiled."""
    zig = tmp_path / "ziglang"
    put(zig, LICENSE="MIT of zig", **{"lib/libc/musl/COPYRIGHT": "MIT of musl"})
    monkeypatch.setattr(toolchain, "zig_program", lambda: zig / "zig")
    folder = tmp_path / "linux-amd64"
    put(folder / "python", **PYTHON, **{"Misc/sbom.spdx.json": json.dumps(BILL)})
    put(
        folder,
        **{"openssl/LICENSE.txt": "Apache", "zlib/LICENSE": "Zlib", "libyaml/License": "MIT of libyaml"},
    )
    return Toolchain(TARGETS["linux-amd64"], folder)


def parts_of(tools: Toolchain, site: Path) -> Sequence[Component]:
    """Return all that the bill of materials names."""
    return [
        *sbom.of_sources(sources.all_pinned().values()), *sbom.of_interpreter(tools.folder / "python"),
        *sbom.of_compiler("0.17.0"), *sbom.of_site(site),
    ]  # fmt: skip


def test_every_part_of_the_bill_has_its_text(tools: Toolchain, site: Path) -> None:
    found = licences.collect(tools, site, parts_of(tools, site))
    assert found.keys() == {
        "python.LICENSE", "python.INCORPORATED", "openssl.LICENSE", "zlib.LICENSE", "libyaml.LICENSE",
        "mpdecimal.LICENSE", "libb2.LICENSE", "hacl-star.LICENSE", "compiler-rt.LICENSE", "musl.COPYRIGHT",
        "python_dateutil-2.9.0.post0.LICENSE", "pyyaml-6.0.3.LICENSE",
    }  # fmt: skip
    assert found["mpdecimal.LICENSE"].decode() == (
        "Copyright (c) 2008-2020 Stefan Krah. All rights reserved.\n\n"
        "1. Redistributions of source code must retain the above copyright\n   notice.\n"
    )
    assert found["hacl-star.LICENSE"] == b"MIT License\n\nCopyright (c) INRIA\n"
    assert found["libb2.LICENSE"] == b"BLAKE2\n\ndedicated all copyright\nto the public domain\n"
    assert found["compiler-rt.LICENSE"] == b"MIT of zig"


def test_a_part_without_one_is_named(tools: Toolchain, site: Path) -> None:
    (site / "pyyaml-6.0.3.dist-info/licenses/LICENSE.txt").unlink()
    with pytest.raises(CannotBuild, match=r"the licence of PyYAML is not collected; look at licences\.py"):
        licences.collect(tools, site, parts_of(tools, site))
    more = [*sbom.of_interpreter(tools.folder / "python"), Component("sqlite", "3.46", "pkg:generic/sqlite")]
    with pytest.raises(CannotBuild, match="the licence of sqlite"):
        licences.collect(tools, site, more)


@pytest.mark.parametrize("text", ["#include <x.h>\n/* Copyright (c) */", "/* What this does. */\n"])
def test_a_source_that_no_longer_begins_with_its_licence_is_named(
    tools: Toolchain, site: Path, text: str
) -> None:
    put(tools.folder / "python", **{"Modules/_hacl/Hacl_Hash_SHA2.c": text})
    with pytest.raises(CannotBuild, match=r"Hacl_Hash_SHA2\.c does not begin with a licence"):
        licences.collect(tools, site, [])


def test_what_is_not_linked_in_needs_none(tools: Toolchain, site: Path) -> None:
    """On FreeBSD, the C library is that of the system."""
    other = Toolchain(TARGETS["freebsd-amd64"], tools.folder)
    found = licences.collect(other, site, parts_of(tools, site))
    assert "musl.COPYRIGHT" not in found
    assert "compiler-rt.LICENSE" in found
