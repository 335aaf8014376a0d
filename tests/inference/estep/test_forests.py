"""Expected counts over forests: by enumeration of trees and states, and where each forest is one tree."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.elsewhere import Elsewhere
from helpers.enumerate_trees import all_trees, children, rule_number
from inference.estep.test_trees import make
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.estep import _backends as _places
from sapwood.inference.estep import base as observations
from sapwood.inference.estep.base import Expectations, Pairs
from sapwood.inference.estep.forests import ForestArrays, ForestEStep
from sapwood.inference.estep.trees import TreeEStep
from sapwood.inference.forest.packed import Forests, sentence_forest
from sapwood.inference.parser import Parser
from sapwood.runtime.executor import Threads
from sapwood.testing.grammars import random_grammar
from sapwood.trees.corpus import Corpus

WORDS = [f"w{number}" for number in range(3)]


def packed_of(grammar: TensorGrammar, forests: Forests, rng: np.random.Generator | None = None) -> ForestArrays:
    """Lay forests out with random factors, or with none."""
    rules = {tuple(rule): number for number, rule in enumerate(grammar.rules.tolist())}
    rule = [rules[tuple(edge)] for edge in forests.symbol[forests.edges].tolist()]
    edges = np.column_stack([np.array(rule, np.int32).reshape(-1), forests.edges]).astype(np.int32)
    roots = np.flatnonzero(forests.root).astype(np.int32)
    sentence = np.searchsorted(forests.offsets, roots, side="right") - 1

    def factors(size: int) -> np.ndarray:
        return (np.ones(size) if rng is None else rng.uniform(0.1, 1, size)).astype(np.float32)

    return ForestArrays(
        symbol=forests.symbol,
        word=np.array([WORDS.index(forests.words[word]) if word >= 0 else -1 for word in forests.word], np.int32),
        edges=edges,
        factor=factors(len(edges)),
        edge_posterior=forests.edge_posterior,
        roots=roots,
        root_factor=factors(len(roots)),
        root_posterior=forests.posterior[roots],
        offsets=forests.offsets,
        edge_offsets=forests.edge_offsets,
        root_offsets=np.searchsorted(sentence, np.arange(forests.n_sentences + 1)),
    )


def corpus_of(grammar: TensorGrammar) -> Corpus:
    """Return no trees, but the grammar's symbols and rules."""
    none = np.zeros(0, np.int32)
    return Corpus(grammar.symbols, grammar.n_interminals, grammar.rules, WORDS, *([none] * 8), np.zeros(1, np.int64))


def pairs_of(grammar: TensorGrammar) -> Pairs:
    tags = np.arange(grammar.n_interminals, len(grammar.symbols))
    return Pairs(np.repeat(tags, len(WORDS)), np.tile(np.arange(len(WORDS)), len(tags)))


def table_of(grammar: TensorGrammar, pairs: Pairs) -> np.ndarray:
    return np.concatenate([grammar.lexical_vector(int(a), WORDS[w]) for a, w in zip(*pairs, strict=True)])


class Enumerated:
    """Expected counts tree by tree, states by the joint of all of a tree's nodes."""

    def __init__(self, grammar: TensorGrammar) -> None:
        self.grammar, self.pairs = grammar, pairs_of(grammar)
        self.tensors = [np.zeros(grammar.tensor(rule).shape) for rule in range(len(grammar.rules))]
        self.lexical = {
            key: np.zeros(grammar.states[key[0]]) for key in zip(*map(np.ndarray.tolist, self.pairs), strict=True)
        }
        self.root, self.occupancy = np.zeros(len(grammar.root)), np.zeros(len(grammar.root))
        self.logs: list[float] = []

    def add(self, words: list[str], factor_of) -> None:
        trees = [(one, factor_of(one)) for one in all_trees(self.grammar, words)]
        total = sum(one.weight * factor for one, factor in trees)
        self.logs.append(np.log(total))
        for one, factor in trees:
            joint = one.joint * factor / total
            axes = set(range(joint.ndim))
            for index, (a, i, _, k) in enumerate(one.nodes):
                states = slice(self.grammar.state_offsets[a], self.grammar.state_offsets[a + 1])
                share = joint.sum(axis=tuple(axes - {index}))
                self.occupancy[states] += share
                if index == 0:
                    self.root[states] += share
                if k < 0:
                    self.lexical[a, WORDS.index(words[i])] += share
                else:
                    left, right = children(one.nodes, index)
                    rule = rule_number(self.grammar, a, one.nodes[left][0], one.nodes[right][0])
                    kept = joint.sum(axis=tuple(axes - {index, left, right}))
                    order = np.argsort(np.argsort([index, left, right]))
                    self.tensors[rule] += np.transpose(kept, order)

    def check(self, found: Expectations, tolerance: float) -> None:
        for name, expected in (
            ("tensors", np.concatenate([tensor.ravel() for tensor in self.tensors] or [np.zeros(0)])),
            ("lexical", np.concatenate(list(self.lexical.values()))),
            ("root", self.root),
            ("occupancy", self.occupancy),
            ("log_likelihoods", np.array(self.logs)),
        ):
            np.testing.assert_allclose(getattr(found, name), expected, rtol=tolerance, atol=tolerance, err_msg=name)


def problem(seed: int, sentences: int = 4):
    """Return a random grammar, sentences that it parses, and their forests."""
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, interminals=2, preterminals=2, words=3, states=(1, 3), density=0.8)
    parser = Parser(grammar, threshold=0)
    texts, forests = [], []
    while len(texts) < sentences:
        words = [WORDS[number] for number in rng.integers(3, size=int(rng.integers(1, 5)))]
        chart = parser.chart(words)
        if chart is not None:
            texts.append(words)
            forests.append(sentence_forest(chart, words))
    return rng, grammar, texts, Forests.join(forests)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 2e-5)])
def test_by_enumeration_of_all_trees(seed, dtype, tolerance):
    """With nothing known but the words, it is inside-outside over all parses."""
    _, grammar, texts, forests = problem(seed)
    expected = Enumerated(grammar)
    for words in texts:
        expected.add(words, lambda one: 1.0)
    pairs = pairs_of(grammar)
    observed = ForestEStep(packed_of(grammar, forests), corpus_of(grammar), pairs)
    expected.check(observed.expectations(grammar, lexical=table_of(grammar, pairs), dtype=dtype), tolerance)


@pytest.mark.parametrize("seed", range(6))
def test_edges_have_factors(seed):
    rng, grammar, texts, forests = problem(seed)
    packed = packed_of(grammar, forests, rng)
    expected = Enumerated(grammar)
    for number, words in enumerate(texts):
        first = forests.offsets[number]
        nodes = range(first, forests.offsets[number + 1])
        place = {(int(forests.symbol[v]), int(forests.start[v]), int(forests.end[v])): v for v in nodes}
        edges = {
            tuple(edge[1:]): float(factor) for edge, factor in zip(packed.edges.tolist(), packed.factor, strict=True)
        }
        roots = dict(zip(packed.roots.tolist(), packed.root_factor.tolist(), strict=True))

        def factor(one, place=place, edges=edges, roots=roots):
            total = roots[place[one.nodes[0][:3]]]
            for index, node in enumerate(one.nodes):
                if node[3] >= 0:
                    left, right = children(one.nodes, index)
                    total *= edges[tuple(place[one.nodes[at][:3]] for at in (index, left, right))]
            return total

        expected.add(words, factor)
    pairs = pairs_of(grammar)
    observed = ForestEStep(packed, corpus_of(grammar), pairs)
    expected.check(observed.expectations(grammar, lexical=table_of(grammar, pairs), dtype=np.float64), 1e-6)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forests_of_one_tree_are_trees(seed, dtype):
    grammar, corpus = make(seed, trees=12)
    rng = np.random.default_rng(seed)
    # `make` leaves spans out.
    real = Corpus.from_columns(
        corpus.symbols, corpus.n_interminals, corpus.words, corpus.symbol, corpus.word, corpus.offsets,
        corpus.normaliser, corpus.transform,
    )  # fmt: skip
    forests = Forests.from_trees(real)
    trees = TreeEStep(corpus)
    pairs = Pairs(trees.pair_symbol, trees.pair_word)
    rules = {tuple(rule): number for number, rule in enumerate(grammar.rules.tolist())}
    rule = [rules[tuple(edge)] for edge in forests.symbol[forests.edges].tolist()]
    roots = np.flatnonzero(forests.root).astype(np.int32)
    ones = np.ones(len(rule), np.float32)
    packed = ForestArrays(
        symbol=forests.symbol,
        word=forests.word,
        edges=np.column_stack([np.array(rule, np.int32).reshape(-1), forests.edges]).astype(np.int32),
        factor=ones,
        edge_posterior=ones.astype(float),
        roots=roots,
        root_factor=np.ones(len(roots), np.float32),
        root_posterior=np.ones(len(roots)),
        offsets=forests.offsets,
        edge_offsets=forests.edge_offsets,
        root_offsets=np.arange(len(roots) + 1),
    )
    table = rng.random(int(trees.lexical_offsets(grammar)[-1]))
    wanted = trees.expectations(grammar, lexical=table, dtype=dtype)
    found = ForestEStep(packed, corpus, pairs).expectations(grammar, lexical=table, dtype=dtype)
    tolerance = 1e-4 if dtype is np.float32 else 1e-10
    for name in ("tensors", "lexical", "root", "occupancy", "log_likelihoods"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=tolerance, atol=tolerance)


def test_the_same_bits_wherever_shards_are(monkeypatch):
    monkeypatch.setattr(observations, "_SHARD_NODES", 20)
    monkeypatch.setattr(_places, "_PART", 16)
    _, grammar, _, forests = problem(1, sentences=12)
    packed, pairs = packed_of(grammar, forests), pairs_of(grammar)
    table = table_of(grammar, pairs)
    here = ForestEStep(packed, corpus_of(grammar), pairs)
    assert here.n_shards > 3
    wanted = here.expectations(grammar, lexical=table)
    for workers in (Threads(2), Threads(3), Elsewhere(1), Elsewhere(3)):
        found = ForestEStep(packed, corpus_of(grammar), pairs, workers=workers).expectations(grammar, lexical=table)
        for name in ("tensors", "lexical", "root", "occupancy", "log_likelihoods"):
            assert np.array_equal(getattr(found, name), getattr(wanted, name)), (workers, name)
    whole = ForestEStep(packed, corpus_of(grammar), pairs, shards=1).expectations(grammar, lexical=table)
    np.testing.assert_allclose(whole.tensors, wanted.tensors, rtol=1e-9)


def test_impossible_sentences_count_nowhere():
    """Weights under which a sentence has no tree any more give it no likelihood, and leave the others alone."""
    _, grammar, texts, forests = problem(2)
    packed, pairs = packed_of(grammar, forests), pairs_of(grammar)
    table = table_of(grammar, pairs)
    offsets = np.concatenate([[0], np.cumsum(grammar.states[pairs.symbol])])
    for pair, word in enumerate(pairs.word):
        if word == WORDS.index(texts[0][0]):
            table[offsets[pair] : offsets[pair + 1]] = 0
    found = ForestEStep(packed, corpus_of(grammar), pairs).expectations(grammar, lexical=table)
    gone = np.array([texts[0][0] in words for words in texts])
    assert (np.isinf(found.log_likelihoods) == gone).all()
    assert np.isfinite(found.tensors).all()
    assert found.root.sum() == pytest.approx((~gone).sum(), rel=1e-5)
