"""Limits of what is read: how long a line may be, and how much a compressed file may hold.

A few kilobytes can decompress to gigabytes, and a text without line ends is one line. So lines have a maximum length,
and what a file decompresses to has a maximum, in total and relative to its size. Environment variables raise the limits
for unusual files that are trusted.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from sapwood.errors import InputError, UsageError

_SIZE = re.compile(r"([0-9]{1,15})([KMGT]?)", re.ASCII | re.IGNORECASE)
# What small compressed files may hold, whatever their ratio.
_SMALL = 1 << 26
# Bytes to decompress at a time.
_STEP = 1 << 20


@dataclass(frozen=True)
class ReadLimits:
    """Limits of what is read.

    Attributes
    ----------
    line
        Bytes of a line, `SAPWOOD_MAX_LINE` in the environment.
    ratio
        Bytes per compressed byte, `SAPWOOD_MAX_RATIO`; files of up to 64 MiB may have any.
    total
        Bytes of a decompressed file, `SAPWOOD_MAX_DECOMPRESSED`.
    """

    line: int = 1 << 24
    ratio: int = 200
    total: int = 1 << 40

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ReadLimits:
        """Return the default limits, changed by environment variables.

        >>> ReadLimits.from_environment({"SAPWOOD_MAX_LINE": "1G"}).line
        1073741824
        """
        given = {}
        for limit, name in (("line", "LINE"), ("ratio", "RATIO"), ("total", "DECOMPRESSED")):
            if text := environment.get(f"SAPWOOD_MAX_{name}"):
                found = _SIZE.fullmatch(text)
                if found is None or not int(found[1]):
                    raise UsageError(
                        f"SAPWOOD_MAX_{name}: {text[:40]!r} is not a size; give a number from 1 on, with K, M, G or T "
                        "for more"
                    )
                given[limit] = int(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " ")
        return cls(**given)

    def check_decompressed(self, name: str, size: int, compressed: int) -> None:
        """Raise an `InputError` if a file of `compressed` bytes holds too much."""
        if size > self.total:
            raise InputError(
                f"{name}: holds more than {self.total:,} bytes; if you trust it, set SAPWOOD_MAX_DECOMPRESSED"
            )
        if size > max(_SMALL, self.ratio * compressed):
            raise InputError(
                f"{name}: holds more than {self.ratio} times as many bytes as it has, which text never does; if you "
                "trust it, set SAPWOOD_MAX_RATIO"
            )


class CountedInput(io.RawIOBase):
    """A compressed file that counts the bytes read from it."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.count = 0

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)


class LimitedOutput(io.RawIOBase):
    """A decompressed stream that ends in an `InputError` when it holds too much."""

    def __init__(self, stream: Any, source: CountedInput, name: str, limits: ReadLimits) -> None:
        self._stream, self._source, self._name, self._limits = stream, source, name, limits
        self._count = 0

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the beginning of a buffer: what is decompressed at once is not more than can be checked."""
        size = int(self._stream.readinto(memoryview(buffer)[:_STEP]) or 0)
        self._count += size
        self._limits.check_decompressed(self._name, self._count, self._source.count)
        return size
