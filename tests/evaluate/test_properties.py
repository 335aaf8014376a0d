"""Random trees, and a second scorer that is slow and follows the definitions word by word."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import slow
from helpers.treebank_files import treebank
from sapwood.evaluate import EvalbParameters, Scorer, get_parameters, score_tree
from sapwood.evaluate.bootstrap import FIGURES, figures
from sapwood.trees.formats.brackets import read_brackets
from sapwood.trees.tree import Tree

DEFAULT = get_parameters("default")
COLLINS = get_parameters("collins")
LABELS = ["S", "NP", "VP", "ADVP", "PRT", "TOP", "X-1"]
TAGS = ["NN", "VB", ",", ".", "-NONE-"]
PARAMETERS = st.sampled_from([DEFAULT, COLLINS, EvalbParameters(labeled=False, equal_labels=(("NN", "VB"),))])


@st.composite
def trees_over(draw: st.DrawFn, leaves: list[Tree]) -> Tree:
    """Draw a tree over the leaves by wrapping runs of neighbours until one node is left."""
    nodes = list(leaves)
    for _ in range(draw(st.integers(0, 2 * len(leaves)))):
        start = draw(st.integers(0, len(nodes) - 1))
        end = draw(st.integers(start + 1, min(len(nodes), start + 4)))
        nodes[start:end] = [Tree(draw(st.sampled_from(LABELS)), nodes[start:end])]
    if len(nodes) > 1 or draw(st.booleans()):
        return Tree(draw(st.sampled_from(LABELS)), nodes)
    return nodes[0]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Tree, Tree]:
    """Draw two trees over the same words; most tags agree, and those that are deleted always do."""
    gold, predicted = [], []
    for number in range(draw(st.integers(1, 12))):
        tag = draw(st.sampled_from(TAGS))
        other = draw(st.sampled_from(["NN", "VB", "JJ"])) if tag in ("NN", "VB") else tag
        gold.append(Tree(tag, word=f"w{number}"))
        predicted.append(Tree(other, word=f"w{number}"))
    return draw(trees_over(gold)), draw(trees_over(predicted))


def slow_brackets(tree: Tree, parameters: EvalbParameters) -> list[tuple[str, frozenset[int]]]:
    """Return the label of each bracket with the set of the words below it."""
    kept = [number for number, tag in enumerate(tree.tags()) if tag not in parameters.delete_labels]
    found = []
    for start, end, label in tree.spans():
        words = frozenset(number for number in kept if start <= number < end)
        deleted = any(same(label, other, parameters) for other in parameters.delete_labels)
        if words and not deleted:
            found.append((label, words))
    return found


def same(a: str, b: str, parameters: EvalbParameters) -> bool:
    return a == b or any({a, b} == set(group) for group in parameters.equal_labels)


def slow_counts(gold: Tree, predicted: Tree, parameters: EvalbParameters) -> tuple[int, int, int, int, int]:
    """Return matched, unlabelled matched, gold, predicted and crossing brackets."""
    left, right = slow_brackets(gold, parameters), slow_brackets(predicted, parameters)
    free = list(right)
    matched = 0
    for label, words in left:
        for other in free:
            if words == other[1] and (not parameters.labeled or same(label, other[0], parameters)):
                free.remove(other)
                matched += 1
                break
    spans = Counter(words for _, words in left) & Counter(words for _, words in right)
    crossing = sum(
        1 for _, words in right if any(words & other and words - other and other - words for _, other in left)
    )
    return matched, spans.total(), len(left), len(right), crossing


@given(pairs(), PARAMETERS)
def test_the_slow_scorer_agrees(pair: tuple[Tree, Tree], parameters: EvalbParameters) -> None:
    gold, predicted = pair
    found = score_tree(gold, predicted, parameters)
    kept = [(a, b) for a, b in zip(gold.tags(), predicted.tags(), strict=True) if a not in parameters.delete_labels]
    if not kept:
        assert found.status == "skipped"
        return
    assert found.status == "ok"
    assert (
        found.matched, found.unlabelled_matched, found.gold, found.predicted, found.crossing,
    ) == slow_counts(gold, predicted, parameters)  # fmt: skip
    assert (found.words, found.correct_tags) == (len(kept), sum(same(a, b, parameters) for a, b in kept))
    assert found.exact == (found.matched == found.gold == found.predicted)


@given(pairs(), PARAMETERS)
def test_a_tree_against_itself_is_right(pair: tuple[Tree, Tree], parameters: EvalbParameters) -> None:
    tree, _ = pair
    found = score_tree(tree, tree, parameters)
    if found.status == "skipped":
        assert all(tag in parameters.delete_labels for tag in tree.tags())
        return
    assert found.exact
    assert found.crossing == 0
    assert found.correct_tags == found.words
    if found.gold:
        assert (found.precision, found.recall, found.f1) == (100.0, 100.0, 100.0)


@given(pairs(), PARAMETERS)
def test_every_bracket_that_does_not_match_is_in_one_mistake(
    pair: tuple[Tree, Tree], parameters: EvalbParameters
) -> None:
    found = score_tree(*pair, parameters)
    if found.status == "skipped":
        return
    kinds = found.mistakes
    # A wrong label or span is a gold and a predicted bracket, all others are one.
    both = kinds["wrong_label"] + kinds["wrong_span"]
    one = kinds["wrong_unary"] + kinds["missing"] + kinds["spurious"]
    assert 2 * both + one == found.gold + found.predicted - 2 * found.matched
    assert kinds["missing"] <= found.gold - found.matched - both
    # Spans that both trees have, with one bracket each at least: whatever is wrong there is a label or a unary.
    assert kinds["wrong_label"] == found.unlabelled_matched - found.matched
    # The other way round what was missing is spurious.
    back = score_tree(*reversed(pair), parameters).mistakes
    assert (back["wrong_label"], back["wrong_unary"]) == (kinds["wrong_label"], kinds["wrong_unary"])
    if not kinds["wrong_span"]:
        assert (back["missing"], back["spurious"]) == (kinds["spurious"], kinds["missing"])


@given(pairs(), PARAMETERS)
def test_swapping_the_trees_swaps_precision_and_recall(pair: tuple[Tree, Tree], parameters: EvalbParameters) -> None:
    one, other = score_tree(*pair, parameters), score_tree(*reversed(pair), parameters)
    assert one.status == other.status
    assert (one.precision, one.recall, one.f1) == (other.recall, other.precision, other.f1)
    assert one.unlabelled_matched == other.unlabelled_matched
    assert one.labels == {label: (b, a, m) for label, (a, b, m) in other.labels.items()}


@given(st.lists(st.tuples(pairs(), st.booleans()), max_size=6), PARAMETERS)
def test_parts_add_up(many: list[tuple[tuple[Tree, Tree], bool]], parameters: EvalbParameters) -> None:
    scorer = Scorer(parameters)
    for (gold, predicted), failed in many:
        assert scorer.add(gold, None if failed else predicted) == scorer.scores[-1]
    result = scorer.result()
    for key in ("gold", "predicted", "matched"):
        total = getattr(result, key)
        assert total == sum(getattr(part, key) for part in result.labels.values())
        assert total == sum(getattr(part, key) for part in result.lengths.values())
        assert total == sum(getattr(score, key) for score in scorer.scores)
    assert result.sentences == len(many) == result.parsed + result.failed + result.errors + result.skipped
    assert result.failed == sum(failed for _, failed in many)
    assert figures(result.counts.sum(axis=0)).tolist() == [getattr(result, name) for name in FIGURES]
    assert result.matched <= result.unlabelled_matched <= min(result.gold, result.predicted)
    ordered = [part.gold for part in result.labels.values()]
    assert all(a >= b for a, b in pairwise(ordered))


@pytest.mark.parametrize("name", ["ours/train.mrg", slow("gum/dev.mrg")])
def test_a_treebank_against_itself_and_against_flat_trees(name: str) -> None:
    path = treebank(name)
    itself, flat = Scorer(COLLINS), Scorer(COLLINS)
    for tree in read_brackets(path):
        itself.add(tree, tree)
        flat.add(tree, Tree("S", tree.preterminals()))
    same_trees, flat_trees = itself.result(), flat.result()
    assert (same_trees.f1, same_trees.exact, same_trees.tag_accuracy) == (100.0, 100.0, 100.0)
    assert flat_trees.gold == same_trees.gold
    assert flat_trees.predicted == flat_trees.parsed  # one bracket each
    assert flat_trees.tag_accuracy == 100.0
    assert flat_trees.no_crossing == 100.0
    assert 0 < flat_trees.f1 < 30
