"""Locks of files: who writes a file, and which temporary files nobody writes any more.

A temporary file is locked (`flock`) by the process that writes it until it is renamed or removed, and the system
releases the lock when that process ends, however it ends. So a temporary file whose lock is free was abandoned, and
only such files are removed. Where there are no such locks (Windows, some network file systems), nothing is removed, and
nothing is claimed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sapwood.errors import InputError

_ENDING = ".part"
# What `tempfile` puts between prefix and ending.
_RANDOM = re.compile(r"[a-z0-9_]{8}")
_TRIES = 100


def temporary_prefix(name: str) -> str:
    """Return the prefix of the names of temporary files written in place of one with this name."""
    return f".{name[:40]}."


@contextlib.contextmanager
def temporary_file(target: Path) -> Iterator[tuple[int, Path]]:
    """Create a file next to `target` and yield its descriptor and path; it is locked, and removed if still there.

    The descriptor stays open until the end, since closing it releases the lock.
    """
    for _ in range(_TRIES):
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=temporary_prefix(target.name), suffix=_ENDING)
        # Between its creation and the lock, another process may have taken it for abandoned.
        if _lock(handle) is None or _is_same(handle, Path(name)):
            break
        os.close(handle)
    else:
        raise OSError(errno.EAGAIN, "its temporary files are removed as soon as they are made", str(target))
    path = Path(name)
    try:
        yield handle, path
    finally:
        with contextlib.suppress(OSError):
            if _is_same(handle, path):
                path.unlink()
        os.close(handle)


def remove_abandoned(folder: Path, name: str, *, beginning: bool = False) -> None:
    """Remove temporary files in place of one with this name, if the processes that wrote them have ended.

    With `beginning`, these are the temporary files in place of all files whose names begin like this.
    """
    pattern = re.escape(temporary_prefix(name).removesuffix(".") if beginning else temporary_prefix(name))
    temporary = re.compile(f"{pattern}{'.*[.]' if beginning else ''}{_RANDOM.pattern}{re.escape(_ENDING)}", re.DOTALL)
    with contextlib.suppress(FileNotFoundError):
        for path in folder.iterdir():
            if temporary.fullmatch(path.name):
                _remove_if_free(path)


def _remove_if_free(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return
    try:
        # The lock of a file that was renamed meanwhile is free, too.
        if _lock(handle) and _is_same(handle, path):
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)


@contextlib.contextmanager
def claimed(path: str | Path) -> Iterator[None]:
    """Claim an output for the duration of a run; raise `InputError` if another run has claimed it.

    >>> with tempfile.TemporaryDirectory() as folder, claimed(f"{folder}/m"), claimed(f"{folder}/m"):
    ...     pass
    Traceback (most recent call last):
        ...
    sapwood.errors.InputError: .../m: another run is writing it; wait until it ends, or name another output
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir() or (target.exists() and not target.is_file()):
        yield  # a device, or nothing that can be written
        return
    digest = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
    lock = target.with_name(f".{target.name[:40]}.{digest}.lock")
    handle = None
    for _ in range(_TRIES):
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except OSError as error:
            raise InputError(f"{path}: cannot write in its folder: {error.strerror} ({lock.name})") from error
        free = _lock(handle)
        if free is False:
            os.close(handle)
            raise InputError(f"{path}: another run is writing it; wait until it ends, or name another output")
        # The run that had claimed it may have removed the file since it was opened.
        if free is None or _is_same(handle, lock):
            break
        os.close(handle)
    assert handle is not None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()
        os.close(handle)


def _lock(handle: int) -> bool | None:
    """Lock an open file and return whether it was free; None if there are no locks here."""
    try:
        module: Any = importlib.import_module("fcntl")
        module.flock(handle, module.LOCK_EX | module.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _is_same(handle: int, path: Path) -> bool:
    """Return whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except OSError:
        return False
