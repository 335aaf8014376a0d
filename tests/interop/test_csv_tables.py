"""CSV and TSV tables."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from sapwood import Corpus, Parser, Tree
from sapwood.errors import InputError
from sapwood.interop.arrow import ColumnParser
from sapwood.interop.csv_tables import CSV_TABLES, parse_csv
from sapwood.learn import PCFG
from sapwood.storage.files import open_binary, open_output

TREES = ["(ROOT (S (NP (PRP it)) (VP (VBD rained))))", "(ROOT (S (NP (NNS dogs)) (VP (VBP bark)) (. .)))"]
GRAMMAR = PCFG().fit(Corpus.from_trees([Tree.parse(tree) for tree in TREES]))
ROWS = [["1", "it rained", 'a "b", c'], ["2", "", "two\nlines"], ["3", "dogs bark .", "\ttab"]]


def write(path: Path, rows: list[list[str]] = ROWS) -> Path:
    with open_output(path) as stream:
        csv.writer(stream, delimiter="\t" if ".tsv" in path.name else ",").writerows([["id", "text", "note"], *rows])
    return path


def read(path: Path) -> list[dict[str, str]]:
    with open_binary(path) as stream:
        lines = stream.read().decode().splitlines(keepends=True)
    return list(csv.DictReader(lines, delimiter="\t" if ".tsv" in path.name else ","))


@pytest.mark.parametrize("source", [".csv", ".tsv", ".csv.gz"])
@pytest.mark.parametrize("target", [".csv", ".tsv.gz"])
def test_rows_keep_their_cells_and_order(tmp_path, source, target):
    out = tmp_path / f"out{target}"
    statuses = parse_csv(ColumnParser(Parser(GRAMMAR), "text"), write(tmp_path / f"in{source}"), out)
    found = read(out)
    assert [[row["id"], row["text"], row["note"]] for row in found] == ROWS
    assert [row["tree"] for row in found] == [TREES[0], "", TREES[1]]
    assert [row["status"] for row in found] == ["parsed", "", "parsed"]
    assert float(found[0]["log_probability"]) == Parser(GRAMMAR).parse_one(["it", "rained"]).log_probability
    assert statuses == {"parsed": 2}


def test_raw_text_gets_json(tmp_path):
    rows = [["1", "it rained. dogs bark.", ""], ["2", "", ""]] * 300  # more than one batch
    out = tmp_path / "out.csv"
    parser = Parser(GRAMMAR, marginals=True)
    statuses = parse_csv(ColumnParser(parser, "text", raw=True), write(tmp_path / "in.csv", rows), out)
    found = read(out)
    assert len(found) == 600
    expected = [result.to_dict() for result in parser.parse_text(rows[0][1])]
    assert statuses.total() == 300 * len(expected)
    assert [one["tree"] for one in json.loads(found[-2]["parses"])] == [one["tree"] for one in expected]
    assert [one["offsets"] for one in json.loads(found[0]["parses"])] == [one["offsets"] for one in expected]
    assert found[1]["parses"] == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id,note\n1,x\n", r"in\.csv: there is no column 'text'; there are: id, note"),
        (b"text,text\na,b\n", r"in\.csv: there are 2 columns 'text'"),
        (b"text,tree\na,b\n", r"in\.csv: there is a column 'tree' already"),
        (b"", r"in\.csv: there is no column 'text'; the file is empty"),
        (b"id,text\n1,it rained\n2,yes, it did\n", r"in\.csv:3: a row of 3 cells below a header of 2; quote"),
        (b'id,text\n1,"it rained\n', r"in\.csv:2: not a readable table: unexpected end of data"),
        (b"id,text\n1,caf\xe9\n", r"in\.csv:2: not valid UTF-8"),
        (b"id,text\n1,a\n2,b\n3,caf\xe9\n4,c\n", r"in\.csv:4: not valid UTF-8"),
        (b"id;text\n1;a\n", r"in\.csv: there is no column 'text'; the separator looks like ';', and must be ','"),
        (b"id\ttext\n1\ta\n", r"the separator looks like '\\t', and must be ','"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(tmp_path, content, message):
    (tmp_path / "in.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        parse_csv(ColumnParser(Parser(GRAMMAR), "text"), tmp_path / "in.csv", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_byte_order_marks_and_long_cells(tmp_path):
    before = csv.field_size_limit()
    long = "it rained " * 20_000
    (tmp_path / "in.csv").write_text(f"text\nit rained\n{long}\n", encoding="utf-8-sig")
    parse_csv(ColumnParser(Parser(GRAMMAR, max_words=10), "text"), tmp_path / "in.csv", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as stream:
        assert stream.readline() == "text,tree,log_probability,status\n"
    assert csv.field_size_limit() == before
    with gzip.open(tmp_path / "bad.csv.gz", "wb") as stream:
        stream.write(b"text\nit rained\n" * 100)
    content = (tmp_path / "bad.csv.gz").read_bytes()
    (tmp_path / "bad.csv.gz").write_bytes(content[:-9])
    with pytest.raises(InputError, match="damaged or truncated gzip file"):
        parse_csv(ColumnParser(Parser(GRAMMAR), "text"), tmp_path / "bad.csv.gz", tmp_path / "out2.csv")


def test_suffixes():
    assert ".csv" in CSV_TABLES
    assert ".tsv.gz" in CSV_TABLES
