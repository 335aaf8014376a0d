"""EM: it climbs, it repeats itself to the last bit, and it finds what the trees were made with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.latent_twins import random_corpus
from helpers.made_up import made_up_treebank
from helpers.training_helpers import Interrupted, Lines, PullThePlug, sharpened, telling_grammar
from oracles.reference import tree_probability
from sapwood.errors import GrammarError, SapwoodError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.estep.trees import TreeEStep, lexical_table
from sapwood.learn.lpcfg.em import EM
from sapwood.learn.lpcfg.em_loop import TrainingState, open_checkpoint
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.lpcfg.weights import EMData, LatentWeights
from sapwood.pipeline.train import train
from sapwood.runtime import checkpoint
from sapwood.storage.schema import Schema
from sapwood.testing.grammars import random_bases
from sapwood.trees.corpus import Corpus
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

MADE_UP = Corpus.from_trees(made_up_treebank(60))
seeds = st.integers(0, 2**32 - 1)


def saved_state(learner: EM, corpus: Corpus, path: Path, *, dev: bool = False) -> TrainingState:
    """Return what a finished run left in its checkpoint."""
    key = {**learner.settings(), "method": "em", "corpus": corpus.digest(), "dev": dev}
    state = open_checkpoint(path, key, problem_of(learner, corpus)).load()
    assert state is not None
    return state


def problem_of(learner: EM, corpus: Corpus) -> LPCFGProblem:
    return LPCFGProblem(corpus, unaries=learner.unaries, rare=learner.rare_threshold, lexical=learner.lexical)


def check_rising(likelihoods: list[float]) -> None:
    allowed = 1e-6 * np.abs(likelihoods[1:])
    assert (np.diff(likelihoods) >= -allowed).all(), likelihoods


@examples(40)
@given(seeds, st.integers(2, 4), st.sampled_from([0.0, 0.1, 3.0]), st.sampled_from([0, 2]))
def test_the_objective_never_falls(seed, states, prior, rare):
    corpus = random_corpus(np.random.default_rng(seed), trees=15, max_words=12, words=6)
    log = Lines()
    learner = EM(
        states=states, iterations=12, prior=prior, rare_threshold=rare, min_support=1, noise=0.5, random_state=seed
    )
    learner.fit(corpus, log=log)
    assert [line["step"] for line in log.of("iteration")] == list(range(1, 13))
    check_rising(log.likelihoods())


@pytest.mark.parametrize("unaries", ["explicit", "collapsed"])
@pytest.mark.parametrize("prior", [0.0, 0.5])
def test_it_climbs_on_a_treebank(unaries, prior):
    log = Lines()
    EM(states=3, iterations=20, prior=prior, unaries=unaries, rare_threshold=2).fit(MADE_UP, log=log)
    check_rising(log.likelihoods())
    assert log.likelihoods()[-1] > log.likelihoods()[0] + 10
    assert {line["phase"] for line in log.lines} == {"em"}
    assert [line["iteration"] for line in log.lines] == list(range(1, 21))


def objective_by_hand(trees: EMData, weights: LatentWeights, prior: float) -> float:
    """Return the log-likelihood and the prior's logarithm: each rule and pair once, shared by its states."""
    total = trees.expectations(weights, dtype=np.float64).log_likelihood
    for rule in range(len(weights.rules)):
        tensor = weights.tensors[weights.tensor_offsets[rule] : weights.tensor_offsets[rule + 1]]
        total += prior * np.mean(np.log(tensor.astype(float)))
    begin = 0
    for symbol in trees.pair_symbol:
        end = begin + int(weights.states[symbol])
        total += prior * np.mean(np.log(weights.lexical[begin:end]))
        begin = end
    return float(total)


@pytest.mark.parametrize("unaries", ["explicit", "collapsed"])
def test_the_map_objective_by_hand(unaries, tmp_path):
    """What an iteration reports is the objective of the weights that it starts from."""
    weights = []
    for iterations in (1, 2, 7):
        learner = EM(states=2, iterations=iterations, prior=0.7, unaries=unaries, rare_threshold=2)
        path = tmp_path / str(iterations)
        log = Lines()
        learner.fit(MADE_UP, checkpoint=path, log=log)
        weights.append((iterations, saved_state(learner, MADE_UP, path).weights))
    log = Lines()
    learner = EM(states=2, iterations=8, prior=0.7, unaries=unaries, rare_threshold=2)
    learner.fit(MADE_UP, log=log)
    trees = problem_of(learner, MADE_UP).trees
    for iterations, found in weights:
        assert log.likelihoods()[iterations] == pytest.approx(objective_by_hand(trees, found, 0.7), rel=1e-6)


def test_a_prior_keeps_everything_possible(tmp_path):
    found = {}
    for prior in (0.0, 1.0):
        learner = EM(states=4, iterations=40, prior=prior, min_support=1, rare_threshold=0, noise=0.5)
        learner.fit(MADE_UP, checkpoint=tmp_path / str(prior))
        found[prior] = saved_state(learner, MADE_UP, tmp_path / str(prior)).weights.tensors.min()
    assert found[0.0] < 1e-12
    assert found[1.0] > 1e-6


def test_a_step_down_is_an_error(monkeypatch):
    """Whatever makes the objective fall, here passes that find the trees ever less probable, is not kept silent."""
    honest, calls = LPCFGProblem.expectations, []

    def worse(self, weights):
        found = honest(self, weights)
        calls.append(found)
        found.log_likelihoods[:] -= len(calls)
        return found

    monkeypatch.setattr(LPCFGProblem, "expectations", worse)
    with pytest.raises(SapwoodError, match=r"iteration 2: the objective fell from .* EM must not decrease it"):
        EM(states=2, iterations=3, noise=0.0).fit(MADE_UP)


@pytest.mark.parametrize("states", [3, 5, 7])
def test_trees_without_any_choice(states):
    """All probabilities become one; what single precision makes of that is no step down."""
    corpus = Corpus.from_trees([Tree.parse("(ROOT (S (A a) (S (B b) (C c))))")] * 13)
    for seed in range(5):
        log = Lines()
        EM(states=states, iterations=30, min_support=1, rare_threshold=0, random_state=seed, unaries="collapsed").fit(
            corpus, log=log
        )
        assert log.likelihoods()[-1] == pytest.approx(0, abs=0.01)


def test_trees_of_one_word():
    corpus = Corpus.from_trees([Tree.parse(text) for text in ("(N a)", "(N b)", "(V c)", "(NP (N b))")] * 5)
    for unaries in ("explicit", "collapsed"):
        grammar = EM(states=2, iterations=3, min_support=1, prior=0.5, unaries=unaries).fit(corpus)
        assert len(grammar.rules) == 0


def classes_by_hand(learner: EM, corpus: Corpus, grammar: TensorGrammar) -> float:
    """Return the log-likelihood if words are known by class only: a class has the weights of its words together."""
    word_class = problem_of(learner, corpus).lexical.word_classes(learner.rare_threshold)
    table = TreeEStep(corpus)
    vectors = np.split(lexical_table(grammar, corpus), table.lexical_offsets(grammar)[1:-1])
    by_class: dict[tuple[int, int], np.ndarray] = {}
    totals: dict[int, np.ndarray] = {}
    pairs = list(zip(table.pair_symbol.tolist(), word_class[table.pair_word].tolist(), strict=True))
    for (a, x), vector in zip(pairs, vectors, strict=True):
        by_class[a, x] = by_class.get((a, x), 0.0) + vector
        totals[a] = totals.get(a, 0.0) + vector
    lexical = np.concatenate([by_class[a, x] / totals[a] for a, x in pairs])
    return table.inside(grammar, lexical=lexical, dtype=np.float64).log_likelihood


@pytest.mark.parametrize("rare", [0, 2, 10])
def test_it_starts_from_a_grammar(rare):
    for first in (
        PCFG().fit(MADE_UP),
        EM(states=3, iterations=5, unaries="collapsed", rare_threshold=rare).fit(MADE_UP),
    ):
        log = Lines()
        learner = EM(init=first, iterations=4, rare_threshold=rare, states=7)
        grammar = learner.fit(MADE_UP, log=log)
        assert grammar.states.tolist() == first.states.tolist()
        assert log.likelihoods()[0] == pytest.approx(classes_by_hand(learner, MADE_UP, first), rel=1e-6)
        check_rising(log.likelihoods())
        assert learner.settings()["init"] == first.digest()


def test_what_it_cannot_start_from():
    grammar = PCFG().fit(MADE_UP)
    turned = grammar.conjugate(random_bases(np.random.default_rng(0), grammar))
    with pytest.raises(GrammarError, match="real-valued weights; train the initial model by"):
        EM(init=turned).fit(MADE_UP)
    other = PCFG().fit(Corpus.from_trees(made_up_treebank(60, seed=9)))
    with pytest.raises(
        GrammarError, match=r"without the (symbol|rule) .* of the trees; train the initial model on the"
    ):
        EM(init=other).fit(MADE_UP)
    annotated = PCFG().fit(Corpus.from_trees(made_up_treebank(60), transform=TreeTransform(vertical=2)))
    with pytest.raises(GrammarError, match="vertical is 2 there and 1 here; train with the same settings of trees"):
        EM(init=annotated).fit(MADE_UP)


def test_it_starts_from_grammars_with_more_rules_in_another_order():
    """Explicit unary chains are folded into rules that the trees do not have."""
    trees = made_up_treebank(60)
    explicit = EM(states=2, iterations=3, unaries="explicit").fit(Corpus.from_trees(trees))
    log = Lines()
    grammar = EM(init=explicit, iterations=3, rare_threshold=0).fit(Corpus.from_trees(trees[::-1]), log=log)
    check_rising(log.likelihoods())
    by_name = dict(zip(explicit.symbols, explicit.states.tolist(), strict=True))
    assert dict(zip(grammar.symbols, grammar.states.tolist(), strict=True)).items() <= by_name.items()
    first = EM(states=2, iterations=3, unaries="collapsed").fit(Corpus.from_trees(trees))
    found = []
    for order in (trees, trees[::-1]):
        log = Lines()
        EM(init=first, iterations=2).fit(Corpus.from_trees(order), log=log)
        found.append(log.likelihoods())
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_the_best_of_several_starts(tmp_path):
    corpus = Corpus.from_trees(telling_grammar(2).sample(60, random_state=0, max_words=30))
    settings = {"states": 3, "iterations": 15, "min_support": 1, "rare_threshold": 0, "noise": 0.5}
    log, learner = Lines(), EM(**settings, restarts=5)
    grammar = learner.fit(corpus, log=log, checkpoint=tmp_path / "run")
    endings: dict[int, float] = {}
    for line in log.lines:
        endings[line["restart"]] = line["log_likelihood"]
    assert sorted(endings) == list(range(5))
    best = max(endings, key=endings.__getitem__)
    assert max(endings.values()) > min(endings.values()) + 1  # it matters which one is taken
    assert 0 < best < 4
    # With only the starts up to the best one the result is the same; without it, it is another.
    assert EM(**settings, restarts=best + 1).fit(corpus) == grammar
    assert EM(**settings, restarts=best).fit(corpus) != grammar
    state = saved_state(learner, corpus, tmp_path / "run")
    trees = problem_of(learner, corpus).trees
    assert state.best is not None
    assert state.score == pytest.approx(trees.expectations(state.best).log_likelihood, rel=1e-9)
    assert state.score >= max(endings.values()) - 1e-3


class Scripted:
    """Gives scores from a list, and keeps the grammars it was asked about."""

    def __init__(self, scores: list[float], fail_at: int = -1) -> None:
        self.scores, self.grammars, self.fail_at = scores, [], fail_at

    def __call__(self, grammar: TensorGrammar) -> dict[str, float]:
        if len(self.grammars) == self.fail_at:
            raise Interrupted
        score = self.scores[len(self.grammars)]
        self.grammars.append(grammar)
        return {"f1": score, "log_likelihood": 2 * score, "tags": 0.5}


@pytest.mark.parametrize("stop", ["f1", "log-likelihood"])
def test_stopping_early(stop):
    evaluate, log = Scripted([1.0, 3.0, 2.0, 3.0, 9.0, 9.0]), Lines()
    grammar = EM(states=2, iterations=40, stop=stop, patience=2, eval_every=3).fit(MADE_UP, dev=evaluate, log=log)
    # Twice no better than the second measurement: the fourth is the last.
    assert len(evaluate.grammars) == 4
    assert [line["step"] for line in log.of("iteration")] == list(range(1, 13))
    assert [(line["step"], line["f1"]) for line in log.of("dev")] == [(3, 1.0), (6, 3.0), (9, 2.0), (12, 3.0)]
    assert grammar == evaluate.grammars[1]
    assert grammar == EM(states=2, iterations=6).fit(MADE_UP)


def test_every_start_gets_its_chance():
    """A start that is given up does not end the run: the next one begins."""
    evaluate, log = Scripted([1.0, 3.0, 2.0, 2.0, 4.0, 3.0, 3.0, 9.0]), Lines()
    settings = {"states": 2, "iterations": 40, "stop": "f1", "patience": 2, "eval_every": 3, "restarts": 2}
    grammar = EM(**settings).fit(MADE_UP, dev=evaluate, log=log)
    assert [(line["restart"], line["f1"]) for line in log.of("dev")] == [
        (0, 1.0), (0, 3.0), (0, 2.0), (0, 2.0), (1, 4.0), (1, 3.0), (1, 3.0),
    ]  # fmt: skip
    assert grammar == evaluate.grammars[4]


def test_stopping_only_when_iterations_are_done():
    evaluate, log = Scripted([5.0, 4.0, 3.0, 2.0]), Lines()
    grammar = EM(states=2, iterations=10, patience=1, eval_every=3).fit(MADE_UP, dev=evaluate, log=log)
    assert [line["step"] for line in log.of("dev")] == [3, 6, 9, 10]
    assert grammar == evaluate.grammars[-1] == EM(states=2, iterations=10).fit(MADE_UP)
    # Measured last, the last weights can be the best.
    evaluate = Scripted([1.0, 2.0, 3.0, 4.0])
    grammar = EM(states=2, iterations=10, stop="f1", eval_every=3).fit(MADE_UP, dev=evaluate)
    assert grammar == evaluate.grammars[3]


def test_states_by_name_and_by_frequency():
    corpus = Corpus.from_trees([Tree.parse("(S (N a) (V b))")] * 10 + [Tree.parse("(S (N a) (S (X c) (V b)))")] * 3)
    grammar = EM(states={"S": 3, "N": 2}, iterations=2).fit(corpus)
    assert dict(zip(grammar.symbols, grammar.states.tolist(), strict=True)) == {"S": 3, "N": 2, "V": 1, "X": 1}
    grammar = EM(states={"S": 3, "*": 2}, iterations=2).fit(corpus)
    assert dict(zip(grammar.symbols, grammar.states.tolist(), strict=True)) == {"S": 3, "N": 2, "V": 2, "X": 1}
    # S occurs 16 times, N and V 13 times, X 3 times.
    for least, wanted in ((4, [4, 3, 3, 1]), (1, [5, 5, 5, 3]), (16, [1, 1, 1, 1])):
        grammar = EM(states=5, iterations=2, min_support=least).fit(corpus)
        assert dict(zip(grammar.symbols, grammar.states.tolist(), strict=True)) == dict(
            zip("SNVX", wanted, strict=True)
        )


# Checkpoints.

RUNS = {
    "restarts": ({"states": 2, "iterations": 3, "restarts": 2, "min_support": 1}, None),
    "stop": ({"states": 2, "iterations": 9, "eval_every": 2, "patience": 2, "stop": "f1"}, [1.0, 3.0, 2.0, 2.5, 0.0]),
    "prior": ({"states": 2, "iterations": 4, "prior": 0.5, "unaries": "collapsed"}, None),
}


@pytest.mark.parametrize("name", RUNS)
def test_interrupted_anywhere_it_ends_the_same(name, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: None)  # hundreds of small files need not be on disk
    settings, scores = RUNS[name]
    corpus = Corpus.from_trees(made_up_treebank(6))

    def evaluation():
        # Scores go by the grammar, as those on held-out data do: a resumed run asks about the same ones.
        return None if scores is None else lambda grammar: {"f1": by_grammar[grammar.digest()]}

    by_grammar: dict[str, float] = {}
    if scores is not None:
        recorded = Scripted(scores)
        EM(**settings).fit(corpus, dev=recorded)
        by_grammar = {grammar.digest(): score for grammar, score in zip(recorded.grammars, scores, strict=False)}
    whole = Lines()
    counter = PullThePlug(-1)
    grammar = EM(**settings).fit(corpus, dev=evaluation(), log=whole, progress=counter)
    for at in range(counter.steps):
        path = tmp_path / f"{at}.checkpoint"
        log, later = Lines(), Lines()
        with pytest.raises(Interrupted):
            EM(**settings).fit(corpus, dev=evaluation(), checkpoint=path, progress=PullThePlug(at), log=log)
        resumed = EM(**settings).fit(corpus, dev=evaluation(), checkpoint=path, log=later)
        assert resumed == grammar, at
        assert log.lines + later.lines == whole.lines
    # A finished run has nothing left to do.
    log = Lines()
    assert EM(**settings).fit(corpus, dev=evaluation(), checkpoint=path, log=log) == grammar
    assert log.lines == []


def test_checkpoints_are_written_now_and_then_and_at_the_end(tmp_path, monkeypatch):
    """What kills the process can cost some seconds, no more."""
    written: list[int] = []

    class Clock(Lines):
        def monotonic(self) -> float:
            return 8.0 * len(self.lines)

    def note(schema: Schema, path: Path, arrays: object, metadata: dict[str, int]) -> None:
        written.append(metadata["done"])

    clock = Clock()
    monkeypatch.setattr(checkpoint, "time", clock)
    monkeypatch.setattr(checkpoint, "_PAUSE", 20.0)
    monkeypatch.setattr(Schema, "write", note)
    EM(states=2, iterations=8).fit(MADE_UP, checkpoint=tmp_path / "run", log=clock)
    # Operations: the start, then eight iterations, each of which takes eight seconds.
    assert written == [4, 7, 9]


def test_a_step_down_is_an_error_behind_an_interruption_too(tmp_path, monkeypatch):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        EM(states=2, iterations=4).fit(MADE_UP, checkpoint=path, progress=PullThePlug(3))
    honest = LPCFGProblem.expectations

    def worse(self, weights):
        found = honest(self, weights)
        found.log_likelihoods[:] -= 1
        return found

    monkeypatch.setattr(LPCFGProblem, "expectations", worse)
    with pytest.raises(SapwoodError, match=r"iteration 3: the objective fell from .* EM must not decrease it"):
        EM(states=2, iterations=4).fit(MADE_UP, checkpoint=path)


def test_weights_that_are_no_numbers_block_no_other_run(tmp_path, monkeypatch):
    """A run that cannot go on leaves no checkpoint that somebody could be asked to go on with."""
    honest, calls = LPCFGProblem.expectations, []

    def broken(self, weights):
        found = honest(self, weights)
        calls.append(found)
        if len(calls) == 3:
            found.tensors[:] = np.inf
        return found

    output = tmp_path / "model"
    with monkeypatch.context() as patch, np.errstate(invalid="ignore"):
        patch.setattr(LPCFGProblem, "expectations", broken)
        with pytest.raises(GrammarError, match="weights that are not numbers; less extreme settings may help"):
            train(MADE_UP, method="em", states=2, iterations=4, output=output)
    assert list(tmp_path.iterdir()) == []
    train(MADE_UP, method="em", states=2, iterations=1, output=output)


# What the trees were made with.


def best_likelihood(corpus: Corpus, states: int, unaries: str, *, iterations: int = 100) -> float:
    """Return the best log-likelihood that ten starts reach."""
    log = Lines()
    EM(
        states=states, iterations=iterations, restarts=10, rare_threshold=0, min_support=1, noise=0.5, unaries=unaries
    ).fit(corpus, log=log)  # fmt: skip
    return max(log.likelihoods())


@pytest.mark.slow
def test_it_does_as_well_as_the_grammar_that_made_the_trees():
    """With enough states the best of ten starts makes the sample at least as probable as the truth does.

    That is no matter of course: with fewer states none does.
    """
    truth = telling_grammar(2)
    trees = truth.sample(700, random_state=0, max_words=60)
    corpus = Corpus.from_trees(trees)
    likelihood = sum(np.log(tree_probability(truth, tree)) for tree in trees)
    assert best_likelihood(corpus, 1, "collapsed", iterations=2) < likelihood - 200
    assert best_likelihood(corpus, 3, "collapsed", iterations=40) < likelihood - 10
    assert best_likelihood(corpus, 4, "collapsed") >= likelihood


# The label of leaves that stand for nothing.
NOTHING = "0"


def stepping_grammar(seed: int) -> TensorGrammar:
    """Return a grammar of trees with unary steps, four states for each symbol but the empty leaf."""
    rng = np.random.default_rng(seed)
    shapes = {("S", "NP", "V"): 4, ("S", "NP", "S"): 4, ("NP", "N", NOTHING): 1, ("NP", "N", "N"): 4}
    tensors = {key: rng.gamma(1.0, size=(4, 4, last)) for key, last in shapes.items()}
    tensors["S", "NP", "S"] *= 0.2
    for a in ("S", "NP"):
        totals = sum(tensor.sum(axis=(1, 2)) for key, tensor in tensors.items() if key[0] == a)
        for key in tensors:
            if key[0] == a:
                tensors[key] = tensors[key] / totals[:, None, None]
    lexical = {tag: rng.dirichlet(np.ones(8), size=4) for tag in ("N", "V")}
    words = {(tag, f"w{x}"): lexical[tag][:, x] for tag in ("N", "V") for x in range(8)}
    grammar = TensorGrammar.from_parts(
        root={"S": [0.25] * 4}, rules=tensors, words={**words, (NOTHING, "nothing"): [1.0]}
    )
    return sharpened(grammar, 4)


def without_empty_leaves(tree: Tree) -> Tree:
    def visit(node: Tree, children: list[Tree]) -> Tree:
        return Tree(node.label, [child for child in children if child.label != NOTHING], word=node.word)

    return tree.fold(visit)


@pytest.mark.slow
def test_it_does_as_well_as_the_grammar_that_made_the_steps():
    truth = stepping_grammar(0)
    trees = truth.sample(700, random_state=0, max_words=60)
    corpus = Corpus.from_trees([without_empty_leaves(tree) for tree in trees])
    assert "NP|N" in corpus.symbols
    likelihood = sum(np.log(tree_probability(truth, tree)) for tree in trees)
    assert best_likelihood(corpus, 1, "explicit", iterations=2) < likelihood - 200
    assert best_likelihood(corpus, 2, "explicit", iterations=40) < likelihood - 100
    assert best_likelihood(corpus, 4, "explicit") >= likelihood


@pytest.mark.parametrize("amount", [0.0, 0.3, 0.9])
def test_smoothing_draws_states_together(amount):
    """The same start and the same data: the more smoothing, the less states differ; without any nothing changes."""
    settings = {"states": 2, "iterations": 4, "min_support": 1, "random_state": 1}
    plain = EM(**settings).fit(MADE_UP)
    smoothed = EM(**settings, smoothing=amount, lexical_smoothing=amount).fit(MADE_UP)
    if not amount:
        assert smoothed == plain
    else:
        assert _difference(smoothed) < (1 - amount / 2) * _difference(plain)
        # What fades is next to nothing beside counts that are larger.
        faded = EM(**settings, smoothing=amount, lexical_smoothing=amount, smoothing_half_count=1e-9).fit(MADE_UP)
        np.testing.assert_allclose(faded.root, plain.root, atol=1e-4)
        assert _difference(faded) == pytest.approx(_difference(plain), rel=1e-3)


def _difference(grammar) -> float:
    """Return how far the two states of symbols are from each other, in the probabilities of their rules."""
    total = 0.0
    for rule, (a, _, _) in enumerate(grammar.rules.tolist()):
        if grammar.states[a] == 2:
            first, second = grammar.tensor(rule)
            total += float(np.abs(first - second).sum())
    return total
