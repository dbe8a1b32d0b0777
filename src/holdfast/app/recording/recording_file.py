"""The file of a recording: lines of JSON, compressed if its name ends in .gz.

Lines are only appended. After a crash the file is valid up to the last `flush`, and its last line may be incomplete.
"""

import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from holdfast import errors
from holdfast.api.recording import LINE_MAX, Header, Line

GZIP: Final = ".gz"
TEXT_MAX: Final = 4 * 1024**3  # bytes that are read, without compression
_CHUNK: Final = 256 * 1024
_GZIP_START: Final = b"\x1f\x8b"
_GZIP_FORMAT: Final = 31  # `wbits` of zlib: a header and a checksum of gzip, and the largest window


class RecordingFile:
    """Only its owner can read the file. Raises FileExistsError unless `force` is set, and OSError."""

    def __init__(self, path: Path, *, force: bool) -> None:
        if force:
            path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._stream = os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)
        self._compressor = zlib.compressobj(wbits=_GZIP_FORMAT) if path.name.endswith(GZIP) else None
        self._encoder = msgspec.json.Encoder()
        self._buffer = bytearray()
        self.size_bytes = 0  # without what is not flushed

    def write(self, lines: Iterable[Header | Line]) -> None:
        for line in lines:
            self._encoder.encode_into(line, self._buffer, -1)
            self._buffer += b"\n"

    def flush(self) -> None:
        """Gives the lines to the operating system, so that only a crash of the computer can lose them."""
        if self._buffer:
            found = bytes(self._buffer)
            self._buffer.clear()
            if self._compressor is not None:
                found = self._compressor.compress(found) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
            self._append(found)

    def close(self) -> None:
        try:
            self.flush()
            if self._compressor is not None:
                self._append(self._compressor.flush(zlib.Z_FINISH))
            os.fsync(self._stream.fileno())
        finally:
            self._stream.close()

    def _append(self, found: bytes) -> None:
        """A disk that is nearly full may take a part."""
        rest = memoryview(found)
        while rest:
            written = self._stream.write(rest) or 0
            self.size_bytes += written
            rest = rest[written:]


# --- Reading ----------------------------------------------------------------------------------------------


class TextLine(NamedTuple):
    number: int
    text: bytes
    is_whole: bool  # whether the end of the line is in the file


def lines(stream: BinaryIO, name: str) -> Iterator[TextLine]:
    """The lines of a recording. Raises InvalidInput for a line that is too long, and for a damaged file."""
    number, total, rest = 0, 0, b""
    for chunk in _text(stream, name):
        total += len(chunk)
        if total > TEXT_MAX:
            raise errors.InvalidInput(f"{name} has more than {TEXT_MAX} bytes of text")
        *whole, rest = (rest + chunk).split(b"\n")
        longest = max(map(len, (*whole, rest)))
        if longest > LINE_MAX:
            raise errors.InvalidInput(f"{name}: a line after line {number} has more than {LINE_MAX} bytes")
        for text in whole:
            number += 1
            yield TextLine(number, text, is_whole=True)
    if rest:
        yield TextLine(number + 1, rest, is_whole=False)


def _text(stream: BinaryIO, name: str) -> Iterator[bytes]:
    start = stream.read(_CHUNK)
    return _inflated(stream, start, name) if start.startswith(_GZIP_START) else _chunks(stream, start)


def _inflated(stream: BinaryIO, start: bytes, name: str) -> Iterator[bytes]:
    """In pieces of bounded size: a small file may have a huge text. The end is missing after a crash."""
    inflater = zlib.decompressobj(wbits=_GZIP_FORMAT)
    try:
        for chunk in _chunks(stream, start):
            yield inflater.decompress(chunk, _CHUNK)
            while inflater.unconsumed_tail:
                yield inflater.decompress(inflater.unconsumed_tail, _CHUNK)
    except zlib.error as error:
        raise errors.InvalidInput(f"{name} is damaged, it cannot be decompressed: {error}") from error


def _chunks(stream: BinaryIO, start: bytes) -> Iterator[bytes]:
    while start:
        yield start
        start = stream.read(_CHUNK)
