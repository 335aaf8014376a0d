"""Section 7 of Cohen et al. (long paper): moments of observable features give the grammar back, in another basis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from helpers.effort import slow
from helpers.small_languages import (
    Listed,
    chain_grammar,
    even_grammar,
    finite_grammar,
    made_grammar,
    states_of,
    trees_up_to,
)
from oracles.reference import (
    inside_outside,
    tree_inside_outside,
    tree_probability,
)
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.research import observable_representation
from sapwood.research.exact_moments import learn_spectral, population, tilt
from sapwood.research.matrix_form import factors, independent_children, matrix_form, observable_matrix
from sapwood.research.matrix_form import tree_probability as tree_probability_matrix_form
from sapwood.research.observable_representation import assemble, project
from sapwood.testing.grammars import random_grammar

EXACT = 1e-10
CLOSE = 1e-8
# A symbol's states are told apart if its m-th singular value is no smaller part of the first than this.
TOLD_APART = 1e-5
SCHEMES = ("all nodes", "one node")
# Few random grammars in the default run, twenty in the slow one.
some_or_twenty = pytest.mark.parametrize("count", [5, slow(20)])


def random_projections(rng, source):
    """Return matrices `U^a` and `V^a` that have nothing to do with singular vectors."""
    return [
        (rng.normal(size=(len(inside), m)), rng.normal(size=(len(outside), m)))
        for inside, outside, m in zip(
            source.inside_features, source.outside_features, source.grammar.states, strict=True
        )
    ]


def singular_projections(source):
    found = [project(source.omega(a), int(m)) for a, m in enumerate(source.grammar.states)]
    return [(left, right) for left, right, _ in found]


def tells_states_apart(source) -> bool:
    for a, m in enumerate(source.grammar.states):
        values = np.linalg.svd(source.omega(a), compute_uv=False)
        if len(values) < m or values[m - 1] <= TOLD_APART * values[0]:
            return False
    return True


def random_cases(first, count):
    """Yield random grammars, with different numbers of states, whose features tell all states apart."""
    for seed in range(first, first + count):
        rng = np.random.default_rng(seed)
        interminals = int(rng.integers(1, 4))
        grammar = random_grammar(rng, interminals=interminals, preterminals=2, words=5, states=(2, 4))
        source = population(grammar)
        if tells_states_apart(source):
            yield rng, grammar, source


def worst_error(grammar, learned, trees) -> float:
    """Return the greatest error of a tree's probability, relative to it."""
    true = np.array([tree_probability(grammar, tree) for tree in trees])
    found = np.array([tree_probability(learned, tree) for tree in trees])
    assert true.min() > 0
    return float(np.abs(found / true - 1).max())


# Moments against their definitions, on all trees of a language.


def check_moments(ours, listed, projections, scheme, close):
    theirs = listed.moments(projections, scheme)
    for name in ("counts", "rule_counts"):
        np.testing.assert_allclose(getattr(ours, name), theirs[name], rtol=close, atol=close)
    for name in ("sigma", "mean", "rule", "root"):
        for found, expected in zip(getattr(ours, name), theirs[name], strict=True):
            np.testing.assert_allclose(found, expected, rtol=close, atol=close)
    pairs = {
        (p, int(x)): row for p, found in enumerate(ours.terminals) for x, row in zip(found, ours.word[p], strict=True)
    }
    assert pairs.keys() == theirs["word"].keys()
    for key, row in pairs.items():
        np.testing.assert_allclose(row, theirs["word"][key], rtol=close, atol=close)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("make", "words"), [(finite_grammar, 5), (even_grammar, 4)])
def test_moments_are_expectations_over_a_finite_language(make, words, scheme):
    rng = np.random.default_rng(5)
    grammar = make(rng)
    source = population(grammar, scheme=scheme)
    listed = Listed.of(grammar, trees_up_to(grammar, words), source)
    assert listed.total == pytest.approx(1.0, abs=1e-12)
    for a, omega in enumerate(listed.omega(scheme)):
        np.testing.assert_allclose(source.omega(a), omega, rtol=EXACT, atol=EXACT)
    projections = random_projections(rng, source)
    check_moments(source.moments(projections), listed, projections, scheme, EXACT)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.slow
def test_moments_are_expectations_over_an_endless_language(scheme):
    rng = np.random.default_rng(6)
    grammar = chain_grammar(rng)
    source = population(grammar, scheme=scheme)
    listed = Listed.of(grammar, trees_up_to(grammar, 8), source)
    assert 0 < 1 - listed.total < 1e-11
    for a, omega in enumerate(listed.omega(scheme)):
        np.testing.assert_allclose(source.omega(a), omega, rtol=1e-9, atol=1e-9)
    projections = random_projections(rng, source)
    check_moments(source.moments(projections), listed, projections, scheme, 1e-9)


def test_features_of_depth_one_are_part_of_those_of_depth_two():
    grammar = finite_grammar(np.random.default_rng(1))
    small, large = population(grammar, depth=1), population(grammar)
    for a in range(len(grammar.symbols)):
        rows = [large.inside_features[a].index(feature) for feature in small.inside_features[a]]
        columns = [large.outside_features[a].index(feature) for feature in small.outside_features[a]]
        np.testing.assert_allclose(small.omega(a), large.omega(a)[np.ix_(rows, columns)], atol=1e-15)


# Definition 2, identities 17-20, Lemma 1.


@pytest.mark.slow
def test_identities_17_to_20():
    rng = np.random.default_rng(7)
    grammar = finite_grammar(rng)
    source = population(grammar)
    trees = trees_up_to(grammar, 5)
    given_inside, given_outside, gamma = states_of(grammar, trees, source)
    listed = Listed.of(grammar, trees, source)
    for a, omega in enumerate(listed.omega()):
        ours = source.given_state(a)
        for found, expected in zip(ours, (given_inside[a], given_outside[a], gamma[a]), strict=True):
            np.testing.assert_allclose(found, expected, atol=EXACT)
        # The first step of the proof of Lemma 1.
        np.testing.assert_allclose(omega, given_inside[a] * gamma[a] @ given_outside[a].T, atol=EXACT)
    projections = random_projections(rng, source)
    moments = listed.moments(projections)
    g = [left.T @ given for (left, _), given in zip(projections, given_inside, strict=True)]
    k = [right.T @ given for (_, right), given in zip(projections, given_outside, strict=True)]
    for rule, (a, b, c) in enumerate(grammar.rules):
        y1, y2 = rng.normal(size=grammar.states[b]), rng.normal(size=grammar.states[c])
        below = np.einsum("hij,i,j->h", grammar.tensor(rule), y1 @ g[b], y2 @ g[c])
        found = np.einsum("zij,i,j->z", moments["rule"][rule], y1, y2)
        np.testing.assert_allclose(found, below @ np.diag(gamma[a]) @ k[a].T, atol=EXACT)  # 17
    for (p, x), found in moments["word"].items():
        a = p + grammar.n_interminals
        q = grammar.lexical_vector(a, grammar.lexicon.words[x])
        np.testing.assert_allclose(found, q @ np.diag(gamma[a]) @ k[a].T, atol=EXACT)  # 18
    for a in range(len(grammar.symbols)):
        np.testing.assert_allclose(moments["sigma"][a], g[a] @ np.diag(gamma[a]) @ k[a].T, atol=EXACT)  # 19
        np.testing.assert_allclose(moments["root"][a], g[a] @ grammar.root_vector(a), atol=EXACT)  # 20


@some_or_twenty
def test_lemma_1(count):
    cases = 0
    for _, grammar, source in random_cases(0, count):
        moments = source.moments(singular_projections(source))
        for a, m in enumerate(grammar.states):
            left, right, values = project(source.omega(a), int(m))
            inside, outside, gamma = source.given_state(a)
            # Condition 1 holds, and so condition 2.
            assert np.linalg.matrix_rank(inside) == np.linalg.matrix_rank(outside) == m
            assert gamma.min() > 0
            assert left.shape[1] == right.shape[1] == len(values) == m
            for matrix in (left.T @ inside, right.T @ outside):
                assert np.linalg.svd(matrix, compute_uv=False)[-1] > 1e-6
            # With singular vectors as projections, Sigma is the diagonal matrix of singular values.
            np.testing.assert_allclose(moments.sigma[a], np.diag(values), atol=1e-12)
        cases += 1
    assert cases >= 0.75 * count


# Theorem 2.


def check_theorem_2(grammar, learned, bases):
    """Check the three statements of the theorem, which say what `conjugate` does."""
    turned = grammar.conjugate(bases)
    assert not learned.probabilistic
    assert learned.states.tolist() == grammar.states.tolist()
    np.testing.assert_allclose(learned.tensors, turned.tensors, rtol=CLOSE, atol=CLOSE * np.abs(turned.tensors).max())
    np.testing.assert_allclose(learned.root, turned.root, rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(learned.occupancy, turned.occupancy, rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(learned.rule_counts, grammar.rule_counts, rtol=CLOSE, atol=CLOSE)
    for a in range(grammar.n_interminals, len(grammar.symbols)):
        for word in grammar.lexicon.words:
            expected = turned.lexical_vector(a, word)
            np.testing.assert_allclose(learned.lexical_vector(a, word), expected, rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize(("first", "count"), [(100, 5), *(slow(first, 20) for first in range(100, 200, 20))])
def test_theorem_2(first, count):
    cases = negative = 0
    for rng, grammar, source in random_cases(first, count):
        learned = learn_spectral(grammar)
        projections = singular_projections(source)
        bases = [left.T @ source.given_state(a)[0] for a, (left, _) in enumerate(projections)]
        check_theorem_2(grammar, learned, bases)
        negative += bool((learned.tensors < 0).any())
        # Figure 4: all trees of one and two words, and some larger ones.
        trees = trees_up_to(grammar, 2) + grammar.sample(10, random_state=rng, max_words=15)
        assert worst_error(grammar, learned, trees) < CLOSE
        # Figure 5.
        sentence = [f"w{number}" for number in rng.integers(0, 5, size=int(rng.integers(1, 5)))]
        chart, ours = inside_outside(grammar, sentence), inside_outside(learned, sentence)
        assert ours.probability == pytest.approx(chart.probability, rel=CLOSE)
        scale = CLOSE * chart.probability
        np.testing.assert_allclose(ours.marginals, chart.marginals, rtol=CLOSE, atol=scale)
        np.testing.assert_allclose(ours.rule_marginals(), chart.rule_marginals(), rtol=CLOSE, atol=scale)
        cases += 1
    assert cases >= 0.75 * count
    assert negative >= 0.75 * count


def test_theorem_2_with_any_projections_that_satisfy_condition_2():
    for rng, grammar, source in random_cases(300, 10):
        projections = random_projections(rng, source)
        bases = [left.T @ source.given_state(a)[0] for a, (left, _) in enumerate(projections)]
        weights = assemble(source.moments(projections))
        turned = grammar.conjugate(bases)
        scale = np.abs(turned.tensors).max()
        np.testing.assert_allclose(weights.tensors, turned.tensors, rtol=1e-6, atol=1e-7 * scale)
        np.testing.assert_allclose(weights.root, turned.root, rtol=CLOSE, atol=CLOSE)
        for a, rows in enumerate(weights.lexical, start=grammar.n_interminals):
            expected = np.array([turned.lexical_vector(a, word) for word in grammar.lexicon.words])
            np.testing.assert_allclose(rows, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())


def test_occupancy_counts_inside_trees():
    grammar = finite_grammar(np.random.default_rng(8))
    learned = learn_spectral(grammar)
    tree = next(tree for tree in trees_up_to(grammar, 2) if tree.label == "B")
    expected = grammar.occupancy[2:4] @ tree_inside_outside(grammar, tree).inside[0]
    assert grammar.symbols[1] == "B"
    begin, end = learned.state_offsets[1:3]
    found = learned.occupancy[begin:end] @ tree_inside_outside(learned, tree).inside[0]
    assert found == pytest.approx(expected, rel=CLOSE)


def test_words_that_back_off():
    """Signatures and back-off end up in plain vectors for words and signatures."""
    grammar = random_grammar(np.random.default_rng(9), interminals=2, preterminals=2, words=5, states=(2, 3))
    old = grammar.emissions
    n_words, n_leaf = old.lexicon.n_words, len(old.states)
    offsets, backoff = old.offsets.copy(), np.zeros(n_words + 1)
    offsets[-1] += n_leaf
    backoff[0], backoff[-1] = 0.25, 0.75
    emissions = replace(
        old,
        offsets=offsets,
        symbol=np.append(old.symbol, np.arange(n_leaf)).astype(np.int32),
        values=np.append(old.values * 0.9, np.full(int(old.states.sum()), 0.1)),
        backoff=backoff,
    )
    grammar = replace(grammar, emissions=emissions).validate()
    source = population(grammar)
    assert tells_states_apart(source)
    assert source.counts == pytest.approx(
        [row.sum() for row in np.split(grammar.occupancy, grammar.state_offsets[1:-1])]
    )
    learned = learn_spectral(grammar)
    for word in ("w0", "w3", "never-seen"):
        chart, ours = inside_outside(grammar, [word, "w1"]), inside_outside(learned, [word, "w1"])
        assert chart.probability > 0
        np.testing.assert_allclose(ours.marginals, chart.marginals, rtol=CLOSE, atol=CLOSE * chart.probability)


def test_symbols_that_never_occur():
    """They get a state without weight, and trees with them no probability."""
    one = {("S", "P", "P"): 1.0, ("X", "P", "S"): 1.0}
    grammar = TensorGrammar.from_parts(root={"S": 1.0}, rules=one, words={("P", "a"): 0.4, ("P", "b"): 0.6})
    for scheme in SCHEMES:
        learned = learn_spectral(grammar, scheme=scheme)
        assert learned.states.tolist() == [1, 1, 1]
        assert not learned.tensor(1).any()
        assert worst_error(grammar, learned, trees_up_to(grammar, 2)) < CLOSE


# Ranks.

RULES = [tuple(rule) for rule in ("SAS", "SSA", "SPQ", "SQP", "ASQ", "APQ", "AQP", "APP")]
STATES = {"S": 3, "A": 3, "P": 3, "Q": 2}
LIGHT = dict.fromkeys([*RULES[:3], ("A", "S", "Q")], 0.2)


@pytest.mark.parametrize(
    ("alike", "pooled", "expected"),
    [
        ("", "", {"S": 3, "A": 3, "P": 3, "Q": 2}),
        ("A", "", {"S": 3, "A": 2, "P": 3, "Q": 2}),
        ("", "A", {"S": 3, "A": 2, "P": 3, "Q": 2}),
        ("P", "", {"S": 3, "A": 3, "P": 2, "Q": 2}),
        ("", "P", {"S": 3, "A": 3, "P": 2, "Q": 2}),
        ("S", "A", {"S": 2, "A": 2, "P": 3, "Q": 2}),
    ],
)
def test_a_symbol_of_lower_rank_gets_fewer_states(alike, pooled, expected):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        grammar = made_grammar(rng, RULES, states=STATES, root="SAP", words=4, weight=LIGHT, alike=alike, pooled=pooled)
        learned = learn_spectral(grammar)
        assert dict(zip(learned.symbols, learned.states.tolist(), strict=True)) == expected
        trees = trees_up_to(grammar, 3) + grammar.sample(10, random_state=rng, max_words=15)
        assert worst_error(grammar, learned, trees) < CLOSE
        sentence = ["w1", "w0", "w3", "w2"]
        chart, ours = inside_outside(grammar, sentence), inside_outside(learned, sentence)
        np.testing.assert_allclose(ours.marginals, chart.marginals, rtol=CLOSE, atol=CLOSE * chart.probability)


@pytest.mark.parametrize("symbol", range(4))
def test_too_few_states_cannot_be_right(symbol):
    grammar = made_grammar(np.random.default_rng(3), RULES, states=STATES, root="SAP", words=4, weight=LIGHT)
    trees = trees_up_to(grammar, 3)
    assert worst_error(grammar, learn_spectral(grammar, grammar.states), trees) < CLOSE
    limits = grammar.states.copy()
    limits[symbol] -= 1
    learned = learn_spectral(grammar, limits)
    assert learned.states.tolist() == limits.tolist()
    assert worst_error(grammar, learned, trees) > 1e-3


def test_more_states_than_the_rank_are_not_taken():
    grammar = made_grammar(np.random.default_rng(3), RULES, states=STATES, root="SAP", words=4, weight=LIGHT)
    learned = learn_spectral(grammar, 10)
    assert learned.states.tolist() == grammar.states.tolist()
    assert worst_error(grammar, learned, trees_up_to(grammar, 3)) < CLOSE


def test_features_must_tell_states_apart():
    """Condition 1: one rule says nothing of the states below it, unless features see the words."""
    rules = [("S", "P", "P"), ("S", "S", "P")]
    grammar = made_grammar(np.random.default_rng(2), rules, states={"S": 3, "P": 2}, root="S", weight={rules[1]: 0.2})
    trees = trees_up_to(grammar, 3)
    assert learn_spectral(grammar, depth=1).states.tolist() == [2, 2]
    assert worst_error(grammar, learn_spectral(grammar, depth=1), trees) > 1e-3
    assert worst_error(grammar, learn_spectral(grammar), trees) < CLOSE


# The i.i.d. scheme of section 8.


@pytest.mark.slow
def test_one_node_a_tree_gives_the_same_if_trees_have_the_same_size():
    grammar = even_grammar(np.random.default_rng(10))
    ours, theirs = (population(grammar, scheme=scheme) for scheme in SCHEMES)
    for a in range(len(grammar.symbols)):
        np.testing.assert_allclose(theirs.omega(a), ours.omega(a), atol=1e-13)
    np.testing.assert_allclose(theirs.counts * 7, ours.counts)
    learned = learn_spectral(grammar, scheme="one node")
    assert worst_error(grammar, learned, trees_up_to(grammar, 4)) < CLOSE


@pytest.mark.slow
def test_one_node_a_tree_is_not_enough_otherwise():
    """`1 / N` ties inside and outside trees together: `Omega^a` has more than `m_a` singular values."""
    grammar = finite_grammar(np.random.default_rng(10))
    ours, theirs = (population(grammar, scheme=scheme) for scheme in SCHEMES)
    a = grammar.symbol_number("A")
    assert len(project(ours.omega(a), 10, 1e-10)[2]) == grammar.states[a] == 2
    assert len(project(theirs.omega(a), 10, 1e-10)[2]) > 2
    trees = trees_up_to(grammar, 5)
    assert worst_error(grammar, learn_spectral(grammar), trees) < CLOSE
    assert worst_error(grammar, learn_spectral(grammar, scheme="one node"), trees) > 1e-2
    with pytest.raises(UsageError, match="one node"):
        theirs.given_state(a)


@pytest.mark.slow
def test_tilt_weighs_trees_by_their_nodes():
    grammar = finite_grammar(np.random.default_rng(11))
    trees = trees_up_to(grammar, 5)
    tilted, total = tilt(grammar, 0.6)
    weights = [tree_probability(grammar, tree) * 0.6 ** len(list(tree.nodes())) for tree in trees]
    assert total == pytest.approx(sum(weights), rel=1e-12)
    for tree, weight in zip(trees, weights, strict=True):
        assert tree_probability(tilted, tree) == pytest.approx(weight / total, rel=1e-10)
    for factor in (0.0, -1.0, 1.5):
        with pytest.raises(UsageError):
            tilt(grammar, factor)


# The earlier paper (Cohen et al. 2012): h2 and h3 independent given h1.


@some_or_twenty
def test_the_2012_form(count):
    cases = 0
    for rng, first, _ in random_cases(400, count):
        grammar = independent_children(first)
        source = population(grammar)
        if not tells_states_apart(source):
            continue
        projections = singular_projections(source)
        moments = source.moments(projections)
        learned = learn_spectral(grammar)
        basis, gamma, k = [], [], []
        for a, (left, right) in enumerate(projections):
            inside, outside, share = source.given_state(a)
            basis.append(left.T @ inside)
            k.append(right.T @ outside)
            gamma.append(share)
        for rule, (a, b, c) in enumerate(grammar.rules):
            q, s, t = factors(grammar, rule)
            y = rng.normal(size=grammar.states[b])
            # Identity 6 (with D as Y_3 Z^T Y_2^T), equation 2 and statement 1 of its Theorem 2.
            half = basis[c] @ t @ np.diag(y @ basis[b] @ s) @ np.diag(q)
            d = matrix_form(moments.rule[rule], y)
            np.testing.assert_allclose(d, half @ np.diag(gamma[a]) @ k[a].T, atol=EXACT)
            ours = matrix_form(learned.tensor(rule), y)
            np.testing.assert_allclose(ours, observable_matrix(moments, rule, y), rtol=CLOSE, atol=CLOSE)
            np.testing.assert_allclose(ours, half @ np.linalg.inv(basis[a]), rtol=CLOSE, atol=CLOSE)
        for tree in trees_up_to(grammar, 2) + grammar.sample(10, random_state=rng, max_words=15):
            expected = tree_probability(grammar, tree)
            assert tree_probability_matrix_form(learned, tree) == pytest.approx(expected, rel=CLOSE)
        cases += 1
    assert cases >= 0.75 * count


# The parts.


def test_project_truncates_and_cuts():
    rng = np.random.default_rng(12)
    left, _ = np.linalg.qr(rng.normal(size=(30, 5)))
    right, _ = np.linalg.qr(rng.normal(size=(20, 5)))
    values = np.array([3.0, 1.0, 0.2, 1e-7, 1e-12])
    omega = left * values @ right.T
    for rank, tolerance, expected in [(9, 1e-8, 4), (9, 1e-6, 3), (2, 1e-8, 2), (9, 1e-14, 5), (9, 0.9, 1)]:
        u, v, found = project(omega, rank, tolerance)
        assert u.shape == (30, expected)
        assert v.shape == (20, expected)
        np.testing.assert_allclose(found, values[:expected], rtol=1e-3)
        np.testing.assert_allclose(u.T @ omega @ v, np.diag(found), atol=1e-12)
        np.testing.assert_allclose(u.T @ u, np.eye(expected), atol=1e-12)
        assert (u[np.abs(u).argmax(axis=0), np.arange(expected)] > 0).all()


def test_project_takes_sparse_matrices(monkeypatch):
    rng = np.random.default_rng(13)
    dense = np.where(rng.random((60, 50)) < 0.1, rng.normal(size=(60, 50)), 0.0)
    expected = project(dense, 6)
    for limit in (observable_representation._DENSE, 0):
        monkeypatch.setattr(observable_representation, "_DENSE", limit)
        found = project(scipy.sparse.csr_array(dense), 6)
        again = project(scipy.sparse.csr_array(dense), 6)
        for ours, theirs, same in zip(found, expected, again, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-10)
            assert np.array_equal(ours, same)
        nothing = project(scipy.sparse.csr_array((60, 50)), 6)
        assert [part.shape for part in nothing] == [(60, 1), (50, 1), (1,)]
        assert nothing[2][0] == 0


def test_project_refuses_nonsense():
    for arguments in [(np.eye(2), 0), (np.eye(2), 1, 0.0), (np.eye(2), 1, 1.0), (np.zeros((0, 3)), 1)]:
        with pytest.raises(UsageError):
            project(*arguments)


def test_assemble_names_a_symbol_whose_moments_cannot_be_inverted():
    grammar = made_grammar(np.random.default_rng(4), RULES, states=STATES, root="SAP", words=4, weight=LIGHT, alike="A")
    source = population(grammar)
    with pytest.raises(GrammarError, match=r"^A: .* 3 states"):
        assemble(source.moments(random_projections(np.random.default_rng(0), source)))


def test_population_refuses_nonsense():
    rng = np.random.default_rng(14)
    grammar = random_grammar(rng)
    with pytest.raises(GrammarError, match="real-valued"):
        population(random_grammar(rng, real=True))
    with pytest.raises(UsageError, match="1 or 2"):
        population(grammar, depth=3)
    with pytest.raises(UsageError, match="scheme"):
        population(grammar, scheme="two nodes")
