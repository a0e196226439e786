"""Compressed files: what they hold is read, and a repaired one is compressed the same way."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from unpermute.files._source import TableError

__all__ = ["COMPRESSIONS", "compressed", "compression_of", "decompressed"]


@dataclass(frozen=True)
class _Compression:
    """A way to compress: the first bytes of such files, how to read and how to write one."""

    magic: bytes
    read: Callable[[bytes], bytes]
    writer: Callable[..., Any]


def _zstandard():
    try:
        import zstandard
    except ModuleNotFoundError:
        raise TableError("Files ending in .zst need zstandard: pip install zstandard") from None
    return zstandard


def _read_zstd(raw):
    library, parts = _zstandard(), []
    while raw:
        frame = library.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(raw))
        except library.ZstdError as error:
            raise ValueError(str(error)) from None
        if not frame.eof:  # cut off, of which the library says nothing
            raise EOFError
        raw = frame.unused_data
    return b"".join(parts)


COMPRESSIONS = {
    ".gz": _Compression(
        b"\x1f\x8b", gzip.decompress, lambda file: gzip.GzipFile(fileobj=file, mode="wb", mtime=0)
    ),
    ".bz2": _Compression(b"BZh", bz2.decompress, partial(bz2.BZ2File, mode="wb")),
    ".xz": _Compression(b"\xfd7zXZ\0", lzma.decompress, partial(lzma.LZMAFile, mode="wb")),
    ".zst": _Compression(
        b"\x28\xb5\x2f\xfd", _read_zstd, lambda file: _zstandard().open(file, "wb")
    ),
}


def compression_of(raw) -> str | None:
    """Return the suffix of the compression that the first bytes show, None if there is none."""
    for suffix, compression in COMPRESSIONS.items():
        if raw[: len(compression.magic)] == compression.magic:
            return suffix
    return None


def decompressed(raw, suffix: str, name: str) -> bytes:
    """Return what a compressed file holds."""
    try:
        return COMPRESSIONS[suffix].read(bytes(raw))
    except TableError:
        raise
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error):
        raise TableError(f"{name} is not a complete {suffix} file.") from None


def compressed(pieces: Iterable[bytes | memoryview], suffix: str) -> Iterator[bytes]:
    """Yield the pieces of a file compressed."""
    sink = io.BytesIO()
    # Not closed with the compressor: its last bytes are read after the end.
    sink.close = lambda: None  # type: ignore[method-assign]
    with COMPRESSIONS[suffix].writer(sink) as file:
        for piece in pieces:
            file.write(piece)
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()
