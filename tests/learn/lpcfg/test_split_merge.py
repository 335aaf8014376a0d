"""Split-merge: states where the data need them, the same bits every time, and no harm from interruptions."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from helpers.training_helpers import Interrupted, Lines, PullThePlug
from sapwood.errors import ModelError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.learn.lpcfg.weights import EMData
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

MADE_UP = Corpus.from_trees(made_up_treebank(60))
SMALL = Corpus.from_trees(made_up_treebank(8))


def states_of(grammar: TensorGrammar) -> dict[str, int]:
    return dict(zip(grammar.symbols, grammar.states.tolist(), strict=True))


def two_uses(count: int, seed: int) -> Corpus:
    """Return trees in which X is one of two things, by what stands before it; Y is always the same."""
    rng = np.random.default_rng(seed)
    trees = []
    for _ in range(count):
        first = bool(rng.random() < 0.5)
        before = Tree("D", word="a") if first else Tree("E", word="a")
        word = rng.choice(["p1", "p2"] if first else ["q1", "q2", "q3"])
        rest = Tree("T", [before, Tree("X", word=str(word))])
        trees.append(Tree("S", [Tree("Y", word=str(rng.choice(["y1", "y2", "y3"]))), rest]))
    return Corpus.from_trees(trees)


@pytest.mark.parametrize("seed", range(3))
def test_states_go_where_they_are_needed(seed):
    corpus = two_uses(200, seed)
    settings = {"rare_threshold": 0, "iterations": 30, "random_state": seed}
    # Six symbols are split and five splits undone: the one that stays is that of X.
    grammar = SplitMerge(cycles=1, merge=0.8, **settings).fit(corpus)
    assert states_of(grammar) == {"S": 1, "T": 1, "Y": 1, "X": 2, "D": 1, "E": 1}
    symbol = grammar.symbol_number("X", preterminal=True)
    vectors = np.array([grammar.lexical_vector(symbol, word) for word in ("p1", "p2", "q1", "q2", "q3")])
    one = int(vectors[0].argmax())
    assert (vectors[:2, one] > 5 * vectors[:2, 1 - one]).all()
    assert (vectors[2:, 1 - one] > 5 * vectors[2:, one]).all()
    # A second cycle has nothing more to find.
    again = SplitMerge(cycles=2, merge=0.8, **settings).fit(corpus)
    assert states_of(again)["X"] >= 2


def test_one_cycle_is_what_its_parts_are():
    """Split, iterate, merge, iterate: the numbers of states and the likelihoods of each phase."""
    log = Lines()
    grammar = SplitMerge(cycles=2, iterations=4, smoothing_iterations=3, rare_threshold=2, unaries="collapsed").fit(
        MADE_UP, log=log
    )
    lines = log.of("iteration")
    wanted = [
        (cycle, phase, iteration)
        for cycle in (1, 2)
        for phase, count in (("split", 4), ("smooth", 3))
        for iteration in range(1, count + 1)
    ]
    assert [(line["cycle"], line["phase"], line["iteration"]) for line in lines] == wanted
    assert [line["step"] for line in lines] == list(range(1, 15))
    states = {(line["cycle"], line["phase"]): line["states"] for line in lines}
    symbols = len(MADE_UP.symbols)
    enough = int((MADE_UP.symbol_counts() >= 4).sum())
    assert states[1, "split"] == symbols + enough
    assert states[1, "smooth"] == symbols + enough - round(enough / 2)
    assert states[2, "smooth"] == grammar.states.sum()
    assert states[1, "smooth"] < states[2, "smooth"] < states[2, "split"]
    for cycle in (1, 2):
        rising = [line["log_likelihood"] for line in lines if (line["cycle"], line["phase"]) == (cycle, "split")]
        assert (np.diff(rising) >= -1e-6 * np.abs(rising[1:])).all()


@pytest.mark.parametrize("unaries", ["explicit", "collapsed"])
def test_nothing_is_merged_if_nothing_is_to_be(unaries):
    settings = {
        "cycles": 3,
        "iterations": 2,
        "smoothing_iterations": 1,
        "rare_threshold": 2,
        "min_support": 1,
        "unaries": unaries,
    }
    grammar = SplitMerge(merge=0.0, **settings).fit(MADE_UP)
    if unaries == "collapsed":
        counts = MADE_UP.symbol_counts()
        # A symbol is split as long as it occurs once for each state.
        wanted = np.where(counts >= 4, 8, np.where(counts >= 2, 4, 2))
        np.testing.assert_array_equal(grammar.states, wanted)
    else:
        frequent = MADE_UP.symbol_counts() >= 4
        assert (grammar.states[frequent] == 8).all()
    assert SplitMerge(merge=0.5, **settings).fit(MADE_UP).states.sum() < grammar.states.sum()


def test_rare_symbols_are_not_split():
    for least in (1, 4, 20):
        grammar = SplitMerge(
            cycles=2, iterations=2, smoothing_iterations=1, merge=0.0, min_support=least, unaries="collapsed",
            rare_threshold=0
        ).fit(MADE_UP)  # fmt: skip
        counts = MADE_UP.symbol_counts()
        np.testing.assert_array_equal(grammar.states, np.where(counts >= 2 * least, 4, np.where(counts >= least, 2, 1)))


def test_the_cheapest_splits_are_undone(monkeypatch):
    """What stays is what the losses say."""
    found = []
    honest = EMData.merge_losses

    def noted(self, weights, occupancy, twin, **options):
        losses = honest(self, weights, occupancy, twin, **options)
        found.append((weights, twin, losses))
        return losses

    monkeypatch.setattr(EMData, "merge_losses", noted)
    grammar = SplitMerge(
        cycles=1, iterations=5, smoothing_iterations=1, merge=0.6, rare_threshold=2, unaries="collapsed"
    ).fit(MADE_UP)
    weights, twin, losses = found[0]
    candidates = np.flatnonzero(twin)
    symbol = weights.symbol_of_state[candidates]
    undone = grammar.states[symbol] == 1
    assert undone.sum() == round(0.6 * len(candidates))
    assert losses[candidates][undone].max() <= losses[candidates][~undone].min()
    assert sorted(symbol.tolist()) == np.flatnonzero(weights.states == 2).tolist()


def test_smoothing_draws_states_together():
    settings = {
        "cycles": 1,
        "iterations": 10,
        "smoothing_iterations": 3,
        "merge": 0.0,
        "rare_threshold": 0,
        "unaries": "collapsed",
    }
    spread = []
    for smoothing in (0.0, 0.3, 0.9):
        grammar = SplitMerge(smoothing=smoothing, lexical_smoothing=smoothing, **settings).fit(MADE_UP)
        rules = [rule for rule, key in enumerate(grammar.rules) if grammar.states[key[0]] == 2]
        spread.append(sum(np.abs(grammar.tensor(rule)[0] - grammar.tensor(rule)[1]).sum() for rule in rules))
    assert spread[0] > spread[1] > spread[2]


def test_the_best_cycle_is_returned():
    grammars = []

    def evaluate(grammar):
        grammars.append(grammar)
        return {"f1": [0.3, 0.7, 0.5][len(grammars) - 1], "exact": 0.1}

    log = Lines()
    settings = {"iterations": 2, "smoothing_iterations": 1, "rare_threshold": 2}
    grammar = SplitMerge(cycles=3, **settings).fit(MADE_UP, dev=evaluate, log=log)
    assert grammar == grammars[1]
    assert grammar == SplitMerge(cycles=2, **settings).fit(MADE_UP)
    assert [(line["step"], line["cycle"], line["f1"], line["exact"]) for line in log.of("dev")] == [
        (3, 1, 0.3, 0.1), (6, 2, 0.7, 0.1), (9, 3, 0.5, 0.1),
    ]  # fmt: skip


# Checkpoints.

SETTINGS = {"cycles": 2, "iterations": 2, "smoothing_iterations": 1, "min_support": 1, "rare_threshold": 2}


@pytest.fixture
def no_sync(monkeypatch):
    """Hundreds of small files need not be on disk."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


def held_out(grammar: TensorGrammar) -> dict[str, float]:
    """Give a score that depends on the grammar alone; the first cycle is better than the second."""
    return {"f1": 1 / float(grammar.states.sum())}


@pytest.mark.parametrize("evaluate", [None, held_out])
@pytest.mark.parametrize("unaries", ["explicit", "collapsed"])
def test_interrupted_anywhere_it_ends_the_same(unaries, evaluate, tmp_path, no_sync):
    settings = {**SETTINGS, "unaries": unaries}
    whole, counter = Lines(), PullThePlug(-1)
    grammar = SplitMerge(**settings).fit(SMALL, dev=evaluate, log=whole, progress=counter)
    # Before the first, and behind each: split, two iterations, merge, one iteration, evaluation.
    assert counter.steps == 1 + 2 * (5 if evaluate is None else 6)
    for at in range(counter.steps):
        path = tmp_path / f"{at}.checkpoint"
        log, later = Lines(), Lines()
        with pytest.raises(Interrupted):
            SplitMerge(**settings).fit(SMALL, dev=evaluate, checkpoint=path, progress=PullThePlug(at), log=log)
        assert path.exists() == (at > 0)
        resumed = SplitMerge(**settings).fit(SMALL, dev=evaluate, checkpoint=path, log=later)
        assert resumed == grammar, at
        assert log.lines + later.lines == whole.lines


def test_interrupted_while_logging_it_ends_the_same(tmp_path, no_sync):
    """A line that could not be written is written later, for its operation is not done yet."""
    whole = Lines()
    grammar = SplitMerge(**SETTINGS).fit(SMALL, log=whole)
    for at in range(len(whole.lines)):
        path = tmp_path / f"{at}.checkpoint"
        log, later = Lines(fail_at=at), Lines()
        with pytest.raises(Interrupted):
            SplitMerge(**SETTINGS).fit(SMALL, checkpoint=path, log=log)
        assert SplitMerge(**SETTINGS).fit(SMALL, checkpoint=path, log=later) == grammar
        assert log.lines + later.lines == whole.lines


def test_interrupted_again_and_again(tmp_path, no_sync):
    path = tmp_path / "run.checkpoint"
    grammar = SplitMerge(**SETTINGS).fit(SMALL, dev=held_out)
    for _ in range(12):
        with pytest.raises(Interrupted):
            SplitMerge(**SETTINGS).fit(SMALL, dev=held_out, checkpoint=path, progress=PullThePlug(1))
    assert SplitMerge(**SETTINGS).fit(SMALL, dev=held_out, checkpoint=path) == grammar


def test_interrupted_while_evaluating(tmp_path, no_sync):
    def fail(grammar):
        raise Interrupted

    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        SplitMerge(**SETTINGS).fit(SMALL, dev=fail, checkpoint=path)
    log = Lines()
    found = SplitMerge(**SETTINGS).fit(SMALL, dev=held_out, checkpoint=path, log=log)
    assert found == SplitMerge(**SETTINGS).fit(SMALL, dev=held_out)
    assert [line["event"] for line in log.lines] == ["dev", "iteration", "iteration", "iteration", "dev"]


def test_a_damaged_checkpoint_is_found_out(tmp_path):
    path = tmp_path / "run.checkpoint"
    SplitMerge(**SETTINGS).fit(SMALL, checkpoint=path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-5] ^= 1
    model = tmp_path / "grammar"
    PCFG().fit(SMALL).save(model)
    for content in (whole[:-20], whole[:100], b"", b"hello\n" * 50, bytes(flipped), model.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(ModelError, match=r"run\.checkpoint: "):
            SplitMerge(**SETTINGS).fit(SMALL, checkpoint=path)
        assert path.read_bytes() == content
