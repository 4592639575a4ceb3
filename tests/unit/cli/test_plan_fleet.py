"""Wrong usage of `plan` is refused, with an exit code that means nothing else there."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import cli


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--fleet",), "--fleet needs manifests"),
        (("--sample", "3"), "--sample is about hosts of the API: add --fleet"),
        (("-l", "role=web", "-f", "."), "--selector is about hosts of the API"),
        (("--prune", "-f", "."), "--prune is about hosts of the API"),
        (("--fleet", "-f", ".", "--all", "--sample", "3"), "give --sample or --all"),
        (("--fleet", "-f", ".", "--hostname", "web1"), "--root and --hostname are about this host"),
        (("--fleet", "-f", ".", "--sample", "0"), "Invalid value for '--sample'"),
        (("--fleet", "-f", ".", "--timeout", "x"), "Invalid value for '--timeout'"),
        (("--flet",), "No such option '--flet'"),
        (("web1",), "unexpected extra argument"),
    ],
)
def test_what_does_not_go_together(args: tuple[str, ...], said: str) -> None:
    ran = cli.run("plan", *args)
    assert (ran.code, said in ran.stderr) == (1, True), ran


def test_a_set_of_another_namespace_is_not_proposed_here(tmp_path: Path) -> None:
    (tmp_path / "set.yaml").write_text(
        "apiVersion: common.nodemanager/v1\nkind: ConfigSet\n"
        "metadata: {name: a, namespace: elsewhere}\nspec: {nodeSelector: {}}\n"
    )
    server = cli.kubeconfig("http://127.0.0.1:1", tmp_path)
    ran = cli.run("plan", "--fleet", "-f", str(tmp_path / "set.yaml"), "-n", "here", "--kubeconfig", server)
    assert ran.code == 1
    assert "cannot preview: ConfigSet a is of namespace elsewhere, and hosts of here are asked" in ran.stderr
