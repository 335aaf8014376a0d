"""Clustered states: counts by hand, and runs that can be stopped and gone on with."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from helpers.made_up import f1, made_up_treebank, relabelled
from helpers.training_helpers import Notes
from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.grammar.validate import inner_sums
from sapwood.inference import Parser
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.lpcfg.problem import LPCFGProblem, wanted_states
from sapwood.learn.lpcfg.weights import LatentWeights
from sapwood.learn.spectral import StateClustering, clustering
from sapwood.learn.spectral.clustering import observed_counts
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.learn.spectral.projection import project_nodes
from sapwood.trees.corpus import Corpus
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

MADE_UP = Corpus.from_trees(made_up_treebank(120))


class Interrupted(Exception):
    """Somebody pulled the plug."""


class Lines:
    """A log in memory, which can fail at its n-th line."""

    def __init__(self, fail_at: int = -1) -> None:
        self.lines: list[dict] = []
        self.fail_at = fail_at

    def write(self, event: str, *, step: int, seconds: float | None = None, **figures: object) -> None:
        if len(self.lines) == self.fail_at:
            raise Interrupted
        self.lines.append({"event": event, "step": step, **figures})

    def likelihoods(self) -> list[float]:
        return [line["log_likelihood"] for line in self.lines if line["event"] == "iteration"]


class Scripted:
    """Gives scores from a list, and keeps the grammars it was asked about."""

    def __init__(self, scores: list[float]) -> None:
        self.scores, self.grammars = scores, []

    def __call__(self, grammar: TensorGrammar) -> dict[str, float]:
        self.grammars.append(grammar)
        return {"f1": self.scores[len(self.grammars) - 1]}


# Counts.


def problem_of(corpus: Corpus, unaries: str = "explicit", rare: int = 3) -> LPCFGProblem:
    return LPCFGProblem(
        corpus, unaries=unaries, rare=rare, lexical=LexicalSettings()
    )  # fmt: skip


@pytest.mark.parametrize("unaries", ["explicit", "collapsed"])
def test_counts_by_hand(unaries):
    problem = problem_of(MADE_UP, unaries)
    corpus, trees = problem.trees.corpus, problem.trees
    rng = np.random.default_rng(0)
    states = np.where(problem.splittable(), rng.integers(1, 5, size=len(corpus.symbols)), 1).astype(np.int32)
    node_state = rng.integers(0, states[corpus.symbol])
    counts = observed_counts(problem, replace(trees.one_state(), states=states), node_state)
    rules, words, roots = Counter(), Counter(), Counter()
    for node, (symbol, state) in enumerate(zip(corpus.symbol.tolist(), node_state.tolist(), strict=True)):
        if corpus.parent[node] < 0:
            roots[symbol, state] += 1
        if corpus.word[node] >= 0:
            words[symbol, int(problem.word_classes[corpus.word[node]]), state] += 1
        else:
            left, right = int(corpus.left[node]), int(corpus.right[node])
            rules[int(corpus.rule[node]), state, int(node_state[left]), int(node_state[right])] += 1
    by_hand = [
        rules[rule, i, j, k]
        for rule, (a, b, c) in enumerate(corpus.rules.tolist())
        for i in range(states[a])
        for j in range(states[b])
        for k in range(states[c])
    ]
    assert counts.tensors.tolist() == by_hand
    assert counts.root.tolist() == [roots[a, state] for a in range(len(states)) for state in range(states[a])]
    pairs = sorted({(a, x) for a, x, _ in words})
    assert counts.lexical.tolist() == [words[a, x, state] for a, x in pairs for state in range(states[a])]
    assert (counts.tensors.sum(), counts.lexical.sum()) == ((corpus.rule >= 0).sum(), (corpus.word >= 0).sum())


@cache
def clustered(**options) -> TensorGrammar:
    return StateClustering(**{"states": 4, "min_support": 20, **options}).fit(MADE_UP)


def test_the_grammar_counts_what_the_clusters_say(monkeypatch):
    """Without smoothing: relative frequencies of rules with states, and the roots' of roots."""
    seen: dict = {}
    honest = clustering.observed_counts

    def noted(problem: LPCFGProblem, layout: LatentWeights, node_state: np.ndarray):
        seen.update(corpus=problem.trees.corpus, states=layout.states, node_state=node_state)
        return honest(problem, layout, node_state)

    monkeypatch.setattr(clustering, "observed_counts", noted)
    grammar = StateClustering(
        states=4, min_support=20, smoothing=0, lexical_smoothing=0, unaries="collapsed"
    ).fit(MADE_UP)  # fmt: skip
    corpus, states, node_state = seen["corpus"], seen["states"], seen["node_state"]
    np.testing.assert_array_equal(grammar.states, states)
    assert 2 <= states.max() <= 4
    # Every state occurs, and symbols seen too rarely have one.
    for a, size in enumerate(states.tolist()):
        assert set(node_state[corpus.symbol == a].tolist()) == set(range(size))
        assert size <= max(1, (corpus.symbol == a).sum() // 20)
    wanted = Counter()
    totals = Counter()
    for node in np.flatnonzero(corpus.rule >= 0).tolist():
        children = int(node_state[corpus.left[node]]), int(node_state[corpus.right[node]])
        wanted[int(corpus.rule[node]), int(node_state[node]), *children] += 1
        totals[int(corpus.symbol[node]), int(node_state[node])] += 1
    for rule, (a, _, _) in enumerate(corpus.rules.tolist()):
        tensor = grammar.tensor(rule)
        for i, j, k in np.ndindex(*tensor.shape):
            assert tensor[i, j, k] == pytest.approx(wanted[rule, i, j, k] / totals[a, i], rel=1e-6, abs=1e-9)
    roots = Counter((int(corpus.symbol[node]), int(node_state[node])) for node in corpus.roots)
    for a in range(len(states)):
        np.testing.assert_allclose(
            grammar.root_vector(a), [roots[a, state] / corpus.n_trees for state in range(states[a])], rtol=1e-6
        )


def test_what_is_clustered(monkeypatch):
    """Both vectors of a node, each of unit length when coordinates have unit size, then times the singular values."""
    seen: list[tuple[np.ndarray, int]] = []
    honest = clustering.k_means

    def noted(points: np.ndarray, clusters: int, rng: np.random.Generator) -> np.ndarray:
        seen.append((points, clusters))
        return honest(points, clusters, rng)

    monkeypatch.setattr(clustering, "k_means", noted)
    problem = problem_of(MADE_UP, rare=10)
    corpus = problem.trees.corpus
    wanted = np.where(problem.splittable(), wanted_states(4, corpus.symbols, corpus.symbol_counts(), 20), 1)
    projected = project_nodes(
        NodeTable(corpus, problem.word_classes), np.where(wanted > 1, 6, 1), tolerance=0.03
    )  # fmt: skip
    StateClustering(states=4, min_support=20, dimensions=6).fit(MADE_UP)
    clean = list(seen)
    several = [a for a, size in enumerate(projected.states.tolist()) if size > 1]
    assert [clusters for _, clusters in clean] == wanted[several].tolist()
    for (points, _), a in zip(clean, several, strict=True):
        by_hand = []
        for side in (projected.inside[a], projected.outside[a]):
            sizes = [np.sqrt(np.mean(column**2)) for column in side.T]
            by_hand.append([(v / sizes) / np.linalg.norm(v / sizes) for v in side])
        values = projected.singular_values[a][: projected.states[a]]
        wanted_points = np.concatenate([np.array(side) * values for side in by_hand], axis=1)
        np.testing.assert_allclose(points, wanted_points, rtol=1e-9, atol=1e-12)
    # Noise has the size it is said to have, in each coordinate.
    seen.clear()
    StateClustering(states=4, min_support=20, dimensions=6, noise=0.5).fit(MADE_UP)
    for (noisy, _), (points, _) in zip(seen, clean, strict=True):
        spread = points.std(axis=0)
        moves = spread > 1e-9
        ratio = (noisy - points).std(axis=0)[moves] / spread[moves]
        assert (np.abs(ratio / 0.5 - 1) < 5 / np.sqrt(len(points))).all()
        np.testing.assert_allclose(noisy[:, ~moves], points[:, ~moves], atol=1e-6)


def test_nodes_of_two_kinds_get_two_states():
    """X is one of two things, by its words and by what stands before it; Y is always the same."""
    rng = np.random.default_rng(0)
    trees = []
    for _ in range(300):
        first = bool(rng.random() < 0.5)
        before = Tree("D", word="a") if first else Tree("E", word="a")
        word = str(rng.choice(["p1", "p2"] if first else ["q1", "q2", "q3"]))
        rest = Tree("T", [before, Tree("X", word=word)])
        trees.append(Tree("S", [Tree("Y", word=str(rng.choice(["y1", "y2"]))), rest]))
    grammar = StateClustering(states=2, rare_threshold=0, min_support=10, lexical_smoothing=0.0).fit(
        Corpus.from_trees(trees)
    )
    states = dict(zip(grammar.symbols, grammar.states.tolist(), strict=True))
    assert states["X"] == 2
    assert states["D"] == states["E"] == 1
    symbol = grammar.symbol_number("X", preterminal=True)
    vectors = np.array([grammar.lexical_vector(symbol, word) for word in ("p1", "p2", "q1", "q2", "q3")])
    one = int(vectors[0].argmax())
    assert (vectors[:2, one] > 5 * vectors[:2, 1 - one]).all()
    assert (vectors[2:, 1 - one] > 5 * vectors[2:, one]).all()


# The learner.


@pytest.mark.parametrize("unaries", ["explicit", "collapsed"])
@pytest.mark.parametrize("iterations", [0, 3])
def test_a_proper_grammar(unaries, iterations):
    grammar = clustered(unaries=unaries, iterations=iterations)
    assert grammar.probabilistic
    grammar.validate(1e-4)
    np.testing.assert_allclose(inner_sums(grammar), 1, atol=1e-4)
    np.testing.assert_allclose(grammar.emissions.totals(), 1, atol=1e-6)
    assert grammar.root.sum() == pytest.approx(1)
    assert grammar.states.max() == 4
    assert len(grammar.sample(5, random_state=0)) == 5


def test_iterations_are_noted():
    log = Lines()
    clustering_only = Lines()
    StateClustering(states=3, iterations=3).fit(MADE_UP, log=log)
    StateClustering(states=3).fit(MADE_UP, log=clustering_only)
    assert [(line["step"], line["phase"], line["iteration"]) for line in log.lines] == [(n, "em", n) for n in (1, 2, 3)]
    assert clustering_only.lines == []


def test_seeds_and_noise_make_a_difference():
    grammar = clustered()
    seeds = [clustered(random_state=seed) for seed in (1, 2)]
    assert seeds[0] != grammar
    assert seeds[0] != seeds[1]
    noisy = clustered(noise=0.5)
    assert noisy != grammar
    assert StateClustering(states=4, min_support=20, noise=0.5).fit(MADE_UP) == noisy
    assert clustered(noise=0.5, random_state=1) != noisy
    # They are members of one ensemble: the same symbols, rules and words.
    Parser([grammar, seeds[0], noisy])


def test_the_best_by_evaluation():
    evaluate, log = Scripted([1.0, 2.0, 4.0, 4.0]), Lines()
    options = {"states": 3, "iterations": 5}
    grammar = StateClustering(**options, eval_every=2).fit(MADE_UP, dev=evaluate, log=log)
    assert [(line["step"], line["f1"]) for line in log.lines if line["event"] == "dev"] == [
        (0, 1.0), (2, 2.0), (4, 4.0), (5, 4.0),
    ]  # fmt: skip
    assert grammar == evaluate.grammars[2] == StateClustering(states=3, iterations=4).fit(MADE_UP)
    assert evaluate.grammars[0] == StateClustering(states=3).fit(MADE_UP)
    assert evaluate.grammars[3] == StateClustering(**options).fit(MADE_UP) != grammar
    evaluate = Scripted([9.0, 2.0, 4.0, 5.0])
    assert StateClustering(**options, eval_every=2).fit(MADE_UP, dev=evaluate) == evaluate.grammars[0]
    with pytest.raises(UsageError, match="dev must give 'f1'"):
        StateClustering(states=2).fit(MADE_UP, dev=lambda grammar: {"tags": 1.0})


@pytest.mark.parametrize("scores", [None, [1.0, 3.0, 2.0]])
def test_interrupted_anywhere_it_ends_the_same(scores, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: None)  # small files need not be on disk
    corpus = Corpus.from_trees(made_up_treebank(20))
    options = {"states": 2, "min_support": 5, "iterations": 4, "noise": 0.1}
    by_grammar: dict[str, float] = {}
    if scores is not None:
        recorded = Scripted(scores)
        StateClustering(**options).fit(corpus, dev=recorded)
        by_grammar = {grammar.digest(): score for grammar, score in zip(recorded.grammars, scores, strict=True)}
    evaluate = None if scores is None else lambda grammar: {"f1": by_grammar[grammar.digest()]}
    whole = Lines()
    StateClustering(**options).fit(corpus, dev=evaluate, log=whole).save(tmp_path / "whole")
    assert len(whole.lines) == (4 if scores is None else 7)
    for at in range(len(whole.lines)):
        path = tmp_path / f"{at}.checkpoint"
        log, later = Lines(fail_at=at), Lines()
        with pytest.raises(Interrupted):
            StateClustering(**options).fit(corpus, dev=evaluate, checkpoint=path, log=log)
        StateClustering(**options).fit(corpus, dev=evaluate, checkpoint=path, log=later).save(tmp_path / "resumed")
        assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes(), at
        assert log.lines + later.lines == whole.lines
    # A finished run has nothing left to do: it does not even cluster again.
    monkeypatch.setattr(clustering, "k_means", None)
    again = Lines()
    StateClustering(**options).fit(corpus, dev=evaluate, checkpoint=path, log=again).save(tmp_path / "resumed")
    assert again.lines == []
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("side", ["inside", "outside"])
def test_checkpoints_need_features_with_names(side, tmp_path):
    learner = StateClustering(
        states=2, **{side: ["rule" if side == "inside" else "parent-rule", lambda table: table.height]}
    )
    with pytest.raises(UsageError, match="a feature without a name"):
        learner.fit(MADE_UP, checkpoint=tmp_path / "checkpoint")
    assert learner.fit(MADE_UP).probabilistic


def test_symbols_without_hidden_states_are_told_of():
    notes = Notes()
    grammar = StateClustering(states={"NP": 3, ".": 3, "DT": 2}, min_support=1, tolerance=0.9).fit(
        MADE_UP, progress=notes
    )
    assert grammar.states.max() == 1
    count = dict(zip(MADE_UP.symbols, MADE_UP.symbol_counts().tolist(), strict=True))
    (text,) = notes.texts
    assert text.startswith("no hidden states for 3 of ")
    assert f"DT ({count['DT']:,} times)" in text
    assert f". ({count['.']:,} times)" in text
    assert "nothing needs to be done" in text
    notes = Notes()
    StateClustering(states=1).fit(MADE_UP, progress=notes)
    assert notes.texts == []


# End to end.


def test_states_find_what_labels_do_not_say(tmp_path):
    train = Corpus.from_trees(map(relabelled, made_up_treebank(400, seed=3)), transform=TreeTransform(horizontal=0))
    gold = [relabelled(tree) for tree in made_up_treebank(50, seed=99)]
    assert f1(PCFG().fit(train), gold) < 60
    grammar = StateClustering(states=8).fit(train)
    found = f1(grammar, gold)
    assert found > 85
    assert f1(StateClustering(states=8, iterations=3).fit(train), gold) > 85
    grammar.save(tmp_path / "grammar")
    loaded = TensorGrammar.load(tmp_path / "grammar")
    assert loaded == grammar
    assert f1(loaded, gold) == found
