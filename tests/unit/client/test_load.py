"""Where the configuration is looked for, in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodemanager.client.auth import load
from nodemanager.kube.errors import ConfigError
from support import kubeconfigs, pems

POD = {"KUBERNETES_SERVICE_HOST": "pod", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a kubeconfig for each way to name one, and a service account."""
    for name in ("flag", "variable"):
        kubeconfigs.write(tmp_path / name, kubeconfigs.build(name))
    kubeconfigs.write(tmp_path / ".kube" / "config", kubeconfigs.build("home"))
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(pems.make().ca)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "context", "variables", "pod", "expected"),
    [
        pytest.param("flag", "", ["KUBECONFIG", "HOME"], True, "flag", id="flag beats all"),
        pytest.param("", "", ["KUBECONFIG", "HOME"], True, "variable", id="variable beats pod"),
        pytest.param("", "", ["HOME"], True, "pod", id="pod beats home"),
        pytest.param("", "", ["HOME"], False, "home", id="home"),
        pytest.param("", "", ["KUBECONFIG"], False, "variable", id="variable"),
        pytest.param("", "home", ["HOME"], True, "home", id="a context means a kubeconfig"),
    ],
)
def test_order(place: Path, path: str, context: str, variables: list[str], pod: bool, expected: str) -> None:
    values = {"KUBECONFIG": str(place / "variable"), "HOME": str(place)}
    environ = {name: values[name] for name in variables} | (POD if pod else {})
    config = load.discover(
        path=str(place / path) if path else "",
        context=context,
        environ=environ,
        run=kubeconfigs.no_commands,
        folder=place,
    )
    assert config.server in (f"https://{expected}:6443", f"https://{expected}:443")


@pytest.mark.parametrize(
    ("environ", "messages"),
    [
        pytest.param({}, ["neither KUBECONFIG nor HOME is set", "this is not a pod"], id="nothing"),
        pytest.param({"HOME": "/no"}, ["/no/.kube/config does not exist", "this is not a pod"], id="home"),
        pytest.param(
            {"KUBECONFIG": "/no/x"}, ["KUBECONFIG names /no/x, which does not exist"], id="variable"
        ),
        pytest.param(POD, ["this is a pod without a token in"], id="pod without a token"),
    ],
)
def test_nothing_found_tells_every_way(tmp_path: Path, environ: dict[str, str], messages: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^cannot find an API server: ") as caught:
        load.discover(environ=environ, run=kubeconfigs.no_commands, folder=tmp_path / "none")
    for message in [*messages, "--kubeconfig FILE", "set KUBECONFIG", "run in a pod"]:
        assert message in str(caught.value)


def test_broken_file_is_not_passed_over(place: Path) -> None:
    kubeconfigs.write(place / ".kube" / "config", "a: [")
    with pytest.raises(ConfigError, match="it is not YAML"):
        load.discover(environ={"HOME": str(place)}, run=kubeconfigs.no_commands, folder=place / "none")


def test_named_file_must_exist(place: Path) -> None:
    with pytest.raises(ConfigError, match="/missing: it does not exist"):
        load.discover(
            path=str(place / "missing"),
            environ={"HOME": str(place), **POD},
            run=kubeconfigs.no_commands,
            folder=place,
        )
