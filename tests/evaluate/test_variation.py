"""Variation n-grams, compared with a search that looks at every pair of places."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sapwood.errors import UsageError
from sapwood.evaluate.variation import LONGEST_NUCLEUS, Occurrence, SubstringIndex, Variation, find_variations
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tree import Tree


def table(*lines: str) -> TreeTable:
    return TreeTable.from_trees([Tree.parse(line) for line in lines])


def random_tree(rng: np.random.Generator, words: list[str]) -> Tree:
    """Return a tree over words, with unary chains and phrases of one word."""
    if len(words) == 1:
        tree = Tree(f"T{rng.integers(2)}", word=words[0])
        return Tree("A", [tree]) if rng.random() < 0.4 else tree
    cuts = sorted(set(rng.integers(1, len(words), size=rng.integers(1, 3)).tolist()))
    bounds = [0, *cuts, len(words)]
    parts = [words[a:b] for a, b in itertools.pairwise(bounds)]
    tree = Tree("ABC"[rng.integers(3)], [random_tree(rng, part) for part in parts])
    return Tree("D", [tree]) if rng.random() < 0.2 else tree


def random_trees(seed: int, count: int = 40) -> list[Tree]:
    rng = np.random.default_rng(seed)
    return [random_tree(rng, list(rng.choice(list("xyz"), size=rng.integers(1, 8)))) for _ in range(count)]


def slow_variations(trees: list[Tree], kind: str, context: int) -> dict[tuple, dict[str | None, int]]:
    """Return the analyses of each nucleus in its context that has several."""
    analyses: list[dict[tuple[int, int], str]] = []
    for tree in trees:
        chains: dict[tuple[int, int], list[str]] = {}
        for start, end, label in tree.spans():
            chains.setdefault((start, end), []).append(label)
        if kind == "tag":
            chains = {(place, place + 1): [tag] for place, tag in enumerate(tree.tags())}
        analyses.append({span: "/".join(chain) for span, chain in chains.items()})
    found: dict[tuple, dict[str | None, int]] = {}
    for tree, spans in zip(trees, analyses, strict=True):
        words = ["", *tree.words(), ""]
        for start in range(len(words) - 2):
            for end in range(start + 1, len(words) - 1):
                left, right = words[max(start + 1 - context, 0) : start + 1], words[end + 1 : end + 1 + context]
                key = tuple(left), tuple(words[start + 1 : end + 1]), tuple(right)
                counts = found.setdefault(key, {})
                name = spans.get((start, end))
                counts[name] = counts.get(name, 0) + 1
    return {key: counts for key, counts in found.items() if len(counts) > 1}


def nearby(one: Variation, context: int) -> tuple:
    """Return the nucleus with its nearest context."""
    return one.left[-context:], one.words, one.right[:context]


@pytest.mark.parametrize("context", [1, 2, 3])
@pytest.mark.parametrize("kind", ["phrase", "tag"])
def test_all_are_found_and_no_others(kind, context):
    for seed in range(6):
        trees = random_trees(seed)
        found = find_variations(TreeTable.from_trees(trees), context=context, kinds=(kind,))
        expected = slow_variations(trees, kind, context)
        assert expected
        assert {nearby(one, context): one.counts for one in found} == expected
        assert len(found) == len(expected)


def test_places_have_the_words_and_the_analysis():
    trees = random_trees(7)
    for one in find_variations(TreeTable.from_trees(trees)):
        assert list(one.counts.values()) == sorted(one.counts.values(), reverse=True)
        for label, places in one.places.items():
            assert 1 <= len(places) <= one.counts[label]
            for tree, start, end in places:
                assert tuple(trees[tree].words()[start:end]) == one.words
                if one.kind == "tag":
                    assert trees[tree].tags()[start] == label
                else:
                    chain = [name for begin, stop, name in trees[tree].spans() if (begin, stop) == (start, end)]
                    assert "/".join(chain) == (label or "")


def test_longest_context_comes_first():
    found = find_variations(
        table(
            "(S (A (T a) (T b)) (T c) (T d))",
            "(S (T a) (T b) (T c) (T d))",
            "(S (B (T x) (T y)) (T c))",
            "(S (T x) (T y) (T c) (T z))",
        )
    )
    assert [(one.words, one.left, one.right) for one in found] == [
        (("a", "b"), ("",), ("c", "d", "")),
        (("x", "y"), ("",), ("c",)),
    ]
    assert found[0].places == {None: [Occurrence(1, 0, 2)], "A": [Occurrence(0, 0, 2)]}


def test_unary_chains_are_one_analysis_and_are_cut_when_shown():
    deep = "(C " * 20 + "(T a) (T b)" + ")" * 20
    found = find_variations(table("(S (A (B (T a) (T b))) (T c))", "(S (A (T a) (T b)) (T c))", f"(S {deep} (T c))"))
    assert [set(one.counts) for one in found] == [{"A/B", "A", "/".join("C" * 8) + "/..."}]


def test_long_phrases_are_left_out():
    for size, number in ((LONGEST_NUCLEUS, 1), (LONGEST_NUCLEUS + 1, 0)):
        words = " ".join(f"(T w{place})" for place in range(size))
        assert len(find_variations(table(f"(S (A {words}) (T b))", f"(S {words} (T b))"))) == number


def test_boundaries_of_sentences_are_context_but_not_words():
    assert not find_variations(table("(S (A (T a) (T b)))", "(S (T x) (T a) (T b))"))
    # What ends one sentence and begins the next is no occurrence.
    assert not find_variations(table("(S (T c) (A (T a)))", "(S (B (T b)) (T c))", "(S (T c) (A (T a)))"))


def test_nothing_in_nothing():
    assert find_variations(TreeTable.from_trees([])) == []
    assert find_variations(table("(S (T a))")) == []
    with pytest.raises(UsageError, match="at least one word"):
        find_variations(table("(S (T a))"), context=0)


def test_intervals_hold_all_occurrences_of_a_substring():
    rng = np.random.default_rng(3)
    for text in (rng.integers(0, 3, size=200), np.zeros(60, np.int64), np.arange(5)):
        index = SubstringIndex(text, 9)
        starts = np.repeat(np.arange(len(text)), 9)
        lengths = np.tile(np.arange(1, 10), len(text))
        fits = starts + lengths <= len(text)
        starts, lengths = starts[fits], lengths[fits]
        low, high = index.intervals(starts, lengths)
        for start, length, first, last in zip(*map(np.ndarray.tolist, (starts, lengths, low, high)), strict=True):
            own = text[start : start + length].tolist()
            same = [at for at in range(len(text) - length + 1) if text[at : at + length].tolist() == own]
            assert sorted(index.order[first:last].tolist()) == same
