"""Which file reads which page layout (docs: format/file/encoding)."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError

from lancefs.datafile.container import Page
from lancefs.datafile.layouts.blob import BlobPage
from lancefs.datafile.layouts.constant import ConstantPage
from lancefs.datafile.layouts.fullzip import FullZipPage
from lancefs.datafile.layouts.miniblock import MiniBlockPage
from lancefs.datafile.layouts.page import PageReader
from lancefs.datafile.layouts.planar import open_planar
from lancefs.datafile.levels import parse_layers
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import PageLayout
from lancefs.proto.encodings_v2_3_pb2 import PlanarLayout

_TYPE = "lance.encodings21.PageLayout"
_PLANAR = "lance.encodings23.PlanarLayout"

_Layout = TypeVar("_Layout", PageLayout, PlanarLayout)


def open_page(page: Page) -> PageReader:
    """Return the reader for a page of a data file 2.1 or later.

    Raises:
        CorruptFile: The description of the page is damaged.
        UnsupportedFeature: Its layout is not known.
    """
    if page.encoding.type_name == _PLANAR:
        return open_planar(page, _parse(page, PlanarLayout()))
    return _open(page, parse_layout(page))


def _open(page: Page, layout: PageLayout) -> PageReader:
    match layout.WhichOneof("layout"):
        case "mini_block_layout":
            return MiniBlockPage(page, layout.mini_block_layout)
        case "full_zip_layout":
            return FullZipPage(page, layout.full_zip_layout)
        case "constant_layout":
            return ConstantPage(page, layout.constant_layout)
        case "blob_layout":
            inner = _open(page, layout.blob_layout.inner_layout)
            return BlobPage(inner, parse_layers(layout.blob_layout.layers))
        case None:
            raise UnsupportedFeature("a page layout that this release of lancefs does not know")
        case name:
            raise UnsupportedFeature(f"page layout {name.removesuffix('_layout')}")


def parse_layout(page: Page) -> PageLayout:
    """Read the description of a page."""
    if page.encoding.type_name != _TYPE:
        raise UnsupportedFeature(f"page encoding {page.encoding.type_name or '(none)'}")
    return _parse(page, PageLayout())


def _parse(page: Page, layout: _Layout) -> _Layout:
    try:
        layout.ParseFromString(page.encoding.data)
    except DecodeError as error:
        name = page.encoding.type_name
        raise CorruptFile(f"the description of the page is not a {name} message") from error
    return layout
