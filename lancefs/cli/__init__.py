"""The command `lancefs`: Lance tables at a prompt.

`main` holds the commands and says what went wrong, `target` reads `table@ref`, `commands/` has one
command a file, and `render/` shows what they found. A command imports what it needs when it runs,
so that `lancefs --help` starts at once.
"""
