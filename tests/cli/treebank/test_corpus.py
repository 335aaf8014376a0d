"""`sapwood corpus`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sapwood.treebank.statistics import STATISTICS, count_corpus, productivity, summarise
from sapwood.trees.search.table import read_table


def rows(sapwood: Any, *arguments: str) -> list[dict[str, Any]]:
    outcome = sapwood(["corpus", *arguments, "--json"])
    assert (outcome.code, outcome.err) == (0, "")
    return [json.loads(line) for line in outcome.out.splitlines()]


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_command_prints_what_the_library_returns(folder: Path, sapwood: Any, statistic: str) -> None:
    tables = [("trees.mrg", read_table(folder / "trees.mrg"))]
    if statistic == "summary":
        expected = summarise(tables)
    elif statistic == "productivity":
        expected = productivity(count_corpus("rules", tables))
    else:
        expected = count_corpus(statistic, tables).table()
    assert [list(row.values()) for row in rows(sapwood, statistic, "trees.mrg")] == expected.rows
    assert len(rows(sapwood, statistic, "trees.mrg", "--limit", "1")) == min(1, len(expected.rows))


def test_comparisons_and_verbs(folder: Path, sapwood: Any) -> None:
    (folder / "other.mrg").write_text("(S (NP (NN rain)) (VP (VBD fell)))\n", encoding="utf-8")
    found = rows(sapwood, "words", "trees.mrg", "--against", "other.mrg")
    assert {row["word"]: row["count_other"] for row in found}["rain"] == 1
    wide = rows(sapwood, "words", "trees.mrg", "--against", "other.mrg", "--confidence", "0.99")
    assert wide[0]["log_ratio_high"] > found[0]["log_ratio_high"]
    assert rows(sapwood, "frames", "other.mrg", "--verbs", "NP")[0]["sisters"] == "_ VP"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["words", "trees.mrg", "--verbs", "NP"], "requires the statistic frames"),
        (["summary", "trees.mrg", "--against", "trees.mrg"], "cannot be used with summary"),
        (["words", "trees.mrg", "--confidence", "0.9"], "requires --against"),
        (["frames", "trees.mrg", "--verbs", "NP <"], "pattern, column 5"),
        (["shapes", "trees.mrg"], "shapes"),
        (["words", "trees.mrg", "-o", "trees.mrg"], "would be overwritten"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_errors(sapwood: Any, arguments: list[str], problem: str) -> None:
    outcome = sapwood(["corpus", *arguments])
    assert outcome.code == 2
    assert problem in outcome.err


def test_empty_elements_are_reported_with_the_remedy(folder: Path, sapwood: Any) -> None:
    tree = "( (IP-MAT (NP-SBJ *con*) (VBD came) (C 0) (NP-OB1 (-NONE- *T*-1)) (NUM-N 0)) )\n"
    (folder / "raw.mrg").write_text(tree, encoding="utf-8")
    remark = "3 empty elements count as words; to leave them out, count the output of `sapwood convert --normalise"
    assert remark in sapwood(["corpus", "words", "raw.mrg"]).err
    assert remark in sapwood(["search", "@IP", "raw.mrg", "--count-by", "word"]).err
    assert sapwood(["search", "@IP", "raw.mrg"]).err == sapwood(["corpus", "words", "raw.mrg", "-q"]).err == ""
    convert = ["convert", "--normalise", "--function-tags", "indices", "raw.mrg", "-o", "clean.mrg"]
    assert sapwood(convert).code == 0
    assert sorted(row["word"] for row in rows(sapwood, "words", "clean.mrg")) == ["0", "came"]
