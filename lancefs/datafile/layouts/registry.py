"""Which file reads which page layout (docs: format/file/encoding)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from lancefs.datafile.container import Encoding, Page
from lancefs.datafile.layouts.blob import BlobPage
from lancefs.datafile.layouts.constant import ConstantPage
from lancefs.datafile.layouts.fullzip import FullZipPage
from lancefs.datafile.layouts.miniblock import MiniBlock, MiniBlockPage
from lancefs.datafile.layouts.page import PageReader
from lancefs.datafile.levels import parse_layers
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import PageLayout

_TYPE = "lance.encodings21.PageLayout"
_PLANAR = "lance.encodings23.PlanarLayout"

# Descriptions up to this long are shared by many pages; longer ones hold a symbol table of a page.
_SHARED_BYTES = 1024

_Layout = TypeVar("_Layout", bound=Message)
_Opener: TypeAlias = Callable[[Page], PageReader]


def open_page(page: Page) -> PageReader:
    """Return the reader for a page of a data file 2.1 or later.

    Raises:
        CorruptFile: The description of the page is damaged.
        UnsupportedFeature: Its layout is not known.
    """
    is_shared = len(page.encoding.data) <= _SHARED_BYTES
    opener = _shared_opener(page.encoding) if is_shared else _opener(page.encoding)
    return opener(page)


@lru_cache(maxsize=256)  # the pages of a column, and of the other fragments, are laid out alike
def _shared_opener(encoding: Encoding) -> _Opener:
    return _opener(encoding)


def _opener(encoding: Encoding) -> _Opener:
    """Return what opens the pages that are described so."""
    if encoding.type_name == _PLANAR:
        from lancefs.datafile.layouts.planar import open_planar
        from lancefs.proto.encodings_v2_3_pb2 import PlanarLayout

        return partial(open_planar, layout=_parse(encoding, PlanarLayout()))
    return _opener_of(parse_layout(encoding))


def _opener_of(layout: PageLayout) -> _Opener:
    match layout.WhichOneof("layout"):
        case "mini_block_layout":
            return partial(MiniBlockPage, described=MiniBlock(layout.mini_block_layout))
        case "full_zip_layout":
            return partial(FullZipPage, layout=layout.full_zip_layout)
        case "constant_layout":
            return partial(ConstantPage, layout=layout.constant_layout)
        case "blob_layout":
            inner = _opener_of(layout.blob_layout.inner_layout)
            layers = parse_layers(layout.blob_layout.layers)
            return lambda page: BlobPage(inner(page), layers)
        case None:
            raise UnsupportedFeature("a page layout that this release of lancefs does not know")
        case name:
            raise UnsupportedFeature(f"page layout {name.removesuffix('_layout')}")


def parse_layout(encoding: Encoding) -> PageLayout:
    """Read the description of a page."""
    if encoding.type_name != _TYPE:
        raise UnsupportedFeature(f"page encoding {encoding.type_name or '(none)'}")
    return _parse(encoding, PageLayout())


def _parse(encoding: Encoding, layout: _Layout) -> _Layout:
    try:
        layout.ParseFromString(encoding.data)
    except DecodeError as error:
        name = encoding.type_name
        raise CorruptFile(f"the description of the page is not a {name} message") from error
    return layout
