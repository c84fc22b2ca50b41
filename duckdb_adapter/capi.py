"""The part of DuckDB's C API that we call, as its Python module exports it.

The declarations follow `duckdb_static_extension.h` and `duckdb_v2.h` of DuckDB 2.0. Functions are
called through `PyDLL`: they are short, and callbacks that they lead to need the interpreter anyway.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, byref, c_char_p, c_int32, c_uint32, c_uint64, c_void_p
from typing import Any, TypeAlias

from duckdb_adapter.releases import UnsupportedDuckDB

Pointer: TypeAlias = c_void_p

DESCRIPTOR_VERSION = 2
ERROR_INPUT_INVALID = 2001
MACRO_TABLE = 1
PARAMETER_STANDARD = 1
# Properties of scalar functions: whether NULL is an argument as any other, and whether it may fail.
NULL_HANDLING, NULL_HANDLING_SPECIAL = 65792, 65793
FALLIBILITY, FALLIBLE = 66048, 66049
TYPE_ANY = 3
TYPE_VARCHAR = 25


class Str(Structure):
    """A view of text."""

    _fields_ = (("ptr", c_char_p), ("len", c_uint64))

    @classmethod
    def of(cls, text: str) -> Str:
        """Return a view of a text, that lives as long as the view."""
        data = text.encode()
        return cls(data, len(data))


class _Text(Structure):
    """A view of text that DuckDB hands out; it need not end with a zero."""

    _fields_ = (("ptr", c_void_p), ("len", c_uint64))

    def value(self) -> str:
        return ctypes.string_at(self.ptr, self.len).decode() if self.ptr else ""


class ExtensionInput(Structure):
    """What the entry of an extension is called with."""

    _fields_ = (
        ("get_api", c_void_p),
        ("extension", c_void_p),
        ("context", c_void_p),
        ("err", c_void_p),
    )


class Descriptor(Structure):
    """What an extension says of itself."""


class Opaque(Structure):
    """Data that DuckDB keeps for us, and hands to callbacks."""

    _fields_ = (("ptr", c_void_p), ("destroy", c_void_p), ("equals", c_void_p))


DescriptorPointer = POINTER(Descriptor)
SetError = ctypes.CFUNCTYPE(None, DescriptorPointer, c_char_p)
Entry = ctypes.CFUNCTYPE(None, POINTER(ExtensionInput))
Describe = ctypes.CFUNCTYPE(c_int32, DescriptorPointer)
# What is asked for, the context, and the place for an error.
Callback = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)

Descriptor._fields_ = (
    ("version", c_uint32),
    ("set_error", SetError),
    ("internal", c_void_p),
    ("name", c_char_p),
    ("extension_version", c_char_p),
    ("api_version", c_char_p),
    ("entry_cpp", c_void_p),
    ("entry_capi_v1", c_void_p),
    ("entry_capi_v2", c_void_p),
    ("database_callback", c_void_p),
)

_P = c_void_p
_STR = POINTER(Str)
# Name -> types of the arguments before the last one, which is always a place for an error.
_CALLS: dict[str, tuple[Any, ...]] = {
    "context_get_factory": (_P, POINTER(_P)),
    "context_get_config": (_P, POINTER(_P)),
    "context_get_file_system": (_P, POINTER(_P)),
    "file_system_path_exists": (_P, _STR, POINTER(ctypes.c_bool)),
    "config_get_option_value": (_P, _STR, POINTER(_P), POINTER(c_int32)),
    "value_get_bool": (_P, POINTER(ctypes.c_bool)),
    "value_get_varchar": (_P, POINTER(_Text)),
    "value_is_null": (_P, POINTER(ctypes.c_bool)),
    "value_create_null": (_P, _P, POINTER(_P)),
    "value_create_varchar": (_P, _STR, POINTER(_P)),
    "vector_get_value": (_P, c_uint64, POINTER(_P)),
    "vector_make_constant": (_P, _P, c_uint64),
    "factory_create_type_from_id": (_P, c_int32, _P, _P, c_uint64, POINTER(_P)),
    "replacement_scan_create": (_P, POINTER(_P)),
    "replacement_scan_set_callback": (_P, Callback),
    "replacement_scan_set_user_data": (_P, POINTER(Opaque)),
    "replacement_scan_get_user_data": (_P, POINTER(_P)),
    "extension_register_replacement_scan": (_P, _P),
    "replacement_scan_get_name": (_P, POINTER(_P)),
    "replacement_scan_set_subquery": (_P, _STR),
    "replacement_scan_set_function_name": (_P, _P),
    "replacement_scan_set_alias": (_P, _STR),
    "qname_create": (_STR, c_uint64, POINTER(_P)),
    "qname_get_part_count": (_P, POINTER(c_uint64)),
    "qname_get_part": (_P, c_uint64, POINTER(_Text)),
    "macro_function_create": (_P, c_int32, POINTER(_P)),
    "macro_function_set_name": (_P, _STR),
    "macro_function_set_body": (_P, _STR),
    "macro_function_get_signature": (_P, POINTER(_P)),
    "macro_function_get_docs": (_P, POINTER(_P)),
    "function_docs_set_description": (_P, _STR),
    "function_docs_add_example": (_P, _STR, _STR),
    "function_docs_add_category": (_P, _STR),
    "function_signature_add_parameter": (_P, _STR, _P, _P, c_int32),
    "extension_register_macro_function": (_P, _P),
    "scalar_function_create": (_P, POINTER(_P)),
    "scalar_function_set_name": (_P, _STR),
    "scalar_function_get_signature": (_P, POINTER(_P)),
    "scalar_function_get_docs": (_P, POINTER(_P)),
    "scalar_function_set_user_data": (_P, POINTER(Opaque)),
    "scalar_function_set_property": (_P, c_int32, c_int32),
    "scalar_function_set_exec_callback": (_P, Callback),
    "scalar_function_exec_get_user_data": (_P, POINTER(_P)),
    "scalar_function_exec_get_arg": (_P, c_uint64, POINTER(_P)),
    "scalar_function_exec_get_row_count": (_P, POINTER(c_uint64)),
    "scalar_function_exec_get_result": (_P, POINTER(_P)),
    "function_signature_set_return_type": (_P, _P),
    "extension_register_scalar_function": (_P, _P),
}
# These take a pointer to a handle, and set it to null.
_DESTROYERS = (
    "qname_destroy",
    "replacement_scan_destroy",
    "macro_function_destroy",
    "scalar_function_destroy",
    "value_destroy",
    "logical_type_destroy",
    "error_info_destroy",
)


class CallFailed(Exception):
    """A function of DuckDB returned an error."""


class Api:
    """DuckDB's functions.

    Args:
        library: The path of DuckDB's Python module, which exports them.

    Raises:
        UnsupportedDuckDB: It exports less than we need.
    """

    def __init__(self, library: str) -> None:
        self._library = ctypes.PyDLL(library)
        self._functions: dict[str, Callable[..., int]] = {}
        for name, arguments in _CALLS.items():
            self._declare(name, (*arguments, POINTER(_P)))
        for name in _DESTROYERS:
            self._declare(name, (POINTER(_P),))
        self._declare("error_info_get_text", (_P, POINTER(_Text)))
        self._declare("error_info_set_code", (_P, c_int32))
        self._declare("error_info_set_text", (_P, _STR))
        self._register = self._symbol("duckdb_register_static_extension")
        self._register.argtypes = (Describe,)
        self._register.restype = c_int32

    def register_static_extension(self, describe: Any) -> bool:
        """Have every database that is opened from now on load an extension.

        Args:
            describe: A `Describe` callback, which must stay alive as long as the process.
        """
        return int(self._register(describe)) == 0

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function, without its prefix and without the place for an error.

        Raises:
            CallFailed: It returned an error; the message is DuckDB's.
        """
        error = Pointer()
        code = self._functions[name](*arguments, byref(error))
        if code:
            message = self._message(error)
            raise CallFailed(f"duckdb_v2_{name}: {message or f'error {code}'}")

    def get(self, name: str, *arguments: Any) -> Pointer:
        """Call a function whose last argument receives a handle, and return that."""
        handle = Pointer()
        self.call(name, *arguments, byref(handle))
        return handle

    def destroy(self, kind: str, handle: Pointer) -> None:
        """Destroy a handle that we own."""
        self._functions[f"{kind}_destroy"](byref(handle))

    def set_error(self, slot: int | None, text: str) -> None:
        """Report an error of a callback.

        Args:
            slot: Where the callback was told to put it: the address of a handle.
            text: What the user will see.
        """
        if slot:
            info = ctypes.cast(slot, POINTER(_P)).contents
            self._functions["error_info_set_code"](info, ERROR_INPUT_INVALID)
            self._functions["error_info_set_text"](info, byref(Str.of(text)))

    def name_of(self, info: int) -> list[str]:
        """Return the parts of the name that a replacement scan is asked for."""
        name = self.get("replacement_scan_get_name", info)
        try:
            count = c_uint64()
            self.call("qname_get_part_count", name, byref(count))
            part, parts = _Text(), []
            for position in range(count.value):
                self.call("qname_get_part", name, position, byref(part))
                parts.append(part.value())
            return parts
        finally:
            self.destroy("qname", name)

    def make_name(self, parts: Sequence[str]) -> Pointer:
        """Return a qualified name, which the caller owns."""
        return self.get("qname_create", (Str * len(parts))(*map(Str.of, parts)), len(parts))

    def number_of(self, kind: str, info: int) -> int:
        """Return the number that a callback was given as its data.

        Args:
            kind: `replacement_scan` or `scalar_function_exec`.
            info: What the callback was called with.
        """
        return self.get(f"{kind}_get_user_data", info).value or 0

    def argument_of(self, info: int) -> str:
        """Return the argument of a scalar function of one text, which is the same for all rows.

        Args:
            info: What the callback was called with.

        Returns:
            The text; an empty one for NULL.
        """
        vector = self.get("scalar_function_exec_get_arg", info, 0)
        value, is_null, text = Pointer(), ctypes.c_bool(), _Text()
        self.call("vector_get_value", vector, 0, byref(value))
        try:
            self.call("value_is_null", value, byref(is_null))
            if not is_null.value:
                self.call("value_get_varchar", value, byref(text))
            return text.value()
        finally:
            self.destroy("value", value)

    def return_text(self, info: int, context: int, text: str) -> None:
        """Set the result of a scalar function, the same for all rows."""
        factory, rows = self.get("context_get_factory", context), c_uint64()
        self.call("scalar_function_exec_get_row_count", info, byref(rows))
        result = self.get("scalar_function_exec_get_result", info)
        value = self.get("value_create_varchar", factory, byref(Str.of(text)))
        try:
            self.call("vector_make_constant", result, value, rows)
        finally:
            self.destroy("value", value)

    def are_set(self, context: int, options: Sequence[str]) -> bool:
        """Return whether settings that are true or false are all true."""
        config, answer = self.get("context_get_config", context), ctypes.c_bool(True)
        for option in options:
            value = self._setting(config, option)
            try:
                self.call("value_get_bool", value, byref(answer))
            finally:
                self.destroy("value", value)
            if not answer.value:
                break
        return answer.value

    def text_of(self, context: int, option: str) -> str:
        """Return a setting that is a text."""
        value = self._setting(self.get("context_get_config", context), option)
        try:
            answer = _Text()
            self.call("value_get_varchar", value, byref(answer))
            return answer.value()  # as long as the setting is there
        finally:
            self.destroy("value", value)

    def finds_file(self, context: int, path: str) -> bool:
        """Return whether there is a file that a statement may read."""
        files, exists = self.get("context_get_file_system", context), ctypes.c_bool()
        try:
            self.call("file_system_path_exists", files, byref(Str.of(path)), byref(exists))
        except CallFailed:  # as it would be when DuckDB reads the file: that is not allowed
            return False
        return exists.value

    def _setting(self, config: Pointer, option: str) -> Pointer:
        """Return the value of a setting, which the caller destroys."""
        value, scope = Pointer(), c_int32()
        self.call(
            "config_get_option_value", config, byref(Str.of(option)), byref(value), byref(scope)
        )
        return value

    def _declare(self, name: str, arguments: tuple[Any, ...]) -> None:
        function = self._symbol(f"duckdb_v2_{name}")
        function.argtypes = arguments
        function.restype = c_int32
        self._functions[name] = function

    def _symbol(self, name: str) -> Any:
        try:
            return getattr(self._library, name)
        except AttributeError:
            raise UnsupportedDuckDB(
                f"this DuckDB does not export {name}; use duckdb_adapter.connect() or "
                "duckdb_adapter.wrap(connection), which need nothing of it"
            ) from None

    def _message(self, error: Pointer) -> str:
        if error.value is None:
            return ""
        text = _Text()
        try:
            self._functions["error_info_get_text"](error, byref(text))
            return text.value()
        finally:
            self.destroy("error_info", error)
