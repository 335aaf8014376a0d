"""Grammars in several text files, fuzzed as one: they follow each other behind lines that name them; and tables."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from oracles.unary_dump import write_dump
from sapwood.grammar.io.berkeley import import_berkeley
from sapwood.grammar.io.text import read_text, write_text
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.interop.arrow import ColumnParser, parse_table
from sapwood.interop.csv_tables import parse_csv
from sapwood.testing.grammars import random_grammar

MARK = b"%%%% "
SENTENCES = [["dog", "saw", "cat"], ["Unknown", "of", "w1"]]


def joined(write: Callable[[Path], object]) -> bytes:
    """Return the files that are written into a folder as one."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        parts = sorted(Path(folder).iterdir(), key=lambda path: path.stat().st_size)
        return b"".join(MARK + path.name.encode() + b"\n" + path.read_bytes() for path in parts)


def _apart(path: Path, folder: str) -> None:
    for part in path.read_bytes().split(MARK)[1:]:
        name, _, content = part.partition(b"\n")
        wanted = name.decode("ascii", "replace")
        if wanted in {f"{stem}.{ending}" for stem in ("tiny", "m") for ending in _ENDINGS}:
            Path(folder, wanted).write_bytes(content)


_ENDINGS = ("grammar", "lexicon", "splits", "words", "counts", "json")


def _parse(grammar: TensorGrammar) -> None:
    parser = Parser(grammar)
    for sentence in SENTENCES:
        parser.parse_one(sentence)


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


def use_table(path: Path) -> None:
    """Parse a column of a table."""
    for column in ("text", "words"):
        parse_table(ColumnParser(_small_parser(), column), path, path.with_name("out.arrow"))


def use_csv(path: Path) -> None:
    """Parse a column of a CSV table."""
    parse_csv(ColumnParser(_small_parser(), "text"), path, path.with_name("out.csv"))


def tables() -> list[bytes]:
    """Return tables as they are stored."""
    table = pyarrow.table({"text": ["w0 w1", None, "w2"], "words": [["w0"], [], None], "id": [1, 2, 3]})
    stream = io.BytesIO()
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return [stream.getvalue()]


def parquets() -> list[bytes]:
    """Return tables in Parquet."""
    stream = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.ipc.open_stream(tables()[0]).read_all(), stream)
    return [stream.getvalue()]


def _small() -> TensorGrammar:
    return random_grammar(np.random.default_rng(1), interminals=2, preterminals=2, states=(1, 2))


@cache
def _small_parser() -> Parser:
    return Parser(_small())


def dumps() -> list[bytes]:
    """Return grammars as BerkeleyParser writes them."""
    return [joined(lambda folder, seed=seed: write_dump(folder, seed)) for seed in (1, 2)]  # type: ignore[misc]


def texts() -> list[bytes]:
    """Return grammars as `write_text` writes them."""
    grammar = _small()
    return [joined(lambda folder: write_text(grammar, folder / "m"))]
