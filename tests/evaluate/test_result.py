from __future__ import annotations

import json
from typing import Any

from sapwood.evaluate import Scorer, get_parameters
from sapwood.evaluate.result import EvaluationResult
from sapwood.trees.tree import Tree


def example() -> EvaluationResult:
    """Return the result of three sentences: one half right, one failed, one in error."""
    scorer = Scorer(get_parameters("collins"))
    gold = Tree.parse("(S (NP (DT a) (NN b)) (VP (VB c)) (. .))")
    scorer.add(gold, Tree.parse("(S (X (DT a) (NN b)) (VB c) (. .))"))
    scorer.add(Tree.parse("(S (PRT (RP up)))"), None)
    scorer.add(gold, Tree.parse("(S (NN x))"))
    return scorer.result()


def test_the_dictionary_is_plain_and_complete() -> None:
    result = example()
    found = result.to_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    # gold: S NP VP and S PRT; predicted: S X; matched: S
    assert found["parameters"] == "collins"
    assert (found["sentences"], found["scored"], found["failed"], found["errors"], found["skipped"]) == (
        3,
        2,
        1,
        1,
        0,
    )
    assert (found["gold"], found["predicted"], found["matched"], found["unlabelled_matched"]) == (5, 2, 1, 2)
    assert (found["precision"], found["recall"], found["unlabelled_precision"]) == (50.0, 20.0, 100.0)
    assert (found["exact"], found["tag_accuracy"], found["average_crossing"]) == (0.0, 75.0, 0.0)
    assert found["f1"] == result.f1
    assert found["cutoff"]["length"] == 40
    assert found["cutoff"]["recall"] == 20.0
    assert found["lengths"]["1-10"]["sentences"] == 3
    assert found["lengths"]["61+"] == {
        "sentences": 0, "scored": 0, "precision": 0.0, "recall": 0.0, "f1": 0.0, "exact": 0.0,
    }  # fmt: skip
    # PRT stands under ADVP, the first of its group
    assert found["labels"]["ADVP"] == {
        "gold": 1, "predicted": 0, "matched": 0, "precision": 0.0, "recall": 0.0, "f1": 0.0,
    }  # fmt: skip
    assert found["messages"] == ["sentence 3: length mismatch: 3 gold words, 1 predicted, after deletion"]


def test_the_dictionary_holds_only_plain_types() -> None:
    waiting: list[Any] = [example().to_dict()]
    while waiting:
        value = waiting.pop()
        if type(value) is dict:
            assert all(type(key) is str for key in value)
            waiting.extend(value.values())
        elif type(value) is list:
            waiting.extend(value)
        else:
            assert type(value) in (int, float, str)


def test_the_text() -> None:
    lines = [line.split() for line in example().format().splitlines()]
    assert ["parameters:", "collins", "all", "length", "<=", "40"] in lines
    assert ["failed", "1", "1"] in lines
    assert ["in", "error", "1", "1"] in lines
    assert ["precision", "50.00", "50.00"] in lines
    assert ["F1", "28.57", "28.57"] in lines  # 2 * 50 * 20 / 70
    assert ["1-10", "2", "50.00", "20.00", "28.57", "0.00"] in lines
    assert ["S", "2", "1", "1", "100.00", "50.00", "66.67"] in lines
    assert ["X", "0", "1", "0", "0.00", "0.00", "0.00"] in lines
    assert not any(line[:1] == ["skipped"] for line in lines)
    assert not any(line[:1] == ["61+"] for line in lines)
    assert "PRT as ADVP" in example().format()


def test_columns_of_the_text_line_up() -> None:
    for table in example().format().split("\n\n")[:3]:
        lines = table.splitlines()
        assert {len(line) for line in lines} == {len(lines[0])}
