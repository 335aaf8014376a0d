"""Opening files for reading, and writing them so that a crash never leaves half a file.

`-` is standard input or output; `.gz` is decompressed on the fly. Every failure of the operating
system becomes an `InputError` that names the file and the reason.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

from sapwood.errors import InputError

STANDARD_STREAM = "-"


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
        raise InputError(f"{path}: damaged or truncated gzip file ({error})") from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot {doing} it: {error.strerror or error}") from error


@contextlib.contextmanager
def open_binary(path: str | Path) -> Iterator[BinaryIO]:
    """Open `path` (`-` is standard input, `.gz` is decompressed) for reading bytes."""
    with explained(path):
        if str(path) == STANDARD_STREAM:
            yield sys.stdin.buffer
        elif str(path).endswith(".gz"):
            with gzip.open(path, "rb") as stream:
                yield io.BufferedReader(stream)
        else:
            with Path(path).open("rb") as stream:
                yield stream


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield `(line number, text)` of a UTF-8 file as the lines arrive, line ends kept.

    A byte order mark is skipped. Bytes that are not UTF-8 raise an `InputError` naming the line.
    """
    with open_binary(path) as stream:
        for number, raw in enumerate(stream, 1):
            if number == 1 and raw.startswith(b"\xef\xbb\xbf"):
                raw = raw[3:]
            try:
                yield number, raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{name_of(path)}:{number}:{error.start + 1}: not valid UTF-8 "
                    f"(byte 0x{raw[error.start]:02x}); convert the file to UTF-8 first"
                ) from None


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Write a file whole or not at all: to a temporary file beside it, flushed to disk, then renamed."""
    target = Path(path)
    with explained(target, "write"):
        if target.is_dir():
            raise IsADirectoryError(str(target))
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
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
    """Open a text output: standard output for `None` or `-`, else an atomically written UTF-8 file."""
    if path is None or str(path) == STANDARD_STREAM:
        yield sys.stdout
        sys.stdout.flush()
        return
    with atomic_write(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
        yield text
        text.flush()
        text.detach()
