"""`sapwood anchors`: what it prints and writes, and one line about what it cannot read."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from cli.conftest import Outcome, Sapwood
from sapwood.cli.unsupervised import anchors as command
from sapwood.numerics import decompose
from sapwood.numerics.anchor_nmf import Columns, Representation
from sapwood.storage.files import atomic_write

# Two states. Rows c and f occur with one only, and so do columns x and z.
PRIOR = np.array([0.25, 0.75])
ROWS = np.array([[0.5, 0.0], [0.3, 0.25], [0.2, 0.15], [0.0, 0.6]])
COLUMNS = np.array([[0.7, 0.0], [0.3, 0.6], [0.0, 0.4]])
Q = ROWS @ np.diag(PRIOR) @ COLUMNS.T
TABLE = "\n".join(
    [",x,y,z", *(f"{name},{','.join(map(repr, row))}" for name, row in zip("cdef", Q.tolist(), strict=True))]
)
COORDINATE = b"%%MatrixMarket matrix coordinate real general\n"
KEYS = ["matrix", "shape", "states", "log_likelihood", "iterations", "converged", "seconds", "parts"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory, the current one, with the matrix in files of all kinds."""
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", Q)
    np.savez("q.npz", counts=Q)
    scipy.sparse.save_npz("sparse.npz", scipy.sparse.csr_array(Q))
    scipy.io.mmwrite("q.mtx", scipy.sparse.coo_array(Q), precision=17)
    scipy.io.mmwrite("dense.mtx", Q, precision=17)
    Path("q.csv").write_text(TABLE)
    Path("q.tsv").write_text(TABLE.replace(",", "\t"))
    return tmp_path


def run(sapwood: Sapwood, *arguments: object, code: int = 0) -> Outcome:
    outcome = sapwood(["anchors", *arguments])
    assert outcome.code == code, outcome.err
    return outcome


def found(sapwood: Sapwood, *arguments: object) -> dict:
    outcome = run(sapwood, *arguments, "--json")
    assert outcome.err == ""
    assert outcome.out.count("\n") == 1
    return json.loads(outcome.out)


def test_the_choices_are_those_of_the_library() -> None:
    choices = {
        parameter.name: parameter.type.choices
        for parameter in command.command.params
        if hasattr(parameter.type, "choices")
    }
    assert tuple(choices["columns"]) == Columns.__args__
    assert tuple(choices["representation"]) == Representation.__args__


@pytest.mark.parametrize("name", ["q.npy", "q.npz", "sparse.npz", "q.mtx", "dense.mtx", "q.csv", "q.tsv"])
def test_all_kinds_of_files(sapwood: Sapwood, folder: Path, name: str) -> None:
    result = found(sapwood, name, "--states", 2)
    assert list(result) == KEYS
    assert result["matrix"] == name
    assert result["shape"] == [4, 3]
    assert (result["states"], result["converged"]) == (2, True)
    assert result["log_likelihood"] == pytest.approx(float((Q * np.log(np.where(Q > 0, Q, 1))).sum()), abs=1e-9)
    rows, columns = ("cdef", "xyz") if name.endswith("sv") else ("0123", "012")
    for part in result["parts"]:
        assert list(part) == ["prior", "row_anchor", "column_anchor", "rows", "columns"]
    parts = {part["row_anchor"]: part for part in result["parts"]}
    assert set(parts) == {rows[0], rows[3]}
    for state, (row, column) in enumerate(((0, 0), (3, 2))):
        part = parts[rows[row]]
        assert part["prior"] == pytest.approx(PRIOR[state])
        assert part["column_anchor"] == columns[column]
        for listed, names, true in (("rows", rows, ROWS), ("columns", columns, COLUMNS)):
            probabilities = [item["probability"] for item in part[listed]]
            assert probabilities == sorted(probabilities, reverse=True)
            # Zeros are left out.
            assert {item["name"]: pytest.approx(item["probability"]) for item in part[listed]} == {
                name: value for name, value in zip(names, true[:, state], strict=True) if value
            }
    assert sorted(path.name for path in folder.iterdir()) == [
        "dense.mtx", "q.csv", "q.mtx", "q.npy", "q.npz", "q.tsv", "sparse.npz",
    ]  # fmt: skip


def test_in_words(sapwood: Sapwood, folder: Path) -> None:
    outcome = run(sapwood, "q.csv", "--states", 2, "--top", 2)
    assert outcome.err == ""
    first, *rest = outcome.out.splitlines()
    assert first == f"2 states, log-likelihood {(Q[Q > 0] * np.log(Q[Q > 0])).sum():.6f} per co-occurrence"
    blocks = ["\n".join(rest[at + 1 : at + 4]).split(": ", 1)[1] for at in (0, 4)]
    assert sorted(blocks) == [
        "pi = 0.2500, anchors row c, column x\n  rows: c 0.500, d 0.300\n  columns: x 0.700, y 0.300",
        "pi = 0.7500, anchors row f, column z\n  rows: f 0.600, d 0.250\n  columns: y 0.600, z 0.400",
    ]
    assert [line[:9] for line in rest if line.startswith("state ")] == ["state 0: ", "state 1: "]
    outcome = run(sapwood, "q.csv", "--states", 2, "--top", 0, "--columns", "fit", "--representation", "random")
    assert "rows:" not in outcome.out
    assert ", anchors row c\n" in outcome.out
    assert folder.is_dir()


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("", {}),
        ("--columns fit", {"columns": "fit"}),
        ("--representation random --seed 7", {"representation": "random", "random_state": 7}),
        ("--min-count 0.2", {"min_count": 0.2}),
        ("--threads 3", {"threads": 3}),
    ],
)
def test_what_is_written(sapwood: Sapwood, folder: Path, arguments: str, options: dict) -> None:
    noisy = Q + np.random.default_rng(0).random(Q.shape) / 50
    np.save("noisy.npy", noisy)
    outcome = run(sapwood, "noisy.npy", "--states", 2, "-o", "parts.npz", *arguments.split(), "-q")
    assert outcome.out.startswith("2 states, ")
    wanted = decompose(noisy, 2, **options)
    with np.load("parts.npz", allow_pickle=False) as parts:
        assert sorted(parts.files) == ["alignment", "column_anchors", "pi", "r", "row_anchors", "s"]
        for name, array in (
            ("pi", wanted.prior), ("r", wanted.rows), ("s", wanted.columns), ("alignment", wanted.alignment),
            ("row_anchors", wanted.row_anchors), ("column_anchors", wanted.column_anchors),
        ):  # fmt: skip
            np.testing.assert_array_equal(parts[name], array)
    # The same content gives the same bytes.
    before = Path("parts.npz").read_bytes()
    run(sapwood, "noisy.npy", "--states", 2, "-o", "parts.npz", *arguments.split(), "-q")
    assert Path("parts.npz").read_bytes() == before
    with zipfile.ZipFile("parts.npz") as archive:
        assert {entry.date_time[0] for entry in archive.infolist()} == {1980}
    assert not list(folder.glob(".*"))


def test_a_failure_leaves_what_was_there(sapwood: Sapwood, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("parts.npz").write_bytes(b"before")

    def fail(*arguments: object, **arrays: object) -> None:
        arguments[0].write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", fail)
    outcome = run(sapwood, "q.npy", "--states", 2, "-o", "parts.npz", code=3)
    assert outcome.err == "sapwood: parts.npz: cannot write it: No space left on device\n"
    assert outcome.out == ""
    assert Path("parts.npz").read_bytes() == b"before"
    assert not list(folder.glob(".*"))


def test_written_atomically(sapwood: Sapwood, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    def noted(path):
        used.append(path)
        return atomic_write(path)

    monkeypatch.setattr("sapwood.numerics.anchor_nmf.atomic_write", noted)
    run(sapwood, "q.npy", "--states", 2, "-o", "parts.npz")
    assert used == ["parts.npz"]
    assert folder.is_dir()


def test_fewer_states_than_asked_for(sapwood: Sapwood, folder: Path) -> None:
    outcome = run(sapwood, "q.csv", "--states", 9)
    assert outcome.err == "q.csv: only 2 of 9 states: the rows span no more dimensions\n"
    assert outcome.out.startswith("2 states, ")
    assert run(sapwood, "q.csv", "--states", 9, "--quiet").err == ""
    assert json.loads(run(sapwood, "q.csv", "--states", 10**9, "--json", "-q").out)["states"] == 2
    assert folder.is_dir()


def test_not_at_the_optimum(sapwood: Sapwood, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = decompose
    monkeypatch.setattr("sapwood.numerics.decompose", lambda *a, **k: honest(*a, **k, iterations=1))
    outcome = run(sapwood, "q.csv", "--states", 2)
    assert outcome.err == "q.csv: stopped after 1 iterations without convergence\n"
    assert run(sapwood, "q.csv", "--states", 2, "-q").err == ""
    assert json.loads(run(sapwood, "q.csv", "--states", 2, "-q", "--json").out)["converged"] is False
    assert folder.is_dir()


def test_one_state(sapwood: Sapwood, folder: Path) -> None:
    for columns in ("align", "fit"):
        (part,) = found(sapwood, "q.csv", "--states", 1, "--columns", columns, "--top", 9)["parts"]
        assert part["prior"] == 1
        for listed, sums in (("rows", Q.sum(axis=1)), ("columns", Q.sum(axis=0))):
            assert sorted(item["probability"] for item in part[listed]) == pytest.approx(sorted(sums))
    Path("one.csv").write_text("5\n")
    result = found(sapwood, "one.csv", "--states", 1)
    assert (result["shape"], result["log_likelihood"]) == ([1, 1], 0)
    assert folder.is_dir()


def test_rows_without_entries(sapwood: Sapwood, folder: Path) -> None:
    Path("q.csv").write_text(TABLE + "\ng,0,0,0\n")
    result = found(sapwood, "q.csv", "--states", 2, "--top", 9)
    assert {item["name"] for part in result["parts"] for item in part["rows"]} == set("cdef")
    assert folder.is_dir()


def test_names_are_shown_as_they_are(sapwood: Sapwood, folder: Path) -> None:
    Path("n.csv").write_text('"","naïve, ""quoted""",日本\nx,5,0\ny,0,4\n', encoding="utf-8")
    result = found(sapwood, "n.csv", "--states", 2)
    assert {part["column_anchor"] for part in result["parts"]} == {'naïve, "quoted"', "日本"}
    assert folder.is_dir()


# What cannot be.


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.csv", b"", "bad.csv: empty"),
        ("bad.csv", b"a,b\n", "bad.csv: only a line of names"),
        ("bad.csv", b"1,2\n3,4,5\n", "bad.csv:2: 3 cells, where the lines before have 2"),
        ("bad.csv", b"1,2\n3,nan\n", "bad.csv:2: 'nan' in column 2 is not a finite number from 0 on"),
        ("bad.csv", b"1,2\n3,-4\n", "bad.csv:2: '-4' in column 2 is not a finite number"),
        ("bad.csv", b"0,0\n0,0\n", "bad.csv: the matrix is zero everywhere"),
        ("bad.npz", b"some text\n", "bad.npz: not a .npz file of a matrix: it does not begin as NumPy's files do"),
        ("bad.npy", b"\x93NUMPY\x01\x00", "bad.npy: not a .npy file of a matrix"),
        ("bad.mtx", COORDINATE + b"1000000000000 9 1\n1 1 1\n", "remove empty ones"),
        ("bad.mtx", COORDINATE + b"2 2 1\n1 1 nan\n", "bad.mtx: the matrix must hold finite"),
        ("bad.mtx", COORDINATE + b"2 2 0\n", "bad.mtx: the matrix is zero everywhere"),
        ("bad.mtx", b"%%MatrixMarket matrix array real general\n1 2\n1\n-1\n", "none below 0"),
        ("bad.mtx.gz", b"%%MatrixMarket", "damaged or truncated gzip file"),
        ("bad.txt", b"1 2\n", "bad.txt: a matrix is read from a file that ends in"),
    ],
)  # fmt: skip
def test_bad_files(sapwood: Sapwood, folder: Path, name: str, content: bytes, message: str) -> None:
    Path(name).write_bytes(content)
    before = sorted(folder.iterdir())
    for more in ((), ("--json",), ("-o", "parts.npz")):
        outcome = run(sapwood, name, "--states", 2, *more, code=3)
        assert outcome.out == ""
        assert outcome.err.startswith("sapwood: bad.")
        assert outcome.err.count("\n") == 1
        assert message in outcome.err
        assert sorted(folder.iterdir()) == before


def test_bad_arrays(sapwood: Sapwood, folder: Path) -> None:
    for array, message in (
        (np.array([[1, np.nan]]), "the matrix must hold finite numbers, none below 0"),
        (np.array([[1, np.inf]]), "finite numbers"),
        (np.array([[1, -1]]), "none below 0"),
        (np.zeros((2, 2)), "the matrix is zero everywhere"),
        (np.ones((2, 2, 2)), "the shape (2, 2, 2), not a matrix"),
        (np.ones(2) * 1j, "not a matrix of real numbers"),
        (np.ones((0, 2)), "it has no entries"),
    ):
        np.save("bad.npy", array)
        outcome = run(sapwood, "bad.npy", "--states", 2, code=3)
        assert outcome.err.startswith("sapwood: bad.npy: ")
        assert message in outcome.err
        assert outcome.err.count("\n") == 1
    np.save("bad.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    assert "it holds Python objects" in run(sapwood, "bad.npy", "--states", 2, code=3).err
    np.savez("bad.npz", a=Q, b=Q)
    assert "it holds 2 arrays (a, b); keep the matrix alone" in run(sapwood, "bad.npz", "--states", 2, code=3).err
    assert folder.is_dir()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("q.npy", 2, "Missing option '--states'"),
        ("--states 2", 2, "Missing argument 'MATRIX'"),
        ("q.npy --states 0", 2, "0 is not in the range x>=1"),
        ("q.npy --states two", 2, "'two' is not a valid integer"),
        ("q.npy --states 2 --columns no", 2, "'no' is not one of 'align', 'fit'"),
        ("q.npy --states 2 --representation no", 2, "'no' is not one of 'cca', 'random'"),
        ("q.npy --states 2 --min-count -1", 2, "-1.0 is not in the range x>=0"),
        ("q.npy --states 2 --top -1", 2, "-1 is not in the range x>=0"),
        ("q.npy --states 2 --seed -1", 2, "-1 is not in the range x>=0"),
        ("q.npy --states 2 --threads 0", 2, "0 is not in the range"),
        ("q.npy --states 2 -o -", 2, "arrays cannot be written to standard output; name a file, or use --json"),
        ("q.npy --states 2 -o q.npy", 2, "-o q.npy: is one of the input files and would be overwritten"),
        ("q.npy --states 2 -o link.npy", 2, "-o link.npy: is one of the input files"),
        ("q.npy --states 2 -o ./folder/../q.npy", 2, "is one of the input files"),
        ("q.npy --states 2 -o folder", 3, "folder: is a directory; name a file"),
        ("q.npy --states 2 -o no/parts.npz", 3, "no: no such directory"),
        ("q.npy --states 2 --min-count 100", 3, "q.npy: no row has a sum of 100 or more"),
        ("q.npy --states 2 --min-count nan", 2, "'nan' is not a number that can be used"),
        ("none.npy --states 2", 3, "none.npy: no such file or directory"),
        ("folder --states 2", 3, "folder: is a directory; name a file"),
        ("- --states 2", 3, "a matrix is read from a file that ends in"),
    ],
)  # fmt: skip
def test_mistakes_are_explained(sapwood: Sapwood, folder: Path, arguments: str, code: int, message: str) -> None:
    (folder / "folder").mkdir()
    (folder / "link.npy").symlink_to("q.npy")
    content = Path("q.npy").read_bytes()
    outcome = run(sapwood, *arguments.split(), code=code)
    assert message in outcome.err
    assert outcome.out == ""
    assert Path("q.npy").read_bytes() == content
