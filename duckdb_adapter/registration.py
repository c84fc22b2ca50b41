"""The extension that DuckDB 2.0 loads into every database it opens: our names and our functions.

DuckDB's Python module exports its C API, so an extension needs no compiler: four callbacks, made
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import byref
from functools import partial
from typing import Any, TypeAlias

from duckdb_adapter import capi
from duckdb_adapter.bind_callback import (
    BIND_FUNCTION,
    BIND_MACRO,
    BIND_MACRO_BODY,
    BIND_PARAMETER,
    BindCall,
    parse_call,
)
from duckdb_adapter.capi import Api, CallFailed, Opaque, Pointer, Str
from duckdb_adapter.engine_settings import NEEDED_SETTINGS, EngineSettings
from duckdb_adapter.frames import is_published, publish, retract, variable_of
from duckdb_adapter.functions import Function
from duckdb_adapter.interrupts import catch_early, raise_again
from duckdb_adapter.releases import UnsupportedDuckDB
from duckdb_adapter.replacement_scan import BoundQuery, Claim
from duckdb_adapter.storage import Storage
from duckdb_adapter.told_values import note_told
from lancefs.version import __version__

_log = logging.getLogger("duckdb_adapter")

_NAME = "lancefs"
# A name by which a database is asked whether it knows our names, and for its number.
WHICH = "lancefs, which database"

# Claims a name in a database, which is given by its number; None where it is not ours. The first
# argument reaches tables where no connection has options of its own.
ResolveName: TypeAlias = Callable[[Storage, Sequence[str], int], Claim | None]
# What the name that was resolved last stands for in a statement; it is given the number of the
# database, and how DuckDB answers the statement.
BindName: TypeAlias = Callable[[BindCall | None, int, EngineSettings], BoundQuery]


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


class _Expanding(threading.local):
    """The run of a statement in which a query of ours, in our macro, reads other tables.

    One of these may be a view of a Lance table, for which the same macro must not stand: DuckDB
    refuses macros in themselves.
    """

    run: int | None = None


class Registration:
    """The extension of this process.

    Args:
        api: DuckDB.
    """

    def __init__(self, api: Api) -> None:
        self.resolve: ResolveName = _resolve_nothing
        self.bind: BindName = _bind_nothing
        self.functions: tuple[Function, ...] = ()
        self.storage: Storage = Storage(None)
        self._expanding = _Expanding()
        self.active = False  # whether all databases that are opened now know names and functions
        self._api = api
        self._databases = itertools.count(1)
        self._macro = api.make_name(("system", "main", BIND_MACRO))
        # DuckDB calls these until the process ends. It reads the name after the callback returned.
        self._name, self._version = _NAME.encode(), __version__.encode()
        self._describe = capi.Describe(self._on_describe)
        self._entry = capi.Entry(self._on_open)
        self._scan = capi.Callback(self._on_name)
        self._bind = capi.Callback(self._on_bind)

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
        opening = Registration._on_describe, Registration._on_open
        callbacks = *opening, Registration._on_name, Registration._on_bind
        catch_early([one.__code__ for one in callbacks], self._fail_early)

    # Called by DuckDB. An exception that left one of these would be printed and forgotten, and an
    # error that the entry reports would make `connect()` fail for everyone.

    def _on_describe(self, descriptor: Any) -> int:
        try:
            return self._fill(descriptor)
        except KeyboardInterrupt as error:
            raise_again(error)
            return self._fill(descriptor)

    def _fill(self, descriptor: Any) -> int:
        """Describe the extension; return 0 if DuckDB knows this kind of description."""
        content = descriptor.contents
        if content.version < capi.DESCRIPTOR_VERSION:
            return 1
        content.version = capi.DESCRIPTOR_VERSION
        content.name = self._name
        content.extension_version = self._version
        content.api_version = b"v2.0.0"
        content.entry_capi_v2 = ctypes.cast(self._entry, ctypes.c_void_p)
        return 0

    def _on_open(self, pointer: Any) -> None:
        if not (self.active or _wanted.here):
            return
        try:
            given = pointer.contents
            factory = self._api.get("context_get_factory", given.context)
            number = Opaque(next(self._databases), None, None)
            self._add_scan(given.extension, factory, number)
            self._add_bind_function(given.extension, factory, number)
            extension = given.extension
            about = "What a name that lancefs claimed stands for in this transaction and statement"
            example = f"FROM {BIND_MACRO}()"
            self._add_macro(extension, factory, BIND_MACRO, BIND_MACRO_BODY, (), about, example)
            for one in self.functions:
                described = one.parameters, one.description, one.example
                self._add_macro(extension, factory, one.name, one.body, *described)
        except BaseException as error:
            _log.exception("this database will not know Lance tables")
            if isinstance(error, KeyboardInterrupt):
                raise_again(error)

    def _on_name(self, info: int, context: int, slot: int) -> None:
        try:
            self._resolve(self._api.name_of(info), info, context)
        except BaseException as error:
            self._fail(slot, error)

    def _on_bind(self, info: int, context: int, slot: int) -> None:
        try:
            told = self._api.argument_of(info)
            if note_told(told):
                self._api.return_text(info, context, "noted")
                return
            call = parse_call(told)
            number = self._api.number_of("scalar_function_exec", info)
            caller = sys._getframe().f_back  # None in a thread of DuckDB
            # Only while a name is bound: whoever keeps a frame keeps all of its variables, also
            # connections.
            callers = [] if caller is None else [caller]
            settings = EngineSettings(
                text_of=partial(self._api.text_of, context),
                is_set=lambda option: self._api.are_set(context, (option,)),
                finds_file=partial(self._api.finds_file, context),
                variable=lambda name: variable_of(name, callers[0]) if callers else None,
                calls_back=True,
            )
            try:
                answer = self.bind(call, number, settings)
            finally:
                callers.clear()
            if answer.reads_tables or answer.run != self._expanding.run:
                self._expanding.run = answer.run if answer.reads_tables else None
            if answer.sources:
                publish(answer.sources, caller)
            self._api.return_text(info, context, answer.query)
        except BaseException as error:
            self._fail(slot, error)

    def _fail(self, slot: int, error: BaseException) -> None:
        """Report the error of a callback."""
        retract()
        self._api.set_error(slot, _describe(error))
        if isinstance(error, KeyboardInterrupt):
            raise_again(error)

    def _fail_early(self, arguments: Mapping[str, object], error: KeyboardInterrupt) -> None:
        """Report an interrupt that was raised before the first line of a callback.

        DuckDB takes what a callback leaves unsaid for success: an answer would be read from memory
        that nobody has written.
        """
        descriptor = arguments.get("descriptor")
        if descriptor is not None:
            self._fill(descriptor)
        slot = arguments.get("slot")
        if isinstance(slot, int):
            self._fail(slot, error)
        else:
            raise_again(error)  # nothing can fail where a database is opened

    def _resolve(self, name: Sequence[str], info: int, context: int) -> None:
        if is_published(name[0]):
            return
        number = self._api.number_of("replacement_scan", info)
        if name[0] == WHICH:
            self._claim(info, Claim("database", f"SELECT {number} AS number"))
            return
        if not self._api.are_set(context, NEEDED_SETTINGS):
            return
        claim = self.resolve(self.storage, name, number)
        if claim is not None:
            self._claim(info, claim)

    def _claim(self, info: int, claim: Claim) -> None:
        if claim.query is None and self._expanding.run is None:
            self._api.call("replacement_scan_set_function_name", info, self._macro)
        else:
            query = claim.query or BIND_MACRO_BODY
            self._api.call("replacement_scan_set_subquery", info, byref(Str.of(query)))
        self._api.call("replacement_scan_set_alias", info, byref(Str.of(claim.alias)))

    def _add_scan(self, extension: int, factory: Pointer, number: Opaque) -> None:
        api = self._api
        scan = api.get("replacement_scan_create", factory)
        try:
            api.call("replacement_scan_set_callback", scan, self._scan)
            api.call("replacement_scan_set_user_data", scan, byref(number))
            api.call("extension_register_replacement_scan", extension, scan)
        finally:
            api.destroy("replacement_scan", scan)

    def _add_bind_function(self, extension: int, factory: Pointer, number: Opaque) -> None:
        api = self._api
        function = api.get("scalar_function_create", factory)
        text = api.get("factory_create_type_from_id", factory, capi.TYPE_VARCHAR, None, None, 0)
        try:
            api.call("scalar_function_set_name", function, byref(Str.of(BIND_FUNCTION)))
            signature = api.get("scalar_function_get_signature", function)
            parameter = byref(Str.of(BIND_PARAMETER)), text, None, capi.PARAMETER_STANDARD
            api.call("function_signature_add_parameter", signature, *parameter)
            api.call("function_signature_set_return_type", signature, text)
            docs = api.get("scalar_function_get_docs", function)
            api.call(
                "function_docs_set_description", docs, byref(Str.of(f"Called by {BIND_MACRO}"))
            )
            api.call("function_docs_add_category", docs, byref(Str.of(_NAME)))
            api.call("scalar_function_set_user_data", function, byref(number))
            nulls = capi.NULL_HANDLING, capi.NULL_HANDLING_SPECIAL
            for key, value in (nulls, (capi.FALLIBILITY, capi.FALLIBLE)):
                api.call("scalar_function_set_property", function, key, value)
            api.call("scalar_function_set_exec_callback", function, self._bind)
            api.call("extension_register_scalar_function", extension, function)
        finally:
            api.destroy("logical_type", text)
            api.destroy("scalar_function", function)

    def _add_macro(
        self,
        extension: int,
        factory: Pointer,
        name: str,
        body: str,
        parameters: Sequence[str],
        description: str,
        example: str,
    ) -> None:
        """Add a table macro to a database; all parameters but the first have a default."""
        api = self._api
        macro = api.get("macro_function_create", factory, capi.MACRO_TABLE)
        try:
            api.call("macro_function_set_name", macro, byref(Str.of(name)))
            api.call("macro_function_set_body", macro, byref(Str.of(body)))
            self._add_parameters(macro, factory, parameters)
            docs = api.get("macro_function_get_docs", macro)
            api.call("function_docs_set_description", docs, byref(Str.of(description)))
            api.call("function_docs_add_example", docs, None, byref(Str.of(example)))
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


def _resolve_nothing(storage: Storage, parts: Sequence[str], database: int) -> None:
    return None


def _bind_nothing(call: BindCall | None, database: int, settings: EngineSettings) -> BoundQuery:
    raise LookupError("no name was resolved")


def _describe(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, CallFailed):
        return f"the Lance table could not be handed to DuckDB: {error}"
    return str(error) or type(error).__name__
