"""The release of lancefs: a room of its own, so that every other one may name it."""

from __future__ import annotations

__version__ = "0.1.0"
