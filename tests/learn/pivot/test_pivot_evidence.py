"""What features say about states: drawn features, equation 1 and its kernels, and the states of one symbol."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.made_up import made_up_treebank
from sapwood import kernels
from sapwood.errors import UsageError
from sapwood.learn.pivot.anchors import SymbolSettings, SymbolStates, find_states
from sapwood.learn.pivot.learner import _all, _draw, _Evidence, _roots, _solve_rule, _Triples
from sapwood.learn.spectral.feature_matrices import SymbolFeatures, extract
from sapwood.learn.spectral.features import Entries
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.research.separable_matrices import separable
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

# The kernels of equation 1.


def random_triples(rng, n: int, shape: tuple[int, int, int]) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Return likelihoods of three states, weights, and a joint distribution of the states."""
    likelihoods = [rng.random((n, size)) for size in shape]
    # Zeros, as anchors have them, but never everywhere.
    for each in likelihoods:
        each[rng.random(each.shape) < 0.3] = 0.0
        each[np.arange(n), rng.integers(each.shape[1], size=n)] += 0.2
    return likelihoods, rng.integers(1, 9, size=n).astype(float), rng.dirichlet(np.ones(np.prod(shape))).reshape(shape)


def written_out(likelihoods: list[np.ndarray], weights: np.ndarray, t: np.ndarray) -> tuple[float, np.ndarray]:
    """Return equation 1 and its gradient, one triple after the other."""
    value, gradient = 0.0, np.zeros_like(t)
    for outside, left, right, weight in zip(*likelihoods, weights, strict=True):
        known = outside[:, None, None] * left[None, :, None] * right[None, None, :]
        z = float((t * known).sum())
        value += weight * np.log(z)
        gradient += weight / z * known
    return value, gradient


@examples(40)
@given(
    st.integers(0, 40), st.tuples(*[st.integers(1, 5)] * 3), st.sampled_from([1, 3, 7, 256]), st.booleans(),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_equation_1_written_out(n, shape, chunk, single, seed):
    likelihoods, weights, t = random_triples(np.random.default_rng(seed), n, shape)
    dtype, tolerance = (np.float32, 2e-5) if single else (np.float64, 1e-12)
    flat = (shape[0], shape[1] * shape[2])
    gradient = np.full(flat, np.nan, dtype)
    arrays = [np.ascontiguousarray(each, dtype) for each in (*likelihoods, weights, t.reshape(flat))]
    value = kernels.rule_pass(*arrays, chunk, gradient)
    wanted, slope = written_out(likelihoods, weights, t)
    assert value == pytest.approx(wanted, rel=tolerance, abs=tolerance * max(1.0, weights.sum()))
    np.testing.assert_allclose(gradient.reshape(shape), slope, rtol=10 * tolerance, atol=tolerance)


@examples(25)
@given(
    st.integers(1, 30), st.tuples(*[st.integers(1, 4)] * 3), st.sampled_from([0.0, 2.0, 1e3]), st.integers(0, 6),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_em_written_out(n, shape, strength, iterations, seed):
    """Steps that grow as long as the objective does, and the bound on what is missing from the maximum."""
    likelihoods, weights, start = random_triples(np.random.default_rng(seed), n, shape)
    flat = (shape[0], shape[1] * shape[2])
    tensor = start.reshape(flat).copy()
    passes, missing = kernels.rule_em(
        *likelihoods, weights, start.reshape(flat), strength, 7, iterations, -np.inf, tensor
    )  # fmt: skip

    def objective(t):
        value, gradient = written_out(likelihoods, weights, t)
        prior = strength * float((start * np.log(np.maximum(t, 1e-300))).sum())
        return value + prior, (gradient + strength * start / np.where(t > 0, t, 1.0)) / (weights.sum() + strength)

    twin, power, pass_, values = start, 1.0, 0, []
    value, gain = objective(twin)
    while pass_ < iterations:
        pass_ += 1
        tried = twin * gain**power
        tried /= tried.sum()
        new_value, new_gain = objective(tried)
        longer = 1.5 * power
        if power > 1 and new_value < value:
            longer, pass_ = 1.0, pass_ + 1
            tried = twin * gain / (twin * gain).sum()
            new_value, new_gain = objective(tried)
        twin, value, gain, power = tried, new_value, new_gain, longer
        values.append(value)
    assert missing == pytest.approx((gain.max() - 1) * (weights.sum() + strength), rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(tensor.reshape(shape), twin, rtol=1e-6, atol=1e-12)
    assert tensor.sum() == pytest.approx(1)
    assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()
    # What is missing is at most what was said.
    best = start.reshape(flat).copy()
    kernels.rule_em(*likelihoods, weights, start.reshape(flat), strength, 7, 2000, 1e-9, best)
    assert objective(best.reshape(shape))[0] - value <= missing + 1e-6 * max(1.0, abs(value))
    assert passes >= iterations


def test_a_rule_is_solved_in_counts():
    (outside, left, right), weights, _ = random_triples(np.random.default_rng(0), 12, (2, 3, 2))
    single = [each.astype(np.float32) for each in (outside, left, right, weights)]
    start = np.full((2, 6), 1 / 12, np.float32)
    counts = _solve_rule(2.0, 5, 0.0, _Triples(*single, start, 17))
    assert counts.shape == (12,)
    assert counts.sum() == pytest.approx(17, rel=1e-5)
    nothing = np.zeros((0, 1), np.float32)
    alone = _Triples(nothing, nothing, nothing, nothing[:, 0], np.ones((1, 1), np.float32), 4)
    assert _solve_rule(2.0, 5, 0.0, alone).tolist() == [4.0]


# Drawing.


@examples(60)
@given(st.lists(st.integers(0, 13), max_size=12), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_every_feature_before_any_comes_again(sizes, times, seed):
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(20, size=size, replace=False)) for size in sizes]
    indptr = np.concatenate([[0], np.cumsum(sizes, dtype=int)])
    indices = np.concatenate([np.zeros(0, int), *rows])
    matrix = scipy.sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(rows), 20))
    drawn = _draw(matrix, times, np.random.default_rng(seed))
    assert drawn.shape == (times, len(rows))
    assert drawn.dtype == np.int32
    for own, column in zip(rows, drawn.T, strict=True):
        if not len(own):
            assert (column == 20).all()
            continue
        assert set(column) <= set(own.tolist())
        for begin in range(0, times, len(own)):
            part = column[begin : begin + len(own)].tolist()
            assert len(set(part)) == len(part)


def test_all_features_are_as_likely_wherever_they_are_drawn():
    size, copies = 6, 30_000
    indices = np.tile(np.arange(size), copies)
    matrix = scipy.sparse.csr_array((np.ones(len(indices)), indices, np.arange(copies + 1) * size), (copies, size))
    drawn = _draw(matrix, 4, np.random.default_rng(0))
    deviation = np.sqrt(copies / size)
    for each in drawn:
        assert (np.abs(np.bincount(each, minlength=size) - copies / size) < 5 * deviation).all()


def settings_of(**changed) -> SymbolSettings:
    return SymbolSettings(**{
        "kappa": 5.0, "tolerance": 0.03, "shrinkage": 10.0, "support": 5.0, "columns": "align", "solver": "active-set",
        "iterations": 50, **changed,
    })  # fmt: skip


def random_found(rng, features: SymbolFeatures, states: list[int]) -> list[SymbolStates]:
    """Return states of all symbols, with made-up distributions given features."""
    found = []
    for symbol, m in enumerate(states):
        inside, outside = (
            rng.dirichlet(np.full(m, 0.3), size=side(symbol).shape[1]) for side in (features.inside, features.outside)
        )
        none = np.zeros(0, np.int64)
        found.append(SymbolStates(rng.dirichlet(np.full(m, 5.0)), inside, outside, none, none, np.eye(m), np.zeros(0)))
    return found


def several(numbers: dict[str, int]):
    """Return a feature with so many values for each node of a symbol, different ones in different trees."""

    def values(table: NodeTable) -> Entries:
        node, value = [], []
        symbols = table.corpus.symbols
        trees = np.searchsorted(table.corpus.offsets, np.arange(table.n_nodes), side="right") - 1
        for at in range(table.n_nodes):
            for number in range(numbers.get(symbols[table.corpus.symbol[at]], 0)):
                node.append(at)
                value.append(number + 100 * int(trees[at] % 2))
        return Entries(np.array(node, int), np.array(value, int), np.ones(len(node)))

    return values


def said(features: SymbolFeatures, found, shrinkage: float, corpus: Corpus, at: int, side: str) -> np.ndarray:
    """Return what each feature of a node says about its state."""
    symbol = int(corpus.symbol[at])
    matrix, states = getattr(features, side)(symbol), found[symbol]
    row = int(np.flatnonzero(features.nodes(symbol) == at)[0])
    mass = np.bincount(matrix.indices, minlength=matrix.shape[1])
    return np.array(
        [
            (mass[f] * getattr(states, side)[f] / states.prior + shrinkage) / (mass[f] + shrinkage)
            for f in matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        ]
        or [np.ones(states.states)]
    )


def full_sum(features, found, shrinkage: float, corpus: Corpus, nodes: np.ndarray, t: np.ndarray) -> float:
    """Return the objective of section 6.2 at `t`: a sum over all ways to look at a node, which together count 1."""
    total = 0.0
    for node in nodes.tolist():
        places = (node, "outside"), (int(corpus.left[node]), "inside"), (int(corpus.right[node]), "inside")
        likelihoods = [said(features, found, shrinkage, corpus, *place) for place in places]
        total += float(np.log(np.einsum("ijk,xi,yj,zk->xyz", t, *likelihoods)).mean())
    return total


def drawn_sum(triples: _Triples, t: np.ndarray) -> float:
    gradient = np.empty(triples.start.shape, np.float32)
    flat = t.reshape(triples.start.shape).astype(np.float32)
    return kernels.rule_pass(triples.outside, triples.left, triples.right, triples.weights, flat, 256, gradient)


def test_as_many_draws_as_ways_are_all_of_them():
    """2, 3 and 5 features: 30 draws of each meet in all 30 combinations."""
    corpus = Corpus.from_trees([Tree.parse("(S (A x) (B y))"), Tree.parse("(S (A z) (B y))")] * 3)
    table = NodeTable(corpus, np.arange(len(corpus.words)))
    features = extract(table, [several({"A": 3, "B": 5})], [several({"S": 2})])
    rng = np.random.default_rng(0)
    found = random_found(rng, features, [2, 3, 2])
    assert corpus.symbols == ["S", "A", "B"]
    nodes = np.flatnonzero(corpus.rule == 0)
    assert len(nodes) == 6
    t = rng.dirichlet(np.ones(12)).reshape(2, 3, 2)
    for seed in range(3):
        evidence = _Evidence(features, found, 30, 4.0, seed)
        triples = evidence.triples(corpus, found, corpus.rules[0].tolist(), nodes)
        # Each of the two kinds of trees in three nodes, all its 30 ways once a node.
        assert triples.weights.tolist() == pytest.approx([3 / 30] * 60)
        assert triples.nodes == 6
        prior = np.einsum("i,j,k", *(each.prior for each in found))
        np.testing.assert_allclose(triples.start.ravel(), prior.ravel(), rtol=1e-6)
        assert drawn_sum(triples, t) == pytest.approx(full_sum(features, found, 4.0, corpus, nodes, t), rel=1e-5)


def test_a_few_ways_give_the_same_on_average():
    corpus = Corpus.from_trees(made_up_treebank(12))
    table = NodeTable(corpus, np.arange(len(corpus.words)))
    features = extract(table, least=2)
    rng = np.random.default_rng(1)
    states = [2 + number % 2 for number in range(len(corpus.symbols))]
    found = random_found(rng, features, states)
    rule = int(corpus.rule_counts().argmax())
    nodes = np.flatnonzero(corpus.rule == rule)
    a, b, c = corpus.rules[rule].tolist()
    t = rng.dirichlet(np.full(states[a] * states[b] * states[c], 0.2)).reshape(states[a], states[b], states[c])
    values = []
    for seed in range(60):
        evidence = _Evidence(features, found, 4, 1.0, seed)
        triples = evidence.triples(corpus, found, [a, b, c], nodes)
        assert triples.weights.sum() == pytest.approx(len(nodes), rel=1e-5)
        values.append(drawn_sum(triples, t))
    wanted, error = full_sum(features, found, 1.0, corpus, nodes, t), np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values) - wanted) < 4 * error
    assert error < 0.01 * len(nodes)


def test_all_features_of_nodes():
    """One column a node; one without features has a feature of its own, behind all others."""
    matrix = scipy.sparse.csr_array(np.array([[1.0, 0.0, 0.5], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]]))
    assert _all(matrix).tolist() == [[0, 3, 1], [2, -1, -1]]
    assert _all(matrix[[1]]).tolist() == [[3]]


def test_all_ways_to_look_at_a_node():
    """Section 6.2 as it stands: each triple of features counts the same."""
    corpus = Corpus.from_trees([Tree.parse("(S (S (A x) (B y)) (B z))"), Tree.parse("(S (A x) (B y))")] * 3)
    table = NodeTable(corpus, np.arange(len(corpus.words)))
    features = extract(table, ["word", several({"A": 2, "S": 3})], [several({"S": 2})])
    found = random_found(np.random.default_rng(3), features, [2, 3, 2])
    evidence = _Evidence(features, found, "all", 1.0, 0)
    assert len(corpus.rules) == 2
    for rule, (a, b, c) in enumerate(corpus.rules.tolist()):
        nodes = np.flatnonzero(corpus.rule == rule)
        m = [found[symbol].states for symbol in (a, b, c)]
        t = np.random.default_rng(rule).dirichlet(np.ones(np.prod(m))).reshape(m)
        triples = evidence.triples(corpus, found, [a, b, c], nodes)
        total, ways = 0.0, 0
        for node in nodes.tolist():
            places = (node, "outside"), (int(corpus.left[node]), "inside"), (int(corpus.right[node]), "inside")
            likelihoods = [said(features, found, 1.0, corpus, *place) for place in places]
            terms = np.log(np.einsum("ijk,xi,yj,zk->xyz", t, *likelihoods))
            total, ways = total + float(terms.sum()), ways + terms.size
        assert triples.weights.sum() == pytest.approx(len(nodes), rel=1e-6)
        assert drawn_sum(triples, t) == pytest.approx(total * len(nodes) / ways, rel=1e-5)


def test_roots_by_a_feature_of_roots():
    """What other nodes have, too, does not tell what roots are."""
    corpus = Corpus.from_trees([Tree.parse("(S (S (A x) (B y)) (B z))"), Tree.parse("(S (A x) (B y))")] * 3)

    def kind(of_roots: int):
        """Return a feature: a value that all nodes have, and one that roots alone have."""

        def values(table: NodeTable) -> Entries:
            nodes, roots = np.arange(table.n_nodes), corpus.roots
            value = np.concatenate([np.zeros(len(nodes), int), np.full(len(roots), 1)[: of_roots * len(roots)]])
            return Entries(np.concatenate([nodes, roots[: of_roots * len(roots)]]), value, np.ones(len(value)))

        return values

    for of_roots in (0, 1):
        features = extract(NodeTable(corpus, np.arange(len(corpus.words))), [], [kind(of_roots)])
        found = random_found(np.random.default_rng(5), features, [3, 1, 1])
        counts = _roots(features, found, _Evidence(features, found, 2, 0.0, 0))
        np.testing.assert_allclose(counts[:3], 6 * found[0].outside[of_roots], rtol=1e-5)


def test_nodes_without_features_say_nothing():
    corpus = Corpus.from_trees([Tree.parse("(S (A x) (B y))")] * 4)
    table = NodeTable(corpus, np.arange(len(corpus.words)))
    features = extract(table, [several({"A": 1})], [several({})])
    found = random_found(np.random.default_rng(0), features, [2, 2, 3])
    evidence = _Evidence(features, found, 3, 1.0, 0)
    triples = evidence.triples(corpus, found, [0, 1, 2], np.flatnonzero(corpus.rule == 0))
    assert triples.weights.tolist() == [2.0, 2.0]  # the trees by turns
    assert triples.outside.tolist() == [[1, 1]] * 2
    assert triples.right.tolist() == [[1, 1, 1]] * 2
    np.testing.assert_allclose(_roots(features, found, evidence)[:2], 4 * found[0].prior, rtol=1e-6)


@pytest.mark.parametrize("shrinkage", [0.0, 3.0])
def test_roots_are_what_their_features_say(shrinkage):
    """With all features of a root drawn: the mean of what they say, and one root has one."""
    corpus = Corpus.from_trees([Tree.parse("(S (A x) (B y))"), Tree.parse("(T (A z) (B y))")] * 3)
    features = extract(NodeTable(corpus, np.arange(len(corpus.words))), [], [several({"S": 3, "T": 1})])
    found = random_found(np.random.default_rng(2), features, [2, 3, 1, 1])
    assert corpus.symbols[:2] == ["S", "T"]
    counts = _roots(features, found, _Evidence(features, found, 3, shrinkage, 0))
    begins = np.cumsum([0, *(each.states for each in found)])
    for symbol in (0, 1):
        own = found[symbol]
        mass = np.asarray(features.outside(symbol).sum(axis=0))[:, None]
        said = (mass * own.outside + shrinkage * own.prior) / (mass + shrinkage)
        np.testing.assert_allclose(counts[begins[symbol] : begins[symbol + 1]], 3 * said.mean(axis=0), rtol=1e-5)
    assert counts[begins[2] :].tolist() == [0, 0]


# The states of one symbol.


def two_sided(rng, nodes: int, states: int, sizes: tuple[int, int]) -> tuple:
    """Return features of nodes with hidden states, one on each side, all states with anchors; and the true parts."""
    r, s = (separable(rng, size, states, weakest=0.3) for size in sizes)
    prior = rng.dirichlet(np.full(states, 20.0))
    hidden = rng.choice(states, size=nodes, p=prior)
    columns = [
        (rng.random(nodes)[:, None] > np.cumsum(part[:, hidden].T, axis=1)[:, :-1]).sum(axis=1) for part in (r, s)
    ]
    matrices = [
        scipy.sparse.csr_array((np.ones(nodes), column, np.arange(nodes + 1)), shape=(nodes, size))
        for column, size in zip(columns, sizes, strict=True)
    ]
    return *matrices, prior, r, s


@pytest.mark.parametrize("columns", ["align", "fit"])
@pytest.mark.parametrize("solver", ["active-set", "frank-wolfe"])
def test_states_are_found_from_many_nodes(columns, solver):
    phi, psi, prior, r, s = two_sided(np.random.default_rng(3), 60_000, 3, (9, 8))
    found = find_states(
        phi, psi, 3, settings_of(columns=columns, solver=solver, kappa=0.0, shrinkage=0.0, iterations=2000),
        np.random.default_rng(0),
    )  # fmt: skip
    assert found.states == 3
    # The anchors are rows of one state only, one for each.
    order = [int(np.flatnonzero(r[anchor])[0]) for anchor in found.inside_anchors]
    assert sorted(order) == [0, 1, 2]
    assert ((r[found.inside_anchors] > 0).sum(axis=1) == 1).all()
    np.testing.assert_allclose(found.prior, prior[order], atol=0.02)
    for given_feature, part in ((found.inside, r), (found.outside, s)):
        wanted = part[:, order] * prior[order]
        np.testing.assert_allclose(given_feature, wanted / wanted.sum(axis=1, keepdims=True), atol=0.06)
    outside = found.outside_order()
    if columns == "fit":
        assert outside.tolist() == [-1] * 3
    else:
        assert [int(np.flatnonzero(s[anchor])[0]) for anchor in outside] == order


@examples(25)
@given(st.integers(1, 60), st.integers(1, 8), st.integers(1, 8), st.integers(1, 9), st.booleans(), st.integers(0, 999))
def test_distributions_whatever_the_features(nodes, inside, outside, states, fit, seed):
    rng = np.random.default_rng(seed)
    phi, psi = (
        scipy.sparse.csr_array(rng.integers(0, 3, size=(nodes, d)) * (rng.random((nodes, d)) < 0.3) * 1.0)
        for d in (inside, outside)
    )
    found = find_states(
        phi, psi, states, settings_of(columns="fit" if fit else "align"), np.random.default_rng(0)
    )  # fmt: skip
    assert 1 <= found.states <= states
    for each, size in ((found.inside, inside), (found.outside, outside), (found.prior[None], 1)):
        assert each.shape == (size, found.states)
        assert each.min() >= 0
        np.testing.assert_allclose(each.sum(axis=1), 1, atol=1e-9)
    if found.states > 1:
        assert len(set(found.inside_anchors.tolist())) == found.states
        mass = phi.sum(axis=0)
        assert (mass[found.inside_anchors] >= min(5.0, mass.max())).all()
        assert len(found.outside_order()) == found.states


def test_one_state_where_features_tell_nothing():
    ones = scipy.sparse.csr_array(np.ones((20, 1)))
    same = scipy.sparse.csr_array(np.ones((20, 3)))
    none = scipy.sparse.csr_array((20, 0))
    mixed = scipy.sparse.csr_array(np.eye(4)[np.arange(20) % 4])
    nothing = scipy.sparse.csr_array((20, 3))
    for phi, psi, states in (
        (ones, mixed, 3), (mixed, ones, 3), (same, mixed, 3), (mixed, same, 3), (none, mixed, 3), (mixed, none, 3),
        (nothing, mixed, 3), (mixed, mixed, 1), (mixed[:1], mixed[:1], 3),
    ):  # fmt: skip
        found = find_states(phi, psi, states, settings_of(), np.random.default_rng(0))
        assert found.states == 1
        assert found.inside.tolist() == [[1]] * phi.shape[1]
        assert found.outside.tolist() == [[1]] * psi.shape[1]
        assert found.outside_order().tolist() == []
    found = find_states(mixed, mixed, 9, settings_of(), np.random.default_rng(0))
    assert found.states == 4
    assert Counter(found.inside_anchors.tolist()) == Counter(range(4))
    # Two features tell two states apart.
    two = scipy.sparse.csr_array(np.eye(2)[np.arange(20) % 2])
    for phi, psi in ((two, two), (two, mixed), (mixed, two)):
        assert find_states(phi, psi, 3, settings_of(), np.random.default_rng(0)).states == 2


def test_negative_features_are_refused():
    good = scipy.sparse.csr_array(np.eye(4))
    for phi, psi in ((-good, good), (good, -good)):
        for states in (1, 3):
            with pytest.raises(UsageError, match="pivot learning counts features: none may be negative"):
                find_states(phi, psi, states, settings_of(), np.random.default_rng(0))
