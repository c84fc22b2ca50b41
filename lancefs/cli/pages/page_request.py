"""The request for a page: a version of a table, and the query of the URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from lancefs.cli.target import Target
from lancefs.forks import cached_property
from lancefs.serve.refusals import BadRequest
from lancefs.table.refs import Ref, parse_ref

if TYPE_CHECKING:
    from lancefs.lance_dataset import LanceDataset

_MAX_DIGITS = 15


@dataclass(frozen=True)
class PageRequest:
    """What a page is asked for.

    Attributes:
        table: Name of the table.
        at: The table; the version is in the query.
        query: The parameters of the URL.
    """

    table: str
    at: Target
    query: Mapping[str, str]

    @cached_property
    def target(self) -> Target:
        """The version that `ref` names, by default the newest one."""
        return self.version("ref")

    @property
    def dataset(self) -> LanceDataset:
        """The version, to read rows from."""
        return self.target.dataset

    @property
    def ref(self) -> Ref:
        """The version by its number: links with it mean the same later."""
        return self.target.pinned

    @property
    def title(self) -> str:
        """The version as a title has it: `t.lance@7`."""
        return f"{self.table}@{self.ref}"

    def version(self, name: str, default: str = "latest") -> Target:
        """Return the version that a parameter names.

        Raises:
            BadRequest: The parameter is not a ref.
        """
        text = self.query.get(name) or default
        try:
            return replace(self.at, ref=parse_ref(text))
        except ValueError as error:
            raise BadRequest(f"{name}: {error}") from error

    def number(self, name: str, default: int) -> int:
        """Return the number in a parameter.

        Raises:
            BadRequest: It is no number, or negative.
        """
        text = self.query.get(name, str(default))
        if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
            raise BadRequest(f"{name}={text!r}: a number from 0 on was expected")
        return int(text)


def link(page: str, **parameters: object) -> str:
    """Return the URL of a page of the same table, from another one, not escaped for HTML yet."""
    return f"{page}?{urlencode(parameters)}"


def tree_path(ref: Ref) -> str:
    """Return the directory of a version by number in the tree: `versions/7`, quoted as a link."""
    branch = f"branches/{ref.branch}/" if ref.branch else ""
    return quote(f"{branch}versions/{ref.version}")
