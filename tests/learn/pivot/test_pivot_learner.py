"""Pivot learning from treebanks: proper grammars, the same bits every time, and runs that can be gone on with."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from helpers.made_up import f1, made_up_treebank, relabelled
from helpers.training_helpers import Interrupted, Lines, telling_grammar
from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.grammar.validate import inner_sums
from sapwood.inference import Parser
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.pivot import Pivot, PivotEM, learner
from sapwood.learn.spectral.features import FEATURE_SETS, Entries
from sapwood.trees.corpus import Corpus
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

MADE_UP = Corpus.from_trees(made_up_treebank(120))
SMALL = Corpus.from_trees(made_up_treebank(30))
SIMPLE = {"inside": "simple", "outside": "simple"}


class Scripted:
    """Gives scores from a list, and keeps the grammars it was asked about; None: somebody pulls the plug."""

    def __init__(self, scores: list[float | None]) -> None:
        self.scores, self.grammars = scores, []

    def __call__(self, grammar: TensorGrammar) -> dict[str, float]:
        score = self.scores[len(self.grammars)]
        if score is None:
            raise Interrupted
        self.grammars.append(grammar)
        return {"f1": score}


@cache
def learned(**options) -> TensorGrammar:
    return Pivot(**{"states": 4, "min_support": 20, **options}).fit(MADE_UP)


@cache
def small(**options) -> TensorGrammar:
    return Pivot(**{"min_support": 5, **options}).fit(SMALL)


def problem_of(corpus: Corpus, unaries: str = "explicit") -> LPCFGProblem:
    return LPCFGProblem(
        corpus, unaries=unaries, rare=10, lexical=LexicalSettings()
    )  # fmt: skip


def check_proper(grammar: TensorGrammar) -> None:
    assert grammar.probabilistic
    grammar.validate(1e-4)
    np.testing.assert_allclose(inner_sums(grammar), 1, atol=1e-4)
    np.testing.assert_allclose(grammar.emissions.totals(), 1, atol=1e-6)
    assert grammar.root.sum() == pytest.approx(1)


# The grammar.


@pytest.mark.parametrize("unaries", ["explicit", "collapsed"])
@pytest.mark.parametrize("iterations", [0, 2])
def test_a_proper_grammar(unaries, iterations):
    grammar = learned(unaries=unaries, iterations=iterations)
    check_proper(grammar)
    assert grammar.states.max() == 4
    assert len(grammar.sample(5, random_state=0)) == 5


@pytest.mark.parametrize(
    "options",
    [
        {"columns": "fit"},
        {"solver": "frank-wolfe"},
        {"shrinkage": 0.0, "rule_prior": 0.0, "smoothing": 0.0, "lexical_smoothing": 0.0, "kappa": 0.0},
        {"inside": "simple", "outside": "simple"},
        {"inside": ["rule", "left"]},
        {"feature_triples": 1, "rule_iterations": 1, "alignment_iterations": 1},
        {"states": 64, "min_support": 1, "tolerance": 1e-6},
        {"rare_threshold": 0, "min_feature_count": 1},
    ],
    ids=lambda options: " ".join(options),
)
def test_a_proper_grammar_whatever_the_settings(options):
    grammar = Pivot(**{"states": 4, "min_support": 5, **options}).fit(SMALL)
    check_proper(grammar)
    assert grammar.states.max() > 1
    assert small(states=4) != grammar


@pytest.mark.parametrize(
    "options", [{"inside": []}, {"outside": []}, {"min_feature_count": 10**6}, {"states": 1}, {"min_support": 10**6}]
)
def test_without_anything_to_tell_states_by_it_counts(options):
    grammar = Pivot(**{"states": 4, "min_support": 5, "unaries": "collapsed", **options}).fit(SMALL)
    assert grammar.states.max() == 1
    counted = PCFG().fit(SMALL)
    np.testing.assert_allclose(grammar.tensors, counted.tensors, rtol=1e-6)
    np.testing.assert_allclose(grammar.root, counted.root, rtol=1e-6)


def test_counts_are_those_of_the_trees():
    """All expected counts of a symbol's states, or of its children's, add up to the counts of rules and words."""
    problem = problem_of(MADE_UP)
    corpus, trees = problem.trees.corpus, problem.trees
    layout, counts, _ = Pivot(states=4, min_support=20)._counts(problem, learner.Silent(), trees.one_state())
    offsets = layout.tensor_offsets
    found = np.add.reduceat(counts.tensors, offsets[:-1])
    np.testing.assert_allclose(found, corpus.rule_counts(), rtol=1e-5)
    assert counts.lexical.sum() == pytest.approx(len(corpus.word[corpus.word >= 0]))
    at_root = np.add.reduceat(counts.root, layout.state_offsets[:-1])
    np.testing.assert_allclose(at_root, np.bincount(corpus.symbol[corpus.roots], minlength=len(at_root)), rtol=1e-5)
    # A pair of preterminal and class has as many as there are such leaves.
    pairs = np.bincount(
        problem.trees.pair_symbol, weights=np.add.reduceat(counts.lexical, _begins(layout, trees.pair_symbol))
    )
    np.testing.assert_allclose(pairs[corpus.n_interminals :], corpus.symbol_counts()[corpus.n_interminals :])


def _begins(layout, pair_symbol: np.ndarray) -> np.ndarray:
    sizes = layout.states[pair_symbol].astype(np.int64)
    return np.cumsum(sizes) - sizes


@pytest.mark.parametrize("inside", ["rich", ["prefix", "shape"]])
def test_words_have_the_states_that_their_features_say(inside):
    """`q(a -> x | a, h)` is `r(f | h, a)` of the word (section 6.1), or of all features if words are not among them."""
    pivot = Pivot(states=4, min_support=20, inside=inside, rare_threshold=3, shrinkage=2.0)
    problem = problem_of(MADE_UP)
    features, found = pivot._find(problem, learner.Silent())
    evidence = learner._Evidence(features, found, 4, 2.0, 0)
    states = np.array([each.states for each in found])
    counts = learner._words(problem, features, found, evidence, states)
    corpus, observed = problem.trees.corpus, problem.trees.tree_estep
    at, several = 0, 0
    for symbol, word in zip(observed.pair_symbol.tolist(), observed.pair_word.tolist(), strict=True):
        own, matrix = found[symbol], features.inside(symbol)
        leaves = np.flatnonzero(corpus.word[features.nodes(symbol)] == word)
        shown = matrix.indices[matrix.indptr[leaves[0]] : matrix.indptr[leaves[0] + 1]].tolist()
        if "word" in features.inside_names:
            number = features.inside_names.index("word")
            shown = [column for column in shown if features.inside_feature(symbol)[column] == number]
        mass = matrix.sum(axis=0)
        said = [(mass[column] * own.inside[column] + 2.0 * own.prior) / (mass[column] + 2.0) for column in shown]
        wanted = np.mean(said, axis=0) if said else own.prior
        np.testing.assert_allclose(counts[at : at + own.states], len(leaves) * wanted, rtol=1e-5, atol=1e-12)
        at += own.states
        several += own.states > 1 and bool(said)
    assert at == len(counts)
    assert several > 20


def test_rare_symbols_get_fewer_states():
    for support in (20, 60):
        grammar = Pivot(states=8, min_support=support, unaries="collapsed").fit(MADE_UP)
        most = np.clip(MADE_UP.symbol_counts() // support, 1, 8)
        assert (grammar.states <= most).all()
        assert (grammar.states > 1).sum() >= (most > 1).sum() // 2
    wanted = {"NP": 3, "VP": 2}
    by_name = Pivot(states=wanted, min_support=20, unaries="collapsed").fit(MADE_UP)
    assert dict(zip(by_name.symbols, by_name.states.tolist(), strict=True)) == {
        name: wanted.get(name, 1) for name in MADE_UP.symbols
    }


def kinds(count: int) -> list[Tree]:
    """Return trees in which X is one of two things, by its words and by what stands before it, and Y is not."""
    rng = np.random.default_rng(0)
    trees = []
    for _ in range(count):
        first = bool(rng.random() < 0.5)
        before = Tree("D", word="a") if first else Tree("E", word="a")
        word = str(rng.choice(["p1", "p2"] if first else ["q1", "q2", "q3"]))
        rest = Tree("T", [before, Tree("X", word=word)])
        trees.append(Tree("S", [Tree("Y", word=str(rng.choice(["y1", "y2"]))), rest]))
    return trees


@pytest.mark.parametrize("columns", ["align", "fit"])
def test_nodes_of_two_kinds_get_two_states(columns):
    corpus = Corpus.from_trees(kinds(300))
    options = {"states": 2, "rare_threshold": 0, "min_support": 10, "lexical_smoothing": 0.0, "columns": columns}
    grammar = Pivot(**options, shrinkage=0.0, rule_prior=0.0).fit(corpus)
    states = dict(zip(grammar.symbols, grammar.states.tolist(), strict=True))
    assert states["X"] == 2
    assert states["D"] == states["E"] == 1
    symbol = grammar.symbol_number("X", preterminal=True)
    vectors = np.array([grammar.lexical_vector(symbol, word) for word in ("p1", "p2", "q1", "q2", "q3")])
    one = int(vectors[0].argmax())
    assert (vectors[:2, one] > 5 * vectors[:2, 1 - one]).all()
    assert (vectors[2:, 1 - one] > 5 * vectors[2:, one]).all()
    # What stands before says which of the two it is.
    rules = {grammar.symbols[b]: number for number, (_, b, c) in enumerate(grammar.rules) if c == symbol}
    for before, state in (("D", one), ("E", 1 - one)):
        children = grammar.tensor(rules[before]).sum(axis=(0, 1))
        assert children[state] > 5 * children[1 - state]


def test_anchors_describe_states():
    found = Pivot(states=4, min_support=20).anchors(MADE_UP)
    states = Pivot(states=4, min_support=20, unaries="collapsed").anchors(MADE_UP)
    grammar = learned(unaries="collapsed")
    assert {name: len(anchors) for name, anchors in states.items()} == {
        name: number for name, number in zip(grammar.symbols, grammar.states.tolist(), strict=True) if number > 1
    }
    for name, anchors in found.items():
        assert 2 <= len(anchors) <= 4
        assert len({inside for inside, _ in anchors}) == len(anchors), name
        for inside, outside in anchors:
            assert inside.split(": ")[0] in FEATURE_SETS["rich"].inside
            assert outside.split(": ")[0] in FEATURE_SETS["rich"].outside
    # Three prepositions that nothing else tells apart; a fitted column has no anchor.
    assert {inside for inside, _ in found["P"]} == {"word: of", "word: in", "word: by"}
    fitted = Pivot(states=4, min_support=20, columns="fit").anchors(MADE_UP)
    assert {name: [inside for inside, _ in anchors] for name, anchors in fitted.items()} == {
        name: [inside for inside, _ in anchors] for name, anchors in found.items()
    }
    assert {outside for anchors in fitted.values() for _, outside in anchors} == {None}
    assert Pivot(states=1).anchors(MADE_UP) == {}


# The same bits.


def test_seeds_make_a_difference():
    grammar, other = learned(), learned(random_state=1)
    assert other != grammar
    # They are members of one ensemble: the same symbols, rules and words.
    Parser([grammar, other])


# EM afterwards.


def test_a_grammar_with_states_is_learned_from_its_trees():
    truth = telling_grammar(3)
    trees = truth.sample(250, random_state=0, max_words=30)
    corpus = Corpus.from_trees(trees, transform=truth.transform, normaliser=truth.normaliser)
    log = Lines()
    options = {"states": 4, "min_support": 20, "rare_threshold": 0, "smoothing": 0.0, "lexical_smoothing": 0.0}
    Pivot(**options, iterations=8).fit(corpus, log=log)
    check_proper(Pivot(**options).fit(corpus))
    values = log.likelihoods()
    assert (np.diff(values) >= -1e-6 * np.abs(values[1:])).all()
    problem = problem_of(corpus)
    assert values[0] > problem.trees.expectations(problem.trees.one_state()).log_likelihood


def test_iterations_are_noted():
    log, pivot_only = Lines(), Lines()
    grammar = PivotEM(states=3, min_support=5, iterations=3).fit(SMALL, log=log)
    alone = Pivot(states=3, min_support=5).fit(SMALL, log=pivot_only)
    assert (grammar, alone) == (small(states=3, iterations=3), small(states=3))
    assert [(line["step"], line["phase"], line["iteration"]) for line in log.lines] == [(n, "em", n) for n in (1, 2, 3)]
    assert pivot_only.lines == []
    assert (grammar.info["method"], alone.info["method"]) == ("pivot+em", "pivot")
    assert (grammar.info["iterations"], alone.info["iterations"]) == (3, 0)


def test_the_best_by_evaluation():
    evaluate, log = Scripted([1.0, 2.0, 4.0, 4.0]), Lines()
    options = {"states": 3, "min_support": 5, "iterations": 5}
    grammar = Pivot(**options, eval_every=2).fit(SMALL, dev=evaluate, log=log)
    assert [(line["step"], line["f1"]) for line in log.of("dev")] == [(0, 1.0), (2, 2.0), (4, 4.0), (5, 4.0)]
    assert grammar == evaluate.grammars[2] == small(states=3, iterations=4)
    assert evaluate.grammars[0] == small(states=3)
    with pytest.raises(UsageError, match="dev must give 'f1'"):
        Pivot(states=2).fit(SMALL, dev=lambda grammar: {"tags": 1.0})


@pytest.mark.parametrize(
    ("patience", "scores", "best"),
    [
        (2, [5.0, 4.0, 5.0], 0),  # no better twice
        (1, [1.0, 2.0, 2.0], 1),
        (3, [1.0, 0.0, 0.0, 2.0, 1.0, 1.0, 1.0], 3),  # a better one starts the count anew
        (None, [9.0, *[1.0] * 8], 0),
    ],
)
def test_patience(patience, scores, best):
    """Scores run out, and evaluation with them: asking once more would fail."""
    evaluate, log = Scripted(scores), Lines()
    grammar = Pivot(
        states=2, min_support=5, iterations=8, patience=patience, **SIMPLE
    ).fit(SMALL, dev=evaluate, log=log)  # fmt: skip
    assert len(evaluate.grammars) == len(scores)
    assert grammar == evaluate.grammars[best]
    assert len(log.of("iteration")) == len(scores) - 1


# Interruptions.


@pytest.mark.parametrize("patience", [2, None])
def test_interrupted_by_evaluation_it_ends_the_same(patience, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: None)  # small files need not be on disk
    options = {"states": 2, "min_support": 5, "iterations": 4, "patience": patience, **SIMPLE}
    scores = [3.0, 4.0, 2.0, 1.0] if patience else [3.0, 4.0, 2.0, 1.0, 2.0]
    whole = Lines()
    Pivot(**options).fit(SMALL, dev=Scripted(scores), log=whole).save(tmp_path / "whole")
    assert len(whole.lines) == 2 * len(scores) - 1
    for at in range(len(scores)):
        path, log, later = tmp_path / f"{at}.checkpoint", Lines(), Lines()
        with pytest.raises(Interrupted):
            Pivot(**options).fit(SMALL, dev=Scripted([*scores[:at], None]), checkpoint=path, log=log)
        rest = Scripted(scores[at:])
        Pivot(**options).fit(SMALL, dev=rest, checkpoint=path, log=later).save(tmp_path / "resumed")
        assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes(), at
        assert log.lines + later.lines == whole.lines
        assert len(rest.grammars) == len(scores) - at
    # A finished run has nothing left to do: it does not look for states again.
    monkeypatch.setattr(learner, "extract", None)
    again = Lines()
    Pivot(**options).fit(SMALL, dev=Scripted([]), checkpoint=path, log=again).save(tmp_path / "resumed")
    assert again.lines == []
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_interrupted_between_iterations_it_ends_the_same(tmp_path):
    options = {"states": 2, "min_support": 5, "iterations": 3, **SIMPLE}
    whole = Pivot(**options).fit(SMALL)
    for at in range(3):
        path = tmp_path / f"{at}.checkpoint"
        with pytest.raises(Interrupted):
            Pivot(**options).fit(SMALL, checkpoint=path, log=Lines(fail_at=at))
        assert Pivot(**options, threads=2).fit(SMALL, checkpoint=path) == whole


# What cannot be.


def weighted(weights: list[float]):
    """Return a feature whose values have these weights by turns."""

    def values(table) -> Entries:
        nodes = np.arange(table.n_nodes)
        return Entries(nodes, nodes % 4, np.array(weights)[nodes % len(weights)])

    return values


def test_features_with_weights():
    options = {"states": 3, "min_support": 5, "shrinkage": 0.0, "rule_prior": 0.0, "kappa": 0.0}
    for side in ("inside", "outside"):
        with pytest.raises(UsageError, match="pivot learning counts features: none may be negative"):
            Pivot(**options, **{side: [weighted([1.0, -1.0])]}).fit(SMALL)
        # A weight of nothing is possible, and so are others than 1.
        mixed = {"inside": ["word", "rule"], "outside": ["parent-rule", "head-outside"]}
        for weights in ([0.0], [0.0, 2.5]):
            grammar = Pivot(**options, **{**mixed, side: [*mixed[side], weighted(weights)]}).fit(SMALL)
            check_proper(grammar)
            assert grammar.states.max() > 1


# End to end.


def test_states_find_what_labels_do_not_say(tmp_path):
    train = Corpus.from_trees(map(relabelled, made_up_treebank(400, seed=3)), transform=TreeTransform(horizontal=0))
    gold = [relabelled(tree) for tree in made_up_treebank(40, seed=99)]
    assert f1(PCFG().fit(train), gold) < 60
    grammar = Pivot(states=8).fit(train)
    found = f1(grammar, gold)
    assert found > 80
    assert f1(Pivot(states=8, iterations=3).fit(train), gold) > 85
    grammar.save(tmp_path / "grammar")
    assert TensorGrammar.load(tmp_path / "grammar") == grammar
