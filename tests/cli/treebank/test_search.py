"""`sapwood search`."""

from __future__ import annotations

import csv
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from helpers.treebank_files import treebank
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.search.searcher import Searcher
from sapwood.trees.search.table import read_table


def run(sapwood: Any, *arguments: str, stdin: bytes = b"") -> str:
    outcome = sapwood(["search", *arguments], stdin)
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.out


def test_trees_and_subtrees(folder: Path, sapwood: Any) -> None:
    trees = (folder / "trees.mrg").read_text()
    lines = trees.splitlines()
    assert run(sapwood, "NP < NP", "trees.mrg").splitlines() == [lines[3], lines[4]]
    assert run(sapwood, "NP < NP", stdin=trees.encode()).splitlines() == [lines[3], lines[4]]
    assert run(sapwood, "NP < NP", "trees.mrg", "-v").splitlines() == [*lines[:3], lines[5]]
    assert run(sapwood, "NP >> NP $.. __", "trees.mrg", "--subtrees", "-n").splitlines() == [
        "trees.mrg:4: (NP (DT the) (NN dog))",
        "trees.mrg:5: (NP (DT the) (NNS cats))",
    ]
    assert run(sapwood, "NP", "trees.mrg", "--subtrees", "--limit", "2", "--to", "tokens") == "the dog\na cat\n"
    assert run(sapwood, "dog", "trees.mrg", "--subtrees", "--limit", "1") == "(NN dog)\n"
    assert run(sapwood, "PP < NN", "trees.mrg") == ""
    run(sapwood, "NP < NP", "trees.mrg", "-o", "found.export", "--to", "export")
    assert (folder / "found.export").read_text().startswith("#FORMAT 3\n#BOS 1\n")
    assert sapwood(["convert", "found.export"]).out.count("\n") == 2


def test_counts(folder: Path, sapwood: Any) -> None:
    assert run(sapwood, "NP", "trees.mrg", "--count") == "13 matches in 6 of 6 trees\n"
    assert run(sapwood, "NP < NP", "trees.mrg", "--count", "-v") == "no match in 4 of 6 trees\n"
    found = json.loads(run(sapwood, "NP", "trees.mrg", "trees.mrg", "--count", "--json"))
    assert found == {"matches": 26, "matching_trees": 12, "trees": 12}


def test_json_says_what_the_library_says(folder: Path, sapwood: Any) -> None:
    pattern = "NP=a < (PP=b < __=c)"
    table = read_table("trees.mrg")
    (match,) = Searcher(pattern).matches(table)
    (line,) = run(sapwood, pattern, "trees.mrg", "--json").splitlines()
    value = json.loads(line)
    assert {key: value[key] for key in ("file", "tree", "line")} == {"file": "trees.mrg", "tree": 4, "line": 4}
    assert value["text"] == str(table.tree(match.tree))
    assert value["words"] == table.tree(match.tree).words()
    (found,) = value["matches"]
    names = found.pop("names")
    assert found == match.place._asdict()
    assert names == {name: place._asdict() for name, place in match.names.items()}
    assert list(names) == ["a", "b", "c"]


def test_heads(folder: Path, sapwood: Any) -> None:
    (folder / "heads.txt").write_text("* right\n")
    assert run(sapwood, "NP <# DT", "trees.mrg", "--count") == "0 matches in 0 of 6 trees\n"
    (folder / "heads.txt").write_text("* left\n")
    assert run(sapwood, "NP <# DT", "trees.mrg", "--count", "--heads", "heads.txt").startswith("7 matches")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["NP <", "trees.mrg"], 2, "column 5"),
        (["NP", "none.mrg"], 3, "none.mrg: no such file"),
        (["NP", "-", "-"], 2, "only once"),
        (["NP", "trees.mrg", "--count", "--subtrees"], 2, "--subtrees cannot be used with --count"),
        (["NP", "trees.mrg", "--json", "--to", "draw"], 2, "--to cannot be used with --json"),
        (["NP", "trees.mrg", "-v", "--subtrees"], 2, "--subtrees cannot be used with -v"),
        (["NP", "trees.mrg", "-o", "trees.mrg"], 2, "would be overwritten"),
        (["NP", "trees.mrg", "--timeout", "1e-9"], 1, "took more than"),
    ],
)
def test_errors(arguments: list[str], code: int, message: str, folder: Path, sapwood: Any) -> None:
    outcome = sapwood(["search", *arguments])
    assert outcome.code == code
    assert message in outcome.err
    assert outcome.out == ""


def test_bad_trees(folder: Path, sapwood: Any) -> None:
    (folder / "bad.mrg").write_text("(A a)\n(B (C c)\n(A (D d))\n")
    outcome = sapwood(["search", "A", "bad.mrg"])
    assert outcome.code == 3
    assert "bad.mrg:2:1" in outcome.err
    outcome = sapwood(["search", "A", "bad.mrg", "--skip-bad"])
    assert outcome.out == "(A a)\n(A (D d))\n"
    assert "skipped 1 malformed tree" in outcome.err


def test_a_large_treebank_takes_seconds(sapwood: Any) -> None:
    path = treebank("icepahc/train.mrg.gz")
    begin = time.process_time()
    assert run(sapwood, "NP << PP", str(path), "--count") == "7,776 matches in 6,214 of 65,700 trees\n"
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("XXP", "no tree has the label or word 'XXP'\n"),
        ("np < NN", "no tree has the label or word 'np'; did you mean 'NP'?\n"),
        ("NP !< NPP", "no tree has the label or word 'NPP'; did you mean "),
        ("NP < /^X/ | < NN", ""),
        ("NP < !XP", ""),
        ("NP << barks", ""),
        ("NP << parks", "no tree has the label or word 'parks'\n"),
    ],
)
def test_labels_that_no_tree_has_are_named(folder: Path, sapwood: Any, pattern: str, message: str) -> None:
    for extra in ([], ["--count"], ["--json"]):
        outcome = sapwood(["search", pattern, "trees.mrg", *extra])
        assert outcome.code == 0
        assert outcome.err.startswith(message)
        assert bool(outcome.err) == bool(message)
    assert sapwood(["search", pattern, "trees.mrg", "-q"]).err == ""


def test_labels_with_dots_need_quotes(folder: Path, sapwood: Any) -> None:
    Path("es.mrg").write_text("(S (espec.ms (da0ms0 el)) (grup.nom.ms (ncms000 gato)) (sn-SUJ (x y)))\n")
    outcome = sapwood(["search", "espec.ms", "es.mrg"])
    assert (outcome.out, outcome.err) == (
        "",
        "'espec.ms' is read as two nodes, because '.' and ',' are relations; quote a label: '\"espec.ms\"'\n",
    )
    assert sapwood(["search", '"espec.ms"', "es.mrg", "--subtrees"]).out == "(espec.ms (da0ms0 el))\n"
    assert "@sn matches all of them" in sapwood(["search", "sn", "es.mrg"]).err
    outcome = sapwood(["search", "@sn", "es.mrg", "--subtrees"])
    assert (outcome.out, outcome.err) == ("(sn-SUJ (x y))\n", "")


def test_head_relations_of_unknown_labels_are_by_learned_rules(sapwood, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trees = "(S (sn (np Juan)) (gv (vm ve)) (f .))\n(S (gv (vm llueve)))\n(S (sn (np Ana)) (gv (vm cae)))\n"
    (tmp_path / "trees.mrg").write_text(trees)
    outcome = sapwood(["search", "S <# gv", "trees.mrg", "--count"])
    assert outcome.out == "3 matches in 3 of 3 trees\n"
    assert "no built-in head rules fit its labels" in outcome.err
    english = sapwood(["search", "S <# gv", "trees.mrg", "--count", "--heads", "english"])
    assert (english.out, english.err) == ("1 match in 1 of 3 trees\n", "")
    assert sapwood(["search", "S < gv", "trees.mrg", "--count"]).err == ""
    assert sapwood(["search", "S < gv", "trees.mrg", "--to", "conllu"]).out.count("\t0\troot") == 3


def test_samples_are_matches_in_order(folder: Path, sapwood: Any) -> None:
    lines = run(sapwood, "NP", "trees.mrg", "--subtrees", "-n").splitlines()
    seen = set()
    for seed in range(12):
        found = run(sapwood, "NP", "trees.mrg", "--subtrees", "-n", "--random", "2", "--seed", str(seed)).splitlines()
        assert (
            found
            == run(sapwood, "NP", "trees.mrg", "--subtrees", "-n", "--random", "2", "--seed", str(seed)).splitlines()
        )
        places = [lines.index(line) for line in found]
        assert places == sorted(places)
        seen |= set(found)
    assert len(seen) > 6
    assert run(sapwood, "NP", "trees.mrg", "--random", "100") == run(sapwood, "NP", "trees.mrg")


def test_context_is_in_comments(folder: Path, sapwood: Any) -> None:
    words = [" ".join(tree.words()) for tree in read_trees(folder / "trees.mrg")]
    trees = (folder / "trees.mrg").read_text().splitlines()
    found = run(sapwood, "NP < NP", "trees.mrg", "--context", "2", "--limit", "1").splitlines()
    assert found == [f"# {words[1]}", f"# {words[2]}", trees[3], f"# {words[4]}", f"# {words[5]}"]
    (line,) = run(sapwood, "NP < NP", "trees.mrg", "--context", "1", "--limit", "1", "--json").splitlines()
    assert (json.loads(line)["before"], json.loads(line)["after"]) == ([words[2]], [words[4]])


def test_macros(folder: Path, sapwood: Any) -> None:
    (folder / "macros.txt").write_text("@ NOUN /^NN/;\n", encoding="utf-8")
    assert run(sapwood, "NP < @NOUN", "trees.mrg", "--macros", "macros.txt") == run(sapwood, "NP < /^NN/", "trees.mrg")


def test_counts_by_keys(folder: Path, sapwood: Any) -> None:
    found = [
        json.loads(line)
        for line in run(sapwood, "NP=x < NN=y", "trees.mrg", "--count-by", "word:y", "--json").splitlines()
    ]
    expected = Counter(match.names["y"].start for match in Searcher("NP=x < NN=y").matches(read_table("trees.mrg")))
    assert sum(row["count"] for row in found) == expected.total()
    assert [row["count"] for row in found] == sorted((row["count"] for row in found), reverse=True)
    run(sapwood, "NP", "trees.mrg", "--count-by", "parent", "-o", "counts.csv")
    rows = list(csv.DictReader((folder / "counts.csv").read_text(encoding="utf-8").splitlines()))
    assert sum(int(row["count"]) for row in rows) == 13
    run(sapwood, "NP", "trees.mrg", "--count-by", "parent", "-o", "counts.tsv", "--limit", "1")
    assert (folder / "counts.tsv").read_text(encoding="utf-8").splitlines() == [
        "parent\tcount\tshare\tper_thousand", "\t".join(rows[0].values())]  # fmt: skip
    same = run(sapwood, "NP", "trees.mrg", "--count-by", "parent", "--against", "trees.mrg", "--json").splitlines()
    assert {json.loads(line)["log_likelihood"] for line in same} == {0.0}
    cross = run(sapwood, "NP", "trees.mrg", "--count-by", "label", "--count-by", "parent", "--cross").splitlines()
    assert cross[0].startswith("label \\ parent")
    most = ["--count-by", "word", "--count-by", "label", "--cross", "--limit", "2"]
    run(sapwood, "NN", "trees.mrg", *most, "-o", "cross.csv")
    assert len((folder / "cross.csv").read_text().splitlines()) == 3


def test_counts_as_parquet_and_picture(folder: Path, sapwood: Any) -> None:
    arrow = pytest.importorskip("pyarrow.parquet")
    run(sapwood, "NP", "trees.mrg", "--count-by", "label", "-o", "counts.parquet")
    assert arrow.read_table(folder / "counts.parquet").to_pylist()[0]["count"] == 13
    pytest.importorskip("matplotlib")
    run(sapwood, "NP", "trees.mrg", "--count-by", "parent", "-o", "counts.svg")
    assert "count" in (folder / "counts.svg").read_text(encoding="utf-8")


def test_cells_are_written_as_they_are(folder, sapwood):
    """Labels and words may begin with = + - @, as in Penn brackets; spreadsheets are told to import them as text."""
    cells = ["-LRB-", "+PRO", "=x", "@NP", "|cmd"]
    trees = " ".join(f"(A{number} {cell})" for number, cell in enumerate(cells))
    (folder / "odd.mrg").write_text(f"(S {trees})\n", encoding="utf-8")
    run(sapwood, "/^A/", "odd.mrg", "--count-by", "word", "-o", "cells.csv")
    rows = list(csv.DictReader((folder / "cells.csv").read_text(encoding="utf-8").splitlines()))
    assert sorted(row["word"] for row in rows) == sorted(["(", *cells[1:]])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--cross"], "requires --count-by"),
        (["--against", "trees.mrg"], "requires --count-by"),
        (["--count-by", "label", "--cross"], "requires two keys"),
        (["--count-by", "label", "-v"], "cannot be used with --count-by"),
        (["--count-by", "colour"], "not a key to count by"),
        (["--count-by", "label", "--json", "-o", "x.csv"], "has a format of its own"),
        (["--seed", "3"], "requires --random"),
        (["--random", "3", "--limit", "2"], "cannot be used with --random"),
        (["--context", "1", "--to", "export"], "--context requires"),
    ],
)
def test_options_that_cannot_be_combined(folder: Path, sapwood: Any, arguments: list[str], problem: str) -> None:
    outcome = sapwood(["search", "NP", "trees.mrg", *arguments])
    assert outcome.code == 2
    assert problem in outcome.err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["search", "NP", "trees.mrg", "-o", "x.csv"], "end the name in .mrg or .txt, or give --count-by KEY"),
        (["convert", "trees.mrg", "-o", "x.tsv.gz"], "end the name in .mrg or .txt"),
        (["convert", "trees.mrg", "-o", "x.dbr"], "add --to discbracket"),
        (["convert", "trees.mrg", "--to", "export", "-o", "x.dbr.gz"], "add --to discbracket"),
        (["search", "NP", "trees.mrg", "-o", "x.png"], "add --to svg or --to png"),
        (["search", "NP", "trees.mrg", "--count-by", "label", "-o", "x.xlsx"], "end the name in .csv, .tsv, .parquet"),
        (["search", "NP", "trees.mrg", "--count-by", "label", "-o", "x.json"], "add --json"),
        (["search", "NP", "trees.mrg", "--json", "-o", "x.csv"], "not a table"),
        (["search", "NP", "trees.mrg", "--count", "-o", "x.csv"], "not a table"),
        (["corpus", "labels", "trees.mrg", "-o", "x.xlsx"], "end the name in .csv, .tsv, .parquet"),
    ],
)
def test_names_of_other_formats_are_refused(folder: Path, sapwood: Any, command: list[str], message: str) -> None:
    outcome = sapwood(command)
    assert (outcome.code, message in outcome.err) == (2, True), outcome.err
    assert not list(folder.glob("x.*"))


def test_hints_for_patterns_that_match_nothing(folder: Path, sapwood: Any) -> None:
    (folder / "tags.mrg").write_text("(S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks)))\n", encoding="utf-8")
    message = sapwood(["search", "NP-*", "tags.mrg"]).err
    assert "'*' is not a wildcard: @NP matches NP with any function tags, and /^NP-/ all labels" in message
    assert "use NP-SBJ or /^NP-SBJ/" in sapwood(["search", "@NP-SBJ", "tags.mrg"]).err
    assert sapwood(["search", "@NP", "tags.mrg", "--count"]).out == "1 match in 1 of 1 tree\n"
    swapped = sapwood(["search", "tags.mrg", "@NP"])
    assert swapped.code == 2
    assert "the pattern comes before the treebank" in swapped.err
