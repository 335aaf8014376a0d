"""Pivot learning from treebanks: proper grammars, the same bits every time, and runs that can be gone on with."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from elsewhere import Elsewhere
from learn.training_helpers import Interrupted, Lines, telling_grammar
from made_up import f1, made_up_treebank, relabelled
from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.grammar.validate import inner_sums
from sapwood.inference import Parser
from sapwood.learn.lexical import LexicalSettings
from sapwood.learn.pcfg import PCFG
from sapwood.learn.pivot import Pivot, PivotEM, learner
from sapwood.learn.problem import LatentProblem
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
    return Pivot(**{"states": 4, "support": 20, **options}).fit(MADE_UP)


@cache
def small(**options) -> TensorGrammar:
    return Pivot(**{"support": 5, **options}).fit(SMALL)


def problem_of(corpus: Corpus, unaries: str = "steps") -> LatentProblem:
    return LatentProblem(
        corpus, unaries=unaries, rare=10, lexical=LexicalSettings()
    )  # fmt: skip


def check_proper(grammar: TensorGrammar) -> None:
    assert grammar.probabilistic
    grammar.validate(1e-4)
    np.testing.assert_allclose(inner_sums(grammar), 1, atol=1e-4)
    np.testing.assert_allclose(grammar.emissions.totals(), 1, atol=1e-6)
    assert grammar.root.sum() == pytest.approx(1)


# The grammar.


@pytest.mark.parametrize("unaries", ["steps", "collapsed"])
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
        {"shrinkage": 0.0, "strength": 0.0, "smoothing": 0.0, "lexical_smoothing": 0.0, "kappa": 0.0},
        {"inside": "simple", "outside": "simple"},
        {"inside": ["rule", "left"]},
        {"combinations": 1, "rule_iterations": 1, "alignment_iterations": 1},
        {"states": 64, "support": 1, "tolerance": 1e-6},
        {"rare": 0, "least": 1},
    ],
    ids=lambda options: " ".join(options),
)
def test_a_proper_grammar_whatever_the_settings(options):
    grammar = Pivot(**{"states": 4, "support": 5, **options}).fit(SMALL)
    check_proper(grammar)
    assert grammar.states.max() > 1
    assert small(states=4) != grammar


@pytest.mark.parametrize(
    "options", [{"inside": []}, {"outside": []}, {"least": 10**6}, {"states": 1}, {"support": 10**6}]
)
def test_without_anything_to_tell_states_by_it_counts(options):
    grammar = Pivot(**{"states": 4, "support": 5, "unaries": "collapsed", **options}).fit(SMALL)
    assert grammar.states.max() == 1
    counted = PCFG().fit(SMALL)
    np.testing.assert_allclose(grammar.tensors, counted.tensors, rtol=1e-6)
    np.testing.assert_allclose(grammar.root, counted.root, rtol=1e-6)


def test_counts_are_those_of_the_trees():
    """All expected counts of a symbol's states, or of its children's, add up to the counts of rules and words."""
    problem = problem_of(MADE_UP)
    corpus, trees = problem.trees.corpus, problem.trees
    layout, counts, _ = Pivot(states=4, support=20)._counts(problem, learner.Silent(), trees.one_state())
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
    pivot = Pivot(states=4, support=20, inside=inside, rare=3, shrinkage=2.0)
    problem = problem_of(MADE_UP)
    features, found = pivot._find(problem, learner.Silent())
    evidence = learner._Evidence(features, found, 4, 2.0, 0)
    states = np.array([each.states for each in found])
    counts = learner._words(problem, features, found, evidence, states)
    corpus, observed = problem.trees.corpus, problem.trees.observed
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
        grammar = Pivot(states=8, support=support, unaries="collapsed").fit(MADE_UP)
        most = np.clip(MADE_UP.symbol_counts() // support, 1, 8)
        assert (grammar.states <= most).all()
        assert (grammar.states > 1).sum() >= (most > 1).sum() // 2
    wanted = {"NP": 3, "VP": 2}
    by_name = Pivot(states=wanted, support=20, unaries="collapsed").fit(MADE_UP)
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
    options = {"states": 2, "rare": 0, "support": 10, "lexical_smoothing": 0.0, "columns": columns}
    grammar = Pivot(**options, shrinkage=0.0, strength=0.0).fit(corpus)
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
    found = Pivot(states=4, support=20).anchors(MADE_UP)
    states = Pivot(states=4, support=20, unaries="collapsed").anchors(MADE_UP)
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
    fitted = Pivot(states=4, support=20, columns="fit").anchors(MADE_UP)
    assert {name: [inside for inside, _ in anchors] for name, anchors in fitted.items()} == {
        name: [inside for inside, _ in anchors] for name, anchors in found.items()
    }
    assert {outside for anchors in fitted.values() for _, outside in anchors} == {None}
    assert Pivot(states=1).anchors(MADE_UP) == {}


# The same bits.


def test_the_same_bits(tmp_path):
    options = {"states": 4, "support": 20, "iterations": 2}
    learned(iterations=2).save(tmp_path / "one")
    for number, more in enumerate(({}, {"threads": 3})):
        Pivot(**options, **more).fit(MADE_UP).save(tmp_path / str(number))
        assert (tmp_path / str(number)).read_bytes() == (tmp_path / "one").read_bytes(), more
    assert Pivot(**options, workers=Elsewhere()).fit(MADE_UP) == learned(iterations=2)


def test_seeds_make_a_difference():
    grammar, other = learned(), learned(random_state=1)
    assert other != grammar
    # They are members of one ensemble: the same symbols, rules and words.
    Parser([grammar, other])


# EM afterwards.


@pytest.mark.parametrize("unaries", ["steps", "collapsed"])
def test_iterations_never_lower_the_likelihood(unaries):
    log = Lines()
    Pivot(
        states=4, support=10, iterations=6, smoothing=0, lexical_smoothing=0, unaries=unaries
    ).fit(MADE_UP, log=log)  # fmt: skip
    values = log.likelihoods()
    assert len(values) == 6
    assert (np.diff(values) >= -1e-6 * np.abs(values[1:])).all()
    assert values[-1] > values[0] + 10
    # A better start than one state.
    problem = problem_of(MADE_UP, unaries)
    assert values[0] > problem.trees.expectations(problem.trees.one_state()).log_likelihood + 10


def test_a_grammar_with_states_is_learned_from_its_trees():
    truth = telling_grammar(3)
    trees = truth.sample(250, random_state=0, max_words=30)
    corpus = Corpus.from_trees(trees, transform=truth.transform, normaliser=truth.normaliser)
    log = Lines()
    options = {"states": 4, "support": 20, "rare": 0, "smoothing": 0.0, "lexical_smoothing": 0.0}
    Pivot(**options, iterations=8).fit(corpus, log=log)
    check_proper(Pivot(**options).fit(corpus))
    values = log.likelihoods()
    assert (np.diff(values) >= -1e-6 * np.abs(values[1:])).all()
    problem = problem_of(corpus)
    assert values[0] > problem.trees.expectations(problem.trees.one_state()).log_likelihood


def test_iterations_are_noted():
    log, pivot_only = Lines(), Lines()
    grammar = PivotEM(states=3, support=5, iterations=3).fit(SMALL, log=log)
    alone = Pivot(states=3, support=5).fit(SMALL, log=pivot_only)
    assert (grammar, alone) == (small(states=3, iterations=3), small(states=3))
    assert [(line["step"], line["phase"], line["iteration"]) for line in log.lines] == [(n, "em", n) for n in (1, 2, 3)]
    assert pivot_only.lines == []
    assert (grammar.info["method"], alone.info["method"]) == ("pivot+em", "pivot")
    assert (grammar.info["iterations"], alone.info["iterations"]) == (3, 0)


def test_the_best_by_evaluation():
    evaluate, log = Scripted([1.0, 2.0, 4.0, 4.0]), Lines()
    options = {"states": 3, "support": 5, "iterations": 5}
    grammar = Pivot(**options, every=2).fit(SMALL, dev=evaluate, log=log)
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
        states=2, support=5, iterations=8, patience=patience, **SIMPLE
    ).fit(SMALL, dev=evaluate, log=log)  # fmt: skip
    assert len(evaluate.grammars) == len(scores)
    assert grammar == evaluate.grammars[best]
    assert len(log.of("iteration")) == len(scores) - 1


# Interruptions.


@pytest.mark.parametrize("patience", [2, None])
def test_interrupted_by_evaluation_it_ends_the_same(patience, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: None)  # small files need not be on disk
    options = {"states": 2, "support": 5, "iterations": 4, "patience": patience, **SIMPLE}
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
    options = {"states": 2, "support": 5, "iterations": 3, **SIMPLE}
    whole = Pivot(**options).fit(SMALL)
    for at in range(3):
        path = tmp_path / f"{at}.checkpoint"
        with pytest.raises(Interrupted):
            Pivot(**options).fit(SMALL, checkpoint=path, log=Lines(fail_at=at))
        assert Pivot(**options, threads=2).fit(SMALL, checkpoint=path) == whole


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    path = tmp_path / "run.checkpoint"
    options = {"states": 2, "support": 5, "iterations": 1, **SIMPLE}
    Pivot(**options).fit(SMALL, checkpoint=path)
    for other in (
        {"states": 3}, {"shrinkage": 1.0}, {"random_state": 1}, {"columns": "fit"}, {"inside": ["word"]},
        {"combinations": 5}, {"strength": 0.0}, {"rule_iterations": 3}, {"alignment_iterations": 9}, {"kappa": 1.0},
        {"solver": "frank-wolfe"}, {"tolerance": 0.1}, {"support": 9}, {"least": 3}, {"iterations": 0}, {"every": 2},
        {"patience": None}, {"unaries": "collapsed"}, {"rare": 3}, {"lexical": LexicalSettings(rare=3)},
    ):  # fmt: skip
        with pytest.raises(UsageError, match=r"run\.checkpoint: the checkpoint of a training run with other settings"):
            Pivot(**{**options, **other}).fit(SMALL, checkpoint=path)
    with pytest.raises(UsageError, match="other settings or trees"):
        Pivot(**options).fit(Corpus.from_trees(made_up_treebank(10)), checkpoint=path)


def test_the_grammar_says_how_it_was_made():
    made = Pivot(states={"NP": 2}, support=5, iterations=1, random_state=5, lexical=LexicalSettings(rare=3))
    info = made.fit(SMALL).info
    assert info["settings"] == made.settings()
    assert info["settings"]["states"] == {"NP": 2}
    assert info["lexical"]["rare"] == 3
    assert info["training"]["digest"] == SMALL.digest()
    assert json.loads(json.dumps(info)) == info


# What cannot be.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"states": 0}, "states must be at least 1, not 0"),
        ({"states": {"NP": 0}}, "states of NP must be at least 1, not 0"),
        ({"states": {"QP": 2}}, "symbols that the trees do not have: ['QP']"),
        ({"inside": "all"}, "no set of features 'all'"),
        ({"outside": ["words"]}, "no outside feature 'words'"),
        ({"outside": ["word"]}, "no outside feature 'word'"),
        ({"columns": "none"}, "columns must be one of align, fit, not 'none'"),
        ({"solver": "simplex"}, "solver must be one of active-set, frank-wolfe, not 'simplex'"),
        ({"unaries": "no"}, "unaries must be one of steps, collapsed, not 'no'"),
        ({"tolerance": 0.0}, "tolerance must lie between 0 and 1, not 0.0"),
        ({"tolerance": 1.0}, "tolerance must lie between 0 and 1, not 1.0"),
        ({"tolerance": float("nan")}, "tolerance must lie between 0 and 1, not nan"),
        ({"smoothing": 1.0}, "smoothing must be at least 0 and below 1, not 1.0"),
        ({"smoothing": float("nan")}, "smoothing must be at least 0 and below 1, not nan"),
        ({"lexical_smoothing": -0.1}, "lexical_smoothing must be at least 0 and below 1, not -0.1"),
        *(
            ({name: 0}, f"{name} must be at least 1, not 0")
            for name in (
                "support", "least", "alignment_iterations", "rule_iterations", "combinations", "every", "patience",
                "threads",
            )
        ),
        *(
            ({name: value}, f"{name} must be 0 or more, not {value}")
            for name in ("kappa", "shrinkage", "strength", "iterations")
            for value in (-1, float("nan"), float("inf"))
        ),
        ({"rare": -1}, "rare must be 0 or more, not -1"),
        ({"random_state": -1}, "random_state must be 0 or more, not -1"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(options, message):
    with pytest.raises(UsageError) as caught:
        Pivot(**options).fit(SMALL)
    assert message in str(caught.value)


def weighted(weights: list[float]):
    """Return a feature whose values have these weights by turns."""

    def values(table) -> Entries:
        nodes = np.arange(table.n_nodes)
        return Entries(nodes, nodes % 4, np.array(weights)[nodes % len(weights)])

    return values


def test_features_with_weights():
    options = {"states": 3, "support": 5, "shrinkage": 0.0, "strength": 0.0, "kappa": 0.0}
    for side in ("inside", "outside"):
        with pytest.raises(UsageError, match="pivot learning counts features: none may be negative"):
            Pivot(**options, **{side: [weighted([1.0, -1.0])]}).fit(SMALL)
        # A weight of nothing is possible, and so are others than 1.
        mixed = {"inside": ["word", "rule"], "outside": ["parent-rule", "head-outside"]}
        for weights in ([0.0], [0.0, 2.5]):
            grammar = Pivot(**options, **{**mixed, side: [*mixed[side], weighted(weights)]}).fit(SMALL)
            check_proper(grammar)
            assert grammar.states.max() > 1


@pytest.mark.parametrize("unaries", ["steps", "collapsed"])
@pytest.mark.parametrize(
    "texts",
    [
        ["(ROOT (N dog))"],
        ["(ROOT (NP (N dog)))"],
        ["(ROOT (NP (N dog)))"] * 50,
        ["(ROOT (N dog))", "(ROOT (NP (N cat)))"] * 20,
        ["(ROOT (S (N dog) (V runs)))"],
        ["(ROOT (X (X dog) (X (X dog) (X dog))))", "(ROOT (X dog))"] * 20,
        ["(ROOT (S (N dog) (V runs)))", "(ROOT (S (N cat) (V sits)))"] * 30,
    ],
    ids=["one word", "one step", "one tree often", "words alone", "one tree", "one symbol and one word", "two kinds"],
)
def test_tiny_treebanks(texts, unaries):
    trees = [Tree.parse(text) for text in texts]
    corpus = Corpus.from_trees(trees)
    pivot = Pivot(states=4, support=1, unaries=unaries, iterations=1)
    grammar = pivot.fit(corpus)
    check_proper(grammar)
    assert set(pivot.anchors(corpus)) <= set(corpus.symbols) | {"N", "NP", "X"}
    parser = Parser(grammar)
    for tree in trees[:2]:
        assert parser.parse_one(list(tree.words())).tree == tree


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
