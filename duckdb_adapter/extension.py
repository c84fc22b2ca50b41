"""The extension that DuckDB 2.0 loads into every database it opens: our names and our functions.

DuckDB's Python module exports its C API, so an extension needs no compiler: three callbacks, made
with ctypes. DuckDB keeps them for as long as the process lives, and takes no second extension of
the same name. So there is one registration in a process, whatever becomes of this package: a reload
of it, or a second copy, only changes who answers.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref
from functools import partial
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

from duckdb_adapter import capi
from duckdb_adapter.capi import Api, CallFailed, Opaque, Pointer, Str
from duckdb_adapter.claims import NEEDED_SETTINGS, EngineSettings
from duckdb_adapter.errors import UnsupportedDuckDB
from duckdb_adapter.frames import is_published, publish, retract
from duckdb_adapter.functions import FUNCTIONS, Function
from duckdb_adapter.interrupts import raise_again
from duckdb_adapter.lakes import Lake, place_of
from duckdb_adapter.looks import Looks, NameAnswer
from duckdb_adapter.open_names import GivenStorage
from duckdb_adapter.pins import ASKED, ASKED_BODY, ASKED_PARAMETER, is_asked
from lancefs.table.base_paths import BaseRules

_log = logging.getLogger("duckdb_adapter")

_NAME = "lancefs"
# The releases whose C API is the one that `capi` declares. It is not stable yet.
_RELEASES = ((2, 0),)
# Where the registration is kept: on DuckDB's module, which is loaded once in a process.
_HOME = "_lancefs_registration"

# What a name stands for in a database, which is given by its number; None where it is not ours. The
# last argument tells how DuckDB answers the statement.
FindAnswer: TypeAlias = Callable[[Sequence[str], int, EngineSettings], NameAnswer | None]

_lakes: dict[str, Lake] = {}
_looks = Looks()


class _Macro(NamedTuple):
    """A macro of every database.

    Attributes:
        kind: Whether it stands for a value or for a table: `MACRO_SCALAR` or `MACRO_TABLE`.
        name: As it is called.
        body: What it stands for.
        parameters: Their names; all but the first have a default.
        description: What it returns, for `duckdb_functions()`.
        example: A call.
    """

    kind: int
    name: str
    body: str
    parameters: Sequence[str]
    description: str
    example: str

    @classmethod
    def of(cls, function: Function) -> _Macro:
        """Return the macro that calls a function."""
        name, parameters = function.name, function.parameters
        described = function.description, function.example
        return cls(capi.MACRO_TABLE, name, function.body, parameters, *described)


_ASKED = _Macro(
    capi.MACRO_SCALAR,
    ASKED,
    ASKED_BODY,
    (ASKED_PARAMETER,),
    "The name by which lancefs is asked for a table that was looked up, in this transaction",
    f"FROM query_table({ASKED}(1))",
)


class _ContextSettings(NamedTuple):
    """The settings of what runs a statement."""

    api: Api
    context: int

    def collation(self) -> str:
        """Return how texts are compared; empty for by their bytes."""
        return self.api.text_of(self.context, "default_collation")

    def keeps_order(self) -> bool:
        """Return whether rows are used in the order in which they come."""
        return self.api.are_set(self.context, ("preserve_insertion_order",))


class Registration:
    """The extension of this process.

    Args:
        api: DuckDB.
    """

    def __init__(self, api: Api) -> None:
        self.answer: FindAnswer = lambda parts, database, settings: None
        self.functions: tuple[Function, ...] = ()
        self.active = True  # whether databases that are opened now get the names and functions
        self._api = api
        self._databases = itertools.count(1)
        # DuckDB calls these until the process ends. It reads the name after the callback returned.
        self._name = _NAME.encode()
        self._describe = capi.Describe(self._on_describe)
        self._entry = capi.Entry(self._on_open)
        self._scan = capi.ScanCallback(self._on_name)

    def register(self) -> None:
        """Register the extension with DuckDB.

        Raises:
            UnsupportedDuckDB: DuckDB refused it.
        """
        if not self._api.register_static_extension(self._describe):
            raise UnsupportedDuckDB(
                "DuckDB refused the extension; duckdb_adapter.connect() and "
                "duckdb_adapter.wrap(connection) work without it"
            )

    # Called by DuckDB. An exception that left one of these would be printed and forgotten, and an
    # error that the entry reports would make `connect()` fail for everyone.

    def _on_describe(self, pointer: Any) -> int:
        descriptor = pointer.contents
        if descriptor.version < capi.DESCRIPTOR_VERSION:
            return 1
        descriptor.version = capi.DESCRIPTOR_VERSION
        descriptor.name = self._name
        descriptor.extension_version = b"0.1.0"
        descriptor.api_version = b"v2.0.0"
        descriptor.entry_capi_v2 = ctypes.cast(self._entry, ctypes.c_void_p)
        return 0

    def _on_open(self, pointer: Any) -> None:
        if not self.active:
            return
        try:
            given = pointer.contents
            factory = self._api.get("context_get_factory", given.context)
            self._add_scan(given.extension, factory)
            self._add_macro(given.extension, factory, _ASKED)
            for function in self.functions:
                self._add_macro(given.extension, factory, _Macro.of(function))
        except BaseException as error:
            _log.exception("this database will not know Lance tables")
            if isinstance(error, KeyboardInterrupt):
                raise_again(error)

    def _on_name(self, info: int, context: int, slot: int) -> None:
        try:
            self._claim(self._api.name_of(info), info, context, sys._getframe(1))
        except BaseException as error:
            retract()
            self._api.set_error(slot, _describe(error))
            if isinstance(error, KeyboardInterrupt):
                raise_again(error)

    def _claim(self, name: Sequence[str], info: int, context: int, caller: FrameType) -> None:
        if is_published(name[0]):
            return
        # What DuckDB asks again was looked up with these settings, to bind the same name.
        if not (is_asked(name[0]) or self._api.are_set(context, NEEDED_SETTINGS)):
            return
        settings = _ContextSettings(self._api, context)
        answer = self.answer(name, self._api.number_of(info), settings)
        if answer is None:
            return
        if answer.sources:
            publish(answer.sources, caller)
        self._api.call("replacement_scan_set_subquery", info, byref(Str.of(answer.query)))
        self._api.call("replacement_scan_set_alias", info, byref(Str.of(answer.alias)))

    def _add_scan(self, extension: int, factory: Pointer) -> None:
        api = self._api
        scan = api.get("replacement_scan_create", factory)
        try:
            api.call("replacement_scan_set_callback", scan, self._scan)
            number = Opaque(next(self._databases), None, None)
            api.call("replacement_scan_set_user_data", scan, byref(number))
            api.call("extension_register_replacement_scan", extension, scan)
        finally:
            api.destroy("replacement_scan", scan)

    def _add_macro(self, extension: int, factory: Pointer, given: _Macro) -> None:
        api = self._api
        macro = api.get("macro_function_create", factory, given.kind)
        try:
            api.call("macro_function_set_name", macro, byref(Str.of(given.name)))
            api.call("macro_function_set_body", macro, byref(Str.of(given.body)))
            self._add_parameters(macro, factory, given.parameters)
            docs = api.get("macro_function_get_docs", macro)
            api.call("function_docs_set_description", docs, byref(Str.of(given.description)))
            api.call("function_docs_add_example", docs, None, byref(Str.of(given.example)))
            api.call("function_docs_add_category", docs, byref(Str.of(_NAME)))
            api.call("extension_register_macro_function", extension, macro)
        finally:
            api.destroy("macro_function", macro)

    def _add_parameters(self, macro: Pointer, factory: Pointer, parameters: Sequence[str]) -> None:
        api = self._api
        signature = api.get("macro_function_get_signature", macro)
        types = [
            api.get("factory_create_type_from_id", factory, one, None, None, 0)
            for one in (capi.TYPE_ANY, capi.TYPE_VARCHAR)
        ]
        null = api.get("value_create_null", factory, types[1])
        try:
            for position, name in enumerate(parameters):
                api.call(
                    "function_signature_add_parameter",
                    signature,
                    byref(Str.of(name)),
                    types[0],
                    null if position else None,
                    capi.PARAMETER_STANDARD,
                )
        finally:
            api.destroy("value", null)
            for one in types:
                api.destroy("logical_type", one)


def install(
    storage_options: Mapping[str, Any] | None = None,
    base_rules: BaseRules | None = None,
    use_index: bool = True,
) -> None:
    """Have every database that is opened from now on know Lance tables.

    Call it once in a process, before `duckdb.connect()`; the module's default connection is opened
    when it is first used. Calling it again changes the storage options, also for databases that are
    open.

    Args:
        storage_options: For fsspec, such as credentials; or one such mapping for each protocol, as
            in `{"s3": {"anon": True}}`.
        base_rules: How far base paths that manifests name are followed.
        use_index: Whether filters may be looked up in the indices of tables.

    Raises:
        UnsupportedDuckDB: DuckDB is older than 2.0, or newer than what this release knows;
            `connect` and `wrap` work with it all the same.
    """
    _require_main_interpreter()
    import _duckdb
    import duckdb

    registration = getattr(_duckdb, _HOME, None)
    if registration is None:
        _require_known(duckdb.__version__)
        registration = Registration(Api(_duckdb.__file__))
        registration.register()
        setattr(_duckdb, _HOME, registration)
    storage = GivenStorage(dict(storage_options or {}), base_rules, use_index)
    registration.functions = FUNCTIONS
    registration.answer = partial(_answer, storage)


def remember_lake(lake: Lake) -> None:
    """Have tables found by name that are added to a folder after it was attached."""
    _lakes[lake.name.lower()] = lake


def _answer(
    storage: GivenStorage, name: Sequence[str], database: int, settings: EngineSettings
) -> NameAnswer | None:
    """Look what a name stands for in a database, which is given by its number."""
    if len(name) == 1:
        return _looks.answer(name[0], database, storage, settings)
    schema, table = place_of(name)
    lake = _lakes.get(schema.lower())
    query = None if lake is None else lake.find(table)
    return None if query is None else NameAnswer(query, table)


def _require_known(version: str) -> None:
    release = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if release in _RELEASES:
        return
    known = ", ".join(f"{major}.{minor}" for major, minor in _RELEASES)
    raise UnsupportedDuckDB(
        f"duckdb_adapter.install() knows the extension interface of DuckDB {known}, and this is "
        f"{version}; duckdb_adapter.connect() and duckdb_adapter.wrap(connection) give the same SQL"
    )


def _require_main_interpreter() -> None:
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters

        is_main = interpreters.get_current()[0] == interpreters.get_main()[0]
    else:
        import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]

        is_main = interpreters.get_current() == interpreters.get_main()
    if not is_main:
        raise UnsupportedDuckDB(
            "duckdb_adapter.install() was called in a sub-interpreter, which DuckDB cannot call "
            "back; call it in the main interpreter"
        )


def _describe(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, CallFailed):
        return f"the Lance table could not be handed to DuckDB: {error}"
    return str(error) or type(error).__name__
