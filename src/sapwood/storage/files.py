"""Files: open for reading, and write atomically, so that a crash never leaves a partial file.

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
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from sapwood.errors import InputError, SapwoodError
from sapwood.storage.limits import CountedInput, LimitedOutput, ReadLimits
from sapwood.storage.locks import temporary_file
from sapwood.storage.recognise import is_sapwood_start, stored_kind
from sapwood.storage.zstd import Frames, Truncated, through_zstd

STANDARD_STREAM = "-"
# First bytes of files that are not UTF-8 text, with what they are instead.
_OTHER_ENCODINGS = {
    b"\xff\xfe": "this looks like UTF-16: convert it to UTF-8 first",
    b"\xfe\xff": "this looks like UTF-16: convert it to UTF-8 first",
    b"\x1f\x8b": "this looks like gzip: name it .gz or decompress it",
    b"BZ": "this looks like bzip2: name it .bz2 or decompress it",
    b"\xfd7": "this looks like xz: name it .xz or decompress it",
    b"(\xb5": "this looks like zstd: name it .zst or decompress it",
    b"PK": "this looks like a zip archive: extract it first",
}
_COMPRESSORS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
# Memory of decompressing `.xz`, which is that of the largest dictionary of its command, with some to spare.
_XZ_MEMORY = 1 << 30
# Extensions of compressed files.
COMPRESSED = tuple(_COMPRESSORS)


def whole_number(text: str) -> int | None:
    """Parse a non-negative integer; None if it is not one, or has more than 18 digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def name_of(path: str | Path) -> str:
    """Return the name of `path` for messages."""
    return "<stdin>" if str(path) == STANDARD_STREAM else str(path)


def _folder(path: str | Path) -> Path | None:
    """Return the folder of `path`, None if the current one was removed."""
    try:
        return Path(os.path.realpath(path)).parent
    except OSError:
        return None


@contextlib.contextmanager
def explained(path: str | Path, doing: str = "read") -> Iterator[None]:
    """Turn errors of the operating system about `path` into an `InputError`."""
    try:
        yield
    except FileNotFoundError as error:
        folder = _folder(path)
        if doing == "read" or folder is None:
            raise InputError(f"{path}: no such file or directory") from error
        if folder.is_dir():
            raise InputError(f"{path}: cannot write it: its temporary file was removed meanwhile") from error
        raise InputError(
            f"{Path(path).parent if Path(path).parent.name else folder}: no such file or directory"
        ) from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a directory; name a file") from error
    except PermissionError as error:
        raise InputError(f"{path}: no permission to {doing} it") from error
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        kind = _COMPRESSORS.get(Path(path).suffix, "gzip")
        raise InputError(f"{path}: damaged or truncated {kind} file ({error})") from error
    except (BrokenPipeError, SapwoodError):  # a sentence or a search that timed out is unrelated to the file
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot {doing} it: {error.strerror or error}") from error


def check_readable(path: str | Path) -> None:
    """Raise an `InputError` if `path` is not a readable file, without reading it."""
    if str(path) == STANDARD_STREAM:
        return
    with explained(path):
        if stat.S_ISDIR(os.stat(path).st_mode):  # noqa: PTH116
            raise IsADirectoryError(str(path))
        if not os.access(path, os.R_OK):
            raise PermissionError(str(path))


def is_regular(path: str | Path) -> bool:
    """True if `path` is a file that can be read twice: not a directory, pipe or device."""
    return os.path.isfile(path)  # noqa: PTH113


@contextlib.contextmanager
def open_binary(path: str | Path) -> Iterator[BinaryIO]:
    """Open `path` (`-` is standard input; compressed files are decompressed) for reading bytes.

    A compressed file that holds more than `ReadLimits` allow ends in an `InputError`.
    """
    with explained(path):
        if str(path) == STANDARD_STREAM:
            yield sys.stdin.buffer
            return
        with Path(path).open("rb") as raw:
            if Path(path).suffix not in COMPRESSED:
                yield raw
                return
            source = CountedInput(raw)
            with _through(source, path, "rb") as stream:  # type: ignore[arg-type]
                limited = LimitedOutput(stream, source, str(path), ReadLimits.from_environment())
                yield io.BufferedReader(limited, 1 << 16)


def read_lines(path: str | Path, on_bad: Callable[[InputError], object] | None = None) -> Iterator[tuple[int, str]]:
    """Yield `(line number, text)` of a UTF-8 file as the lines arrive, line ends kept.

    A byte order mark is skipped. Bytes that are not UTF-8, and zero bytes (absent from text, but not from UTF-16 and
    binary files), raise an `InputError` with the location; or, with `on_bad`, the error is passed to it, and the line
    is blank. A model file, and a line that is longer than `ReadLimits` allow, always raise one.
    """
    start, longest = b"", ReadLimits.from_environment().line
    with open_binary(path) as stream:
        for number, raw in enumerate(iter(lambda: stream.readline(longest + 1), b""), 1):
            if number == 1 and is_sapwood_start(raw):
                remedy = "decompress it, and pass it" if Path(path).suffix in COMPRESSED else "pass it"
                raise InputError(
                    f"{name_of(path)}: a {stored_kind(raw)} written by sapwood, not a text file or treebank; {remedy} "
                    "where a model is expected (-m)"
                )
            if len(raw) > longest:
                raise InputError(
                    f"{name_of(path)}:{number}: a line of more than {longest:,} bytes; break it or set SAPWOOD_MAX_LINE"
                )
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
                other = "this is not a text file, or it is UTF-16; convert it to UTF-8 first"
                remedy = _OTHER_ENCODINGS.get(start, other)
                _refuse_line(InputError(f"{place}: a zero byte: {remedy}"), on_bad)
                text = "\n"
            yield number, text


def _refuse_line(error: InputError, on_bad: Callable[[InputError], object] | None) -> None:
    if on_bad is None:
        raise error from None
    on_bad(error)


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Write a file atomically: to a temporary file next to it, flushed to disk, then renamed.

    A symbolic link is followed. A target that is not a regular file (a device, a pipe) cannot be replaced and is
    written to.
    """
    with explained(path, "write"):
        if Path(path).is_dir():
            raise IsADirectoryError(str(path))
        if Path(path).exists() and not is_regular(path):
            with Path(path).open("wb") as stream:
                yield stream
            return
        target = Path(os.path.realpath(path))
        if target.is_symlink():  # still a link: it is circular
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        with temporary_file(target) as (handle, temporary):
            # Temporary files are private; give the result the permissions any new file would have.
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)
            with os.fdopen(handle, "wb", closefd=False) as stream:
                yield stream
                stream.flush()
                os.fsync(handle)
            temporary.replace(target)
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
    """Yield a stream that compresses or decompresses, if the file name asks for it."""
    ending = Path(path).suffix
    if ending not in COMPRESSED:
        yield raw
        return
    if ending == ".gz":
        # Neither name nor time is stored: the same content gives the same bytes.
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
        if ending == ".xz" and mode == "rb":
            # `LZMAFile` has no limit of memory, of which a file can ask for four gigabytes.
            frames = Frames(raw, lambda: module.LZMADecompressor(memlimit=_XZ_MEMORY), padding=b"\0")
            yield io.BufferedReader(frames)
            return
        with opened(raw, mode) as stream:
            yield stream
    except Truncated as error:
        raise EOFError(str(error)) from error
    except problem as error:
        if getattr(error, "errno", None) is not None:  # from the operating system
            raise
        raise EOFError(str(error)) from error
