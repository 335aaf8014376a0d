"""Classes of words."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sapwood.errors import InputError, UsageError
from sapwood.kernels import exchange_words
from sapwood.lm.clusters.exchange import _pairs, exchange_classes


def objective(tokens, classes, spelling, n_classes, n_spellings, prior):
    """The logarithm of the probability of pairs of classes and of spellings, from its definition; words cancel out."""
    pairs = Counter(zip(classes[tokens[:-1]], classes[tokens[1:]], strict=True))
    before, behind = Counter(classes[tokens[:-1]]), Counter(classes[tokens[1:]])
    total = sum(count * np.log(count) for count in pairs.values())
    total -= sum(count * np.log(count) for side in (before, behind) for count in side.values())
    seen: Counter = Counter()
    sizes: Counter = Counter()
    for word, number in enumerate(spelling):
        own = classes[word]
        total += np.log((seen[own, number] + prior) / (sizes[own] + prior * n_spellings))
        seen[own, number] += 1
        sizes[own] += 1
    return total


@pytest.mark.parametrize("seed", range(5))
def test_each_word_goes_where_the_gain_is_largest(seed):
    """Against trying all classes, and computing everything anew each time; some words follow themselves."""
    rng = np.random.default_rng(seed)
    words, n_classes, n_spellings, prior = 9, 3, 4, 0.1
    rows = (np.repeat(rng.integers(1, words, 5), rng.integers(1, 4, 5)) for _ in range(12))
    tokens = np.concatenate([[0], *([*row, 0] for row in rows)])
    spelling = np.array([0, *rng.integers(0, n_spellings, words - 1)], np.int32)
    classes = np.array([n_classes, *rng.integers(0, n_classes, words - 1)], np.int32)
    quick = classes.copy()
    moved = exchange_words(_pairs(tokens, words), 1, n_classes, n_classes + 1, spelling, n_spellings, prior, quick)
    slow = classes.copy()
    start = objective(tokens, slow, spelling, n_classes, n_spellings, prior)
    for word in range(1, words):
        values = []
        for number in range(n_classes):
            slow[word] = number
            values.append(objective(tokens, slow, spelling, n_classes, n_spellings, prior))
        slow[word] = int(np.argmax(values))
    assert np.array_equal(quick, slow)
    assert moved == (slow != classes).sum() > 0
    assert objective(tokens, slow, spelling, n_classes, n_spellings, prior) > start


def random_text(rng, size=400):
    """Determiners, nouns and verbs; nouns end in -er, verbs in -ate, half of the time."""
    groups = [
        ["the", "a"],
        [f"n{i}" for i in range(20)] + [f"numb{i}er" for i in "abcdefgh"],
        [f"v{i}" for i in range(20)],
    ]
    return [[str(rng.choice(group)) for group in groups] for _ in range(size)]


def numbered(rows):
    words = sorted({word for row in rows for word in row})
    tokens = np.array([words.index(word) for row in rows for word in row])
    return words, tokens, np.concatenate([[0], np.cumsum([len(row) for row in rows])])


def test_words_that_stand_in_the_same_places_are_found():
    rows = random_text(np.random.default_rng(1))
    words, tokens, offsets = numbered(rows)
    found = exchange_classes(words, tokens, offsets, classes=3)
    by_place = [{int(found[words.index(row[place])]) for row in rows} for place in range(3)]
    assert all(len(numbers) == 1 for numbers in by_place)
    assert len(set.union(*by_place)) == 3


def test_rare_words_go_by_their_spelling():
    rows = [["the", "numbzer", "v1"], *random_text(np.random.default_rng(2))]
    words, tokens, offsets = numbered(rows)
    found = exchange_classes(words, tokens, offsets, classes=3)
    assert found[words.index("numbzer")] == found[words.index("numbaer")]


def test_the_order_of_words_does_not_matter():
    rows = random_text(np.random.default_rng(3))
    words, tokens, offsets = numbered(rows)
    found = exchange_classes(words, tokens, offsets, classes=6)
    turned = words[::-1]
    other = exchange_classes(turned, len(words) - 1 - tokens, offsets, classes=6)
    assert found.tolist() == other[::-1].tolist()


def test_few_words_have_few_classes():
    words, tokens, offsets = numbered([["a", "b"], [], ["a"]])
    found = exchange_classes(words, tokens, offsets, classes=10)
    assert 1 <= len(set(found.tolist())) <= 2
    assert set(found.tolist()) == set(range(max(found.tolist()) + 1))
    # Words that are seen once count, too: those that begin and those that end these are told apart.
    words, tokens, offsets = numbered([["a", "b"], ["c", "d"], ["e", "f"]])
    assert exchange_classes(words, tokens, offsets, classes=3).tolist() == [0, 1] * 3
    with pytest.raises(UsageError, match="at least 1"):
        exchange_classes(words, tokens, offsets, classes=0)
    with pytest.raises(InputError, match="no words"):
        exchange_classes([], np.zeros(0, int), np.zeros(1, int), classes=2)
