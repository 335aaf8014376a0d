"""Shards: parts of a job that separate processes run, without a scheduler.

Shard i of n gets a contiguous part of the input, and which part that is depends on i, n and the input alone. So shards
run in any order, on any machine, and again after a failure; outputs joined in the order of the shards have the same
bytes as those of one run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sapwood.errors import UsageError
from sapwood.storage.files import STANDARD_STREAM, is_regular, name_of

_FORM = re.compile(r"([0-9]{1,6})/([0-9]{1,6})", re.ASCII)


@dataclass(frozen=True)
class Shard:
    """Shard `index` (from 1) of `count`.

    Examples
    --------
    >>> [Shard(i, 3).part(10) for i in (1, 2, 3)]
    [range(0, 3), range(3, 6), range(6, 10)]
    """

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise UsageError(f"shard {self.index}/{self.count}: with N shards, the first is 1/N and the last N/N")

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard that `i/n` names."""
        if (found := _FORM.fullmatch(text)) is None:
            raise UsageError(f"{text!r} is not a shard: write 3/8 for the third of eight")
        return cls(int(found[1]), int(found[2]))

    @property
    def label(self) -> str:
        """The shard in names of files, which sort in the order of shards: `03-of-12`."""
        return f"{self.index:0{len(str(self.count))}}-of-{self.count}"

    def part(self, size: int) -> range:
        """Return the part of a sequence of this length."""
        return range((self.index - 1) * size // self.count, self.index * size // self.count)

    def files(self, paths: Sequence[str | Path]) -> list[str | Path]:
        """Return the files of this shard: neighbours, of about the same size in total in all shards."""
        if self.count > len(paths):
            raise UsageError(
                f"shard {self}: a shard of several files has whole files, and there are {len(paths)}; "
                f"use at most {len(paths)} shards"
            )
        sizes = [file_size(path) for path in paths]
        total, before, found = sum(sizes), 0, []
        for path, size in zip(paths, sizes, strict=True):
            # A file belongs where its middle is.
            if min((2 * before + size) * self.count // (2 * max(total, 1)), self.count - 1) == self.index - 1:
                found.append(path)
            before += size
        return found


def file_size(path: str | Path) -> int:
    """Return the size of a file that can be read in parts."""
    if str(path) == STANDARD_STREAM or not is_regular(path):
        raise UsageError(f"{name_of(path)}: shards of a stream would each read all of it; name a file")
    return Path(path).stat().st_size
