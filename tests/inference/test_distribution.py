"""Charts of a grammar, of an ensemble and of a CRF share one interface."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.enumerate_trees import all_trees
from helpers.made_up import made_up_treebank
from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.decode import ParseDistribution
from sapwood.inference.ensemble import ProductChart
from sapwood.learn import PCFG
from sapwood.model import ParserModel
from sapwood.model.forest_crf import ForestCRF
from sapwood.testing.grammars import random_grammar

TREES = made_up_treebank(60)
WORDS = TREES[0].words()


def parser(kind: str) -> Parser:
    grammar = PCFG().fit(PCFG.prepare(TREES))
    model = ParserModel.from_grammars([grammar] * (2 if kind == "product" else 1))
    return Parser(model.replace(crf=ForestCRF.identity()) if kind == "crf" else model)


@pytest.mark.parametrize("kind", ["grammar", "product", "crf"])
def test_charts_are_distributions(kind):
    chart = parser(kind).chart(WORDS)
    assert isinstance(chart, ParseDistribution)
    assert math.isfinite(chart.log_partition)
    assert (chart.log_partition == chart.log_probability) == (kind != "crf")
    marginals = chart.label_posteriors()
    drawn = chart.sample(WORDS, 300, np.random.default_rng(0))
    assert all(tree.words() == WORDS for tree in drawn)
    spans = Counter(pair for tree in drawn for pair in {span[:2] for span in tree.spans()})
    phrases = {(start, end): value for (start, end, _), value in marginals.items() if end - start > 1}
    for span, probability in phrases.items():
        assert spans[span] / 300 >= probability - 0.15
    if isinstance(chart, ProductChart):
        with pytest.raises(UsageError, match="viterbi takes one grammar"):
            chart.best(WORDS)
    else:
        assert chart.best(WORDS).words() == WORDS


def weights_of_trees(grammar: TensorGrammar, words: list[str]) -> dict[str, float]:
    return {str(one.tree): one.weight for one in all_trees(grammar, words) if one.weight > 0}


def entropy(shares: np.ndarray) -> float:
    return -float(np.sum(shares * np.log(shares)))


def other(grammar: TensorGrammar, rng: np.random.Generator) -> TensorGrammar:
    """Return a grammar with the same rules, one state each, and other probabilities."""
    tensors, parent = grammar.tensors * rng.uniform(0.2, 5, len(grammar.tensors)), grammar.rules[:, 0]
    return replace(grammar, tensors=tensors / np.bincount(parent, weights=tensors)[parent])


@pytest.mark.parametrize("kind", ["grammar", "product", "crf"])
@examples(25)
@given(seed=st.integers(0, 2**32 - 1))
def test_charts_agree_with_all_trees(kind, seed):
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, interminals=2, preterminals=2, states=(1, 1))
    words = [str(word) for word in rng.choice(grammar.lexicon.words, size=rng.integers(1, 6))]
    members = [grammar, other(grammar, rng)] if kind == "product" else [grammar]
    model = ParserModel.from_grammars(members)
    if kind == "crf":
        model = model.replace(crf=ForestCRF.identity(threshold=0.0))
    chart = Parser(model, threshold=0).chart(words)
    each = [weights_of_trees(member, words) for member in members]
    assert (chart is None) == (not each[0])
    if chart is None:
        return
    weights = {tree: np.mean([one[tree] for one in each]) for tree in each[0]}
    assert math.exp(chart.log_probability) == pytest.approx(sum(weights.values()))
    found = chart.k_best(words, 10_000)
    assert {str(tree) for tree, _ in found} == weights.keys()
    for tree, log_probability in found:
        assert math.exp(log_probability) == pytest.approx(weights[str(tree)], rel=1e-4)
    assert [one.log_probability for one in found] == sorted((one.log_probability for one in found), reverse=True)
    assert chart.k_best(words, 1)[0].log_probability == pytest.approx(found[0].log_probability)
    if kind != "product":
        assert weights[str(chart.best(words))] == pytest.approx(max(weights.values()), rel=1e-4)
    # Posteriors of several grammars are means.
    shares = {tree: np.mean([one[tree] / sum(one.values()) for one in each]) for tree in weights}
    wanted = entropy(np.array(list(shares.values())))
    assert chart.entropy() == pytest.approx(wanted, abs=1e-5) or (kind == "product" and chart.entropy() > wanted)
    trees = {str(tree): tree for tree, _ in found}
    phrases = Counter()
    for tree, share in shares.items():
        for span in set(trees[tree].spans()):
            phrases[span] += share
    marginals = chart.label_posteriors()
    for span, share in phrases.items():
        assert marginals[span] == pytest.approx(share, abs=1e-5)


@examples(25)
@given(seed=st.integers(0, 2**32 - 1))
def test_entropy_with_hidden_states_is_a_bound(seed):
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, interminals=2, preterminals=2, states=(1, 3))
    words = [str(word) for word in rng.choice(grammar.lexicon.words, size=rng.integers(1, 6))]
    weights = np.array(list(weights_of_trees(grammar, words).values()))
    chart = Parser(grammar, threshold=0).chart(words)
    assert chart is None or chart.entropy() >= entropy(weights / weights.sum()) - 1e-9
