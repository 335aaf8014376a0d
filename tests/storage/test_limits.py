"""Limits: long lines and files that decompress to far more than they have."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import importlib
import io
import lzma
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from sapwood.errors import InputError, UsageError
from sapwood.lm.vectors import read_vectors
from sapwood.numerics.matrix_files import read_matrix
from sapwood.storage import limits
from sapwood.storage.files import open_binary, read_lines
from sapwood.storage.limits import ReadLimits
from sapwood.storage.zstd import LIBRARY
from sapwood.trees.formats.conllu import read_conllu
from sapwood.trees.formats.registry import read_tagged, read_tokens, read_trees

MEGABYTE = 1 << 20
LINE = b"a" * 1023 + b"\n"
COMPRESSORS = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile}
with contextlib.suppress(ImportError):
    COMPRESSORS[".zst"] = importlib.import_module(LIBRARY).ZstdFile


def bomb(path: Path, piece: bytes, megabytes: int) -> Path:
    """Write a file that holds `piece` again and again."""
    block = piece * (MEGABYTE // len(piece))
    with COMPRESSORS[path.suffix](path, "wb") as stream:
        for _ in range(megabytes):
            stream.write(block)
    return path


@pytest.mark.parametrize("ending", COMPRESSORS)
def test_decompression_has_limits(tmp_path, ending, monkeypatch):
    path = bomb(tmp_path / f"x{ending}", LINE, 70)
    with pytest.raises(InputError, match=rf"x{ending}: holds more than 200 times as many bytes .* SAPWOOD_MAX_RATIO$"):
        for _ in read_lines(path):
            pass
    monkeypatch.setenv("SAPWOOD_MAX_RATIO", "1M")
    assert sum(1 for _ in read_lines(path)) == 70 * MEGABYTE // len(LINE)
    monkeypatch.setenv("SAPWOOD_MAX_DECOMPRESSED", "2M")
    with pytest.raises(InputError, match=rf"x{ending}: holds more than 2,097,152 bytes; .* SAPWOOD_MAX_DECOMPRESSED$"):
        for _ in read_lines(path):
            pass


@pytest.mark.parametrize("ending", [".gz", ".bz2"])
def test_little_is_decompressed_before_it_is_checked(tmp_path, ending, monkeypatch):
    """Also for a reader that wants everything at once."""
    monkeypatch.setattr(limits, "_SMALL", 1 << 16)
    path, most = bomb(tmp_path / f"x{ending}", b"a", 40), 1 << 27
    tracemalloc.start()
    with open_binary(path) as stream, pytest.raises(InputError, match="SAPWOOD_MAX_RATIO"):
        stream.read(most)
    # The buffer that was asked for is not filled.
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < most + 12 * MEGABYTE


def test_small_files_may_hold_much(tmp_path):
    path = bomb(tmp_path / "x.gz", LINE, 20)
    assert sum(1 for _ in read_lines(path)) == 20 * MEGABYTE // len(LINE)


def test_lines_have_a_limit(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(b"short\n" + b"a " * (9 * MEGABYTE))
    with pytest.raises(
        InputError, match=r"x:2: a line of more than 16,777,216 bytes; break it or set SAPWOOD_MAX_LINE"
    ):
        list(read_lines(path))
    monkeypatch.setenv("SAPWOOD_MAX_LINE", "18M")
    assert len(list(read_lines(path))) == 2
    monkeypatch.setenv("SAPWOOD_MAX_LINE", "5")
    with pytest.raises(InputError, match="x:1: a line of more than 5 bytes"):
        list(read_lines(path))


@pytest.mark.parametrize("value", ["0", "-1", "much", "1.5", "1e9", "9" * 5000, "inf", "nan", "١"])
def test_limits_are_sizes(tmp_path, monkeypatch, value):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"a\n"))
    monkeypatch.setenv("SAPWOOD_MAX_RATIO", value)
    with pytest.raises(UsageError, match=r"^SAPWOOD_MAX_RATIO: '.*' is not a size; give a number from 1 on"):
        list(read_lines(path))


def test_limits_from_the_environment():
    assert ReadLimits.from_environment({}) == ReadLimits()
    given = {"SAPWOOD_MAX_LINE": "7", "SAPWOOD_MAX_RATIO": "8K", "SAPWOOD_MAX_DECOMPRESSED": "9t"}
    assert ReadLimits.from_environment(given) == ReadLimits(7, 8 << 10, 9 << 40)


def test_the_memory_of_xz_has_a_limit(tmp_path):
    path = tmp_path / "x.xz"
    chain = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}]
    raw = bytearray(lzma.compress(b"a\n", lzma.FORMAT_XZ, filters=chain, check=lzma.CHECK_NONE))
    # The size of the dictionary is a byte of the block header, which ends in a check sum of itself.
    header = raw[12:20]
    assert header[:4] == b"\x02\x00\x21\x01"
    header[4] = 40
    raw[12:24] = header + lzma_crc(bytes(header))
    path.write_bytes(raw)
    with pytest.raises(InputError, match=r"x\.xz: damaged or truncated xz file \(Memory usage limit exceeded\)"):
        list(read_lines(path))


def lzma_crc(data: bytes) -> bytes:
    import zlib

    return zlib.crc32(data).to_bytes(4, "little")


def test_padding_of_xz(tmp_path):
    path = tmp_path / "x.xz"
    path.write_bytes(lzma.compress(b"a\n") + b"\0" * 8 + lzma.compress(b"b\n") + b"\0" * 2048)
    assert [line for _, line in read_lines(path)] == ["a\n", "b\n"]


def read_all(path: Path) -> None:
    with open_binary(path) as stream:
        stream.read()


# Readers, with text that each of them can read: lines of about a kilobyte.
READERS = {
    "bytes": (read_all, b"a"),
    "tokens": (lambda path: sum(1 for _ in read_tokens(path)), b"%sa\n" % (b"a" * 1000)),
    "tagged": (lambda path: sum(1 for _ in read_tagged(path)), b"%sa/B\n" % (b"a" * 1000)),
    "brackets": (lambda path: sum(1 for _ in read_trees(path)), b"(S (A %s))\n" % (b"a" * 1000)),
    "one line": (lambda path: sum(1 for _ in read_trees(path)), b"(S (A a)) "),
    "conllu": (lambda path: sum(1 for _ in read_conllu(path)), b"# %s\n" % (b"a" * 1000)),
    "vectors": (read_vectors, b"a"),
}


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_takes_a_bomb(tmp_path, reader):
    read, piece = READERS[reader]
    with pytest.raises(InputError, match="SAPWOOD_MAX_"):
        read(bomb(tmp_path / "x.gz", piece, 70))


def test_an_archive_of_arrays_has_limits(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, np.zeros((3000, 3000)))
    with pytest.raises(InputError, match="holds more than 200 times as many bytes"):
        read_matrix(path)
    monkeypatch.setenv("SAPWOOD_MAX_RATIO", "2000")
    assert read_matrix(path).values.shape == (3000, 3000)


def test_a_table_has_limits(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from fuzz.grammar_targets import _small
    from sapwood.inference import Parser
    from sapwood.interop.arrow import ColumnParser, parse_table

    long = pyarrow.table({"text": ["a " * (40 * MEGABYTE)]})
    parquet.write_table(long, tmp_path / "x.parquet", compression="zstd", use_dictionary=False)
    stream = io.BytesIO()
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    with pyarrow.ipc.new_stream(stream, long.schema, options=options) as writer:
        writer.write_table(long)
    (tmp_path / "x.arrow").write_bytes(stream.getvalue())
    (tmp_path / "y.parquet").write_bytes(b"")
    parquet.write_table(pyarrow.table({"text": ["a " * (9 * MEGABYTE)]}), tmp_path / "y.parquet", compression="zstd")
    parse = ColumnParser(Parser(_small()), "text")
    for name, problem in (
        ("x.parquet", "holds more than 200 times"),
        ("x.arrow", "holds more than 200 times"),
        ("y.parquet", "a cell of more than 16,777,216 bytes"),
    ):
        with pytest.raises(InputError, match=problem):
            parse_table(parse, tmp_path / name, tmp_path / "out.arrow")
