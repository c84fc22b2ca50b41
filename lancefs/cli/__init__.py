"""The command line `lancefs`.

`main` finds and runs commands and reports errors, `target` parses `table@ref`, `commands/` has one
file for each command, and `render/` prints results. A command imports its libraries when it runs,
so that `lancefs --help` starts at once.
"""
