"""Journal: every action of a project, one JSON object a line, appended and flushed to disk before it is acknowledged.

A line has the sentence, its version (the number of actions on it so far), who did what and when, and the annotation
that resulted; undoing and redoing refer to earlier lines instead. So the lines of a sentence replayed from the first
give its present state, and every earlier one. After a crash the last line may be incomplete; it was not acknowledged,
and is cut off.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sapwood.errors import InputError
from sapwood.storage.files import explained
from sapwood.storage.json_values import json_problem

TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


class JournalEntry(NamedTuple):
    """A line of the journal, and where it begins in the file."""

    offset: int
    sentence: int
    version: int
    action: Mapping[str, Any]
    state: Mapping[str, Any] | None
    by: str
    time: str


class Journal:
    """Append-only journal in a file.

    Parameters
    ----------
    path
        The file; it is created if it does not exist.
    read_only
        Leave the file as it is, even if its last line is incomplete.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        mode = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT | os.O_APPEND
        with explained(self.path, "read" if read_only else "write"):
            self._file = os.open(self.path, mode | getattr(os, "O_BINARY", 0), 0o666)
        if not read_only:
            self._cut_incomplete_line()
        self.size = os.fstat(self._file).st_size

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _cut_incomplete_line(self) -> None:
        size = end = os.fstat(self._file).st_size
        while end:
            begin = max(0, end - (1 << 16))
            os.lseek(self._file, begin, os.SEEK_SET)
            piece = _read_exactly(self._file, end - begin)
            at = piece.rfind(b"\n")
            if at >= 0:
                end = begin + at + 1
                break
            end = begin
        if end < size:
            os.ftruncate(self._file, end)
            os.fsync(self._file)

    def is_unchanged(self) -> bool:
        """Return whether the file is the one that was opened, with the lines that were written here."""
        try:
            there, here = self.path.stat(), os.fstat(self._file)
        except OSError:
            return False
        return os.path.samestat(there, here) and here.st_size == self.size

    def append(self, entries: list[dict[str, Any]]) -> list[int]:
        """Append lines, flush them to disk, and return where they begin."""
        lines = [(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n").encode() for one in entries]
        with self._lock, explained(self.path, "write"):
            before = self.size
            try:
                data = b"".join(lines)
                while data:
                    data = data[os.write(self._file, data) :]
                os.fsync(self._file)
            except OSError:
                os.ftruncate(self._file, before)  # a part of a line must not precede the next one
                raise
            starts = []
            for line in lines:
                starts.append(self.size)
                self.size += len(line)
        return starts

    def entries(self) -> Iterator[JournalEntry]:
        """Yield all lines; raises `InputError` for one that is none."""
        with self.path.open("rb") as stream:
            offset = 0
            for number, line in enumerate(stream, 1):
                if not line.endswith(b"\n"):  # it is being written
                    return
                yield self._entry(line, offset, f"{self.path}:{number}")
                offset += len(line)

    def entry(self, offset: int) -> JournalEntry:
        """Return the line that begins there."""
        with self.path.open("rb") as stream:
            stream.seek(offset)
            return self._entry(stream.readline(), offset, f"{self.path}, byte {offset}")

    @staticmethod
    def _entry(line: bytes, offset: int, place: str) -> JournalEntry:
        try:
            value = json.loads(line)
            found = JournalEntry(
                offset, value["sentence"], value["version"], value["action"], value.get("state"), value.get("by", ""),
                value.get("time", ""),
            )  # fmt: skip
            right = type(found.sentence) is type(found.version) is int and isinstance(found.action["edit"], str)
            right = right and (found.state is None or isinstance(found.state, dict))
            right = right and type(found.by) is type(found.time) is str
            # The state is checked as it is read: a tree may be long.
            right = right and not json_problem({**value, "state": None})
        except (ValueError, KeyError, TypeError, RecursionError):
            right = False
        if not right:
            raise InputError(f"{place}: not an action of a journal; restore the file, or remove this line")
        return found


def _read_exactly(file: int, size: int) -> bytes:
    pieces = []
    while size:
        piece = os.read(file, size)
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def now() -> str:
    """Return the date and time for a line of the journal."""
    return time.strftime(TIME_FORMAT, time.gmtime())
