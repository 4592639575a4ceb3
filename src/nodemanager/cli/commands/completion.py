"""`nodemanager completion`: the script that makes a shell complete our commands, kinds and names."""

from __future__ import annotations

from typing import Final

import click
from click import shell_completion

INSTALL: Final = {
    "bash": """\
# Completion of nodemanager for bash 4.4 or newer. For this shell only:
#   source <(nodemanager completion bash)
# For every new one:
#   nodemanager completion bash > ~/.local/share/bash-completion/completions/nodemanager
""",
    "zsh": """\
# Completion of nodemanager for zsh. For this shell only:
#   source <(nodemanager completion zsh)
# For every new one, in a folder of $fpath, before compinit:
#   nodemanager completion zsh > "${fpath[1]}/_nodemanager"
""",
    "fish": """\
# Completion of nodemanager for fish. For this shell only:
#   nodemanager completion fish | source
# For every new one:
#   nodemanager completion fish > ~/.config/fish/completions/nodemanager.fish
""",
}


@click.command(
    epilog="""\b
Examples:
  source <(nodemanager completion bash)
  nodemanager completion fish | source
"""
)
@click.argument("shell", type=click.Choice(list(INSTALL)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell; a comment in it says where to put it."""
    click.echo(script(ctx.find_root().command, shell), nl=False)


def script(program: click.Command, shell: str) -> str:
    """Return the script of a shell."""
    found = shell_completion.get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"there is no completion for {shell}")
    completion = found(program, {}, "nodemanager", "_NODEMANAGER_COMPLETE")
    # Not completion.source(): for bash that runs bash to ask for its version.
    text = completion.source_template % completion.source_vars()
    if text.startswith("#compdef"):  # which zsh looks for in the first line only
        first, _, rest = text.partition("\n")
        return f"{first}\n{INSTALL[shell]}{rest}"
    return INSTALL[shell] + text
