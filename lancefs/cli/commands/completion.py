"""`lancefs completion`: the script for a shell that completes commands, options, paths and refs."""

from __future__ import annotations

import click

from lancefs.cli import shared_options

_SHELLS = ("bash", "zsh", "fish")


@shared_options.command(
    examples="""
    eval "$(lancefs completion bash)"     # in ~/.bashrc
    eval "$(lancefs completion zsh)"      # in ~/.zshrc
    lancefs completion fish | source      # in ~/.config/fish/config.fish
    """
)
@click.argument("shell", type=shared_options.NearestChoice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes a shell complete commands, options, paths and refs."""
    from click.shell_completion import get_completion_class

    from lancefs.cli.completing import register

    register()
    make = get_completion_class(shell)
    assert make is not None
    group = ctx.find_root().command
    click.echo(make(group, {}, "lancefs", "_LANCEFS_COMPLETE").source())
