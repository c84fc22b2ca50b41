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
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

from duckdb_adapter import capi
from duckdb_adapter.capi import Api, CallFailed, Opaque, Pointer, Str
from duckdb_adapter.claims import NEEDED_SETTINGS, EngineSettings
from duckdb_adapter.errors import UnsupportedDuckDB
from duckdb_adapter.frames import is_published, publish, retract
from duckdb_adapter.functions import Function
from duckdb_adapter.interrupts import raise_again
from duckdb_adapter.looks import NameAnswer
from duckdb_adapter.pins import ASKED, ASKED_BODY, ASKED_PARAMETER, is_asked
from duckdb_adapter.storage import GivenStorage, Storage

_log = logging.getLogger("duckdb_adapter")

_NAME = "lancefs"
# A name by which a database is asked whether it knows our names, and for its number.
WHICH = "lancefs, which database"

# What a name stands for in a database, which is given by its number; None where it is not ours. The
# first argument reaches tables where no connection has options of its own, the last one tells how
# DuckDB answers the statement.
FindAnswer: TypeAlias = Callable[[Storage, Sequence[str], int, EngineSettings], NameAnswer | None]


class _Wanted(threading.local):
    """Whether databases that this thread opens are to know our names, installed or not."""

    here = False


_wanted = _Wanted()


@contextmanager
def wanting_names() -> Iterator[None]:
    """Have the databases that this thread opens in the context know our names, installed or not."""
    outer, _wanted.here = _wanted.here, True
    try:
        yield
    finally:
        _wanted.here = outer


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
        self.answer: FindAnswer = lambda storage, parts, database, settings: None
        self.functions: tuple[Function, ...] = ()
        self.storage: Storage = GivenStorage(None)
        self.active = False  # whether all databases that are opened now know names and functions
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
        if not (self.active or _wanted.here):
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
        number = self._api.number_of(info)
        if name[0] == WHICH:
            self._give(info, NameAnswer(f"SELECT {number} AS number", "database"))
            return
        # What DuckDB asks again was looked up with these settings, to bind the same name.
        if not (is_asked(name[0]) or self._api.are_set(context, NEEDED_SETTINGS)):
            return
        settings = _ContextSettings(self._api, context)
        answer = self.answer(self.storage, name, number, settings)
        if answer is None:
            return
        if answer.sources:
            publish(answer.sources, caller)
        self._give(info, answer)

    def _give(self, info: int, answer: NameAnswer) -> None:
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


def _describe(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, CallFailed):
        return f"the Lance table could not be handed to DuckDB: {error}"
    return str(error) or type(error).__name__
