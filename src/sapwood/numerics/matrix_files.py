"""Matrix files: readers of NumPy's and SciPy's `.npz` and `.npy`, Matrix Market, CSV and TSV."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from sapwood.errors import InputError
from sapwood.storage.files import COMPRESSED, explained, name_of, open_binary, read_lines
from sapwood.storage.limits import ReadLimits
from sapwood.storage.shapes import Array, Shaped

FORMATS = (".npz", ".npy", ".mtx", ".csv", ".tsv")
# Magic bytes of NumPy's files: single arrays, and zip files, non-empty and empty.
_ARRAY, _ARCHIVE = b"\x93NUMPY", (b"PK\x03\x04", b"PK\x05\x06")
# Sparse formats that SciPy saves, and the arrays that hold the positions of values.
_SPARSE = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}
# Supported keywords in the first line of a Matrix Market file, word by word.
_MARKET = (
    ("coordinate", "array"),
    ("real", "double", "integer", "unsigned-integer", "pattern"),
    ("general", "symmetric", "skew-symmetric"),
)
# Maximum rows and columns of a sparse matrix, in total or per entry, whichever is more: a file can claim any number.
_MOST, _MOST_EACH = 1 << 20, 64


@dataclass(frozen=True, eq=False)
class LabelledMatrix:
    """A matrix, dense or sparse, with names of its rows and columns; by default their indices."""

    values: Shaped[Array, "rows columns"] | scipy.sparse.csr_array
    rows: list[str]
    columns: list[str]


def read_matrix(path: str | Path) -> LabelledMatrix:
    """Read a matrix; the file extension, without that of compression, determines the format.

    A `.npz` file is one of SciPy's sparse matrices, or holds a single array. The first line of a CSV or TSV file holds
    names if a cell after its first is not a number, if its first cell is empty, or if its first cell is the only one in
    the first column that is not a number. The first column holds names if at least half of its cells are not numbers,
    or if the first line implies it: by an empty corner, a missing corner, or a corner that is its only name.
    """
    plain = Path(path).with_suffix("") if Path(path).suffix in COMPRESSED else Path(path)
    kind = plain.suffix.lower()
    if kind in (".csv", ".tsv"):
        return _read_table(name_of(path), list(_cells(path, "," if kind == ".csv" else "\t")))
    if kind not in FORMATS:
        raise InputError(f"{path}: a matrix is read from a file that ends in {', '.join(FORMATS)} (or these with .gz)")
    with explained(path), open_binary(path) as stream:
        content = stream.read()
    try:
        if kind == ".mtx":
            matrix = _read_market(content)
        else:
            matrix = _read_archive(name_of(path), content) if content.startswith(_ARCHIVE) else _read_array(content)
        values = _checked(matrix)
    except InputError:
        raise
    except Exception as error:  # on damaged files, the libraries can raise anything
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: not a {kind} file of a matrix: {reason}") from error
    return LabelledMatrix(values, *(_numbers(size) for size in values.shape))


def _numbers(size: int) -> list[str]:
    return [str(number) for number in range(size)]


def _read_market(content: bytes) -> Any:
    """Read the Matrix Market format. (SciPy's reader is faster, but some damaged files crash it.)"""
    stream = io.BytesIO(content)
    banner = stream.readline().decode("latin-1").lower().split()
    if len(banner) != 5 or banner[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError("its first line is not like '%%MatrixMarket matrix coordinate real general'")
    for word, known in zip(banner[2:], _MARKET, strict=True):
        if word not in known:
            raise ValueError(f"its first line says {word!r}, where {', '.join(known)} can be read")
    form, field, symmetry = banner[2:]
    sizes: list[int] = []
    for line in stream:
        if line.strip() and not line.startswith(b"%"):
            sizes = [int(word) for word in line.split()]
            break
    wanted = 3 if form == "coordinate" else 2
    if len(sizes) != wanted or min(sizes) < 0:
        raise ValueError(f"the line with its {wanted} sizes is missing or wrong")
    rows, columns = sizes[:2]
    if symmetry != "general" and rows != columns:
        raise ValueError(f"{rows:,} rows and {columns:,} columns are not {symmetry}")
    width = 1 if form == "array" else 2 if field == "pattern" else 3
    body = stream.read()
    empty = all(line.startswith(b"%") or not line.strip() for line in io.BytesIO(body))
    cells = np.zeros((0, width)) if empty else np.loadtxt(io.BytesIO(body), comments="%", ndmin=2)
    if form == "array":
        return _from_list(cells, rows, columns, symmetry)
    if cells.shape != (sizes[2], width):
        raise ValueError(
            f"it should have {sizes[2]:,} lines of {width} numbers, not {len(cells):,} of {cells.shape[1]}"
        )
    _check_size(rows, columns, len(cells))
    places = cells[:, :2].T - 1
    if not ((places >= 0) & (places < [[rows], [columns]]) & (places == places.round())).all():
        raise ValueError("entries have places outside of the matrix")
    values = np.ones(len(cells)) if width == 2 else cells[:, 2]
    i, j = places.astype(np.int64)
    if symmetry != "general":
        mirrored = i != j
        i, j = np.concatenate([i, j[mirrored]]), np.concatenate([j, i[mirrored]])
        values = np.concatenate([values, values[mirrored] * (-1 if symmetry == "skew-symmetric" else 1)])
    return scipy.sparse.coo_array((values, (i, j)), shape=(rows, columns))


def _from_list(cells: np.ndarray, rows: int, columns: int, symmetry: str) -> np.ndarray:
    """Return a matrix from its entries, column by column; for symmetric ones, from the diagonal down."""
    skew = symmetry == "skew-symmetric"
    entries = rows * columns if symmetry == "general" else rows * (rows - 1 if skew else rows + 1) // 2
    if cells.shape != (entries, 1):
        raise ValueError(f"it should have {entries:,} lines of one number, not {len(cells):,} of {cells.shape[1]}")
    if symmetry == "general":
        return cells.reshape(columns, rows).T
    matrix = np.zeros((rows, rows))
    j, i = np.triu_indices(rows, 1 if skew else 0)
    matrix[j, i] = -cells[:, 0] if skew else cells[:, 0]
    matrix[i, j] = cells[:, 0]
    return matrix


def _read_archive(name: str, content: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        # Entries can overlap, but none gives more bytes than it says.
        size = sum(entry.file_size for entry in archive.infolist())
        ReadLimits.from_environment().check_decompressed(name, size, len(content))
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if not {"format", "shape"}.issubset(names):
            if len(names) != 1:
                held = f" ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''})" if names else ""
                raise ValueError(f"it holds {len(names)} arrays{held}; keep the matrix alone")
            return _read_array(archive.read(archive.namelist()[0]))
        return _assemble({name: _read_array(archive.read(f"{name}.npy")) for name in names})


def _read_array(content: bytes) -> np.ndarray:
    """Read NumPy's format; never more than the content, whatever size it claims, and no Python objects."""
    if not content.startswith(_ARRAY):
        raise ValueError("it does not begin as NumPy's files do")
    stream = io.BytesIO(content)
    first = np.lib.format.read_magic(stream) == (1, 0)
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, not numbers")
    array = np.frombuffer(content, dtype, prod(shape), stream.tell())
    return array.reshape(shape, order="F" if by_column else "C").copy()


def _assemble(parts: dict[str, np.ndarray]) -> Any:
    """Return the sparse matrix that SciPy saved as these arrays."""
    form = parts["format"].item()
    form = form.decode("latin-1") if isinstance(form, bytes) else str(form)
    if form not in _SPARSE:
        raise ValueError(f"it holds a sparse matrix of the kind {form!r}; {', '.join(_SPARSE)} can be read")
    if missing := {"data", *_SPARSE[form]}.difference(parts):
        raise ValueError(f"it holds a sparse matrix without {' and '.join(sorted(missing))}")
    for name in _SPARSE[form]:
        if parts[name].dtype.kind not in "iu":
            raise ValueError(f"{name} holds {parts[name].dtype} numbers, not integers")
    # SciPy's own check covers the last element only.
    if "indptr" in parts and (np.diff(parts["indptr"].astype(np.int64), prepend=0) < 0).any():
        raise ValueError("indptr holds numbers that fall")
    places = tuple(parts[name] for name in _SPARSE[form])
    given = (parts["data"], places) if form == "coo" else (parts["data"], *places)
    return getattr(scipy.sparse, f"{form}_array")(given, shape=tuple(parts["shape"].tolist()))


def _checked(matrix: Any) -> np.ndarray | scipy.sparse.csr_array:
    """Validate and return a matrix of real numbers with consistent parts."""
    sparse = scipy.sparse.issparse(matrix)
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise ValueError(f"it holds {matrix.dtype} values of the shape {matrix.shape}, not a matrix of real numbers")
    rows, columns = matrix.shape
    _check_size(rows, columns, matrix.data.size if sparse else matrix.size)
    if isinstance(matrix, np.ndarray):
        return matrix
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    return scipy.sparse.csr_array(matrix.tocsr())


def _check_size(rows: int, columns: int, entries: int) -> None:
    if not rows or not columns:
        raise ValueError(f"it has no entries: {rows:,} rows and {columns:,} columns")
    if rows + columns > max(_MOST, _MOST_EACH * entries):
        raise ValueError(f"it claims {rows:,} rows and {columns:,} columns for {entries:,} entries; remove empty ones")


def _cells(path: str | Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each non-blank line, with its line number."""
    for number, text in read_lines(path):
        if not text.strip() and delimiter not in text:
            continue
        try:
            for cells in csv.reader([text.rstrip("\r\n")], delimiter=delimiter, skipinitialspace=True, strict=True):
                yield number, [cell.strip() for cell in cells]
        except csv.Error as error:
            raise InputError(f"{name_of(path)}:{number}: not a line of cells: {error}") from error


def _read_table(source: str, lines: list[tuple[int, list[str]]]) -> LabelledMatrix:
    if not lines:
        raise InputError(f"{source}: empty; a matrix needs at least one line of numbers")
    header = lines.pop(0) if _is_header(lines) else None
    if not lines:
        raise InputError(f"{source}: only a line of names; the numbers are missing")
    width = len(lines[0][1])
    named = sum(_is_name(cells[0]) for _, cells in lines) * 2 >= len(lines)
    if header is not None and width > 1:
        # The corner above the names of rows may be empty, missing, or the only cell in its line that is not a number.
        names = header[1]
        named = named or not names[0] or len(names) == width - 1 or not any(map(_is_name, names[1:]))
    size = width - named
    if not size:
        raise InputError(f"{source}: only names; the numbers are missing")
    if header is not None and len(header[1]) not in (width, size):
        raise InputError(f"{source}:{header[0]}: {len(header[1])} names for {size} columns of numbers")
    values = np.empty((len(lines), size))
    for at, (line, cells) in enumerate(lines):
        if len(cells) != width:
            raise InputError(f"{source}:{line}: {len(cells)} cells, where the lines before have {width}")
        for column, cell in enumerate(cells[named:]):
            value = _number(cell)
            if value is None or not isfinite(value) or value < 0:
                place = f"{source}:{line}: {cell!r} in column {column + named + 1}"
                raise InputError(f"{place} is not a {'finite ' if value is not None else ''}number from 0 on")
            values[at, column] = value
    return LabelledMatrix(
        values,
        [cells[0] for _, cells in lines] if named else _numbers(len(lines)),
        header[1][-size:] if header is not None else _numbers(size),
    )


def _is_header(lines: Sequence[tuple[int, list[str]]]) -> bool:
    """Return True if the first line holds names, not numbers."""
    first, *others = lines[0][1]
    if any(map(_is_name, others)) or (others and not first):
        return True
    # Either the name of a row, or a corner above names that look like numbers.
    return _is_name(first) and len(lines) > 1 and not any(_is_name(cells[0]) for _, cells in lines[1:])


def _is_name(cell: str) -> bool:
    return cell != "" and _number(cell) is None


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
