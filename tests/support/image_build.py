"""The container image, built by doing what the Dockerfile says in a Debian root, without a container engine.

    with image_build.built(tmp_path) as image:
        image.run("operator", "--help")            # as its user, on a root that cannot be written to

The base image is replaced by a plain Debian 12 with its own Python 3.11. An instruction that is not
understood is an error, and so are a step that needs a shell, and a file that .dockerignore keeps back.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pytest

from support import debian_root

ROOT = Path(__file__).parents[2]
BUILD_PACKAGES = ("python3-pip", "python3-venv")
"""What the base image has besides Debian's python3, and only the first stage uses."""
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STEP_SECONDS = 300.0
READ_ONLY = """\
mount --rbind /proc "$0/proc" && mount --bind "$0" "$0.ro" && mount -o remount,bind,ro "$0.ro" &&
mount --rbind "$0/proc" "$0.ro/proc" && exec chroot "$0.ro" "$@"
"""
"""A fixed text: what to run is passed beside it."""


@dataclass(frozen=True)
class Instruction:
    """A line of a Dockerfile."""

    name: str
    flags: tuple[str, ...]
    rest: str

    def argv(self) -> list[str]:
        """Return the words of a step, which must be written as JSON: otherwise a shell would read them."""
        try:
            words = json.loads(self.rest)
        except ValueError:
            raise AssertionError(f"{self.name} {self.rest} needs a shell: write it as a JSON list") from None
        return [str(word) for word in words]


@dataclass
class Image:
    """A root directory, and what runs in it as whom."""

    root: Path
    workdir: str = "/"
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)

    def argv(self, *args: str, **env: str) -> list[str]:
        """Return how to run the image as Kubernetes runs our operator: no rights, nothing to write to."""
        uid, gid = self.user.split(":")
        Path(f"{self.root}.ro").mkdir(exist_ok=True)
        drop = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--bounding-set=-all"]
        drop += ["--inh-caps=-all", "--no-new-privs"]
        variables = [f"{name}={value}" for name, value in env.items()]
        inside = ["env", "-i", PATH, *variables, *drop, *self.entrypoint, *args]
        return ["unshare", "--mount", "--propagation=private", "sh", "-c", READ_ONLY, str(self.root), *inside]

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run the image to its end."""
        return subprocess.run(
            self.argv(*args), capture_output=True, text=True, timeout=STEP_SECONDS, check=False
        )


def instructions(text: str) -> list[Instruction]:
    """Return what a Dockerfile says; it has one instruction per line."""
    found = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.partition(" ")
        flags = []
        while rest.startswith("--"):
            flag, _, rest = rest.partition(" ")
            flags.append(flag)
        found.append(Instruction(name, tuple(flags), rest.strip()))
    return found


@contextlib.contextmanager
def built(folder: Path) -> Iterator[Image]:
    """Build the image; it is gone in the end."""
    wheels = _wheels(folder / "wheels")
    stages: dict[str, Image] = {}
    image = Image(folder)
    with contextlib.ExitStack() as stack:
        for step in instructions((ROOT / "Dockerfile").read_text()):
            if step.name == "FROM":
                name = step.rest.partition(" AS ")[2]
                base = debian_root.base_root(*(BUILD_PACKAGES if name else ()))
                place = folder / f"stage{len(stages)}"
                place.mkdir()
                image = Image(stack.enter_context(debian_root.mounted(base, place)))
                stages[name or "last"] = image
            elif step.name != "ARG":
                _do(step, image, stages, wheels)
        yield image


def _do(step: Instruction, image: Image, stages: dict[str, Image], wheels: Path) -> None:
    match step.name:
        case "WORKDIR":
            image.workdir = step.rest
            _inside(image, step.rest).mkdir(parents=True, exist_ok=True)
        case "RUN":
            _run(image, step, wheels)
        case "COPY":
            _copy(image, step, stages)
        case "USER":
            image.user = step.rest
        case "ENTRYPOINT":
            image.entrypoint = step.argv()
        case "CMD":
            step.argv()
        case "LABEL":
            assert all("=" in word for word in shlex.split(step.rest))
        case _:
            raise AssertionError(f"cannot do {step.name} {step.rest}: teach this module what it means")


def _run(image: Image, step: Instruction, wheels: Path) -> None:
    secret = any(flag.startswith("--mount=type=secret,id=pip,target=/etc/pip.conf") for flag in step.flags)
    assert secret or not step.flags, step
    argv = ["chroot", str(image.root), "env", "-i", f"--chdir={image.workdir}", PATH, *step.argv()]
    if secret:
        shutil.copytree(wheels, image.root / "wheels")
        (image.root / "etc/pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=STEP_SECONDS, check=False)
    assert done.returncode == 0, f"RUN {step.rest}:\n{done.stdout}{done.stderr}"
    if secret:
        (image.root / "etc/pip.conf").unlink()
        shutil.rmtree(image.root / "wheels")


def _copy(image: Image, step: Instruction, stages: dict[str, Image]) -> None:
    source, target = step.rest.split()
    stage = next((flag.removeprefix("--from=") for flag in step.flags), "")
    if stage:
        origin = _inside(stages[stage], source)
    else:
        assert f"!{source}" in (ROOT / ".dockerignore").read_text().splitlines(), f"{source} is not sent"
        origin = ROOT / source
    place = _inside(image, str(PurePosixPath(image.workdir, target)))
    if origin.is_dir():
        ignored = shutil.ignore_patterns("__pycache__") if not stage else None
        shutil.copytree(origin, place, symlinks=True, ignore=ignored, dirs_exist_ok=True)
    else:
        shutil.copy(origin, place / origin.name if target.endswith("/") else place)


def _inside(image: Image, path: str) -> Path:
    return image.root / path.lstrip("/")


def _wheels(folder: Path) -> Path:
    """Return a directory with what the requirements of the image lock, for the Python of Debian."""
    argv: Sequence[str] = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--require-hashes", "--only-binary=:all:", "--python-version=3.11", f"--dest={folder}",
        *(f"--requirement={ROOT / 'requirements' / name}.txt" for name in ("runtime", "signing", "s3")),
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=STEP_SECONDS, check=False)
    if done.returncode != 0:
        pytest.fail(f"cannot get what the image is made of:\n{done.stderr[-2000:]}")
    return folder
