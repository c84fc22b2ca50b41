"""`lancefs mount`: a table as a read-only directory, through FUSE."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Any

import click

from lancefs.cli import shared_options
from lancefs.cli.browsing import directory, filesystem
from lancefs.cli.exits import MISSING, Failure
from lancefs.cli.render.grid import note
from lancefs.cli.target import parse_target
from lancefs.table.refs import Ref
from lancefs.table.versions import VERSIONS

if TYPE_CHECKING:
    from lancefs.table.base_paths import BaseRules

_STREAM = ".arrows"


@shared_options.command(
    examples="""
    lancefs mount orders.lance /mnt/orders
    lancefs mount s3://bucket/tables /mnt/tables
    lancefs mount orders.lance@prod /mnt/orders
    """,
    epilog="Needs FUSE and the Python package fusepy: pip install 'lancefs[mount]'. Streams "
    "(.arrows) are not shown, because a mounted file needs a size. Ctrl-C unmounts.",
)
@click.argument("path", metavar="PATH[@REF]", shell_complete=shared_options.complete_table)
@click.argument("mountpoint", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@shared_options.storage
@shared_options.base_rules
def mount(path: str, mountpoint: str, options: dict[str, Any], rules: BaseRules | None) -> None:
    """Mount a table, or a folder of tables, read-only at DIR until Ctrl-C."""
    target = parse_target(path, options, rules=rules)
    if os.listdir(mountpoint):
        raise Failure(f"{mountpoint} is not empty; choose an empty directory")
    fuse = _fuse()
    is_table = VERSIONS in target.store.names()
    if not is_table and (target.ref != Ref() or not target.store.names()):
        _ = target.resolved  # raises the error
    fs = filesystem(target, list_streams=False)
    operations = _read_only(fuse)(fs, directory(target) if is_table else "")
    note(f"{path} is mounted at {mountpoint}; Ctrl-C unmounts it")
    try:
        # One thread: fsspec's operations seek in files that threads would share.
        fuse.FUSE(operations, mountpoint, nothreads=True, foreground=True, ro=True)
    except RuntimeError as error:
        raise Failure(
            f"{mountpoint}: FUSE refused to mount (error {error}): /dev/fuse must be there, and "
            "you must be allowed to use it",
            MISSING,
        ) from error


def _fuse() -> Any:
    """Import fsspec's FUSE module.

    Raises:
        Failure: A package is not installed; the message names it.
    """
    try:
        import fsspec.fuse
    except ImportError as error:
        raise Failure(
            f"mount needs the Python package fusepy ({error}): pip install 'lancefs[mount]'",
            MISSING,
        ) from error
    except OSError as error:  # fusepy found no libfuse
        raise Failure(
            f"mount needs the FUSE library ({error}): install libfuse2 (Debian, Ubuntu), "
            "fuse-libs (Fedora) or macFUSE",
            MISSING,
        ) from error
    return fsspec.fuse


def _read_only(fuse: Any) -> Any:
    """Return a class of FUSE operations: fsspec's, read-only, and with the sizes of views."""

    class Operations(fuse.FUSEr):  # type: ignore[misc]  # fsspec has no types
        """FUSE operations on the tree of a table."""

        def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
            """Return the attributes of a file or directory."""
            if path.endswith(_STREAM):
                raise fuse.FuseOSError(errno.ENOENT)
            try:
                info = self.fs.info(self._full(path))
            except FileNotFoundError as error:
                raise fuse.FuseOSError(errno.ENOENT) from error
            is_file = info["type"] == "file"
            committed = info.get("created")
            moment = committed.timestamp() if committed is not None else 0.0
            return {
                "st_mode": stat.S_IFREG | 0o444 if is_file else stat.S_IFDIR | 0o555,
                "st_size": info["size"] if is_file else 0,
                "st_nlink": 1 if is_file else 2,
                "st_uid": os.getuid(),
                "st_gid": os.getgid(),
                **dict.fromkeys(("st_atime", "st_ctime", "st_mtime"), moment),
            }

        def readdir(self, path: str, fh: int) -> list[str]:
            """List a directory."""
            names = (name.rstrip("/") for name in self.fs.ls(self._full(path), detail=False))
            return [".", "..", *map(os.path.basename, names)]

        def open(self, path: str, flags: int) -> int:
            """Open a file for reading."""
            if flags & (os.O_WRONLY | os.O_RDWR):
                raise fuse.FuseOSError(errno.EROFS)
            self.counter += 1
            self.cache[self.counter] = self.fs.open(self._full(path), "rb")
            return int(self.counter)

        def _full(self, path: str) -> str:
            return f"{self.root.strip('/')}/{path.strip('/')}".strip("/")

    return Operations
