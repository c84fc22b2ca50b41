"""`lancefs completion`: the script for a shell that completes commands, options, paths and refs.

bash splits `t.lance@pr` into three words, and replaces the last of them by what is chosen; click's
own script sees no ref in a word. So the script of bash hands over the line, from which words are
made again, and gets back what is to be inserted.
"""

from __future__ import annotations

import os
import re

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from lancefs.cli import shared_options

_SHELLS = ("bash", "zsh", "fish")
_SCRIPT = """\
%(complete_func)s() {
    local kind text
    COMPREPLY=()
    while IFS=, read -r kind text; do
        case $kind in
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
            plain) COMPREPLY+=("$text") ;;
        esac
    done < <(env _LANCEFS_LINE="${COMP_LINE:0:COMP_POINT}" _LANCEFS_BREAKS="$COMP_WORDBREAKS" \\
        _LANCEFS_WORD="${COMP_WORDS[COMP_CWORD]}" %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_ASSIGNMENT = re.compile(r"\w+=")


class _Bash(BashComplete):
    """Completion of the word before the cursor."""

    source_template = _SCRIPT
    _kept = ""  # the part of the word that bash leaves as it is

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words behind the command's name, and the one that is completed."""
        # With a letter behind it, the last word is there even if it is empty.
        words = split_arg_string(f"{os.environ['_LANCEFS_LINE']}x")
        while len(words) > 1 and _ASSIGNMENT.match(words[0]):
            words = words[1:]
        word = words.pop()[:-1]
        if not os.environ["_LANCEFS_WORD"].startswith(("'", '"')):
            ends = [word.rfind(char) for char in "@:=" if char in os.environ["_LANCEFS_BREAKS"]]
            self._kept = word[: max(ends, default=-1) + 1]
        return words[1:], word

    def format_completion(self, item: CompletionItem) -> str:
        """Return a line for the script: what kind of word it is, and what is to be inserted."""
        return f"{item.type},{item.value.removeprefix(self._kept)}"


def register() -> None:
    """Make click complete in bash by the class above."""
    add_completion_class(_Bash)


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
    from lancefs.cli.main import COMPLETE

    register()
    make = get_completion_class(shell)
    assert make is not None
    click.echo(make(ctx.find_root().command, {}, "lancefs", COMPLETE).source())
