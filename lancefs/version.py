"""The release number of lancefs, in a module that every other one may import."""

from __future__ import annotations

__version__ = "0.1.0"
