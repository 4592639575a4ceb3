"""A C module of the static executable, compiled as an extension for the Python that runs the tests."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

import nodemanager.native

SOURCES = Path(nodemanager.native.__file__).parent


def compiled(folder: Path, name: str = "_nodemanager", *libraries: str) -> ModuleType:
    """Return it, made in a folder; skips where nothing can compile it."""
    include = sysconfig.get_path("include")
    source = SOURCES / f"{name}.c"
    if not Path(include, "Python.h").exists():
        pytest.skip(f"cannot compile {source.name}: no {include}/Python.h; install python3-dev")
    made = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    argv = [
        *compiler(), "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type",
        f"-I{include}", "-o", str(made), str(source), *libraries,
    ]  # fmt: skip
    subprocess.run(argv, check=True)
    loader = importlib.machinery.ExtensionFileLoader(name, str(made))
    spec = importlib.util.spec_from_file_location(name, made, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def compiler() -> list[str]:
    """Return how to compile C for this machine; skips where nothing can."""
    if found := shutil.which("cc") or shutil.which("gcc") or shutil.which("clang"):
        return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    pytest.skip("cannot compile a module: no C compiler; install gcc, or ziglang from PyPI")
