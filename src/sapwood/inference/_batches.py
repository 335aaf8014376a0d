"""Sentences in parts that are worth sending elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def parts_of(sentences: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of so many sentences, the last of what is left."""
    rest = iter(sentences)
    while part := list(islice(rest, size)):
        yield part
