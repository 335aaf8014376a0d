"""Grammars in several text files, which are fuzzed as one: the files follow each other behind lines that name them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from oracles.unary_dump import write_dump
from sapwood.grammar.berkeley import import_berkeley
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.grammar.text_files import write_text
from sapwood.grammar.text_reading import read_text
from sapwood.inference import Parser
from sapwood.testing.grammars import random_grammar

_MARK = b"%%%% "
SENTENCES = [["dog", "saw", "cat"], ["Unknown", "of", "w1"]]


def joined(write: Callable[[Path], object]) -> bytes:
    """Return the files that are written into a folder as one."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        parts = sorted(Path(folder).iterdir(), key=lambda path: path.stat().st_size)
        return b"".join(_MARK + path.name.encode() + b"\n" + path.read_bytes() for path in parts)


def _apart(path: Path, folder: str) -> None:
    for part in path.read_bytes().split(_MARK)[1:]:
        name, _, content = part.partition(b"\n")
        wanted = name.decode("ascii", "replace")
        if wanted in {f"{stem}.{ending}" for stem in ("tiny", "m") for ending in _ENDINGS}:
            Path(folder, wanted).write_bytes(content)


_ENDINGS = ("grammar", "lexicon", "splits", "words", "counts", "json")


def _parse(grammar: TensorGrammar) -> None:
    for sentence in SENTENCES:
        Parser(grammar).parse_one(sentence)


def use_dump(path: Path) -> None:
    """Import a grammar of BerkeleyParser and parse with it."""
    with tempfile.TemporaryDirectory() as folder:
        _apart(path, folder)
        _parse(import_berkeley(Path(folder, "tiny")))


def use_text(path: Path) -> None:
    """Read a grammar that was written as text and parse with it."""
    with tempfile.TemporaryDirectory() as folder:
        _apart(path, folder)
        _parse(read_text(Path(folder, "m")))


def dumps() -> list[bytes]:
    """Return grammars as BerkeleyParser writes them."""
    return [joined(lambda folder, seed=seed: write_dump(folder, seed)) for seed in (1, 2)]  # type: ignore[misc]


def texts() -> list[bytes]:
    """Return grammars as `write_text` writes them."""
    grammar = random_grammar(np.random.default_rng(1), interminals=2, preterminals=2, states=(1, 2))
    return [joined(lambda folder: write_text(grammar, folder / "m"))]
