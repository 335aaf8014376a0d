"""Opening files for reading, and writing them so that a crash never leaves half a file.

`-` is standard input or output; `.gz`, `.bz2`, `.xz` and `.zst` are decompressed (and compressed) on the fly. Every
failure of the operating system becomes an `InputError` that names the file and the reason.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import importlib
import io
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from sapwood.errors import InputError, SapwoodError
from sapwood.zstd import through_zstd

STANDARD_STREAM = "-"
# How the first bytes of a file give away what it is instead of UTF-8 text.
_OTHER_ENCODINGS = {
    b"\xff\xfe": "this looks like UTF-16: convert it to UTF-8 first",
    b"\xfe\xff": "this looks like UTF-16: convert it to UTF-8 first",
    b"\x1f\x8b": "this looks like gzip: name it .gz or decompress it",
    b"BZ": "this looks like bzip2: name it .bz2 or decompress it",
    b"\xfd7": "this looks like xz: name it .xz or decompress it",
    b"(\xb5": "this looks like zstd: name it .zst or decompress it",
}
_COMPRESSORS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
# How the names of files end that are compressed.
COMPRESSED = tuple(_COMPRESSORS)


def whole_number(text: str) -> int | None:
    """Return the whole number that a text is; None if it is none, or has more than 18 digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def name_of(path: str | Path) -> str:
    """Return the name of `path` as errors show it."""
    return "<stdin>" if str(path) == STANDARD_STREAM else str(path)


@contextlib.contextmanager
def explained(path: str | Path, doing: str = "read") -> Iterator[None]:
    """Turn the operating system's errors about `path` into an `InputError`."""
    try:
        yield
    except FileNotFoundError as error:
        missing = Path(path) if doing == "read" else Path(path).parent
        raise InputError(f"{missing}: no such file or directory") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a directory; name a file") from error
    except PermissionError as error:
        raise InputError(f"{path}: no permission to {doing} it") from error
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        kind = _COMPRESSORS.get(Path(path).suffix, "gzip")
        raise InputError(f"{path}: damaged or truncated {kind} file ({error})") from error
    except (BrokenPipeError, SapwoodError):  # a sentence or a search that timed out is no matter of the file
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot {doing} it: {error.strerror or error}") from error


def check_readable(path: str | Path) -> None:
    """Raise an `InputError` if `path` is no file that can be read, without reading any of it."""
    if str(path) == STANDARD_STREAM:
        return
    with explained(path):
        if stat.S_ISDIR(os.stat(path).st_mode):  # noqa: PTH116
            raise IsADirectoryError(str(path))
        if not os.access(path, os.R_OK):
            raise PermissionError(str(path))


def is_regular(path: str | Path) -> bool:
    """Whether `path` is a file that can be read twice: no directory, pipe or device."""
    return os.path.isfile(path)  # noqa: PTH113


@contextlib.contextmanager
def open_binary(path: str | Path) -> Iterator[BinaryIO]:
    """Open `path` (`-` is standard input, what is compressed is decompressed) for reading bytes."""
    with explained(path):
        if str(path) == STANDARD_STREAM:
            yield sys.stdin.buffer
            return
        with Path(path).open("rb") as raw, _through(raw, path, "rb") as stream:
            yield stream if stream is raw else io.BufferedReader(stream)  # type: ignore[type-var]


def read_lines(path: str | Path, on_bad: Callable[[InputError], object] | None = None) -> Iterator[tuple[int, str]]:
    """Yield `(line number, text)` of a UTF-8 file as the lines arrive, line ends kept.

    A byte order mark is skipped. Bytes that are not UTF-8, and zero bytes (which no text has, but UTF-16 and
    binary files do), raise an `InputError` naming the place; or, with `on_bad`, it is told, and the line is blank.
    """
    start = b""
    with open_binary(path) as stream:
        for number, raw in enumerate(stream, 1):
            if number == 1:
                start = raw[:2]
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                place = f"{name_of(path)}:{number}:{error.start + 1}"
                remedy = _OTHER_ENCODINGS.get(start, "convert the file to UTF-8 first")
                _refuse_line(InputError(f"{place}: not valid UTF-8 (byte 0x{raw[error.start]:02x}); {remedy}"), on_bad)
                text = "\n"
            if "\0" in text:
                place = f"{name_of(path)}:{number}:{raw.index(0) + 1}"
                remedy = "this is not a text file, or it is UTF-16; convert it to UTF-8 first"
                _refuse_line(InputError(f"{place}: a zero byte: {remedy}"), on_bad)
                text = "\n"
            yield number, text


def _refuse_line(error: InputError, on_bad: Callable[[InputError], object] | None) -> None:
    if on_bad is None:
        raise error from None
    on_bad(error)


def temporary_prefix(name: str) -> str:
    """Return how names of files begin that are written in place of one with this name, until they are whole."""
    return f".{name[:40]}."


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Write a file whole or not at all: to a temporary file beside it, flushed to disk, then renamed.

    A symbolic link is followed. What is not a plain file (a device, a pipe) cannot be replaced and is written to.
    """
    with explained(path, "write"):
        if Path(path).is_dir():
            raise IsADirectoryError(str(path))
        if Path(path).exists() and not is_regular(path):
            with Path(path).open("wb") as stream:
                yield stream
            return
        target = Path(os.path.realpath(path))
        if target.is_symlink():  # what is still one then leads back to itself
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=temporary_prefix(target.name), suffix=".part")
        try:
            # mkstemp makes private files; give the result the permissions any new file would have.
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)  # noqa: PTH101
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)  # noqa: PTH105
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
            raise
        with contextlib.suppress(OSError):
            directory = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)


@contextlib.contextmanager
def open_output(path: str | Path | None) -> Iterator[IO[str]]:
    """Open a text output: standard output for `None` or `-`, else an atomically written UTF-8 file.

    A file whose name ends in `.gz`, `.bz2`, `.xz` or `.zst` is compressed.
    """
    if path is None or str(path) == STANDARD_STREAM:
        with explained("standard output", "write"):
            yield sys.stdout
            sys.stdout.flush()
        return
    with atomic_write(path) as raw, _through(raw, path, "wb") as binary:
        text = io.TextIOWrapper(binary, encoding="utf-8", newline="\n")
        yield text
        text.flush()
        text.detach()


@contextlib.contextmanager
def _through(raw: BinaryIO, path: str | Path, mode: str) -> Iterator[BinaryIO]:
    """Yield what compresses or decompresses, if the name of the file asks for it."""
    ending = Path(path).suffix
    if ending not in COMPRESSED:
        yield raw
        return
    if ending == ".gz":
        # Neither name nor time goes into the file: the same content gives the same bytes.
        with gzip.GzipFile("", mode, fileobj=raw, mtime=0) as stream:
            yield stream  # type: ignore[misc]
        return
    if ending == ".zst":
        with through_zstd(raw, path, mode) as stream:
            yield stream
        return
    try:
        module = importlib.import_module("bz2" if ending == ".bz2" else "lzma")
    except ModuleNotFoundError as error:
        kind = _COMPRESSORS[ending]
        raise InputError(f"{path}: this Python was built without {kind}; decompress the file first") from error
    opened, problem = (module.BZ2File, OSError) if ending == ".bz2" else (module.LZMAFile, module.LZMAError)
    try:
        with opened(raw, mode) as stream:
            yield stream
    except problem as error:
        if getattr(error, "errno", None) is not None:  # of the operating system
            raise
        raise EOFError(str(error)) from error
