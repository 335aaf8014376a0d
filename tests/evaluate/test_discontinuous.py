"""Scores of trees with gaps, against the definition of disco-dop written with sets of words."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from helpers.gap_trees import placed, random_gap_tree
from sapwood.errors import InputError
from sapwood.evaluate.bootstrap import COLUMNS
from sapwood.evaluate.brackets import Scorer, score_tree
from sapwood.evaluate.comparison import compare
from sapwood.evaluate.error_types import count_confusions
from sapwood.evaluate.evalb_params import EvalbParameters, get_parameters
from sapwood.trees.formats.gaps import positions
from sapwood.trees.tree import Tree

GOLD = "(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John) (? 3=?))"


def parse(text: str) -> Tree:
    return Tree.parse(text, format="discbracket")


def slow_brackets(tree: Tree, parameters: EvalbParameters, dropped: set[int]) -> Counter:
    """Return labels and sets of words of all phrases, looking for every word of each."""
    kept = [place for place in range(len(tree)) if place not in dropped]
    order = {leaf: place for place, leaf in enumerate(map(id, tree.preterminals()))}
    found: Counter = Counter()
    for node in tree.nodes():
        if node.word is None and node.label not in parameters.delete_labels:
            words = {order[id(leaf)] for leaf in node.nodes() if leaf.word is not None} - dropped
            if words:
                found[node.label, tuple(sorted(kept.index(place) for place in words))] += 1
    return found


def slow_counts(gold: Tree, predicted: Tree, parameters: EvalbParameters) -> dict[str, int]:
    tags = gold.tags() if parameters.by_gold else None
    sides = []
    for tree in (gold, predicted):
        dropped = {
            place
            for place, (word, tag) in enumerate(zip(tree.words(), tags or tree.tags(), strict=True))
            if tag in parameters.delete_labels or word in parameters.delete_words
        }
        sides.append(slow_brackets(tree, parameters, dropped))
    found = {}
    for name, keep in (("", lambda _: True), ("disc_", lambda words: words[-1] - words[0] + 1 > len(words))):
        one, other = (Counter({key: n for key, n in side.items() if keep(key[1])}) for side in sides)
        both = {"gold": one.total(), "predicted": other.total(), "matched": (one & other).total()}
        found |= {name + key: value for key, value in both.items()}
    return found


@pytest.mark.parametrize("name", ["default", "proper"])
def test_counts_are_those_of_the_definition(name: str) -> None:
    rng = random.Random(1)
    parameters = get_parameters(name)
    total: Counter = Counter()
    for _ in range(300):
        gold = random_gap_tree(rng, rng.randint(2, 12), ("S", "NP", "ROOT"))
        order = positions(gold)
        if rng.random() < 0.7:
            one, other = rng.randrange(len(order)), rng.randrange(len(order))
            order[one], order[other] = order[other], order[one]
        # Some tags are those of punctuation, not always the same in the prediction.
        gold, predicted = (_with_tags(rng, tree) for tree in (gold, placed(gold, order)))
        score = score_tree(gold, predicted, parameters)
        if score.status != "ok":
            continue
        slow = slow_counts(gold, predicted, parameters)
        assert {key: getattr(score, key) for key in slow} == slow
        total.update(slow)
    assert total["disc_gold"] > total["disc_matched"] > 0


def _with_tags(rng: random.Random, tree: Tree) -> Tree:
    """Return the tree with random tags, and the same word everywhere."""
    order = positions(tree)
    retagged = tree.fold(lambda node, below: Tree(node.label, below) if below else Tree(rng.choice("TTT,"), word="w"))
    return placed(retagged, order)


def test_a_gap_that_is_missed_counts_once_in_both_scores() -> None:
    gold, closed = parse(GOLD), Tree.parse("(S (VP (VB is)) (NP John) (JJ rich) (? ?))")
    score = score_tree(gold, closed)
    assert (score.gold, score.predicted, score.matched) == (2, 2, 1)
    assert (score.disc_gold, score.disc_predicted, score.disc_matched) == (1, 0, 0)
    assert score.labels["VP"] == (1, 1, 0)
    assert score_tree(gold, gold).exact
    assert not score.exact
    assert count_confusions(gold, closed) == {("missing", "VP", None): 1, ("spurious", None, "VP"): 1}


def test_proper_ignores_punctuation_by_the_gold_tree_and_by_the_word() -> None:
    proper = get_parameters("proper")
    gold = parse("(S (X (A 0=a) (B 2=b)) (, 1=,) (C 3=c))")
    # Without the comma, X has no gap.
    score = score_tree(gold, gold, proper)
    assert (score.gold, score.disc_gold, score.words) == (2, 0, 3)
    assert score_tree(gold, gold).disc_gold == 1
    other = parse("(S (X (A 0=a) (B 2=b)) (N 1=,) (, 3=c))")
    score = score_tree(gold, other, proper)
    assert (score.status, score.matched, score.words, score.correct_tags) == ("ok", 2, 3, 2)
    assert score_tree(gold, Tree.parse("(S (A a))"), proper).status == "error"


def test_only_phrases_with_gaps() -> None:
    gold, closed = parse(GOLD), Tree.parse("(S (VP (VB is)) (NP John) (JJ rich) (? ?))")
    parameters = EvalbParameters(disc_only=True, by_gold=True)
    score = score_tree(gold, closed, parameters)
    assert (score.gold, score.predicted, score.matched) == (1, 0, 0)
    below_root = EvalbParameters(delete_root_tags=True, by_gold=True)
    assert score_tree(gold, gold, below_root).words == 2


def test_results_have_discontinuous_scores_only_where_there_are_gaps() -> None:
    gold, closed = parse(GOLD), Tree.parse("(S (VP (VB is)) (NP John) (JJ rich) (? ?))")
    one, other = Scorer(), Scorer()
    for _ in range(10):
        one.add(gold, closed)
        other.add(gold, gold)
    results = one.result(), other.result()
    assert (results[0].disc_f1, results[1].disc_f1) == (0.0, 100.0)
    assert results[1].disc_precision == results[1].disc_recall == 100.0
    assert "discontinuous F1" in results[0].format(results[0].intervals())
    assert results[1].to_dict()["disc_gold"] == 10
    assert results[1].intervals()["disc_f1"] == (100.0, 100.0)
    found = compare(*results)
    assert found.figures["disc_f1"].difference == 100.0
    assert "discontinuous F1" in found.format()
    plain = Scorer()
    plain.add(closed, closed)
    result = plain.result()
    assert "disc_gold" not in result.to_dict()
    assert not any(name.startswith("disc_") for name in result.intervals())
    assert "discontinuous" not in result.format()
    assert set(compare(result, result).figures) == {"f1", "exact", "tag_accuracy"}
    assert "disc_f1" not in compare(result, result).to_dict()
    assert {"disc_gold", "disc_predicted", "disc_matched"} <= set(COLUMNS)


def test_bad_switches_are_named(tmp_path) -> None:
    path = tmp_path / "x.prm"
    path.write_text("DISC_ONLY 3\n")
    with pytest.raises(InputError, match="DISC_ONLY is 0"):
        EvalbParameters.read(path)
