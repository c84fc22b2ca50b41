"""The reader of each page layout (docs: format/file/encoding)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from lancefs.datafile.container import Page, PageEncoding
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.layouts.miniblock_page import MiniBlockPage
from lancefs.datafile.v2_1.layouts.page_reader import PageReader
from lancefs.datafile.v2_1.levels import parse_layers
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import PageLayout

_TYPE = "lance.encodings21.PageLayout"
_PLANAR = "lance.encodings23.PlanarLayout"
# In files that say 2.1, too; what these messages mean changed from release to release.
_PREVIEWS = ("lance.encodings.PageLayout", "lance.encodings.ArrayEncoding")

# Longest description, in bytes, that pages share: a longer one holds the symbol table of one page.
_SHARED_BYTES = 1024

Opener: TypeAlias = Callable[[Page], PageReader]
_Message = TypeVar("_Message", bound=Message)


def open_page(page: Page) -> PageReader:
    """Return the reader of a page of a data file 2.1 or later; raises as `layout_of` does."""
    return _open(page, layout_of(page.encoding))


def layout_of(encoding: PageEncoding) -> MiniBlock | Opener:
    """Parse the description of a page.

    Returns:
        The parsed description of a mini-block page; the function that opens any other page.

    Raises:
        CorruptFile: The description is damaged.
        UnsupportedFeature: The layout is not known.
    """
    is_shared = len(encoding.data) <= _SHARED_BYTES
    return _shared_layout(encoding) if is_shared else _layout(encoding)


@lru_cache(maxsize=256)  # pages of a column, also in other fragments, have equal descriptions
def _shared_layout(encoding: PageEncoding) -> MiniBlock | Opener:
    return _layout(encoding)


def _open(page: Page, layout: MiniBlock | Opener) -> PageReader:
    return MiniBlockPage(page, layout) if isinstance(layout, MiniBlock) else layout(page)


def _layout(encoding: PageEncoding) -> MiniBlock | Opener:
    """Parse a description, importing rare layouts only where a page has one."""
    if encoding.type_name == _PLANAR:
        from lancefs.datafile.v2_1.layouts.planar_page import planar_layout
        from lancefs.proto.encodings_v2_3_pb2 import PlanarLayout

        return planar_layout(_parse(encoding, PlanarLayout()))
    return _page_layout(parse_layout(encoding))


def _page_layout(layout: PageLayout) -> MiniBlock | Opener:
    match layout.WhichOneof("layout"):
        case "mini_block_layout":
            return MiniBlock(layout.mini_block_layout)
        case "full_zip_layout":
            from lancefs.datafile.v2_1.layouts.fullzip_page import FullZip

            return FullZip(layout.full_zip_layout)
        case "constant_layout":
            from lancefs.datafile.v2_1.layouts.constant_page import ConstantPage

            return partial(ConstantPage, layout=layout.constant_layout)
        case "blob_layout":
            from lancefs.datafile.v2_1.layouts.blob_page import BlobPage

            inner = _page_layout(layout.blob_layout.inner_layout)
            layers = parse_layers(layout.blob_layout.layers)
            return lambda page: BlobPage(_open(page, inner), layers)
        case None:
            raise UnsupportedFeature("a page layout that this release of lancefs does not know")
        case name:
            raise UnsupportedFeature(f"page layout {name.removesuffix('_layout')}")


def parse_layout(encoding: PageEncoding) -> PageLayout:
    """Read the description of a page."""
    if encoding.type_name in _PREVIEWS:
        raise UnsupportedFeature(
            "a preview of the format 2.1, which Lance 0.17 to 0.32 wrote; "
            "write the rows anew with the release that wrote them"
        )
    if encoding.type_name != _TYPE:
        raise UnsupportedFeature(f"page encoding {encoding.type_name or '(none)'}")
    return _parse(encoding, PageLayout())


def _parse(encoding: PageEncoding, layout: _Message) -> _Message:
    try:
        layout.ParseFromString(encoding.data)
    except DecodeError as error:
        name = encoding.type_name
        raise CorruptFile(f"the description of the page is not a {name} message") from error
    return layout
