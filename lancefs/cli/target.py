"""`table@ref`: which table a command is about, and which version of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lancefs.cli.exits import MISSING, Failure
from lancefs.errors import MissingFile, NotALanceTable
from lancefs.forks import cached_property
from lancefs.masking import mask_secrets
from lancefs.storage import Store
from lancefs.storage.filesystems import open_url
from lancefs.table.base_paths import BaseRules, TableFiles, confine
from lancefs.table.manifest import Manifest
from lancefs.table.not_a_table import similar_hint, writing_refusal
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import (
    Ref,
    Resolved,
    again_if_cleaned_up,
    make_ref,
    parse_ref,
    ref_from,
    resolve,
)
from lancefs.table.tags_and_branches import list_branches, list_tags
from lancefs.table.versions import list_versions

if TYPE_CHECKING:
    from lancefs.lance_dataset import LanceDataset

_AFTER_SUFFIX = re.compile(r"(.*\.lance)/*@(.*)", re.DOTALL)


@dataclass(frozen=True)
class Target:
    """A version of a table, as it was asked for.

    Attributes:
        url: The directory of the table.
        ref: The version.
        options: For fsspec.
        rules: How far base paths of the manifest are followed; None for the default rules.
        place: The directory, where it was found already: that of a chained URL has no URL that
            opens it again.
    """

    url: str
    ref: Ref = field(default_factory=Ref)
    options: Mapping[str, Any] = field(default_factory=dict)
    rules: BaseRules | None = None
    place: Store | None = None

    @cached_property
    def store(self) -> Store:
        """The directory of the table."""
        return confine(self.place or open_store(self.url, self.options), self.rules)

    @cached_property
    def resolved(self) -> Resolved:
        """Where the version is.

        Raises:
            Failure: There is no table; the message names the nearest one.
            RefNotFound: There is no such version; the message says which ones there are.
        """
        try:
            return resolve(self.store, self.ref)
        except NotALanceTable as error:
            is_missing = "there is no such directory" in str(error)
            # Of local tables, the error names similar ones; elsewhere that takes a request.
            hint = similar_hint(self.store) if is_missing and not self.store.is_local else ""
            raise Failure(f"{error}{hint}") from error

    @cached_property
    def opened(self) -> OpenVersion:
        """The version, open."""
        return again_if_cleaned_up(self._open)

    def _open(self) -> OpenVersion:
        try:
            return OpenVersion(self.resolved, self.rules)
        except MissingFile:  # the version was cleaned up since it was found
            del self.__dict__["resolved"]
            raise

    @property
    def manifest(self) -> Manifest:
        """The manifest of the version."""
        return self.opened.manifest

    @property
    def files(self) -> TableFiles:
        """Finds the files of the version."""
        return self.opened.files

    @cached_property
    def dataset(self) -> LanceDataset:
        """The version, to read rows from."""
        from lancefs.lance_dataset import LanceDataset

        return LanceDataset(self.opened)

    @property
    def name(self) -> str:
        """The version as the user names it: `dir/t.lance@7`."""
        return f"{mask_secrets(self.url)}@{self.pinned}"

    @property
    def address(self) -> str:
        """The version, by the whole address of the table."""
        return f"{mask_secrets(self.resolved.root.url())}@{self.pinned}"

    @property
    def pinned(self) -> Ref:
        """The version by its number, whatever ref was asked for."""
        return Ref(version=self.resolved.file.version, branch=self.resolved.branch)

    def at(self, ref: str) -> Target:
        """Return another version of the table; a plain number is of the same branch."""
        try:
            wanted = ref_from(self.resolved.branch, ref)
        except ValueError as error:
            raise Failure(f"{self.url}: {error}") from error
        return replace(self, ref=wanted)

    def newest(self) -> Target:
        """Return the newest version of the branch that this version is on."""
        ref = Ref(branch=self.resolved.branch)
        return self if ref == self.ref else replace(self, ref=ref)

    def refs(self) -> list[str]:
        """List what may stand after the `@`: tags, branches, and versions, newest first."""
        tags = [str(Ref(tag=tag)) for tag in list_tags(self.store)]
        branches = [str(Ref(branch=branch)) for branch in list_branches(self.store)]
        versions = [str(file.version) for file in reversed(list_versions(self.store))]
        return ["latest", *tags, *branches, *versions]


def parse_target(
    text: str,
    options: Mapping[str, Any],
    as_of: str | None = None,
    rules: BaseRules | None = None,
) -> Target:
    """Read `table@ref`.

    Args:
        text: A path or URL; after an `@` a ref.
        options: For fsspec.
        as_of: A point in time in place of the ref; a branch may stand with it.
        rules: How far base paths of the manifest are followed; None for the default rules.

    Raises:
        Failure: What stands in place of a ref is not one.
    """
    url, ref = _split(text)
    wanted = Ref() if ref is None else _read_ref(ref, url)
    if as_of is not None:
        if wanted.version is not None or wanted.tag is not None:
            raise Failure(f"{text}: --as-of and @{ref} each name a version; give one of them")
        try:
            wanted = make_ref(as_of=as_of, branch=wanted.branch)
        except ValueError as error:
            raise Failure(f"--as-of: {error}") from error
    return Target(url, wanted, options, rules)


def open_store(url: str, options: Mapping[str, Any]) -> Store:
    """Return the directory that a path or URL names, without touching the store.

    Raises:
        Failure: The protocol is not known, or needs a package, or the options do not fit it.
    """
    try:
        return Store(*open_url(os.path.expanduser(url), options))
    except ImportError as error:
        raise Failure(f"{url}: {error}", MISSING) from error
    except ValueError as error:
        start = f"{mask_secrets(url)}: "  # which the message about an unknown protocol has
        raise Failure(f"{start}{str(error).removeprefix(start)}") from error
    except TypeError as error:
        raise Failure(f"{url}: --storage-option: {error}") from error


def refuse_inside_table(store: Store) -> None:
    """Refuse a place to write to that is a table, or lies in one.

    Args:
        store: The file or directory to be written; it may not exist yet.

    Raises:
        Failure: It is a table, or lies in one.
    """
    refusal = writing_refusal(store)
    if refusal is not None:
        raise Failure(refusal)


def _split(text: str) -> tuple[str, str | None]:
    """Split at the `@` that a ref follows: an `@` may also be part of a path, or of a login."""
    versioned = _AFTER_SUFFIX.fullmatch(text)
    if versioned:
        return versioned[1], versioned[2]
    url, at, ref = text.rpartition("@")
    host = text.rpartition("://")[2].partition("/")[0]
    if "://" in text and "@" in host and text.count("@") == host.count("@"):
        return text, None  # a login
    if not at or not url or "/" in ref.partition(":")[0] or os.path.exists(text):
        return text, None
    return url, ref


def _read_ref(text: str, url: str) -> Ref:
    try:
        return parse_ref(text)
    except ValueError as error:
        raise Failure(f"{url}: {error}") from error
