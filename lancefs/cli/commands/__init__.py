"""The commands, one a file; each is a function of the name of its file."""
