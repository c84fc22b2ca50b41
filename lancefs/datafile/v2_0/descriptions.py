"""Descriptions of the pages and columns of a data file 2.0, parsed once."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

from google.protobuf.message import DecodeError

from lancefs.datafile.container import PageEncoding
from lancefs.datafile.v2_0 import plain_pages
from lancefs.datafile.v2_0.plain_pages import PageForm
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto import encodings_v2_0_pb2 as pb

_PAGE_TYPE = "lance.encodings.ArrayEncoding"
_COLUMN_TYPE = "lance.encodings.ColumnEncoding"

_Encoding = TypeVar("_Encoding", pb.ArrayEncoding, pb.ColumnEncoding)


@lru_cache(maxsize=1024)  # most pages of a column, in all fragments, share a description
def parse_page_encoding(described: PageEncoding) -> pb.ArrayEncoding:
    """Parse the description of a page.

    Raises:
        CorruptFile: It is damaged.
        UnsupportedFeature: It is not one of an array.
    """
    if described.type_name != _PAGE_TYPE:
        raise UnsupportedFeature(f"page encoding {described.type_name or '(none)'}")
    return _parse(pb.ArrayEncoding, described)


@lru_cache(maxsize=1024)  # as above
def parse_form(described: PageEncoding) -> PageForm | None:
    """Return what a description of a page tells; see `plain_pages.page_form`.

    Raises:
        CorruptFile: The description, or the symbol table of strings, is damaged.
        UnsupportedFeature: It is not one of an array.
    """
    return plain_pages.page_form(parse_page_encoding(described))


@lru_cache(maxsize=1024)  # most columns share a description
def check_column(described: PageEncoding) -> None:
    """Check that the pages of a column hold its values.

    The pages of a blob column hold descriptors, which are its values here; zone maps are stored
    beside the pages and are not needed.

    Raises:
        UnsupportedFeature: They do not, as far as is known.
    """
    if described.type_name != _COLUMN_TYPE:
        raise UnsupportedFeature(f"column encoding {described.type_name or '(none)'}")
    encoding = _parse(pb.ColumnEncoding, described)
    while (kind := encoding.WhichOneof("column_encoding")) != "values":
        if kind is None:
            raise UnsupportedFeature("a column encoding that this release of lancefs does not know")
        encoding = getattr(encoding, kind).inner


def _parse(kind: type[_Encoding], described: PageEncoding) -> _Encoding:
    try:
        return kind.FromString(described.data)
    except DecodeError as error:
        raise CorruptFile(f"the description is not a message {kind.DESCRIPTOR.name}") from error
