"""Output of commands: tables, JSON, CSV, Arrow, progress bars."""
