"""Spectral learning from a sample: moments by loops, weights by the algebra of the papers, and what comes of it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.made_up import f1, made_up_treebank, relabelled
from helpers.training_helpers import Notes
from oracles.reference import tree_probability
from sapwood.errors import GrammarError, UsageError
from sapwood.evaluate import Scorer
from sapwood.grammar.emissions import Emissions
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.learn.lpcfg.lexical import LexicalModel, LexicalSettings
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.lpcfg.problem import LPCFGProblem, wanted_states
from sapwood.learn.lpcfg.unary import Unfolded, _shares, fold_weights, unfold
from sapwood.learn.spectral import Spectral
from sapwood.learn.spectral.moments import RuleMoments, rule_moments, smoothed
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.projection import ProjectedNodes, project_nodes
from sapwood.research.observable_representation import Moments, SpectralWeights, assemble
from sapwood.runtime.executor import Threads
from sapwood.runtime.progress import Silent
from sapwood.trees.corpus import Corpus
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

TREES = made_up_treebank(150)
MADE_UP = Corpus.from_trees(TREES)
# Lexical weights are plain relative frequencies but for the share of unseen words.
PLAIN = LexicalSettings(word_strength=0.0, state_strength=0.0)


@cache
def problem_of(unaries: str) -> LPCFGProblem:
    return LPCFGProblem(MADE_UP, unaries=unaries, rare=5, lexical=PLAIN)


@cache
def projected_nodes(unaries: str, states: int = 4, support: int = 30, tolerance: float = 0.03) -> ProjectedNodes:
    """Return the vectors that `Spectral` sees with these settings and its defaults."""
    problem = problem_of(unaries)
    corpus = problem.trees.corpus
    wanted = np.where(problem.splittable(), wanted_states(states, corpus.symbols, corpus.symbol_counts(), support), 1)
    table = NodeTable(corpus, problem.word_classes)
    return project_nodes(table, wanted, tolerance=tolerance)


def vector(side: list[np.ndarray], projected: ProjectedNodes, node: int) -> np.ndarray:
    return side[projected.corpus.symbol[node]][projected.place[node]]


# Moments.


def moments_by_loops(projected: ProjectedNodes, rule: int) -> tuple[int, list[np.ndarray]]:
    """Return how many nodes have a rule, and the seven means: z, l, r, zl, zr, lr, zlr."""
    corpus = projected.corpus
    sums: list = [0.0] * 7
    count = 0
    for node in np.flatnonzero(corpus.rule == rule).tolist():
        z = vector(projected.outside, projected, node)
        left = vector(projected.inside, projected, int(corpus.left[node]))
        right = vector(projected.inside, projected, int(corpus.right[node]))
        third = np.array([[[x * y * w for w in right] for y in left] for x in z])
        terms = [z, left, right, np.outer(z, left), np.outer(z, right), np.outer(left, right), third]
        sums = [total + term for total, term in zip(sums, terms, strict=True)]
        count += 1
    return count, [total / count for total in sums]


@pytest.mark.parametrize("unaries", ["explicit", "collapsed"])
def test_moments_by_loops(unaries, monkeypatch):
    projected = projected_nodes(unaries)
    found = list(rule_moments(projected, None, Threads(1), Silent()))
    corpus = projected.corpus
    assert len(found) == len(corpus.rules)
    assert sum(moment.count for moment in found) == (corpus.rule >= 0).sum()
    for rule, moment in enumerate(found):
        count, means = moments_by_loops(projected, rule)
        assert moment.count == count
        for one, two in zip((*moment.first, *moment.second, moment.third), means, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)
    # However many nodes are taken at a time, and on however many threads.
    monkeypatch.setattr("sapwood.learn.spectral.moments._CHUNK", 7)
    for one, two in zip(found, rule_moments(projected, None, Threads(2), Silent()), strict=True):
        np.testing.assert_allclose(one.third, two.third, rtol=1e-9, atol=1e-12)
        for ours, theirs in zip((*one.first, *one.second), (*two.first, *two.second), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def smoothed_by_loops(moment: RuleMoments, strength: float, wide: list[np.ndarray]) -> np.ndarray:
    """Return what the module's text says, number by number."""
    z, left, right = moment.first
    zl, zr, lr = moment.second
    own = np.sqrt(moment.count) / (strength + np.sqrt(moment.count))
    result = np.zeros(moment.third.shape)
    for i, j, k in np.ndindex(*moment.third.shape):
        pairs = (zl[i, j] * right[k] + zr[i, k] * left[j] + lr[j, k] * z[i]) / 3
        alone = (
            (own * z[i] + (1 - own) * wide[0][i])
            * (own * left[j] + (1 - own) * wide[1][j])
            * (own * right[k] + (1 - own) * wide[2][k])
        )
        result[i, j, k] = own * moment.third[i, j, k] + (1 - own) * (own * pairs + (1 - own) * alone)
    return result


def test_smoothing_by_loops():
    projected = projected_nodes("explicit")
    rng = np.random.default_rng(0)
    moments = list(rule_moments(projected, None, Threads(1), Silent()))
    assert max(moment.third.size for moment in moments) >= 27
    for moment in moments:
        wide = [rng.normal(size=size) for size in moment.third.shape]
        for strength in (0.3, 5.0, 100.0):
            found = smoothed(moment, strength, *wide)
            np.testing.assert_allclose(found, smoothed_by_loops(moment, strength, wide), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(smoothed(moment, 0.0, *wide), moment.third)
        np.testing.assert_allclose(smoothed(moment, 1e-9, *wide), moment.third, rtol=1e-6, atol=1e-6)
        alone = np.einsum("a,b,c->abc", *wide)
        np.testing.assert_allclose(smoothed(moment, 1e9, *wide), alone, rtol=1e-5, atol=1e-5)


def test_rules_seen_often_keep_more_of_their_own():
    projected = projected_nodes("collapsed")
    moment = max(rule_moments(projected, None, Threads(1), Silent()), key=lambda moment: moment.third.size)
    wide = [np.zeros(size) for size in moment.third.shape]

    def distance(count: int) -> float:
        return float(np.abs(smoothed(replace(moment, count=count), 10.0, *wide) - moment.third).max())

    distances = [distance(count) for count in (1, 4, 100, 10_000, 10**8)]
    assert all(np.diff(distances) < 0)
    assert distances[-1] < 0.01 * distances[0]
    assert not smoothed(replace(moment, count=0, third=np.zeros_like(moment.third)), 10.0, *wide).any()


# Weights against the algebra.


def core_moments(projected: ProjectedNodes) -> Moments:
    """Collect the moments of figure 7 node by node."""
    corpus = projected.corpus
    states = projected.states.tolist()
    counts = corpus.symbol_counts()
    sigma = [np.zeros((m, m)) for m in states]
    mean = [np.zeros(m) for m in states]
    root = [np.zeros(m) for m in states]
    rule = [np.zeros([states[s] for s in symbols]) for symbols in corpus.rules.tolist()]
    tags = range(corpus.n_interminals, len(corpus.symbols))
    terminals = [np.unique(corpus.word[corpus.symbol == a]) for a in tags]
    word = [np.zeros((len(own), states[a])) for own, a in zip(terminals, tags, strict=True)]
    for node, a in enumerate(corpus.symbol.tolist()):
        y, z = vector(projected.inside, projected, node), vector(projected.outside, projected, node)
        sigma[a] += np.outer(y, z) / counts[a]
        mean[a] += y / counts[a]
        if corpus.parent[node] < 0:
            root[a] += y / corpus.n_trees
        if corpus.word[node] >= 0:
            tag = a - corpus.n_interminals
            word[tag][np.flatnonzero(terminals[tag] == corpus.word[node])[0]] += z / counts[a]
        else:
            left = vector(projected.inside, projected, int(corpus.left[node]))
            right = vector(projected.inside, projected, int(corpus.right[node]))
            rule[corpus.rule[node]] += np.einsum("a,b,c->abc", z, left, right) / counts[a]
    return Moments(
        symbols=corpus.symbols, n_interminals=corpus.n_interminals, rules=corpus.rules, counts=counts,
        rule_counts=corpus.rule_counts(), sigma=sigma, mean=mean, rule=rule, terminals=terminals, word=word, root=root,
    )  # fmt: skip


def split_tensors(corpus: Corpus, weights: SpectralWeights) -> list[np.ndarray]:
    shapes = weights.states[corpus.rules].tolist()
    parts = np.split(weights.tensors, np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def test_weights_are_those_of_the_algebra():
    projected = projected_nodes("collapsed")
    moments = core_moments(projected)
    weights = assemble(moments)
    grammar = Spectral(states=4, backoff=0, unaries="collapsed", lexical=PLAIN).fit(MADE_UP)
    assert not grammar.probabilistic
    assert grammar.states.max() == 4
    np.testing.assert_array_equal(grammar.states, weights.states)
    np.testing.assert_array_equal(grammar.rules, MADE_UP.rules)
    assert grammar.tensors.dtype == np.float32
    np.testing.assert_allclose(grammar.tensors, weights.tensors, rtol=1e-6, atol=1e-6)
    assert (weights.tensors < -1e-3).any()
    np.testing.assert_allclose(grammar.root, weights.root, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(grammar.occupancy, weights.occupancy, rtol=1e-9, atol=1e-7)
    np.testing.assert_array_equal(grammar.rule_counts, MADE_UP.rule_counts())
    # Words have what unseen ones leave them: one part for all words of a preterminal.
    plain = LexicalModel(MADE_UP, PLAIN).emissions()
    for tag, (own, vectors) in enumerate(zip(moments.terminals, weights.lexical, strict=True)):
        a = grammar.n_interminals + tag
        found = np.array([grammar.lexical_vector(a, MADE_UP.words[x]) for x in own])
        part = plain.column(tag)[: plain.lexicon.n_words].sum()
        np.testing.assert_allclose(found, part * vectors, rtol=1e-9, atol=1e-9)


def weight_of_unfolded(
    unfolded: Corpus, tensors: list[np.ndarray], root: list[np.ndarray], lexical: dict, tree: int
) -> float:
    """Return the weight of a tree of a corpus with unary steps, node by node from the leaves."""
    first, last = int(unfolded.offsets[tree]), int(unfolded.offsets[tree + 1])
    inside: dict[int, np.ndarray] = {}
    for node in range(last - 1, first - 1, -1):
        if unfolded.word[node] >= 0:
            inside[node] = lexical[int(unfolded.symbol[node]), int(unfolded.word[node])]
        else:
            below = inside[int(unfolded.left[node])], inside[int(unfolded.right[node])]
            inside[node] = np.einsum("abc,b,c->a", tensors[unfolded.rule[node]], *below)
    return float(root[unfolded.symbol[first]] @ inside[first])


def test_trees_with_steps_have_the_weights_of_the_algebra():
    projected = projected_nodes("explicit")
    corpus = projected.corpus
    moments = core_moments(projected)
    weights = assemble(moments)
    grammar = Spectral(states=4, backoff=0, lexical=PLAIN).fit(MADE_UP)
    unfolded = problem_of("explicit").unfolded
    # The lexical vectors of the grammar itself: those of tags are tested above and below.
    lexical = {(len(corpus.symbols) - 1, len(corpus.words) - 1): np.ones(1)}
    for symbol, bottom in enumerate(unfolded.bottom.tolist()):
        if symbol >= MADE_UP.n_interminals:
            for x, name in enumerate(MADE_UP.words):
                lexical[bottom, x] = grammar.lexical_vector(symbol, name)
    tensors = split_tensors(corpus, weights)
    composite = 0
    for index in range(MADE_UP.n_trees):
        tree = MADE_UP.tree(index)
        wanted = weight_of_unfolded(corpus, tensors, moments.root, lexical, index)
        assert tree_probability(grammar, tree) == pytest.approx(wanted, rel=1e-4, abs=1e-4 * abs(wanted) + 1e-30)
        composite += any("|" in node.label for node in tree.nodes())
    assert composite > 20
    plain = problem_of("explicit").lexical.emissions()
    for tag, (own, vectors) in enumerate(zip(moments.terminals[:-1], weights.lexical[:-1], strict=True)):
        found = np.array([lexical[corpus.n_interminals + tag, x] for x in own.tolist()])
        part = plain.column(tag)[: plain.lexicon.n_words].sum()
        np.testing.assert_allclose(found, part * vectors, rtol=1e-9, atol=1e-9)


def test_smoothed_weights():
    projected = projected_nodes("collapsed")
    grammar = Spectral(states=4, backoff=7.0, unaries="collapsed", lexical=PLAIN).fit(MADE_UP)
    counts = MADE_UP.symbol_counts()
    inside = [y.mean(axis=0) for y in projected.inside]
    outside = [z.mean(axis=0) for z in projected.outside]
    for rule, moment in enumerate(rule_moments(projected, None, Threads(1), Silent())):
        a, b, c = MADE_UP.rules[rule].tolist()
        wanted = smoothed_by_loops(moment, 7.0, [outside[a], inside[b], inside[c]]) * moment.count / counts[a]
        np.testing.assert_allclose(grammar.tensor(rule), wanted, rtol=1e-6, atol=1e-6)


# One state: the treebank's PCFG.


def test_one_state_is_the_treebank_grammar():
    for lexical in (PLAIN, LexicalSettings(), LexicalSettings(state_strength=5.0, signature_state_strength=5.0)):
        for smoothing in (0.0, 20.0):
            grammar = Spectral(states=1, unaries="collapsed", lexical=lexical, backoff=smoothing).fit(MADE_UP)
            plain = PCFG(lexical=lexical).fit(MADE_UP)
            assert grammar.symbols == plain.symbols
            np.testing.assert_array_equal(grammar.rules, plain.rules)
            np.testing.assert_allclose(grammar.tensors, plain.tensors, rtol=1e-6)
            np.testing.assert_allclose(grammar.root, plain.root, rtol=1e-12)
            np.testing.assert_allclose(rows(grammar.emissions), rows(plain.emissions), rtol=1e-9, atol=1e-15)
            np.testing.assert_allclose(grammar.occupancy, plain.occupancy, rtol=1e-12)
    for tree in (MADE_UP.tree(index) for index in range(30)):
        assert tree_probability(grammar, tree) == pytest.approx(tree_probability(plain, tree), rel=1e-5)


def test_one_state_parses_like_the_treebank_grammar():
    lexical = LexicalSettings()
    grammar = Spectral(states=1, unaries="collapsed", lexical=lexical).fit(MADE_UP)
    plain = PCFG(lexical=lexical).fit(MADE_UP)
    sentences = [list(tree.words()) for tree in made_up_treebank(25, seed=5)]
    for decoder in ("max-rule", "recall"):
        ours = [result.tree for result in Parser(grammar, decoder=decoder).parse(sentences)]
        theirs = [result.tree for result in Parser(plain, decoder=decoder).parse(sentences)]
        assert ours == theirs


def test_one_state_with_steps_is_the_treebank_grammar_of_steps():
    """Weights are relative frequencies in the trees with steps, multiplied."""
    grammar = Spectral(states=1, lexical=PLAIN).fit(MADE_UP)
    corpus = unfold(MADE_UP).corpus
    counts, often = corpus.symbol_counts(), corpus.rule_counts()
    tags: dict = {}
    for index in range(60):
        tree = MADE_UP.tree(index)
        wanted = corpus.root_counts()[corpus.symbol[corpus.offsets[index]]] / corpus.n_trees
        for node in range(corpus.offsets[index], corpus.offsets[index + 1]):
            if corpus.rule[node] >= 0:
                wanted *= often[corpus.rule[node]] / counts[corpus.symbol[node]]
        for leaf in tree.preterminals():
            symbol = grammar.symbol_number(leaf.label, preterminal=True)
            wanted *= tags.setdefault((symbol, leaf.word), float(grammar.lexical_vector(symbol, leaf.word)[0]))
        assert tree_probability(grammar, tree) == pytest.approx(wanted, rel=1e-5)


# What the trees were made with.


def two_states() -> TensorGrammar:
    """Return a grammar whose two states of each symbol show, inside by rules and words, outside by what is near."""
    stay = np.array([[0.9, 0.1], [0.2, 0.8]])
    children = np.einsum("ab,ac->abc", stay, stay)
    first = np.array([0.85, 0.2])[:, None, None]
    end = np.array([0.7, 0.5])[:, None, None]
    return TensorGrammar.from_parts(
        root={"S": [0.5, 0.5]},
        rules={
            ("S", "A", "V"): end * first * children,
            ("S", "B", "V"): end * (1 - first) * children,
            ("S", "A", "S"): (1 - end) * first * children,
            ("S", "B", "S"): (1 - end) * (1 - first) * children,
        },
        words={
            ("A", "a"): [0.8, 0.1], ("A", "b"): [0.2, 0.9], ("B", "a"): [0.7, 0.2], ("B", "b"): [0.3, 0.8],
            ("V", "x"): [0.1, 0.8], ("V", "y"): [0.9, 0.2],
        },
    ).validate()  # fmt: skip


@pytest.mark.slow
def test_trees_get_their_probabilities_back():
    truth = two_states()
    trees = [
        Tree("S", [Tree(tag, word=first), Tree("V", word=last)])
        for tag, first, last in product(["A", "B"], ["a", "b"], ["x", "y"])
    ]
    trees += [
        Tree("S", [Tree(tag, word=word), tree]) for tag, word, tree in product(["A", "B"], ["a", "b"], trees)
    ]  # fmt: skip
    true = np.array([tree_probability(truth, tree) for tree in trees])

    def error(states: int, size: int, seed: int) -> float:
        """Return by how much of their probability trees are off after learning from a sample, on average."""
        learner = Spectral(
            states=states, backoff=0, kappa=0.0, min_feature_count=1, min_support=1, tolerance=1e-3, rare_threshold=0,
            unaries="collapsed",
            lexical=replace(PLAIN, rare=0),
        )  # fmt: skip
        grammar = learner.fit(Corpus.from_trees(truth.sample(size, random_state=seed, max_words=80)))
        assert grammar.states.tolist() == [states] * 4
        found = np.array([tree_probability(grammar, tree) for tree in trees])
        return float(np.abs(found - true).sum() / true.sum())

    for seed in (7, 8):
        little, much = error(2, 500, seed), error(2, 8000, seed)
        # The error falls with the square root of the size, so it is four times smaller now; half will do.
        assert little < 0.25
        assert much < 0.06
        assert much < 0.5 * little
        # One state is not enough, however many trees there are.
        assert error(1, 8000, seed) > 0.25


# Lexical vectors.


def rows(emissions: Emissions) -> np.ndarray:
    """Return `q(a -> x)`, terminals by states of preterminals."""
    return np.array([emissions.row(x) for x in range(emissions.lexicon.n_terminals)])


LEXICAL = [
    LexicalSettings(),
    LexicalSettings(state_strength=5.0, signature_state_strength=5.0),
    LexicalSettings(rare=1, frequent=2, signature_state_strength=0.5),
    LexicalSettings(rare=0, state_strength=0.0, signature_state_strength=0.0),
]
ANNOTATED = Corpus.from_trees(TREES[:80], transform=TreeTransform(vertical=2, annotate_tags=True))


def random_counts(corpus: Corpus, rng, *, positive: bool = False) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return numbers of states, counts for each pair (non-negative ones add up to the pair's), and pairs' tags."""
    states = rng.integers(1, 4, size=len(corpus.symbols) - corpus.n_interminals).astype(np.int32)
    symbol, _, often = corpus.lexical_counts()
    tags = (symbol - corpus.n_interminals).tolist()
    vectors = []
    for tag, count in zip(tags, often, strict=True):
        draw = rng.dirichlet(np.ones(states[tag])) if positive else rng.normal(size=states[tag])
        vectors.append(count * draw)
    return states, np.concatenate(vectors), tags


@pytest.mark.parametrize("lexical", LEXICAL)
def test_real_emissions_with_one_state(lexical):
    model = LexicalModel(ANNOTATED, lexical)
    ones = np.ones(len(model.tag_of), np.int32)
    plain = model.emissions()
    real = model.emissions(ones, model.pair_counts.astype(float), real=True)
    np.testing.assert_allclose(rows(real), rows(plain), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(real.totals(), 1, rtol=1e-9)


@pytest.mark.parametrize("lexical", LEXICAL)
def test_real_emissions_are_joint_ones(lexical):
    """From non-negative counts: each state's weights times its mass, and over all states the preterminal's own."""
    rng = np.random.default_rng(1)
    states, counts, _ = random_counts(ANNOTATED, rng, positive=True)
    assert states.max() > 1
    model = LexicalModel(ANNOTATED, lexical)
    real, usual = rows(model.emissions(states, counts, real=True)), rows(model.emissions(states, counts))
    begins = np.concatenate([[0], np.cumsum(states)[:-1]])
    np.testing.assert_allclose(np.add.reduceat(real, begins, axis=1), rows(model.emissions()), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(real, usual * real.sum(axis=0), rtol=1e-9, atol=1e-15)
    # Dead states stay dead: nothing is put in their place.
    state = np.repeat(np.arange(len(states)) == int(np.argmax(states)), states)
    symbol, _, _ = ANNOTATED.lexical_counts()
    repeated = np.repeat(symbol - ANNOTATED.n_interminals, states[symbol - ANNOTATED.n_interminals])
    without = np.where(repeated == int(np.argmax(states)), 0.0, counts)
    found = rows(model.emissions(states, without, real=True))
    assert not found[:, state].any()
    np.testing.assert_allclose(found[:, ~state], real[:, ~state], rtol=1e-12)


@pytest.mark.parametrize("lexical", LEXICAL)
def test_real_emissions_are_linear(lexical):
    rng = np.random.default_rng(2)
    states, first, _ = random_counts(ANNOTATED, rng)
    second = rng.normal(size=len(first))
    model = LexicalModel(ANNOTATED, lexical)

    def weights(counts: np.ndarray) -> np.ndarray:
        return rows(model.emissions(states, counts, real=True))

    assert (weights(first) < 0).any()
    both = 2.5 * weights(first) - weights(second)
    np.testing.assert_allclose(weights(2.5 * first - second), both, rtol=1e-9, atol=1e-12)
    assert not weights(np.zeros(len(first))).any()


@pytest.mark.parametrize("lexical", LEXICAL)
def test_real_emissions_turn_with_their_basis(lexical):
    rng = np.random.default_rng(3)
    states, counts, tags = random_counts(ANNOTATED, rng)
    bases = [np.linalg.qr(rng.normal(size=(m, m)))[0] * rng.uniform(0.5, 2) for m in states]
    parts = np.split(counts, np.cumsum(states[tags])[:-1])
    turned = np.concatenate([part @ bases[tag] for part, tag in zip(parts, tags, strict=True)])
    model = LexicalModel(ANNOTATED, lexical)
    before = rows(model.emissions(states, counts, real=True))
    after = rows(model.emissions(states, turned, real=True))
    ends = np.cumsum(states)[:-1]
    for one, two, basis in zip(np.split(before, ends, axis=1), np.split(after, ends, axis=1), bases, strict=True):
        np.testing.assert_allclose(one @ basis, two, rtol=1e-9, atol=1e-12)


# Folding real weights.

STEPS = [
    "(ROOT (S (NP (N dogs)) (VP (V sleep))))",
    "(ROOT (S (NP (D the) (N dogs)) (VP (V chase) (NP (N cats)))))",
    "(ROOT (S (VP (V sleep))))",
    "(ROOT (N cats))",
    "(ROOT (S (NP (D the) (N cats)) (VP (V say) (S (VP (V chase) (NP (N dogs)))))))",
    "(ROOT (X (S (NP (N cats)) (VP (V chase) (NP (D the) (N dogs))))))",
    "(ROOT (X (S (VP (V chase) (NP (N dogs))))))",
    "(ROOT (NP (NP (N dogs)) (NP (NP (D the) (N cats)))))",
]


def random_weights(unfolded: Unfolded, seed: int):
    rng = np.random.default_rng(seed)
    corpus = unfolded.corpus
    states = rng.integers(1, 4, size=len(corpus.symbols)).astype(np.int32)
    states[unfolded.empty] = 1
    tensors = [rng.normal(size=states[rule]) for rule in corpus.rules]
    root = [rng.normal(size=m) for m in states]
    means = [rng.normal(size=m) for m in states]
    return rng, states, tensors, root, means


def folded_tree(rng, rules: np.ndarray, root: int, n_interminals: int, words: int, limit: int = 40):
    """Return a random tree over collapsed rules as nested tuples `(symbol, word or children)`."""
    by_parent: dict[int, list] = {}
    for rule in rules.tolist():
        by_parent.setdefault(rule[0], []).append(rule[1:])
    budget = [limit]

    def grow(symbol: int):
        budget[0] -= 1
        if symbol >= n_interminals:
            return (symbol, int(rng.integers(words)))
        if budget[0] <= 0 or symbol not in by_parent:
            raise OverflowError
        left, right = by_parent[symbol][rng.integers(len(by_parent[symbol]))]
        return (symbol, [grow(left), grow(right)])

    return grow(root)


def enumerate_states(tree, unfolded: Unfolded, states, tensors, root, lexical) -> float:
    """Return the weight of a collapsed tree: its steps written out, all states of all its nodes listed."""
    corpus = unfolded.corpus
    number = {tuple(rule): r for r, rule in enumerate(corpus.rules.tolist())}
    symbols: list[int] = []
    factors = []  # (array, places of the nodes that its axes belong to)

    def write(node) -> int:
        symbol, below = node
        top, bottom = int(unfolded.top[symbol]), int(unfolded.bottom[symbol])
        place = len(symbols)
        symbols.append(bottom if top < 0 else top)
        lower = place
        if top >= 0:
            lower = len(symbols)
            symbols.append(bottom)
            factors.append((tensors[number[top, bottom, unfolded.empty]][:, :, 0], (place, lower)))
        if isinstance(below, int):
            factors.append((lexical[bottom, below], (lower,)))
        else:
            left, right = (write(child) for child in below)
            rule = number[bottom, symbols[left], symbols[right]]
            factors.append((tensors[rule], (lower, left, right)))
        return place

    top = write(tree)
    factors.append((root[symbols[top]], (top,)))
    if np.prod([states[symbol] for symbol in symbols], dtype=float) > 3000:
        raise OverflowError
    total = 0.0
    for chosen in product(*(range(states[symbol]) for symbol in symbols)):
        total += float(np.prod([array[tuple(chosen[place] for place in places)] for array, places in factors]))
    return total


@examples(20)
@given(st.integers(0, 2**32 - 1))
def test_folded_weights_by_enumeration(seed):
    corpus = Corpus.from_trees([Tree.parse(text) for text in STEPS])
    unfolded = unfold(corpus)
    rng, states, tensors, root, means = random_weights(unfolded, seed)
    folded = fold_weights(unfolded, states, tensors, root, means, least=0.0)
    np.testing.assert_array_equal(folded.states, states[unfolded.bottom])
    tags = range(unfolded.corpus.n_interminals, len(unfolded.corpus.symbols))
    lexical = {(tag, x): rng.normal(size=states[tag]) for tag in tags for x in range(len(corpus.words))}
    shapes = folded.states[folded.rules]
    own = np.split(folded.tensors, np.cumsum(shapes.prod(axis=1))[:-1])
    keys = map(tuple, folded.rules.tolist())
    own = {key: part.reshape(shape) for key, part, shape in zip(keys, own, shapes, strict=True)}
    tops = np.split(folded.root, np.cumsum(folded.states)[:-1])

    def inside(node) -> np.ndarray:
        symbol, below = node
        if isinstance(below, int):
            return lexical[int(unfolded.bottom[symbol]), below]
        key = (symbol, below[0][0], below[1][0])
        return np.einsum("abc,b,c->a", own[key], *map(inside, below))

    observed = set(map(tuple, corpus.rules.tolist()))
    inner = [symbol for symbol in np.unique(folded.rules[:, 0]).tolist() for _ in range(8)]
    compared = new = 0
    for start in [*inner, *range(corpus.n_interminals, len(corpus.symbols))]:
        try:
            tree = folded_tree(rng, folded.rules, start, corpus.n_interminals, len(corpus.words), limit=7)
            wanted = enumerate_states(tree, unfolded, states, tensors, root, lexical)
        except OverflowError:  # too large
            continue
        assert float(tops[start] @ inside(tree)) == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        compared += 1
        new += start < corpus.n_interminals and (start, tree[1][0][0], tree[1][1][0]) not in observed
    assert compared > 5
    assert new > 0
    assert len(own) > len(observed)


def test_counts_of_folded_weights():
    unfolded = unfold(MADE_UP)
    corpus = unfolded.corpus
    _, states, tensors, root, means = random_weights(unfolded, 1)
    folded = fold_weights(unfolded, states, tensors, root, means, least=0.0)
    as_parent, as_child = _shares(unfolded)
    outer = np.where(unfolded.top >= 0, unfolded.top, unfolded.bottom)
    for shares, group in ((as_parent, unfolded.bottom), (as_child, outer)):
        sums = np.bincount(group, weights=shares, minlength=len(corpus.symbols))
        np.testing.assert_allclose(sums[np.unique(group)], 1, rtol=1e-12)
    counts = MADE_UP.symbol_counts()
    alike = [s for s in range(len(counts)) if outer[s] == outer[0]]
    assert as_child[0] == pytest.approx(counts[0] / counts[alike].sum())
    # All rules together are expected as often as the rules without a step occur.
    whole = corpus.rule_counts()[corpus.rules[:, 2] != unfolded.empty].sum()
    assert folded.rule_counts.sum() == pytest.approx(whole)
    assert (folded.rule_counts > 0).all()
    fewer = fold_weights(unfolded, states, tensors, root, means, least=0.5)
    observed = set(map(tuple, MADE_UP.rules.tolist()))
    kept = [
        (tuple(rule), count)
        for rule, count in zip(folded.rules.tolist(), folded.rule_counts, strict=True)
        if count >= 0.5 or tuple(rule) in observed
    ]
    assert [tuple(rule) for rule in fewer.rules.tolist()] == [rule for rule, _ in kept]
    np.testing.assert_allclose(fewer.rule_counts, [count for _, count in kept])
    parts = np.split(folded.occupancy, np.cumsum(folded.states)[:-1])
    for symbol, part in enumerate(parts):
        np.testing.assert_allclose(part, counts[symbol] * means[unfolded.bottom[symbol]])


# The learner.


class Scripted:
    """Gives scores from a list, and keeps the grammars it was asked about."""

    def __init__(self, scores: list[float]) -> None:
        self.scores, self.grammars = scores, []

    def __call__(self, grammar: TensorGrammar) -> dict[str, float]:
        self.grammars.append(grammar)
        return {"f1": self.scores[len(self.grammars) - 1]}


class Lines:
    """A log in memory."""

    def __init__(self) -> None:
        self.lines: list[dict] = []

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        self.lines.append({"event": event, "step": step, **figures})


def test_the_best_smoothing_is_taken():
    evaluate, log = Scripted([1.0, 3.0, 3.0]), Lines()
    grammar = Spectral(states=3, backoff=[0, 5, 50]).fit(MADE_UP, dev=evaluate, log=log)
    assert grammar == evaluate.grammars[1]
    assert grammar.info["spectral"]["backoff"] == 5
    assert [(line["event"], line["step"], line["backoff"], line["f1"]) for line in log.lines] == [
        ("dev", 1, 0.0, 1.0), ("dev", 2, 5.0, 3.0), ("dev", 3, 50.0, 3.0),
    ]  # fmt: skip
    for number, smoothing in enumerate((0, 5, 50)):
        assert Spectral(states=3, backoff=smoothing).fit(MADE_UP) == evaluate.grammars[number]
    assert evaluate.grammars[0] != evaluate.grammars[1]
    # Nobody to ask: the first.
    assert Spectral(states=3, backoff=[50, 5]).fit(MADE_UP) == evaluate.grammars[2]


def test_a_grammar_says_how_often_its_weights_were_negative():
    figures = iter([{"f1": 1.0, "negative_trees": 12.345}, {"f1": 2.0, "negative_trees": 7.891, "tags": 3.0}])
    grammar = Spectral(states=3, backoff=[0, 5]).fit(MADE_UP, dev=lambda grammar: next(figures))
    assert grammar.info["held_out"] == {"negative_trees": 7.89}
    assert "held_out" not in Spectral(states=3, backoff=5).fit(MADE_UP, dev=lambda grammar: {"f1": 1.0}).info


def test_states_of_their_own_choosing():
    evaluate, log = Scripted([1.0, 1.5, 2.0, 1.0]), Lines()
    grammar = Spectral(states="auto", min_support=5, backoff=20).fit(MADE_UP, dev=evaluate, log=log)
    assert [line["tolerance"] for line in log.lines] == pytest.approx([0.03, 0.09, 0.3, 0.6])
    assert grammar == evaluate.grammars[2]
    assert grammar.info["spectral"]["tolerance"] == pytest.approx(0.3)
    sums = [int(found.states.sum()) for found in evaluate.grammars]
    assert all(np.diff(sums) < 0)
    assert evaluate.grammars[0].states.max() <= 32
    assert Spectral(states="auto", min_support=5).fit(MADE_UP) == evaluate.grammars[0]
    assert Spectral(states=32, min_support=5, tolerance=3 * 0.03).fit(MADE_UP) == evaluate.grammars[1]


def test_evaluation_must_give_what_it_goes_by():
    with pytest.raises(UsageError, match="dev must give 'f1'; it gives tags"):
        Spectral(states=1).fit(MADE_UP, dev=lambda grammar: {"tags": 1.0})


def test_states_by_name_and_by_support():
    grammar = Spectral(states={"NP": 3}, min_support=1).fit(MADE_UP)
    states = dict(zip(grammar.symbols, grammar.states.tolist(), strict=True))
    assert states["NP"] == 3
    assert {count for name, count in states.items() if not name.endswith("NP")} == {1}
    assert Spectral(states=8, min_support=10**6).fit(MADE_UP).states.max() == 1
    with pytest.raises(
        UsageError, match=r"given for QP, but the trees have no such symbol; symbols are, for example, \w+"
    ):
        Spectral(states={"QP": 3}).fit(MADE_UP)


def test_fewer_states_than_asked_for():
    notes = Notes()
    grammar = Spectral(states=16, min_support=30).fit(MADE_UP, progress=notes)
    remarks = grammar.info["spectral"]["remarks"]
    assert len(remarks) > 3
    shown = "; ".join(remarks[:3])
    (text,) = notes.texts
    assert text.startswith(
        f"fewer hidden states than `states` allows: {shown}; and {len(remarks) - 3} other symbols. They are"
    )
    assert "nothing needs to be done" in text
    notes = Notes()
    Spectral(states=1).fit(MADE_UP, progress=notes)
    Spectral(states="auto").fit(MADE_UP, progress=notes)
    assert notes.texts == []


def count_of_words(table: NodeTable) -> np.ndarray:
    return table.width


def test_the_grammar_says_which_features_it_was_made_of():
    learner = Spectral(states={"NP": 2}, inside=["word", count_of_words], backoff=(3, 4), lexical=LexicalSettings())
    info = learner.fit(MADE_UP).info
    assert info["spectral"]["backoff"] == 3.0
    # The same in every run: no addresses.
    assert info["settings"]["inside"] == ["word", "count_of_words"]
    assert info["settings"]["outside"] == "rich"
    assert [record["symbol"] for record in info["spectral"]["symbols"]] == ["NP"]


# End to end.


DEV = [relabelled(tree) for tree in made_up_treebank(60, seed=99)]
TRAIN = Corpus.from_trees(map(relabelled, made_up_treebank(500, seed=3)), transform=TreeTransform(horizontal=0))


@pytest.fixture(scope="module")
def learned() -> TensorGrammar:
    return Spectral(states=8).fit(TRAIN)


def test_states_find_what_labels_do_not_say(learned):
    assert (learned.tensors < 0).any()
    assert f1(PCFG().fit(TRAIN), DEV) < 60
    assert f1(Spectral(states=1).fit(TRAIN), DEV) < 60
    assert f1(learned, DEV) > 88


def test_where_labels_say_it_all_states_do_no_harm():
    train = Corpus.from_trees(made_up_treebank(300, seed=3), transform=TreeTransform(horizontal=0))
    scorer, grammar = Scorer(), Spectral(states=8).fit(train)
    trees = made_up_treebank(60, seed=99)
    for tree, result in zip(trees, Parser(grammar).parse([list(tree.words()) for tree in trees]), strict=True):
        scorer.add(tree, result.tree)
        assert not result.failed
    assert scorer.result().f1 > 88


def test_saved_and_loaded_it_parses_the_same(learned, tmp_path):
    learned.save(tmp_path / "grammar")
    again = TensorGrammar.load(tmp_path / "grammar")
    assert again == learned
    assert not again.probabilistic
    sentences = [list(tree.words()) for tree in DEV[:15]]
    for decoder in ("max-rule", "max-rule-sum", "recall"):
        ours = [result.tree for result in Parser(learned, decoder=decoder).parse(sentences)]
        theirs = [result.tree for result in Parser(tmp_path / "grammar", decoder=decoder).parse(sentences)]
        assert ours == theirs


def test_best_states_are_refused_in_words(learned):
    with pytest.raises(GrammarError, match="viterbi needs a probabilistic grammar; this one has real-valued weights"):
        Parser(learned, decoder="viterbi")


def test_posteriors_do_not_depend_on_the_basis(learned):
    """Any invertible matrix for each symbol gives the same trees their weights (Theorem 1)."""
    rng = np.random.default_rng(0)
    double = replace(learned, tensors=learned.tensors.astype(float))
    bases = [np.linalg.qr(rng.normal(size=(m, m)))[0] for m in learned.states]
    turned = double.conjugate(bases)
    for index in range(10):
        tree = TRAIN.tree(index)
        assert tree_probability(turned, tree) == pytest.approx(tree_probability(double, tree), rel=1e-6)
