"""Figure 1 on statistics, exact ones and those of treebanks, against its slow twin; the learner against both."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.figure_1 import dense_triples, equation_1, figure_1, known_part, run_em
from helpers.pivot_counts import counted, named
from sapwood import kernels
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.learn.pivot import Pivot
from sapwood.learn.spectral.features import Feature
from sapwood.numerics.anchor_nmf import decompose
from sapwood.research import match_grammars
from sapwood.research.pivot_algorithm import (
    _with_all_states,
    fit_rule,
    learn_from_statistics,
    learn_parameters,
    observed_statistics,
)
from sapwood.research.pivot_grammars import learn_pivot, population_statistics, random_pivot_grammar
from sapwood.testing.grammars import random_grammar
from sapwood.trees.corpus import Corpus

pytestmark = pytest.mark.slow


def draw(grammar: TensorGrammar, trees: int, seed: int) -> Corpus:
    return Corpus.from_trees(grammar.sample(trees, random_state=seed, max_words=1000))


def in_corpus_numbers(corpus: Corpus) -> TensorGrammar:
    """Return any grammar with the symbols, rules and words of a corpus, for `look_at`."""
    names = corpus.symbols
    counts = np.bincount(corpus.rule[corpus.rule >= 0], minlength=len(corpus.rules))
    below = np.bincount(corpus.symbol[corpus.word < 0], minlength=len(names))
    rules = {tuple(names[s] for s in rule): counts[r] / below[rule[0]] for r, rule in enumerate(corpus.rules)}
    leaves = np.flatnonzero(corpus.word >= 0)
    words: dict = {}
    for node in leaves:
        key = names[corpus.symbol[node]], corpus.words[corpus.word[node]]
        words[key] = words.get(key, 0.0) + 1
    tags = {name: sum(count for (tag, _), count in words.items() if tag == name) for name, _ in words}
    tops = np.bincount(corpus.symbol[corpus.roots], minlength=len(names)) / corpus.n_trees
    return TensorGrammar.from_parts(
        root={names[a]: tops[a] for a in np.flatnonzero(tops)},
        rules=rules,
        words={(tag, word): count / tags[tag] for (tag, word), count in words.items()},
    )


def test_statistics_of_a_treebank():
    trees = random_grammar(np.random.default_rng(4), states=(1, 2)).sample(200, random_state=1, max_words=30)
    corpus = Corpus.from_trees(trees)
    grammar = in_corpus_numbers(corpus)
    statistics = observed_statistics(corpus)
    # The corpus numbers symbols by frequency, the grammar by name.
    seen = counted(grammar, [(1.0, tree) for tree in trees])
    to = [grammar.symbol_number(name, preterminal=a >= corpus.n_interminals) for a, name in enumerate(corpus.symbols)]
    assert {to[a]: count for a, count in enumerate(statistics.counts)} == seen["counts"]
    rules = {tuple(rule): r for r, rule in enumerate(grammar.rules.tolist())}
    number = [rules[tuple(to[s] for s in rule)] for rule in corpus.rules.tolist()]
    assert {number[r]: count for r, count in enumerate(statistics.rule_counts)} == seen["rule_counts"]
    for a in range(len(corpus.symbols)):
        ours = sorted(statistics.pairs[a].data.tolist())
        assert ours == sorted(count for (b, _, _), count in seen["pairs"].items() if b == to[a])
        assert statistics.pairs[a].sum() == statistics.counts[a]
        at_root = sum(count for (b, _, g), count in seen["pairs"].items() if b == to[a] and g == ())
        feature = statistics.root_feature[a]
        assert (0 if feature < 0 else statistics.pairs[a].toarray()[:, feature].sum()) == at_root
    for r, (_, counts) in enumerate(statistics.triples):
        assert sorted(counts.tolist()) == sorted(n for (rule, *_), n in seen["triples"].items() if rule == number[r])
    for p, features in enumerate(statistics.word_feature):
        a = corpus.n_interminals + p
        totals = statistics.pairs[a].toarray().sum(axis=1)
        for x, feature in enumerate(features):
            nodes = np.sum((corpus.symbol == a) & (corpus.word == x))
            assert (totals[feature] if feature >= 0 else 0) == nodes


def test_triples_stand_for_the_features_they_name():
    """Summed over the others, each feature of a triple has the counts that its symbol's pairs have below such rules."""
    corpus = draw(random_pivot_grammar(np.random.default_rng(0)), 300, 0)
    statistics = observed_statistics(corpus)
    totals = [np.zeros(pairs.shape[0]) for pairs in statistics.pairs]
    for a, pairs in enumerate(statistics.pairs):
        if statistics.root_feature[a] >= 0:
            totals[a] += pairs.toarray()[:, statistics.root_feature[a]]
    above = [np.zeros(pairs.shape[1]) for pairs in statistics.pairs]
    for (a, b, c), (features, counts) in zip(statistics.rules.tolist(), statistics.triples, strict=True):
        np.add.at(above[a], features[:, 0], counts)
        np.add.at(totals[b], features[:, 1], counts)
        np.add.at(totals[c], features[:, 2], counts)
    for a, pairs in enumerate(statistics.pairs):
        np.testing.assert_allclose(totals[a], pairs.toarray().sum(axis=1))
        if a < corpus.n_interminals:
            np.testing.assert_allclose(above[a], pairs.toarray().sum(axis=0))


def test_treebanks_tend_to_the_population():
    grammar = random_pivot_grammar(np.random.default_rng(1))
    exact = named(grammar, population_statistics(grammar))
    corpus = draw(grammar, 1500, 2)
    statistics = observed_statistics(corpus)
    order = [grammar.symbols.index(name) for name in corpus.symbols]
    expected = [exact["counts"][a] for a in order]
    assert statistics.counts / 1500 == pytest.approx(expected, rel=0.1)


# Equation 1.


def noisy_rule(seed: int):
    """Return `p(g, f2, f3)` that no model explains, some of it zero, with `s`, `r` and `r` of another."""
    rng = np.random.default_rng(seed)
    joint = rng.gamma(0.5, size=(4, 5, 3)) * (rng.random((4, 5, 3)) < 0.6)
    parts = [rng.dirichlet(np.ones(size), size=m).T for size, m in zip(joint.shape, (2, 3, 2), strict=True)]
    return joint / joint.sum(), parts


def kernel_arguments(joint, parts, dtype=np.float64):
    places = np.argwhere(joint > 0)
    likelihoods = [np.ascontiguousarray(part[places[:, k]], dtype) for k, part in enumerate(parts)]
    return (*likelihoods, joint[tuple(places.T)].astype(dtype))


@pytest.mark.parametrize("chunk", [3, 256])
def test_gradient_of_equation_1(chunk):
    joint, parts = noisy_rule(0)
    rng = np.random.default_rng(1)
    t = rng.dirichlet(np.ones(12)).reshape(2, 6)
    gradient = np.empty((2, 6))
    value = kernels.rule_pass(*kernel_arguments(joint, parts), t, chunk, gradient)
    assert value == pytest.approx(equation_1(joint, *parts, t), abs=1e-13)
    known = known_part(*parts)
    expected = (joint.ravel() / (known @ t.ravel())) @ known
    np.testing.assert_allclose(gradient.ravel(), expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_em_of_equation_1_against_its_twin(seed):
    joint, parts = noisy_rule(seed)
    start = np.full((2, 6), 1 / 12)
    values = []
    for iterations in (0, 1, 5, 20, 100, 2000):
        tensor = start.copy()
        passes, missing = kernels.rule_em(
            *kernel_arguments(joint, parts), start, 0.0, 256, iterations, 1e-7, tensor
        )  # fmt: skip
        if iterations < 2:  # the first step is plain EM's
            np.testing.assert_allclose(tensor.ravel(), run_em(joint, *parts, iterations).ravel(), rtol=1e-9)
        values.append(equation_1(joint, *parts, tensor))
    assert values == sorted(values)
    assert passes < 2000
    assert missing <= 1e-7
    slowly = run_em(joint, *parts, 20_000)
    assert values[-1] == pytest.approx(equation_1(joint, *parts, slowly), abs=1e-7)
    np.testing.assert_allclose(tensor.ravel(), slowly.ravel(), atol=1e-2)
    assert tensor.sum() == pytest.approx(1)


def test_em_of_equation_1_with_pseudo_counts():
    """The sum is that of more triples, which say for sure what states there are."""
    joint, parts = noisy_rule(3)
    start = np.random.default_rng(0).dirichlet(np.ones(12)).reshape(2, 6)
    tensor = start.copy()
    kernels.rule_em(*kernel_arguments(joint, parts), start, 0.5, 256, 500, 1e-12, tensor)
    t = start.ravel()
    known = known_part(*parts)
    for _ in range(500):
        t = t * ((joint.ravel() / (known @ t)) @ known) + 0.5 * start.ravel()
        t /= t.sum()
    np.testing.assert_allclose(tensor.ravel(), t, rtol=1e-5)
    # Single precision, which is what the learner uses.
    single = start.astype(np.float32)
    kernels.rule_em(
        *kernel_arguments(joint, parts, np.float32), start.astype(np.float32), np.float32(0.5), 256, 500, 1e-5, single
    )
    np.testing.assert_allclose(single, tensor, atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_rules_are_solved_to_the_optimum(seed):
    """On a treebank, where nothing is exact: the objective never falls, and the optimum's conditions hold."""
    grammar = random_pivot_grammar(np.random.default_rng(seed))
    statistics = observed_statistics(draw(grammar, 300, seed))
    found = [decompose(pairs, 2) for pairs in statistics.pairs]
    for rule, (a, b, c) in enumerate(statistics.rules.tolist()):
        features, counts = statistics.triples[rule]
        known_parts = found[a].columns[features[:, 0]], found[b].rows[features[:, 1]], found[c].rows[features[:, 2]]
        optimum = fit_rule(*known_parts, counts, iterations=5000, tolerance=1e-12)
        assert (np.diff(optimum.objectives) >= -1e-12).all()
        joint, parts = dense_triples(statistics, rule), (found[a].columns, found[b].rows, found[c].rows)
        known = known_part(*parts)
        possible = known.any(axis=1)
        weights = np.where(possible, joint.ravel(), 0.0)
        weights /= weights.sum()
        kappa = known @ optimum.weights.ravel()
        gradient = np.divide(weights, kappa, out=np.zeros_like(kappa), where=weights > 0) @ known
        assert gradient.max() < 1 + 1e-3
        twin = run_em(weights.reshape(joint.shape), *parts, 500)
        seen = weights > 0
        assert optimum.objective >= weights[seen] @ np.log((known @ twin.ravel())[seen]) - 1e-10


def test_triples_that_nothing_explains():
    """They are as good as absent."""
    joint, parts = noisy_rule(5)
    parts[0][1] = 0.0
    places = np.argwhere(joint > 0)
    known = places[:, 0] != 1
    assert 0 < known.sum() < len(known)
    found = []
    for kept in (known | ~known, known):
        likelihoods = [part[places[kept, k]] for k, part in enumerate(parts)]
        found.append(fit_rule(*likelihoods, joint[tuple(places[kept].T)], iterations=3000, tolerance=1e-13))
    every, others = found
    np.testing.assert_allclose(every.weights, others.weights, atol=1e-4)
    assert every.weights.sum() == pytest.approx(1)


def test_a_state_without_rules():
    """It gets its symbol's rules, so that the grammar is proper."""
    statistics = population_statistics(random_pivot_grammar(np.random.default_rng(0)))
    found = learn_parameters(statistics, 2)
    for (a, _, _), tensor in zip(statistics.rules, found.rules, strict=True):
        if a == 0:
            tensor[1] = 0.0
    pairs = zip(statistics.rules[:, 0], _with_all_states(statistics, found), strict=True)
    ours = [tensor.sum(axis=(1, 2)) for a, tensor in pairs if a == 0]
    shares = statistics.rule_counts[statistics.rules[:, 0] == 0] / statistics.counts[0]
    np.testing.assert_allclose([total[1] for total in ours], shares)
    assert sum(total[0] for total in ours) == pytest.approx(1)


# The whole.


def test_against_the_twin():
    for seed in range(4):
        grammar = random_pivot_grammar(
            np.random.default_rng(seed), interminals=3, preterminals=3, words=8, states=(1, 3)
        )
        statistics = population_statistics(grammar)
        ours = learn_from_statistics(statistics, grammar.lexicon.words, grammar.states).validate()
        twin = figure_1(statistics, grammar.states, grammar.lexicon.words, iterations=500)
        assert match_grammars(ours, twin).largest < 1e-6
        assert match_grammars(grammar, ours).largest < 1e-6
        # Occupancy is that of the population.
        match = match_grammars(grammar, ours)
        parts = [np.split(each.occupancy, each.state_offsets[1:-1]) for each in (grammar, ours)]
        for true, found, order in zip(*parts, match.permutations, strict=True):
            np.testing.assert_allclose(found[order], true, atol=1e-6)


@pytest.mark.parametrize("settings", [{"columns": "fit"}, {"least": 1e-3}])
def test_other_ways(settings):
    grammar = random_pivot_grammar(np.random.default_rng(2))
    assert match_grammars(grammar, learn_pivot(grammar, **settings)).largest < 1e-5


def test_other_numbers_of_states():
    grammar = random_pivot_grammar(np.random.default_rng(2), states=(3, 3), words=8)
    # The rank says how many states there are; with fewer, some of them are left out.
    assert learn_pivot(grammar, 5).states.tolist() == grammar.states.tolist()
    one = learn_pivot(grammar, 1)
    assert one.states.tolist() == [1] * 4
    np.testing.assert_allclose(one.tensors, population_statistics(grammar).rule_counts / one.occupancy[one.rules[:, 0]])
    mixed = learn_pivot(grammar, [3, 2, 1, 3])
    assert mixed.states.tolist() == [3, 2, 1, 3]
    assert not match_grammars(grammar, mixed).is_complete


def test_small_treebanks():
    """Whatever is missing, the result is a proper grammar."""
    grammar = random_pivot_grammar(np.random.default_rng(6), states=(3, 3), interminals=3, words=8)
    for seed in range(10):
        corpus = draw(grammar, 1 + seed, seed)
        found = learn_from_statistics(observed_statistics(corpus), corpus.words, 3)
        assert found.validate().states.max() <= 3


# The learner for treebanks, set to do the same.

LEXICAL = LexicalSettings(rare=0, frequent=0, word_strength=0.0, state_strength=0.0, signature_state_strength=None)
EXPANSION = Feature(
    "expansion", "inside", lambda table: np.where(table.is_leaf, table.corpus.word, table.corpus.rule).astype(np.int64)
)
ATTACHMENT = Feature("attachment", "outside", lambda table: table.attachment)


def plain_pivot(corpus: Corpus, states: int) -> TensorGrammar:
    """Learn from one inside and one outside feature without any smoothing."""
    return Pivot(
        states=states, inside=[EXPANSION], outside=[ATTACHMENT], min_feature_count=1, kappa=0.0, tolerance=1e-9,
        min_support=1,
        shrinkage=0.0, alignment_iterations=500, rule_iterations=500, rule_tolerance=0.0, feature_triples=1,
        rule_prior=0.0, smoothing=0.0,
        lexical_smoothing=0.0, unaries="collapsed", rare_threshold=0, lexical=LEXICAL,
    ).fit(corpus)  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_the_learner_without_smoothing_is_figure_1(seed):
    grammar = random_pivot_grammar(np.random.default_rng(seed))
    corpus = draw(grammar, 1500, seed)
    ours = learn_from_statistics(observed_statistics(corpus), corpus.words, 2)
    match = match_grammars(ours, plain_pivot(corpus, 2))
    assert match.is_complete
    # Unknown words have a share, of one part in as many as there are words.
    assert match.largest < 5e-3


@pytest.fixture(scope="module")
def treebanks() -> list[list[tuple[TensorGrammar, Corpus]]]:
    """Return grammars with treebanks of 100, 800 and 5,000 trees."""
    grammars = [random_pivot_grammar(np.random.default_rng(seed)) for seed in range(3)]
    return [[(grammar, draw(grammar, trees, 0)) for grammar in grammars] for trees in (100, 800, 5000)]


@pytest.mark.parametrize("learn", ["figure 1", "learner"])
def test_errors_shrink_with_the_treebank(learn, treebanks):
    errors = []
    for pairs in treebanks:
        found = []
        for grammar, corpus in pairs:
            if learn == "learner":
                learned = plain_pivot(corpus, 2)
            else:
                learned = learn_from_statistics(observed_statistics(corpus), corpus.words, 2)
            match = match_grammars(grammar, learned)
            found.append((match.rules.total + match.words.total) / (2 * grammar.states.sum()))
        errors.append(float(np.median(found)))
    # Like one over the square root: seven times the trees, about a third of the error.
    assert errors[1] < errors[0] / 1.8
    assert errors[2] < errors[1] / 1.8
    assert errors[2] < 0.03
