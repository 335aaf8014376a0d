"""Matrices of co-occurrences from files: NumPy's and SciPy's `.npz` and `.npy`, Matrix Market, CSV and TSV."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse

from sapwood.errors import InputError
from sapwood.files import explained, name_of, open_binary, read_lines

FORMATS = (".npz", ".npy", ".mtx", ".csv", ".tsv")


@dataclass(frozen=True, eq=False)
class LabelledMatrix:
    """A matrix, dense or sparse, and what its rows and columns are called: their numbers, if nothing says it."""

    values: np.ndarray | scipy.sparse.csr_array
    rows: list[str]
    columns: list[str]


def read_matrix(path: str | Path) -> LabelledMatrix:
    """Read a matrix; the ending of the name, `.gz` aside, says what kind of file it is.

    A `.npz` file is one of SciPy's sparse matrices, or holds a single array. A first line or column of a CSV or TSV
    file that is not made of numbers holds names.
    """
    name = str(path).removesuffix(".gz")
    kind = Path(name).suffix.lower()
    if kind in (".csv", ".tsv"):
        return _read_table(path, "," if kind == ".csv" else "\t")
    if kind not in FORMATS:
        raise InputError(f"{path}: a matrix is read from a file that ends in {', '.join(FORMATS)} (or these with .gz)")
    with explained(path), open_binary(path) as stream:
        content = stream.read()
    try:
        matrix: Any = scipy.io.mmread(io.BytesIO(content)) if kind == ".mtx" else _read_numpy(path, content)
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, OSError, EOFError, OverflowError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not a {kind} file of a matrix: {error}") from error
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise InputError(f"{path}: holds {matrix.dtype} numbers of the shape {matrix.shape}, not a matrix of real ones")
    values: Any = np.asarray(matrix) if isinstance(matrix, np.ndarray) else matrix.tocsr()
    return LabelledMatrix(values, *(_numbers(size) for size in matrix.shape))


def _numbers(size: int) -> list[str]:
    return [str(number) for number in range(size)]


def _read_numpy(path: str | Path, content: bytes) -> Any:
    loaded = np.load(io.BytesIO(content), allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        names = loaded.files
        if "format" in names and "shape" in names:
            return scipy.sparse.load_npz(io.BytesIO(content))
        if len(names) != 1:
            raise InputError(f"{path}: holds {len(names)} arrays ({', '.join(names[:5])}); keep the matrix alone")
        return loaded[names[0]]


def _read_table(path: str | Path, delimiter: str) -> LabelledMatrix:
    lines = ((number, text) for number, text in read_lines(path) if text.strip())
    numbered = [(number, cells) for number, cells in _cells(lines, delimiter)]
    if not numbered:
        raise InputError(f"{name_of(path)}: empty; a matrix needs at least one line of numbers")
    header = None
    if any(_number(cell) is None for cell in numbered[0][1][1:]) or (
        len(numbered[0][1]) == 1 and len(numbered) > 1 and _number(numbered[0][1][0]) is None
    ):
        header = numbered.pop(0)[1]
        if not numbered:
            raise InputError(f"{name_of(path)}: only a line of names; the numbers are missing")
    named = any(_number(cells[0]) is None for _, cells in numbered)
    width = len(numbered[0][1])
    values = np.empty((len(numbered), width - named))
    rows = []
    for at, (line, cells) in enumerate(numbered):
        if len(cells) != width:
            raise InputError(f"{name_of(path)}:{line}: {len(cells)} cells, where the lines before have {width}")
        rows.append(cells[0] if named else str(at))
        for column, cell in enumerate(cells[named:]):
            value = _number(cell)
            if value is None:
                raise InputError(f"{name_of(path)}:{line}: {cell!r} in column {column + named + 1} is not a number")
            values[at, column] = value
    columns = _numbers(values.shape[1])
    if header is not None:
        # With names in both directions, the corner may be left out.
        columns = header[len(header) - values.shape[1] :]
        if len(header) not in (width, values.shape[1]):
            raise InputError(f"{name_of(path)}:1: {len(header)} names for {values.shape[1]} columns of numbers")
    if not values.size:
        raise InputError(f"{name_of(path)}: only names; the numbers are missing")
    return LabelledMatrix(values, rows, columns)


def _cells(lines: Iterator[tuple[int, str]], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    for number, text in lines:
        for cells in csv.reader([text.rstrip("\r\n")], delimiter=delimiter):
            yield number, [cell.strip() for cell in cells]


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
