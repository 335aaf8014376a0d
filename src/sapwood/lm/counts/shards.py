"""Shards of text: byte ranges of files that are counted by separate workers or processes.

A range ends with a line. A compressed file is never cut: it belongs to the shard in which it begins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TypedDict

from sapwood.errors import UsageError
from sapwood.lm.counts.text import Piece, Sources, cut_pieces, source_list
from sapwood.runtime.shards import Shard, file_size
from sapwood.storage.files import COMPRESSED, STANDARD_STREAM, explained, is_regular, name_of, open_binary

# Bytes of a shard of a worker, and of a read.
_SHARD, _CHUNK = 1 << 26, 1 << 22


class ShardRecord(TypedDict):
    """Shard that a file of counts was made of.

    `sources` is a digest of the names and sizes of all files, which is the same for all shards of a text, `content` one
    of the shard's own bytes.
    """

    index: int
    count: int
    sources: str
    content: str


@dataclass(frozen=True)
class TextShard:
    """A range of bytes of a file; without an end, a whole file that may be compressed."""

    path: str
    begin: int = 0
    end: int | None = None

    @property
    def size(self) -> int | None:
        """Number of bytes, if there is an end."""
        return None if self.end is None else self.end - self.begin

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes."""
        left = self.size
        with open_binary(self.path) as stream:
            if self.begin:
                stream.seek(self.begin)
            while more := stream.read(_CHUNK if left is None else min(left, _CHUNK)):
                left = None if left is None else left - len(more)
                yield more

    def pieces(self) -> Iterator[Piece]:
        """Yield the bytes in pieces cut between words."""
        return self.cut(self.chunks())

    def cut(self, chunks: Iterable[bytes]) -> Iterator[Piece]:
        """Cut chunks of bytes between words."""
        return cut_pieces(chunks, name_of(self.path), within=self.begin > 0)


def cut_shards(sources: Sources, size: int = _SHARD) -> list[TextShard]:
    """Cut files into shards of about `size` bytes, at line ends."""
    shards = []
    for source in source_list(sources):
        path = str(Path(source).resolve())
        if str(source) == STANDARD_STREAM or not is_regular(source):
            raise UsageError(f"{name_of(source)}: workers elsewhere cannot read it; name a file that all of them see")
        if path.endswith(COMPRESSED):
            shards.append(TextShard(path))
            continue
        with explained(source), Path(source).open("rb") as stream:
            whole, begin = stream.seek(0, 2), 0
            while begin < whole or whole == 0:
                end = _line_end(stream, min(begin + size, whole))
                shards.append(TextShard(path, begin, end))
                begin = end
                if whole == 0:
                    break
    return shards


def _line_end(stream: BinaryIO, place: int) -> int:
    """Return the end of the line that goes on at this place; a line may be longer than memory."""
    stream.seek(place)
    while (line := stream.readline(_CHUNK)) and not line.endswith(b"\n"):
        pass
    return stream.tell()


@dataclass(frozen=True)
class TextParts:
    """The text of a shard, and the text after it, in which its last n-grams may end."""

    own: list[TextShard]
    following: list[TextShard]
    sources: str

    def record(self, shard: Shard) -> ShardRecord:
        """Return what a file of counts notes of the shard; reads its text."""
        content = hashlib.sha256()
        for chunk in chain.from_iterable(part.chunks() for part in self.own):
            content.update(chunk)
        return {"index": shard.index, "count": shard.count, "sources": self.sources, "content": content.hexdigest()}


def text_of_shard(sources: Sources, shard: Shard) -> TextParts:
    """Return the parts of files that are in a shard: about the same number of bytes in each."""
    paths = source_list(sources)
    sizes = [file_size(path) for path in paths]
    part, begin = shard.part(sum(sizes)), 0
    own: list[TextShard] = []
    following: list[TextShard] = []
    for path, size in zip(paths, sizes, strict=True):
        first, last = (_cut(path, size, place - begin) for place in (part.start, part.stop))
        for found, span in ((own, (first, last)), (following, (last, size))):
            if span[0] < span[1]:
                found.append(_shard(str(path), *span))
        begin += size
    names = [[Path(path).name, size] for path, size in zip(paths, sizes, strict=True)]
    return TextParts(own, following, hashlib.sha256(json.dumps(names).encode()).hexdigest())


def _shard(path: str, begin: int, end: int) -> TextShard:
    return TextShard(path) if path.endswith(COMPRESSED) else TextShard(path, begin, end)


def _cut(path: str | Path, size: int, place: int) -> int:
    """Return the end of the line at a place in a file, within the file."""
    if place <= 0 or place >= size or str(path).endswith(COMPRESSED):
        return 0 if place <= 0 else size
    with explained(path), Path(path).open("rb") as stream:
        return _line_end(stream, place)
