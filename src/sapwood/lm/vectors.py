"""Word vectors in the word2vec formats, which most tools for word vectors read.

The text format has a line with the number of words and of dimensions, then one line per word: the word and its numbers.
The binary format has the same first line, then each word, a space, its numbers as little-endian 32-bit floats, and a
line end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sapwood.errors import InputError, UsageError
from sapwood.lm.counts.vocabulary import SPECIAL
from sapwood.lm.latent.bigram import LatentBigram, Likeness
from sapwood.storage.files import atomic_write, open_binary, open_output
from sapwood.storage.shapes import Array, Float32


def write_vectors(
    model: LatentBigram, path: str | Path, *, binary: bool = False, likeness: Likeness | None = None
) -> int:
    """Write the states of the words, `r(.|w)`, as word vectors; returns their number.

    `<s>` and `</s>` are skipped if they were never seen.

    Parameters
    ----------
    model
        The model of the words.
    path
        The file; in the text format `-` is standard output, and a name in `.gz` is compressed.
    binary
        Whether to write the binary format.
    likeness
        If given, vectors are transformed so that this likeness is their inner product.
    """
    vectors = model.vectors(likeness=likeness)
    words = model.vocabulary.words
    numbers = [n for n in range(len(words)) if n >= len(SPECIAL) or model.vocabulary.counts[n] > 0]
    for number in numbers:
        if not words[number] or any(white in words[number] for white in " \n\t\r"):
            raise UsageError(f"a word with white space cannot be written as a word vector: {words[number]!r}")
    head = f"{len(numbers)} {vectors.shape[1]}\n"
    if binary:
        with atomic_write(path) as raw:
            raw.write(head.encode())
            for number in numbers:
                raw.write(words[number].encode("utf-8") + b" " + vectors[number].astype("<f4").tobytes() + b"\n")
        return len(numbers)
    with open_output(path) as stream:
        stream.write(head)
        for number in numbers:
            # The shortest decimal that identifies the 32-bit number.
            stream.write(f"{words[number]} {' '.join(map(str, vectors[number].astype(np.float32)))}\n")
    return len(numbers)


def read_vectors(path: str | Path, *, binary: bool = False) -> tuple[list[str], Float32[Array, "words dimensions"]]:
    """Read words and their vectors, in either format."""
    with open_binary(path) as stream:
        content = stream.read()
    end = content.find(b"\n")
    try:
        count, width = map(int, content[:end].split())
        rows = list(_binary_rows(content[end + 1 :], width) if binary else _text_rows(content[end + 1 :]))
        vectors = np.array([row for _, row in rows], np.float32).reshape(len(rows), width)
        words = [word.decode("utf-8") for word, _ in rows]
    except ValueError as error:
        kind = "binary" if binary else "text"
        raise InputError(f"{path}: not a file of word vectors in the {kind} format of word2vec") from error
    if len(words) != count:
        raise InputError(f"{path}: has {len(words)} word vectors and says that there are {count}; it was cut short")
    return words, vectors


def _text_rows(content: bytes) -> Iterator[tuple[bytes, np.ndarray]]:
    for line in content.splitlines():
        word, *values = line.split(b" ")
        yield word, np.array([float(value) for value in values if value], np.float32)


def _binary_rows(content: bytes, width: int) -> Iterator[tuple[bytes, np.ndarray]]:
    at = 0
    while at < len(content):
        space = content.index(b" ", at)
        values = content[space + 1 : space + 1 + 4 * width]
        if len(values) < 4 * width:
            return
        yield content[at:space], np.frombuffer(values, "<f4")
        at = space + 1 + 4 * width
        at += content[at : at + 1] == b"\n"
