"""Matrices from files of all kinds: what is read, and one line that says what is wrong."""

from __future__ import annotations

import gzip
import io
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from sapwood.errors import InputError
from sapwood.numerics.matrix_files import FORMATS, LabelledMatrix, read_matrix

Q = np.array([[3.0, 0.0, 1.5], [0.0, 0.25, 4.0]])
SPARSE_FORMATS = ("csr", "csc", "coo", "bsr", "dia")
MARKET = "%%MatrixMarket matrix {} {} {}\n"
COORDINATE, ARRAY = MARKET.format("coordinate", "real", "general"), MARKET.format("array", "real", "general")


def read(folder: Path, name: str, content: bytes | str) -> LabelledMatrix:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_matrix(path)


def dense(found: LabelledMatrix) -> list[list[float]]:
    values = found.values
    return (values if isinstance(values, np.ndarray) else values.toarray()).tolist()


def npy(array, **options) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def npz(compressed: bool = False, **arrays) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    return stream.getvalue()


def sparse_npz(matrix) -> bytes:
    stream = io.BytesIO()
    scipy.sparse.save_npz(stream, matrix)
    return stream.getvalue()


def zipped(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def check_numbered(found: LabelledMatrix) -> None:
    assert found.rows == ["0", "1"]
    assert found.columns == ["0", "1", "2"]
    assert dense(found) == Q.tolist()


# NumPy and SciPy.


@pytest.mark.parametrize("name", ["q.npy", "q.NPY", "q.npy.gz", "a.b.npy"])
def test_one_array(tmp_path, name):
    content = npy(Q)
    check_numbered(read(tmp_path, name, gzip.compress(content) if name.endswith(".gz") else content))


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", "f2", "i8", "u1", "?"])
def test_all_kinds_of_real_numbers(tmp_path, dtype):
    matrix = np.array([[1, 0], [0, 1]]).astype(dtype)
    for array in (matrix, np.asfortranarray(matrix)):
        assert dense(read(tmp_path, "q.npy", npy(array))) == [[1, 0], [0, 1]]


@pytest.mark.parametrize("compressed", [False, True])
def test_an_archive_with_one_array(tmp_path, compressed):
    check_numbered(read(tmp_path, "q.npz", npz(compressed, counts=Q)))
    check_numbered(read(tmp_path, "q.npz", npz(compressed, shape=Q)))


@pytest.mark.parametrize("kind", SPARSE_FORMATS)
@pytest.mark.parametrize("make", ["array", "matrix"])
def test_sparse_archives(tmp_path, kind, make):
    matrix = getattr(scipy.sparse, f"{kind}_{make}")(Q)
    found = read(tmp_path, "q.npz", sparse_npz(matrix))
    assert isinstance(found.values, scipy.sparse.csr_array)
    check_numbered(found)


# Matrix Market.


@pytest.mark.parametrize("name", ["q.mtx", "q.mtx.gz"])
@pytest.mark.parametrize(
    "matrix", [Q, scipy.sparse.coo_array(Q), scipy.sparse.csr_array(Q)], ids=["dense", "coo", "csr"]
)
def test_matrix_market(tmp_path, name, matrix):
    stream = io.BytesIO()
    scipy.io.mmwrite(stream, matrix, comment="made up")
    content = stream.getvalue()
    found = read(tmp_path, name, gzip.compress(content) if name.endswith(".gz") else content)
    assert isinstance(found.values, np.ndarray if matrix is Q else scipy.sparse.csr_array)
    check_numbered(found)


def test_variants_of_matrix_market(tmp_path):
    for kind, body, wanted in (
        ("coordinate pattern general", "2 2 2\n1 1\n2 1\n", [[1, 0], [1, 0]]),
        ("coordinate integer symmetric", "2 2 2\n1 1 3\n2 1 5\n", [[3, 5], [5, 0]]),
        ("coordinate pattern symmetric", "2 2 1\n2 1\n", [[0, 1], [1, 0]]),
        ("coordinate real skew-symmetric", "2 2 1\n2 1 3\n", [[0, -3], [3, 0]]),
        ("coordinate real general", "% remark\n\n2 2 3\n1 1 3\n1 1 1\n% another\n2 2 1e1", [[4, 0], [0, 10]]),
        ("coordinate real general", "2 1 0\n", [[0], [0]]),
        ("coordinate real general", "2 1 0\n% nothing\n\n", [[0], [0]]),
        ("array integer general", "2 3\n1\n2\n3\n4\n5\n6\n", [[1, 3, 5], [2, 4, 6]]),
        ("array real symmetric", "2 2\n1\n2\n3\n", [[1, 2], [2, 3]]),
        ("array real skew-symmetric", "3 3\n1\n2\n3\n", [[0, -1, -2], [1, 0, -3], [2, 3, 0]]),
        ("ARRAY Double General", "1 1\n.5", [[0.5]]),
    ):
        head = MARKET.format(*kind.split())
        assert dense(read(tmp_path, "q.mtx", head + body)) == wanted
        assert dense(read(tmp_path, "q.mtx", (head + body).replace("\n", "\r\n"))) == wanted


@examples(40)
@given(
    st.integers(1, 5), st.integers(1, 5), st.integers(0, 999), st.sampled_from(["general", "symmetric"]),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_matrix_market_as_scipy_writes_it(tmp_path_factory, rows, columns, seed, symmetry, whole, sparse):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 9, size=(rows, columns)) * (rng.random((rows, columns)) < 0.5)
    matrix = values if whole else values * rng.random((rows, columns))
    if symmetry == "symmetric":
        matrix = matrix[:, :1] * matrix[:, :1].T
    stream = io.BytesIO()
    scipy.io.mmwrite(stream, scipy.sparse.csr_array(matrix) if sparse else matrix, symmetry=symmetry)
    found = read(tmp_path_factory.getbasetemp(), "written.mtx", stream.getvalue())
    assert dense(found) == matrix.tolist()


# Tables.


@pytest.mark.parametrize("kind", ["csv", "tsv", "csv.gz"])
@pytest.mark.parametrize(
    ("text", "rows", "columns", "values"),
    [
        ("1,2\n3,4\n", "01", "01", [[1, 2], [3, 4]]),
        ("1,2\n3,4", "01", "01", [[1, 2], [3, 4]]),
        ("a,b\n1,2\n3,4\n", "01", "ab", [[1, 2], [3, 4]]),
        ("x,1,2\ny,3,4\n", "xy", "01", [[1, 2], [3, 4]]),
        ("?,a,b\nx,1,2\ny,3,4\n", "xy", "ab", [[1, 2], [3, 4]]),
        (",a,b\nx,1,2\ny,3,4\n", "xy", "ab", [[1, 2], [3, 4]]),
        ("a,b\nx,1,2\ny,3,4\n", "xy", "ab", [[1, 2], [3, 4]]),  # without a corner
        # Names that look like numbers.
        (",a,b\n0,1,2\n1,3,4\n", "01", "ab", [[1, 2], [3, 4]]),
        (",0,1\n7,1,2\n8,3,4\n", "78", "01", [[1, 2], [3, 4]]),
        (",,\n7,1,2\n8,3,4\n", "78", ["", ""], [[1, 2], [3, 4]]),
        (",7,8\nx,1,2\ny,3,4\n", "xy", "78", [[1, 2], [3, 4]]),
        ("?,7,8\n5,1,2\n6,3,4\n", "56", "78", [[1, 2], [3, 4]]),
        ("a,b\n5,1,2\n6,3,4\n", "56", "ab", [[1, 2], [3, 4]]),
        ("?,a,7\nx,1,2\n5,3,4\n", "x5", "a7", [[1, 2], [3, 4]]),
        ("?,a,7\n5,1,2\nx,3,4\n", "5x", "a7", [[1, 2], [3, 4]]),
        # One row, one column, one number.
        ("1,2,3\n", "0", "012", [[1, 2, 3]]),
        ("x,2,3\n", "x", "01", [[2, 3]]),
        ("a,b\n2,3\n", "0", "ab", [[2, 3]]),
        ("1\n2\n", "01", "0", [[1], [2]]),
        ("a\n1\n2\n", "01", "a", [[1], [2]]),
        ("x,1\ny,2\n", "xy", "0", [[1], [2]]),
        ("?,a\nx,1\ny,2\n", "xy", "a", [[1], [2]]),
        (",a\n7,1\n8,2\n", "78", "a", [[1], [2]]),
        ("5\n", "0", "0", [[5]]),
        # Blank lines, spaces, exponents.
        ("\n\n1,2\n   \n3,4\n\n", "01", "01", [[1, 2], [3, 4]]),
        ("a, b\n 1 , 2 \n3, 4\n", "01", "ab", [[1, 2], [3, 4]]),
        ("1e1,.5\n+2,0\n", "01", "01", [[10, 0.5], [2, 0]]),
    ],
)  # fmt: skip
def test_tables(tmp_path, kind, text, rows, columns, values):
    text = text if kind.startswith("csv") else text.replace(",", "\t")
    for content in (text, "\ufeff" + text, text.replace("\n", "\r\n")):
        data = content.encode()
        found = read(tmp_path, f"q.{kind}", gzip.compress(data) if kind.endswith(".gz") else data)
        assert (found.rows, found.columns, dense(found)) == (list(rows), list(columns), values)


def test_names_of_all_sorts(tmp_path):
    text = '"","a ""b"", c",nan\n"x,y",1,2\n"inf",3,"4"\nnaïve ,5,6\n1_000,7,8\n'
    found = read(tmp_path, "q.csv", text)
    assert found.columns == ['a "b", c', "nan"]
    assert found.rows == ["x,y", "inf", "naïve", "1_000"]
    assert dense(found) == [[1, 2], [3, 4], [5, 6], [7, 8]]
    # A quotation mark within a cell is nothing special; at its beginning it is.
    assert read(tmp_path, "q.tsv", 'word\ta\n5"\t1\n""""\t2\n').rows == ['5"', '"']


name = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=6).map("n{}".format)
numbers = st.floats(0, 1e300, allow_subnormal=False) | st.integers(0, 10**6).map(float)


@examples(60)
@given(st.data())
def test_what_is_written_is_read(tmp_path_factory, data):
    """As Python's own writer has it."""
    import csv

    rows = data.draw(st.lists(name, min_size=1, max_size=4))
    columns = data.draw(st.lists(name, min_size=1, max_size=4))
    values = [[data.draw(numbers) for _ in columns] for _ in rows]
    delimiter, kind = data.draw(st.sampled_from([(",", "csv"), ("\t", "tsv")]))
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter)
    writer.writerow([data.draw(st.sampled_from(["", "corner"])), *columns])
    writer.writerows([own, *map(repr, line)] for own, line in zip(rows, values, strict=True))
    found = read(tmp_path_factory.getbasetemp(), f"written.{kind}", stream.getvalue())
    assert (found.rows, found.columns, dense(found)) == (rows, columns, values)


# What cannot be read.


def check_refused(folder: Path, name: str, content: bytes | str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(folder, name, content)
    text = str(caught.value)
    assert text.startswith(str(folder / name)), text
    assert message in text
    assert "\n" not in text
    assert "pickle" not in text  # no advice to trust the file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": empty; a matrix needs at least one line of numbers"),
        ("\n \n", ": empty"),
        ("a,b\n", ": only a line of names; the numbers are missing"),
        (",1,2\n", ": only a line of names"),
        ("a\nb\n", ": only names; the numbers are missing"),
        ("a", ": only names"),
        ("1,2\n3,4,5\n", ":2: 3 cells, where the lines before have 2"),
        ("1,2\n\n\n3\n", ":4: 1 cells, where the lines before have 2"),
        ("a,b\n1,2\n3,4\n5,6,7\n", ":4: 3 cells"),
        ("\na,b,c\n1,2\n", ":2: 3 names for 2 columns of numbers"),
        ("a,b\n1,2,3,4\n", ":1: 2 names for 4 columns of numbers"),
        ("1,2\n3,x\n", ":2: 'x' in column 2 is not a number from 0 on"),
        ("x,1,2\ny,3,\n", ":2: '' in column 3 is not a number"),
        ("1,,3\n4,5,6\n", ":1: '' in column 2 is not a number"),
        ("1,2\n3,4\n5,6\nx,8\n", ":4: 'x' in column 1 is not a number"),
        ("1,2\n1_0,2\n3,4\n5,6\n", ":2: '1_0' in column 1 is not a number"),
        ("1,nan\n3,4\n", ":1: 'nan' in column 2 is not a finite number from 0 on"),
        ("1,2\n3,inf\n", ":2: 'inf' in column 2 is not a finite number"),
        ("1,2\n3,1e999\n", ":2: '1e999' in column 2 is not a finite number"),
        ("1,2\n-3,4\n", ":2: '-3' in column 1 is not a finite number from 0 on"),
        ('1,2\n"3,4\n', ":2: not a line of cells: unexpected end of data"),
        ('1,2\n"3"x,4\n', ":2: not a line of cells"),
        ("1,2\r3,4\r", ":1: not a line of cells"),
        ("1," + "2" * 200_000, ":1: not a line of cells: field larger than field limit"),
        ("1,2\n3,\0\n", ":2:3: a zero byte"),
    ],
)  # fmt: skip
def test_bad_tables(tmp_path, text, message):
    check_refused(tmp_path, "q.csv", text, message)
    if '"' not in text:
        check_refused(tmp_path, "q.tsv", text.replace(",", "\t"), message)


def test_a_line_of_delimiters_is_not_blank(tmp_path):
    check_refused(tmp_path, "q.tsv", "1\t2\n\t\n", ":2: '' in column 1 is not a number")
    check_refused(tmp_path, "q.csv", "1,2\n,\n", ":2: '' in column 1 is not a number")


def test_bytes_that_are_no_text(tmp_path):
    check_refused(tmp_path, "q.csv", b"a,b\n\xff,1\n", ":2:1: not valid UTF-8")
    check_refused(tmp_path, "q.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-16")
    check_refused(tmp_path, "q.csv.gz", b"1,2\n", ": damaged or truncated gzip file")
    check_refused(tmp_path, "q.npy.gz", gzip.compress(npy(Q))[:-9], ": damaged or truncated gzip file")


class Evil:
    """What runs when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("was unpickled",))


def object_npy() -> bytes:
    return npy(np.array([[Evil()]], dtype=object), allow_pickle=True)


def flipped(content: bytes) -> bytes:
    """Return an archive with a bit changed in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]


def damaged_sparse(**changed) -> bytes:
    matrix = scipy.sparse.csr_array(Q)
    parts = {
        "format": np.array("csr"), "shape": np.array(matrix.shape), "data": matrix.data, "indices": matrix.indices,
        "indptr": matrix.indptr, "_is_array": np.array(True),
    }  # fmt: skip
    return npz(**{name: value for name, value in {**parts, **changed}.items() if value is not None})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("q.npy", b"", "it does not begin as NumPy's files do"),
        ("q.npz", b"hello there\n", "it does not begin as NumPy's files do"),
        ("q.npy", pickle.dumps([[1.0]]), "it does not begin as NumPy's files do"),
        ("q.npy", pickle.dumps(Evil()), "it does not begin as NumPy's files do"),
        ("q.npy", object_npy(), "it holds Python objects, not numbers"),
        ("q.npz", zipped(**{"a.npy": object_npy()}), "it holds Python objects, not numbers"),
        ("q.npz", zipped(**{"a.txt": b"1 2 3"}), "it does not begin as NumPy's files do"),
        ("q.npz", zipped(**{"a.npy": b"1 2 3"}), "it does not begin as NumPy's files do"),
        ("q.npz", zipped(), "it holds 0 arrays; keep the matrix alone"),
        ("q.npz", npz(a=Q, b=Q), "it holds 2 arrays (a, b); keep the matrix alone"),
        ("q.npz", npz(**dict.fromkeys("abcdefg", Q)), "it holds 7 arrays (a, b, c, d, e, ...)"),
        ("q.npz", npz(a=Q)[:-30], "zip"),
        ("q.npz", npz(a=Q)[:60], "zip"),
        ("q.npz", flipped(npz(True, a=np.arange(2000.0).reshape(40, 50) ** 0.5)), ""),
        ("q.npy", npy(Q)[:-5], "buffer"),
        ("q.npy", npy(Q)[:20], "EOF"),
        ("q.npy", npy(Q).replace(b"(2, 3)", b"(2, 3"), ""),
        ("q.npy", npy(Q).replace(b"'descr'", b"'other'"), ""),
        ("q.npy", npy(Q).replace(b"\x93NUMPY\x01", b"\x93NUMPY\x09"), ""),
        ("q.npy", npy(np.float64(3)), "float64 values of the shape (), not a matrix of real numbers"),
        ("q.npy", npy(np.ones(3)), "the shape (3,)"),
        ("q.npy", npy(np.ones((2, 2, 2))), "the shape (2, 2, 2)"),
        ("q.npy", npy(Q * 1j), "complex128 values of the shape (2, 3), not a matrix of real numbers"),
        ("q.npy", npy(Q.astype(str)), "values of the shape (2, 3), not a matrix of real numbers"),
        ("q.npy", npy(np.zeros((2, 2), "M8[s]")), "not a matrix of real numbers"),
        ("q.npy", npy(np.zeros((2, 2), [("a", "f8")])), "not a matrix of real numbers"),
        ("q.npy", npy(np.ones((0, 3))), "it has no entries: 0 rows and 3 columns"),
        ("q.npz", sparse_npz(scipy.sparse.csr_array(Q * 1j)), "complex128 values"),
        ("q.npz", sparse_npz(scipy.sparse.csr_array((0, 3))), "it has no entries"),
        ("q.npz", damaged_sparse(indices=np.array([0, 2, 1, 999])), ""),
        ("q.npz", damaged_sparse(indices=np.array([0, 2, 1, -7])), ""),
        ("q.npz", damaged_sparse(indptr=np.array([0, 9, 4])), "indptr holds numbers that fall"),
        ("q.npz", damaged_sparse(indptr=np.array([0, 2])), ""),
        ("q.npz", damaged_sparse(indptr=np.array([0, 0, -(2**31)], np.int32)), "indptr holds numbers that fall"),
        ("q.npz", damaged_sparse(indptr=np.array([0, 2, 4000])), ""),
        ("q.npz", damaged_sparse(indices=np.array([0.0, 2, 1, 2])), "indices holds float64 numbers, not integers"),
        ("q.npz", damaged_sparse(indices=None, data=None), "it holds a sparse matrix without data and indices"),
        ("q.npz", damaged_sparse(data=np.array([1.0])), ""),
        ("q.npz", damaged_sparse(data=np.array([None] * 4)), "it holds Python objects, not numbers"),
        ("q.npz", damaged_sparse(format=np.array("lil")), "of the kind 'lil'; csr, csc, bsr, coo, dia can be read"),
        ("q.npz", damaged_sparse(format=np.array(3.0)), "of the kind '3.0'"),
        ("q.npz", damaged_sparse(shape=np.array([2])), ""),
        ("q.npz", damaged_sparse(shape=np.array([-2, 3])), ""),
        ("q.npz", damaged_sparse(format=np.array("csc")), ""),
    ],
)  # fmt: skip
def test_bad_numpy_files(tmp_path, name, content, message):
    check_refused(tmp_path, name, content, f": not a {name[1:]} file of a matrix: ")
    check_refused(tmp_path, name, content, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "its first line is not like '%%MatrixMarket matrix coordinate real general'"),
        ("1 2 3\n", "its first line is not like"),
        ("%%MatrixMarket vector coordinate real general\n2 1\n1 3\n", "its first line is not like"),
        (MARKET.format("table", "real", "general"), "its first line says 'table', where coordinate, array can be read"),
        (MARKET.format("array", "complex", "general") + "1 1\n3 4\n", "its first line says 'complex'"),
        (MARKET.format("coordinate", "complex", "hermitian"), "its first line says 'complex'"),
        (COORDINATE, "the line with its 3 sizes is missing"),
        (COORDINATE + "% 2 2 2\n\n", "the line with its 3 sizes is missing"),
        (COORDINATE + "2 2\n1 1 3\n", "the line with its 3 sizes is missing or wrong"),
        (COORDINATE + "-2 2 1\n1 1 1\n", "the line with its 3 sizes is missing or wrong"),
        (COORDINATE + "2 x 1\n1 1 1\n", "invalid literal for int"),
        (COORDINATE + "2 2 2\n1 1 3\n", "it should have 2 lines of 3 numbers, not 1 of 3"),
        (COORDINATE + "2 2 1\n1 1 3\n2 2 2\n", "it should have 1 lines of 3 numbers, not 2 of 3"),
        (COORDINATE + "2 2 2\n1 1\n2 1\n", "it should have 2 lines of 3 numbers, not 2 of 2"),
        (COORDINATE + "2 2 2\n1 1 1\n2 1\n", "number of columns changed"),
        (COORDINATE + "2 2 2\n", "it should have 2 lines of 3 numbers, not 0 of 3"),
        (COORDINATE + "2 2 1\n3 1 3\n", "entries have places outside of the matrix"),
        (COORDINATE + "2 2 1\n0 1 3\n", "entries have places outside of the matrix"),
        (COORDINATE + "2 2 1\n1.5 1 3\n", "entries have places outside of the matrix"),
        (COORDINATE + "2 2 1\nnan 1 3\n", "entries have places outside of the matrix"),
        (COORDINATE + "2 2 1\n1 1 x\n", "could not convert string 'x'"),
        (COORDINATE + "2 2 1\n1 1 3\0\n", "could not convert string"),
        (COORDINATE + "2 2 4\n1 1 3\n1 2 1.5\n2 2 2.5E-", "could not convert string '2.5E-'"),
        (COORDINATE + "0 0 0\n", "no entries"),
        (MARKET.format("coordinate", "real", "symmetric") + "2 3 1\n1 1 1\n", "are not symmetric"),
        (ARRAY + "2 2\n1\n2\n3\n", "it should have 4 lines of one number, not 3 of 1"),
        (ARRAY + "2 2\n1 3\n2 4\n", "it should have 4 lines of one number, not 2 of 2"),
        (ARRAY + "2 2 1\n1 1 3\n", "the line with its 2 sizes is missing or wrong"),
    ],
)
def test_bad_matrix_market_files(tmp_path, content, message):
    check_refused(tmp_path, "q.mtx", content, ": not a .mtx file of a matrix: ")
    check_refused(tmp_path, "q.mtx", content, message)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("q.mtx", COORDINATE + f"{10**12} {10**12} 1\n1 1 3\n"),
        ("q.mtx", COORDINATE + f"{10**8} 5 1\n1 1 3\n"),
        ("q.mtx", COORDINATE + f"5 {10**8} 1\n1 1 3\n"),
        ("q.mtx", COORDINATE + f"2 2 {10**12}\n1 1 3\n"),
        ("q.mtx", COORDINATE + f"{10**30} 2 1\n1 1 3\n"),
        ("q.mtx", ARRAY + f"{10**6} {10**6}\n1\n"),
        ("q.mtx", ARRAY + f"0 {10**12}\n"),
        ("q.npy", npy(Q).replace(b"(2, 3), }      ", b"(9999999, 99999), }")),
        ("q.npy", npy(Q).replace(b"(2, 3), }       ", b"(0, 999999999999), }")),
        ("q.npz", damaged_sparse(shape=np.array([2, 10**10]))),
        ("q.npz", damaged_sparse(format=np.array("csc"), shape=np.array([10**10, 2]))),
        ("q.npz", npz(format=np.array("coo"), shape=np.array([10**10] * 2), row=[1], col=[1], data=[1.0])),
        ("q.npz", npz(format=np.array("dia"), shape=np.array([10**10] * 2), offsets=[0], data=[[1.0]])),
    ],
)  # fmt: skip
def test_claims_of_enormous_sizes(tmp_path, name, content):
    """They are refused at once: what is claimed is never made."""
    tracemalloc.start()
    try:
        check_refused(tmp_path, name, content, ": not a ")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_large_sparse_matrices_are_fine(tmp_path):
    """Many empty rows are, too, if there are not too many of them."""
    matrix = scipy.sparse.coo_array((np.ones(20_000), (np.arange(20_000) * 25, np.arange(20_000) % 7)), (500_000, 9))
    found = read(tmp_path, "q.npz", sparse_npz(matrix))
    assert found.values.shape == (500_000, 9)
    assert found.rows[-1] == "499999"


def test_files_that_are_not_there(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "folder.npz").mkdir()
    for name, message in (
        ("none.csv", "no such file"), ("none.npz", "no such file"), ("none.mtx.gz", "no such file"),
        ("folder.csv", "is a directory"), ("folder.npz", "is a directory"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message) as caught:
            read_matrix(tmp_path / name)
        assert name in str(caught.value)


@pytest.mark.parametrize("name", ["q", "q.txt", "q.gz", "csv", "q.csv.zip", "-"])
def test_other_endings(tmp_path, name):
    check_refused(tmp_path, name, "1,2\n", f": a matrix is read from a file that ends in {', '.join(FORMATS)}")


@examples(150)
@given(st.sampled_from(["npy", "npz", "sparse", "mtx", "csv"]), st.data())
def test_damage_of_any_kind_is_explained(tmp_path_factory, kind, data):
    """Bytes changed, cut off or put in somewhere: a matrix, or one line on what is wrong."""
    stream = io.BytesIO()
    scipy.io.mmwrite(stream, scipy.sparse.coo_array(Q))
    content = {
        "npy": npy(Q),
        "npz": npz(True, a=Q),
        "sparse": sparse_npz(scipy.sparse.csr_array(Q)),
        "mtx": stream.getvalue(),
        "csv": b'?,"a",b\nx,1,2\ny,3,4\n',
    }[kind]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        cut = data.draw(st.integers(0, 4))
        content = content[:at] + data.draw(st.binary(max_size=4)) + content[at + cut :]
    folder = tmp_path_factory.getbasetemp()
    try:
        found = read(folder, f"damaged.{'npz' if kind == 'sparse' else kind}", content)
    except InputError as refused:
        error = str(refused)
    else:
        assert found.values.shape == (len(found.rows), len(found.columns))
        error = ""
    assert "\n" not in error
