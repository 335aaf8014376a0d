"""Two parsers on the same sentences."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from helpers.made_up import Writer
from sapwood.errors import InputError
from sapwood.evaluate import Comparison, EvaluationResult, Scorer, compare, get_parameters
from sapwood.evaluate.bootstrap import COLUMNS, figures
from sapwood.trees.tree import Tree

GOLD = "(S (NP (N dogs)) (VP (V sleep)))"
TAG = "(S (NP (X dogs)) (VP (V sleep)))"
LABEL = "(S (X (N dogs)) (VP (V sleep)))"
FLAT = "(S (N dogs) (V sleep))"


def scored(trees: list[str | None], gold: str = GOLD) -> EvaluationResult:
    scorer = Scorer()
    for tree in trees:
        scorer.add(Tree.parse(gold), None if tree is None else Tree.parse(tree))
    return scorer.result()


def flattened(tree: Tree, rng: np.random.Generator, chance: float) -> Tree:
    """Return the tree without some of its phrases below the first."""

    def visit(node: Tree, children: list[list[Tree]]) -> list[Tree]:
        below = [child for group in children for child in group]
        if node.word is None and node is not tree and rng.random() < chance:
            return below
        return [Tree(node.label, below, word=node.word)]

    (found,) = tree.fold(visit)
    return found


def parsers(chance_a: float, chance_b: float) -> Comparison:
    rng, gold = np.random.default_rng(1), [Writer(seed).noun_phrase() for seed in range(120)]
    scorers = Scorer(), Scorer()
    for tree in gold:
        for scorer, chance in zip(scorers, (chance_a, chance_b), strict=True):
            scorer.add(tree, flattened(tree, rng, chance))
    return compare(scorers[0].result(), scorers[1].result(), resamples=2000)


def test_a_parser_and_itself() -> None:
    result = scored([GOLD, TAG, LABEL, FLAT, None])
    found = compare(result, result)
    assert found.wins() == {"a": 0, "b": 0, "ties": 5}
    assert not len(found.most_different())
    for one in found.figures.values():
        assert (one.difference, one.interval, one.p) == (0.0, (0.0, 0.0), 1.0)


def test_what_is_counted() -> None:
    # brackets: A matches 3 + 3 + 2 + 1 of 12, and predicts 3 + 3 + 3 + 1; B has 3, nothing, 3 and 3
    found = compare(scored([GOLD, TAG, LABEL, FLAT]), scored([GOLD, None, GOLD, GOLD]), resamples=100)
    assert found.figures["f1"].a == pytest.approx(200 * 9 / 22)
    assert found.figures["f1"].b == pytest.approx(200 * 9 / 21)
    assert (found.figures["exact"].a, found.figures["exact"].b) == (50.0, 75.0)
    assert (found.figures["tag_accuracy"].a, found.figures["tag_accuracy"].b) == (87.5, 75.0)
    assert found.wins() == {"a": 1, "b": 2, "ties": 1}
    assert found.most_different().tolist() == [1, 3, 2]  # 100 against 0, 50 against 100, 66.7 against 100
    assert found.mistakes() == {
        "wrong_label": (1, 0), "wrong_unary": (0, 0), "wrong_span": (0, 0), "missing": (2, 3), "spurious": (0, 0),
    }  # fmt: skip
    # The gold NP and X are both wrong in A's third tree; its fourth has no NP and no VP; B's second has nothing at all.
    assert list(found.labels().items()) == [("NP", (2, 1)), ("S", (0, 1)), ("X", (1, 0)), ("VP", (1, 1))]


def test_exchanging_the_parsers_exchanges_the_signs() -> None:
    there = parsers(0.2, 0.3)
    back = compare(there.b, there.a, resamples=2000)
    for key, one in there.figures.items():
        other = back.figures[key]
        assert (one.a, one.b, one.p) == (other.b, other.a, other.p)
        assert one.interval == pytest.approx((-other.interval.high, -other.interval.low))
    assert there.wins() == {"a": back.wins()["b"], "b": back.wins()["a"], "ties": back.wins()["ties"]}
    assert there.most_different().tolist() == back.most_different().tolist()


def test_a_worse_parser_is_found_out_and_an_equal_one_is_not() -> None:
    worse, equal = parsers(0.1, 0.4).figures["f1"], parsers(0.2, 0.2).figures["f1"]
    assert worse.p == 1 / 2001
    assert worse.interval.high < 0
    assert equal.p > 0.05
    assert equal.interval.low < 0 < equal.interval.high


def test_samples_are_the_same_for_both() -> None:
    """A plain loop; parsers that make the same mistakes in hard sentences differ less than two samples do."""
    found = parsers(0.2, 0.3)
    rng, size = np.random.default_rng(0), len(found.a.counts)
    differences = []
    for _ in range(2000):
        drawn = rng.integers(size, size=size)
        one, other = (figures(part.counts[drawn].sum(axis=0))[2] for part in (found.a, found.b))
        differences.append(other - one)
    assert found.figures["f1"].interval == pytest.approx(np.quantile(differences, [0.025, 0.975]))


def test_sentences_that_count_for_one_alone_are_left_out() -> None:
    a, b = scored([GOLD, FLAT, GOLD]), scored([GOLD, GOLD, "(S (-NONE- dogs))"])
    assert b.skipped == 1
    found = compare(a, b, resamples=100)
    assert (found.to_dict()["sentences"], found.to_dict()["left_out"]) == (2, 1)
    assert found.wins() == {"a": 0, "b": 1, "ties": 1}
    assert "1 more do not count for both" in found.format()


def test_an_exact_sentence_without_brackets_is_better_than_one_with() -> None:
    found = compare(scored(["(N a)"], "(N a)"), scored(["(S (N a))"], "(N a)"), resamples=10)
    assert (found.wins()["a"], found.better().tolist()) == (1, [-100.0])


def test_what_cannot_be_compared() -> None:
    two = scored([GOLD, GOLD])
    with pytest.raises(InputError, match="A has 2 sentences, B has 1"):
        compare(two, scored([GOLD]))
    other = GOLD.replace("dogs", "cats")
    with pytest.raises(InputError, match="sentence 1 of A is 'dogs sleep', of B 'cats sleep'"):
        compare(two, scored([other, other], other))
    with pytest.raises(InputError, match=r"2 brackets NP for A, 0 for B: .*two ways"):
        compare(two, scored([GOLD, GOLD], GOLD.replace("NP", "NP-SBJ")))
    with pytest.raises(InputError, match="scored by 'default', B by 'collins'"):
        compare(two, replace(two, parameters=get_parameters("collins")))


def test_the_dictionary_and_the_text() -> None:
    found = parsers(0.1, 0.3)
    value = found.to_dict(3)
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert [row["sentence"] for row in value["most_different"]] == (found.most_different()[:3] + 1).tolist()
    assert len(found.to_dict()["most_different"]) == value["better"]["a"] + value["better"]["b"]
    lines = [line.split() for line in found.format(3).splitlines()]
    f1 = found.figures["f1"]
    assert ["F1", f"{f1.a:.2f}", f"{f1.b:.2f}", f"{f1.difference:+.2f}"] in [line[:4] for line in lines]
    assert lines[-1][4:] == value["most_different"][-1]["text"].split()
    assert found.to_dict() == parsers(0.1, 0.3).to_dict()


def test_the_worst_sentences_come_first() -> None:
    result = scored([GOLD, FLAT, LABEL, TAG, None, "(S (-NONE- dogs))"])
    # The last one is skipped. F1 is 100, 50, 66.7, 100 and 0.
    assert (result.worst() + 1).tolist() == [5, 2, 3, 1, 4]
    first, second = result.sentence_dicts()[:2]
    assert first == {
        "sentence": 5, "gold": 3, "predicted": 0, "matched": 0, "f1": 0.0, "exact": False, "correct_tags": 0,
        "words": 2, "text": "dogs sleep",
    }  # fmt: skip
    assert (second["sentence"], second["matched"], second["correct_tags"]) == (2, 1, 2)
    assert result.format_sentences([3]).splitlines()[2].split() == [
        "4", "3", "3", "3", "100.00", "yes", "1/2", "dogs", "sleep",
    ]  # fmt: skip
    assert result.counts.shape == (6, len(COLUMNS))
