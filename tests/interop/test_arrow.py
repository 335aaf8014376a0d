"""Tables: every row stays a row, whatever stands in its cells."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from sapwood import Corpus, Parser, Tree
from sapwood.errors import InputError, UsageError
from sapwood.interop.arrow import TABLES, ColumnParser, parse_table
from sapwood.interop.pandas import to_pandas
from sapwood.learn import PCFG

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TREES = [
    "(ROOT (S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (NN cat))) (. .)))",
    "(ROOT (S (NP (PRP it)) (VP (VBD rained))))",
    "(ROOT (S (NP (NNS dogs)) (VP (VBP bark)) (. .)))",
]
GRAMMAR = PCFG().fit(Corpus.from_trees([Tree.parse(tree) for tree in TREES]))


def parser(**options) -> Parser:
    return Parser(GRAMMAR, **options)


def read(path: Path):
    if path.suffix == ".parquet":
        return pq.read_table(path)
    if path.suffix == ".feather":
        return pa.ipc.open_file(str(path)).read_all()
    return pa.ipc.open_stream(str(path)).read_all()


def write(table, path: Path) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=4)
        return path
    new = pa.ipc.new_file if path.suffix == ".feather" else pa.ipc.new_stream
    with new(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    return path


TABLE = pa.table(
    {
        "id": pa.array([10, 11, 12, 13, 14], pa.int16()),
        "tokens": ["it rained", None, "", "the dog saw -LRB- .", "dogs bark ."],
        "words": [["it", "rained"], None, [], ["the", "("], ["a b"]],
        "text": ["It rained. Dogs bark.", None, "", " \n ", "the dog"],
    },
    metadata={b"mine": b"1", b"huggingface": b"{}"},
)


@pytest.mark.parametrize("source", TABLES)
@pytest.mark.parametrize("target", TABLES)
@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_rows_keep_their_columns_and_order(tmp_path, source, target, rows):
    path, out = write(TABLE, tmp_path / f"in{source}"), tmp_path / f"out{target}"
    statuses = parse_table(ColumnParser(parser(), "tokens"), path, out, rows=rows)
    found = read(out)
    assert found.select(TABLE.column_names) == TABLE
    assert found.column_names == [*TABLE.column_names, "tree", "log_probability", "status"]
    assert found.schema.metadata == {b"mine": b"1"}
    expected = [
        None if cell is None else parser().parse_one([word.replace("-LRB-", "(") for word in cell.split()])
        for cell in TABLE["tokens"].to_pylist()
    ]
    assert found["tree"].to_pylist() == [None if one is None or one.tree is None else str(one.tree) for one in expected]
    assert found["status"].to_pylist() == [None if one is None else one.status for one in expected]
    assert found["log_probability"].to_pylist() == [None if one is None else one.log_probability for one in expected]
    assert sum(statuses.values()) == 4


def test_lists_of_words_are_taken_as_they_are(tmp_path):
    path, out = write(TABLE, tmp_path / "in.parquet"), tmp_path / "out.parquet"
    parse_table(ColumnParser(parser(), "words"), path, out)
    trees = [None if tree is None else Tree.parse(tree) for tree in read(out)["tree"].to_pylist()]
    assert [None if tree is None else tree.words() for tree in trees] == [
        ["it", "rained"], None, None, ["the", "("], ["a b"],
    ]  # fmt: skip
    large = TABLE.set_column(2, "words", TABLE["words"].cast(pa.large_list(pa.large_string())))
    parse_table(ColumnParser(parser(), "words"), write(large, tmp_path / "large.arrow"), out)
    assert [None if tree is None else Tree.parse(tree) for tree in read(out)["tree"].to_pylist()] == trees


@pytest.mark.parametrize("threads", [1, 2])
def test_plain_text_becomes_lists_with_offsets(tmp_path, threads):
    path, out = write(TABLE, tmp_path / "in.parquet"), tmp_path / "out.parquet"
    parse = ColumnParser(parser(marginals=True, alternatives=2, threads=threads), "text", raw=True)
    parse_table(parse, path, out)
    rows = read(out)["parses"].to_pylist()
    assert [None if row is None else len(row) for row in rows] == [2, None, 0, 0, 1]
    expected = list(parser(marginals=True, alternatives=2).parse_text("It rained. Dogs bark."))
    for one, result in zip(rows[0], expected, strict=True):
        value = result.to_dict()
        assert (one["words"], one["offsets"], one["tree"]) == (value["words"], value["offsets"], value["tree"])
        assert [list(row.values()) for row in one["marginals"]] == value["marginals"]
        assert one["alternatives"] == value["alternatives"]
    assert rows[0][1]["offsets"][0] == [11, 15]


def test_columns_for_batches_are_those_of_tables():
    parse = ColumnParser(parser(), "tokens")
    batch = {"tokens": TABLE["tokens"].to_pylist(), "id": [1, 2, 3, 4, 5]}
    found = parse(batch)
    assert list(found) == ["tree", "log_probability", "status"]
    assert [len(column) for column in found.values()] == [5, 5, 5]
    assert pickle.loads(pickle.dumps(parse))(batch) == found
    assert "column 'tokens'" in repr(parse)
    with pytest.raises(UsageError, match="no column 'tokens'; there are: x"):
        parse({"x": []})
    for cell in (3, ["a", 1], {"a": "b"}):
        with pytest.raises(InputError, match="a sentence is a string or a list of words"):
            parse({"tokens": [cell]})
    with pytest.raises(InputError, match="plain text is a string, not list"):
        ColumnParser(parser(), "tokens", raw=True)({"tokens": [["a"]]})


def test_datasets(tmp_path):
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"id": [3, 1, 2], "text": ["it rained", "dogs bark .", "the dog saw a cat ."]})
    mapped = data.map(ColumnParser(parser(), "text"), batched=True, batch_size=2)
    assert mapped.column_names == ["id", "text", "tree", "log_probability", "status"]
    assert mapped["id"][:] == [3, 1, 2]
    assert [Tree.parse(tree).words() for tree in mapped["tree"]] == [text.split() for text in mapped["text"]]
    # Tables that datasets wrote, and tables that datasets reads.
    data.to_parquet(tmp_path / "in.parquet")
    parse_table(ColumnParser(parser(), "text"), tmp_path / "in.parquet", tmp_path / "out.parquet")
    again = datasets.Dataset.from_parquet(str(tmp_path / "out.parquet"), cache_dir=str(tmp_path / "cache"))
    assert again["tree"][:] == mapped["tree"][:]
    parse_table(ColumnParser(parser(), "text"), tmp_path / "in.parquet", tmp_path / "out.arrow")
    assert datasets.Dataset.from_file(str(tmp_path / "out.arrow"))["status"][:] == ["parsed"] * 3


def test_datasets_row_by_row():
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    data = datasets.Dataset.from_dict(
        {"text": ["it rained", "dogs bark .", None], "words": [["it", "rained"], ["dogs", "bark", "."], None]}
    )
    for column, raw in (("text", False), ("words", False), ("text", True)):
        parse = ColumnParser(parser(), column, raw=raw)
        assert data.map(parse)[:] == data.map(parse, batched=True)[:]


def test_single_rows_and_batches_are_told_apart():
    parse = ColumnParser(parser(), "words")
    tree = "(ROOT (S (NP (PRP it)) (VP (VBD rained))))"
    assert parse({"words": "it rained"})["tree"] == tree
    assert parse({"words": ["it", "rained"], "id": 7})["tree"] == tree
    assert parse({"words": None}) == {"tree": None, "log_probability": None, "status": None}
    assert parse({"words": ["it rained", "it rained"]})["tree"] == [tree, tree]
    assert parse({"words": [["it", "rained"]], "id": [7]})["tree"] == [tree]


def test_what_is_wrong_is_said_and_nothing_is_written(tmp_path):
    path, out = write(TABLE, tmp_path / "in.parquet"), tmp_path / "out.parquet"
    for table, column, raw, message in (
        (TABLE, "nothing", False, "no column 'nothing'; there are: id, tokens, words, text"),
        (TABLE, "id", False, "column 'id' is of int16"),
        (TABLE, "words", True, "it must be of strings$"),
        (TABLE.append_column("tree", TABLE["id"]), "text", False, "there is a column 'tree' already"),
        (TABLE.append_column("text", TABLE["id"]), "text", False, "there are 2 columns 'text'"),
    ):
        write(table, tmp_path / "in.arrow")
        with pytest.raises(InputError, match=message):
            parse_table(ColumnParser(parser(), column, raw=raw), tmp_path / "in.arrow", out)
    for raw in (b"", b"PAR1", path.read_bytes()[:-20], b"no table"):
        for ending in TABLES:
            bad = tmp_path / f"bad{ending}"
            bad.write_bytes(raw)
            with pytest.raises(InputError, match=f"bad{ending}: not a readable table"):
                parse_table(ColumnParser(parser(), "text"), bad, out)
    with pytest.raises(UsageError, match=r"`sapwood\.Parser\(path\)`"):
        ColumnParser("en", "text")
    with pytest.raises(InputError, match="no such file"):
        parse_table(ColumnParser(parser(), "text"), tmp_path / "nothing.parquet", out)
    assert not out.exists()


def test_pyarrow_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pip install pyarrow"):
        parse_table(ColumnParser(parser(), "text"), tmp_path / "a.parquet", tmp_path / "b.parquet")
    # Batches of rows need nothing.
    assert ColumnParser(parser(), "text")({"text": ["it rained"]})["status"] == ["parsed"]


def test_values_outside_of_a_file_are_not_looked_for(tmp_path):
    """Whoever writes a stream can make its offsets lead anywhere."""
    path = write(pa.table({"text": ["abc", "de"]}), tmp_path / "bad.arrow")
    written = path.read_bytes()
    good = np.array([0, 3, 5], np.int32).tobytes()
    assert written.count(good) == 1
    for offsets in ([0, 5, 3], [0, 3, 90], [-8, 3, 5], [0, 1 << 30, 5]):
        path.write_bytes(written.replace(good, np.array(offsets, np.int32).tobytes()))
        with pytest.raises(InputError, match="not a readable table"):
            parse_table(ColumnParser(parser(), "text"), path, tmp_path / "out.arrow")


def test_names_of_columns_are_unicode(tmp_path):
    """Arrow itself takes any bytes for a name."""
    for ending in TABLES:
        path = write(pa.table({"text": ["abc"], "other": [1]}), tmp_path / f"bad{ending}")
        path.write_bytes(path.read_bytes().replace(b"other", b"oth\xacr"))
        with pytest.raises(InputError, match=f"bad{ending}: not a readable table"):
            parse_table(ColumnParser(parser(), "text"), path, tmp_path / f"out{ending}")


def test_trees_with_gaps_are_marked(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    lines = ["(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=Mary))", "(S (NP 0=Mary) (VP (VB 1=is) (JJ 2=rich)))"]
    trees = [Tree.parse(line, format="discbracket") for line in lines]
    parser = Parser(PCFG().fit(PCFG.prepare(trees)), alternatives=1)
    parquet.write_table(arrow.table({"text": ["is Mary rich", "Mary is rich"]}), tmp_path / "in.parquet")
    parse_table(ColumnParser(parser), tmp_path / "in.parquet", tmp_path / "out.parquet")
    rows = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["gaps"] for row in rows] == [True, False]
    assert [row["alternatives"][0]["gaps"] for row in rows] == [True, False]
    read = [Tree.parse(row["tree"], format="discbracket" if row["gaps"] else "brackets") for row in rows]
    assert read == [Tree("ROOT", [tree]) for tree in trees]
    pytest.importorskip("pandas")
    frame = to_pandas(parser.parse([["is", "Mary", "rich"], ["Mary", "is", "rich"]]))
    assert frame["gaps"].tolist() == [True, False]
    assert "gaps" not in to_pandas(parser.parse([["Mary", "is", "rich"]]))
