"""Smaller grammars: what stays the same at full rank, how many states are kept, and that parsers work with them."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from automata.test_empirical_gram import corpus_of
from helpers.effort import examples
from helpers.made_up import made_up_treebank
from oracles.reference import inside_outside, tree_probability
from sapwood.automata import compare, truncate
from sapwood.automata.algebra import add, scale
from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.distance import l2_distance, l2_norm
from sapwood.automata.gram import DivergenceError, gram_matrices, largest_gamma
from sapwood.automata.minimal import minimal
from sapwood.automata.reduce.truncation import DEFAULT_TOLERANCE, Symbols, Truncation, Weighting, minimise_automaton
from sapwood.automata.svta import choose_states, project, singular_states
from sapwood.automata.wcfg.convert import from_weighted_grammar
from sapwood.automata.wcfg.files import read_grammar
from sapwood.errors import GrammarError, InputError, UsageError
from sapwood.grammar.coarsen import expected_symbols
from sapwood.grammar.state_ops import change_states
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.research.random_automata import random_automaton
from sapwood.runtime.progress import Silent, Stage
from sapwood.testing.grammars import random_bases, random_grammar, random_states
from sapwood.trees.corpus import Corpus
from sapwood.trees.transform import TreeTransform

SEEDS = st.integers(0, 10_000)
# Weights of rules are kept in single precision.
SINGLE = 1e-5


def split_states(grammar: TensorGrammar, rng: np.random.Generator) -> TensorGrammar:
    """Return the same function with up to two states more for each symbol, each a copy of another one.

    A copy does what the original does; what led to the original leads to either, in parts.
    """
    inside, outside = [], []
    for m in grammar.states.tolist():
        below, above = np.eye(m), np.eye(m)
        for _ in range(rng.integers(3)):
            at, part = int(rng.integers(below.shape[1])), rng.uniform(0.2, 0.8)
            below = np.concatenate([below, below[:, [at]]], axis=1)
            above = np.concatenate([above, above[:, [at]] * part], axis=1)
            above[:, at] *= 1 - part
        inside.append(below)
        outside.append(above)
    return replace(change_states(grammar, inside, outside), probabilistic=grammar.probabilistic)


def redundant(seed: int, **options: object) -> tuple[TensorGrammar, TensorGrammar]:
    """Return a random grammar, and the same function with more states."""
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, **{"states": (1, 3), **options})
    return grammar, split_states(grammar, rng)


def assert_same_weights(one: TensorGrammar, other: TensorGrammar, trees: list, rel: float = SINGLE) -> None:
    for tree in trees:
        assert tree_probability(one, tree) == pytest.approx(tree_probability(other, tree), rel=rel)


# -- full rank ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", ["l2", "gamma", "trees"])
@examples(3)
@given(seed=SEEDS, real=st.booleans())
@pytest.mark.slow
def test_full_rank_keeps_the_weights_of_trees(weighting: Weighting, seed: int, real: bool) -> None:
    grammar, wide = redundant(seed, interminals=2, preterminals=2, words=5)
    trees = grammar.sample(200, random_state=seed, max_words=30)
    if real:
        wide = wide.conjugate(random_bases(np.random.default_rng(seed), wide))
    corpus = corpus_of(trees) if weighting == "trees" else None
    result = truncate(wide, tolerance=0, weighting=weighting, corpus=corpus)
    assert result.before is wide
    assert_same_weights(result.grammar, grammar, trees[:40])
    # The smallest possible numbers of states, as an algorithm of another kind finds them.
    ranks = minimal(TreeAutomaton.from_grammar(wide)).ranks
    if weighting == "trees":
        assert (result.states.ranks <= np.maximum(ranks, 1)).all()
    else:
        assert result.grammar.states.tolist() == np.maximum(ranks, 1).tolist()
        assert [record["rank"] for record in result.records()] == ranks.tolist()
    assert result.grammar.states.sum() <= grammar.states.sum()


def test_the_same_function_is_the_same_result() -> None:
    grammar, wide = redundant(3)
    first, second = (truncate(one, states=2) for one in (grammar, wide))
    assert first.grammar.states.tolist() == second.grammar.states.tolist()
    for one, other in zip(first.states.values, second.states.values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert_same_weights(first.grammar, second.grammar, grammar.sample(30, random_state=0, max_words=20))


def test_values_are_those_of_the_hankel_matrices() -> None:
    grammar, _ = redundant(5)
    result = truncate(grammar, tolerance=0)
    expected = singular_states(gram_matrices(TreeAutomaton.from_grammar(grammar)))
    for one, other in zip(result.states.values, expected.values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


def test_what_the_result_is() -> None:
    grammar, wide = redundant(8)
    result = truncate(wide, states=2)
    small = result.grammar
    assert small.validate() is small
    assert (small.symbols, small.n_interminals) == (wide.symbols, wide.n_interminals)
    assert np.array_equal(small.rules, wide.rules)
    assert small.tensors.dtype == np.float32
    assert not small.probabilistic
    assert small.info["minimised"] == {"weighing": "l2", "symbols": "own", "states_before": int(wide.states.sum())}
    assert small.info["method"] == "random"
    np.testing.assert_allclose(expected_symbols(small), expected_symbols(grammar), rtol=0.2)
    assert truncate(wide, states=2).grammar == small


# -- how many states ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide() -> TensorGrammar:
    return random_grammar(np.random.default_rng(12), interminals=2, preterminals=2, words=8, states=(6, 6))


@pytest.mark.parametrize("states", [1, 2, 5, 6, 100])
def test_states(wide: TensorGrammar, states: int) -> None:
    assert truncate(wide, states=states).grammar.states.tolist() == [min(states, 6)] * 4


@pytest.mark.parametrize(("budget", "states"), [(0.01, 4), (0.25, 6), (0.5, 12), (0.9, 21), (1.0, 24)])
def test_budget(wide: TensorGrammar, budget: float, states: int) -> None:
    result = truncate(wide, budget=budget)
    assert result.grammar.states.sum() == states
    # Where they matter most: nothing that was left out is larger than what was kept, but for each symbol's first.
    kept, gone = [], []
    for values, count in zip(result.states.values, result.grammar.states, strict=True):
        kept += values[1:count].tolist()
        gone += values[count:].tolist()
    assert min(kept, default=np.inf) >= max(gone, default=0.0)


def test_tolerance(wide: TensorGrammar) -> None:
    sizes = []
    for tolerance in (0.0, 0.001, 0.01, 0.1, 0.5, 0.99):
        result = truncate(wide, tolerance=tolerance)
        whole = result.states.dropped(0)
        assert result.best_possible() <= tolerance * whole
        assert result.best_possible() == result.states.dropped(result.grammar.states)
        sizes.append(int(result.grammar.states.sum()))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 24
    assert sizes[-1] < 8
    assert truncate(wide).grammar == truncate(wide, tolerance=DEFAULT_TOLERANCE).grammar
    assert sizes[0] > truncate(wide).grammar.states.sum() > sizes[-1]


def test_frequent_symbols_keep_more_of_a_treebank(wide: TensorGrammar) -> None:
    # Correlations do not say how often a symbol occurs, so counts do.
    corpus = corpus_of(wide.sample(300, random_state=0, max_words=30))
    once = truncate(wide, budget=0.5, weighting="trees", corpus=corpus)
    counts = wide.rule_counts.copy()
    counts[wide.rules[:, 0] == 1] *= 1e6
    often = truncate(replace(wide, rule_counts=counts), budget=0.5, weighting="trees", corpus=corpus)
    assert often.grammar.states[1] == 6 > once.grammar.states[1]
    assert often.grammar.states.sum() == once.grammar.states.sum() == 12
    plain = truncate(replace(wide, rule_counts=counts), budget=0.5)
    assert plain.grammar == replace(truncate(wide, budget=0.5).grammar, rule_counts=counts)


# -- what counts -------------------------------------------------------------------------------------------------------


STICK = """\
S -> NP VP [1.0]
NP -> D N [0.7] | NP PP [0.3]
VP -> V NP [0.7] | VP PP [0.3]
PP -> P NP [1.0]
D -> 'the' [0.5] | 'a' [0.5]
N -> 'dog' [0.5] | 'man' [0.3] | 'stick' [0.2]
V -> 'saw' [0.6] | 'hit' [0.4]
P -> 'with' [1.0]
"""


def test_the_default_gamma_steps_back_where_truncation_loses_everything(tmp_path: Path) -> None:
    """Next to the border, the states of prepositional phrases come before those that every sentence needs."""
    (tmp_path / "stick.txt").write_text(STICK)
    automaton = from_weighted_grammar(read_grammar(tmp_path / "stick.txt"))
    largest = largest_gamma(automaton, tolerance=0.01)
    tree = (("the", "dog"), ("saw", ("a", "man")))
    for states in (6, 7):
        near = minimise_automaton(automaton, weighting="gamma", gamma=0.97 * largest, work=states)
        assert near.closeness is not None
        assert near.closeness.relative == pytest.approx(1, abs=1e-3)
        assert near.automaton.weight(tree) == pytest.approx(0, abs=1e-9)
        found = minimise_automaton(automaton, weighting="gamma", work=states)
        assert found.gamma == pytest.approx(0.88 * largest)
        assert found.closeness is not None
        assert found.closeness.relative == pytest.approx(0.1585, abs=1e-3)
        assert found.automaton.weight(tree) == pytest.approx(automaton.weight(tree), rel=0.05)
    # Where the border does no harm, or no gamma helps, it stays near.
    notes = Notes()
    assert minimise_automaton(automaton, weighting="gamma", work=8).gamma == pytest.approx(0.97 * largest)
    lost = minimise_automaton(automaton, weighting="gamma", work=2, progress=notes)
    assert lost.gamma == pytest.approx(0.97 * largest)
    assert notes.notes == ["with these states the truncation loses all trees, whatever gamma is; keep more states"]


class Notes(Silent):
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_gamma(wide: TensorGrammar) -> None:
    automaton = TreeAutomaton.from_grammar(wide)
    result = truncate(wide, states=2, weighting="gamma", gamma=1.3)
    expected = singular_states(gram_matrices(automaton, gamma=1.3))
    for one, other in zip(result.states.values, expected.values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert result.gamma == 1.3
    assert result.grammar.info["minimised"]["gamma"] == 1.3
    # With a gamma of 1 there is no difference.
    plain, same = truncate(wide, states=2), truncate(wide, states=2, weighting="gamma", gamma=1)
    np.testing.assert_allclose(same.grammar.tensors, plain.grammar.tensors, rtol=1e-4, atol=1e-6)
    assert plain.gamma is None
    assert not np.allclose(result.grammar.tensors, plain.grammar.tensors, rtol=1e-3)


def test_gamma_by_default_is_nearly_the_largest(wide: TensorGrammar) -> None:
    largest = largest_gamma(TreeAutomaton.from_grammar(wide))
    found = truncate(wide, states=2, weighting="gamma")
    assert found.gamma is not None
    assert 0.95 * largest < found.gamma < largest
    with pytest.raises(DivergenceError, match="not finite"):
        truncate(wide, states=2, weighting="gamma", gamma=1.05 * largest)


def test_gamma_makes_large_trees_count() -> None:
    # The more so, the closer: of large trees the weights are nearer to what they were.
    grammar = random_grammar(np.random.default_rng(0), interminals=2, preterminals=2, words=4, states=(5, 5))
    trees = grammar.sample(600, random_state=1, max_words=60)
    large = [tree for tree in trees if len(tree.words()) > 8]
    assert len(large) > 20

    def error(result: Truncation) -> float:
        ratios = [tree_probability(result.grammar, tree) / tree_probability(grammar, tree) for tree in large]
        return float(np.median(np.abs(np.array(ratios) - 1)))

    assert error(truncate(grammar, states=2, weighting="gamma")) < error(truncate(grammar, states=2))


def test_trees_make_what_they_show_count(wide: TensorGrammar) -> None:
    trees = wide.sample(400, random_state=3, max_words=40)
    corpus = corpus_of(trees)

    def error(result: Truncation) -> float:
        ratios = [tree_probability(result.grammar, tree) / tree_probability(wide, tree) for tree in trees]
        return float(np.sqrt(np.mean((np.array(ratios) - 1) ** 2)))

    by_trees, by_weights = truncate(wide, states=3, weighting="trees", corpus=corpus), truncate(wide, states=3)
    assert error(by_trees) < error(by_weights)
    assert by_trees.grammar.info["minimised"]["weighing"] == "trees"
    one, two = (truncate(wide, states=3, weighting="trees", corpus=corpus, threads=n).grammar for n in (1, 2))
    assert one == two == by_trees.grammar


# -- distances ---------------------------------------------------------------------------------------------------------


def test_distances(wide: TensorGrammar) -> None:
    automaton = TreeAutomaton.from_grammar(wide)
    for options in ({"weighting": "l2"}, {"weighting": "gamma", "gamma": 1.2}):
        result = truncate(wide, states=2, distances=True, **options)
        assert result.closeness is not None
        # Up to single precision this is the distance of the two grammars.
        close = compare(automaton, TreeAutomaton.from_grammar(result.grammar))
        assert result.closeness.l2 == pytest.approx(close.l2, rel=1e-3)
        assert result.closeness.hankel == pytest.approx(close.hankel, rel=1e-3)
        assert result.closeness.l2_norm == pytest.approx(close.l2_norm, rel=1e-6)
        assert 0 < result.closeness.relative < 0.2
        if options["weighting"] == "l2":
            assert result.best_possible() <= result.closeness.hankel < 5 * result.best_possible()
    assert truncate(wide, states=2).closeness is None
    corpus = corpus_of(wide.sample(100, random_state=0, max_words=30))
    by_trees = truncate(wide, states=2, weighting="trees", corpus=corpus, distances=True)
    assert by_trees.closeness is not None
    assert by_trees.closeness.l2 >= 0
    whole = truncate(wide, tolerance=0, distances=True)
    assert whole.closeness is not None
    assert whole.closeness.relative < 1e-6


class _Notes(Silent):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.stages: list[str] = []

    def note(self, message: str) -> None:
        self.said.append(message)

    def stage(self, name: str, total: int | None = None, unit: str = "it") -> AbstractContextManager[Stage]:
        self.stages.append(name)
        return super().stage(name, total, unit)


@pytest.mark.parametrize("exact", [True, False])
def test_all_that_takes_time_is_shown(wide: TensorGrammar, exact: bool) -> None:
    progress = _Notes()
    truncate(wide, tolerance=0 if exact else 0.1, progress=progress)
    assert ("minimal form" in progress.stages) == exact
    assert {"sums over trees", "sums over contexts"} <= {*progress.stages}


def test_distances_that_are_not_finite(wide: TensorGrammar) -> None:
    # By gamma below 1 a grammar can be reduced that has no distance to anything.
    heavy = replace(wide, tensors=wide.tensors * 20.0, probabilistic=False)
    with pytest.raises(DivergenceError):
        truncate(heavy, states=2)
    progress = _Notes()
    result = truncate(heavy, states=2, weighting="gamma", distances=True, progress=progress)
    assert result.gamma is not None
    assert result.gamma < 1
    assert result.closeness is None
    assert any("not finite" in note for note in progress.said)


# -- symbols put together ----------------------------------------------------------------------------------------------


def annotated(seed: int) -> TensorGrammar:
    """Return a random grammar whose symbols are annotated with what is above them."""
    grammar = random_grammar(np.random.default_rng(seed), interminals=4, preterminals=3, words=3, states=(1, 2))
    return replace(grammar, symbols=["NP^S", "NP^VP", "S^ROOT", "VP^S", "N^NP", "N^VP", "V^VP"])


def all_sentences(words: list[str], longest: int) -> list[list[str]]:
    return [list(sentence) for length in range(1, longest + 1) for sentence in product(words, repeat=length)]


@pytest.mark.parametrize(("symbols", "names"), [("base", ["NP", "S", "VP", "N", "V"]), ("none", ["X", "X"])])
@pytest.mark.parametrize("seed", range(2))
def test_sentences_stay_as_probable(symbols: Symbols, names: list[str], seed: int) -> None:
    grammar = annotated(seed)
    result = truncate(grammar, tolerance=0, symbols=symbols)
    assert result.grammar.symbols == result.before.symbols == names
    assert result.before.states.sum() == grammar.states.sum()
    assert result.grammar.info["minimised"]["symbols"] == symbols
    ranks = minimal(TreeAutomaton.from_grammar(result.before)).ranks
    assert result.grammar.states.tolist() == np.maximum(ranks, 1).tolist()
    small, whole = Parser(result.grammar, threshold=0), Parser(grammar, threshold=0)
    for sentence in all_sentences(["w0", "w2"], 3):
        expected = inside_outside(grammar, sentence).probability
        assert inside_outside(result.grammar, sentence).probability == pytest.approx(expected, rel=SINGLE)
        one, other = small.parse_one(sentence), whole.parse_one(sentence)
        if other.status == "parsed":
            assert one.log_probability == pytest.approx(other.log_probability, abs=SINGLE)
            assert np.exp(one.log_probability) == pytest.approx(expected, rel=SINGLE)


def test_trees_without_labels_are_those_of_the_joined_automaton() -> None:
    grammar = annotated(3)
    result = truncate(grammar, tolerance=0, symbols="none")
    joined = TreeAutomaton.from_grammar(grammar).joined()
    merged = TreeAutomaton.from_grammar(result.grammar)
    for term in (("w0", "w1"), ("w2", ("w0", "w1")), (("w0", "w1"), ("w1", ("w2", "w0")))):
        assert merged.joined().weight(term) == pytest.approx(joined.weight(term), rel=SINGLE)


@pytest.fixture(scope="module")
def treebank_grammar() -> TensorGrammar:
    """A treebank grammar whose symbols know their parents, with words that it does not know."""
    return PCFG().fit(Corpus.from_trees(made_up_treebank(40), transform=TreeTransform(2, 1)))


@pytest.mark.parametrize("symbols", ["base", "none"])
def test_treebank_grammars(treebank_grammar: TensorGrammar, symbols: Symbols) -> None:
    result = truncate(treebank_grammar, tolerance=0, symbols=symbols)
    assert result.grammar.states.sum() < treebank_grammar.states.sum()
    assert result.grammar.states.max() > 1
    small, whole = Parser(result.grammar, threshold=0), Parser(treebank_grammar, threshold=0)
    for tree in made_up_treebank(6):
        one, other = small.parse_one(tree.words()), whole.parse_one(tree.words())
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
        if symbols == "base":
            assert one.tree is not None
            assert one.tree.words() == tree.words()
            assert {node.label for node in one.tree.nodes()} <= {"ROOT", "S", "NP", "VP", "PP", "NNP", "N", "DT", "CD",
                                                                 "JJ", "P", "V", "."}  # fmt: skip


def test_without_labels_grammars_must_be_small(
    treebank_grammar: TensorGrammar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("sapwood.automata.reduce.truncation"), "MOST_WEIGHTS", 1000)
    with pytest.raises(UsageError, match=r"without labels the grammar would have [0-9,]+ x [0-9,]+\^2 weights"):
        truncate(treebank_grammar, symbols="none", states=2)
    assert truncate(treebank_grammar, symbols="base", states=2).grammar.states.max() == 2


# -- parsing -----------------------------------------------------------------------------------------------------------

OPTIONS = [
    {"states": 1},
    {"states": 2},
    {"budget": 0.5, "weighting": "gamma"},
    {"tolerance": 0.3},
    {"budget": 0.4, "weighting": "trees"},
    {"states": 2, "symbols": "base"},
    {"states": 3, "symbols": "none"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_parsers_never_fail(treebank_grammar: TensorGrammar, options: dict) -> None:
    # Words of the grammar in any order, and others.
    grammar = random_states(treebank_grammar, 3, np.random.default_rng(0), noise=1.0)
    corpus = Corpus.from_trees(made_up_treebank(40), transform=treebank_grammar.transform)
    more = {"corpus": corpus} if options.get("weighting") == "trees" else {}
    small = truncate(grammar, **options, **more).grammar
    rng = np.random.default_rng(1)
    words = sorted({word for tree in made_up_treebank(5) for word in tree.words()})
    sentences = [list(rng.choice([*words, "Xyz", "12"], size=rng.integers(1, 12))) for _ in range(15)]
    sentences += [list(tree.words()) for tree in made_up_treebank(5, 9)]
    for decoder in ("max-rule", "recall"):
        for result in Parser(small, decoder=decoder).parse(sentences):
            assert result.tree is not None
            assert result.tree.words() == result.words
    for tree in made_up_treebank(3):
        assert Parser(small, threshold=0).parse_one(tree.words()).status in ("parsed", "coarse")


def test_a_smaller_grammar_can_be_saved_and_made_smaller_again(wide: TensorGrammar, tmp_path) -> None:
    first = truncate(wide, states=4).grammar
    first.save(tmp_path / "small")
    again = TensorGrammar.load(tmp_path / "small")
    assert again == first
    assert again.info["minimised"]["states_before"] == 24
    second = truncate(again, tolerance=0).grammar
    assert second.states.tolist() == first.states.tolist()
    assert_same_weights(second, first, wide.sample(20, random_state=0, max_words=12), 1e-4)
    third = truncate(again, states=2)
    assert third.grammar.states.tolist() == [2] * 4


# -- automata ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sorts", [1, 2])
def test_automata(sorts: int) -> None:
    automaton = random_automaton(np.random.default_rng(sorts), states=4, sorts=sorts, words=2, radius=0.3)
    expected = singular_states(gram_matrices(automaton))
    result = minimise_automaton(automaton, states=2)
    smaller, found = result.automaton, result.states
    assert smaller.sizes.tolist() == [2] * sorts
    assert smaller.words == automaton.words
    for one, other in zip(found.values, expected.values, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert result.closeness == compare(automaton, project(automaton, found.truncated(2)))
    # There are no more states than it takes.
    twice = add(scale(automaton, 0.3), scale(automaton, 0.7))
    whole = minimise_automaton(twice, tolerance=0)
    assert whole.automaton.sizes.tolist() == [4] * sorts
    assert whole.closeness is not None
    assert whole.closeness.relative < 1e-6
    assert l2_distance(whole.automaton, automaton) < 1e-6 * l2_norm(automaton)
    few = minimise_automaton(automaton)
    assert few.automaton.n_states == choose_states(found.values, tolerance=DEFAULT_TOLERANCE).sum()
    assert few.closeness is not None
    for option in ({"work": 2}, {"budget": 0.5}, {"tolerance": 0.5}):
        assert minimise_automaton(automaton, **option).automaton.n_states < 4 * sorts


def test_what_is_told_of_a_smaller_automaton() -> None:
    automaton = random_automaton(np.random.default_rng(3), states=(4, 3), sorts=2, words=2, radius=0.3)
    result = minimise_automaton(automaton, states=2)
    assert result.closeness is not None
    assert result.to_dict() == {
        "dropped": pytest.approx(result.states.dropped(2) / result.states.dropped(0)),
        "gamma": None,
        "l2": result.closeness.l2,
        "l2_relative": result.closeness.relative,
        "hankel": result.closeness.hankel,
        "hankel_best": result.states.dropped(2),
    }
    assert 0 < result.states.dropped(2) <= result.closeness.hankel
    records = result.records()
    assert [[*record.values()][:5] for record in records] == [["A0", 1.0, 4, 4, 2], ["A1", 1.0, 3, 3, 2]]
    for record, values in zip(records, result.states.values, strict=True):
        np.testing.assert_allclose(record["singular_values"], values, rtol=1e-5)
    json.dumps(result.to_dict(), allow_nan=False)


def test_automata_by_gamma() -> None:
    automaton = random_automaton(np.random.default_rng(3), states=3, words=2, radius=0.3)
    found = minimise_automaton(automaton, states=1, weighting="gamma", gamma=1.1).states
    expected = singular_states(gram_matrices(automaton, gamma=1.1))
    np.testing.assert_allclose(found.values[0], expected.values[0], rtol=1e-6)
    most = minimise_automaton(automaton, states=1, weighting="gamma")
    assert most.states.values[0][0] > expected.values[0][0]
    assert most.gamma is not None
    assert most.gamma > 1.1
    assert most.to_dict()["hankel_best"] is None
    for options in ({"gamma": 2.0}, {"gamma": np.inf, "weighting": "gamma"}, {"gamma": np.nan, "weighting": "gamma"}):
        with pytest.raises(UsageError, match=r"gamma is (a positive number|for weighting by gamma)"):
            minimise_automaton(automaton, states=1, **options)


# -- reports and mistakes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", ["l2", "gamma", "trees"])
def test_records_are_json(weighting: Weighting) -> None:
    grammar, wide = redundant(6, interminals=2, preterminals=2)
    corpus = corpus_of(grammar.sample(50, random_state=0, max_words=30))
    result = truncate(wide, states=2, weighting=weighting, corpus=corpus if weighting == "trees" else None)
    records = result.records()
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    assert [record["symbol"] for record in records] == wide.symbols
    assert [record["states_before"] for record in records] == wide.states.tolist()
    assert [record["states"] for record in records] == result.grammar.states.tolist()
    np.testing.assert_allclose([record["count"] for record in records], expected_symbols(wide), rtol=1e-5)
    for record, values in zip(records, result.states.values, strict=True):
        assert list(record) == ["symbol", "count", "states_before", "rank", "states", "singular_values"]
        np.testing.assert_allclose(record["singular_values"], values, rtol=1e-5)
        assert record["rank"] == np.count_nonzero(values)


def test_symbols_without_weight_keep_a_state() -> None:
    grammar = TensorGrammar.from_parts(
        root={"S": 1.0},
        rules={("S", "N", "V"): 1.0, ("T", "N", "N"): 1.0},
        words={("N", "dogs"): 1.0, ("V", "sleep"): 1.0},
    )
    result = truncate(grammar, tolerance=0.5)
    assert result.grammar.states.tolist() == [1, 1, 1, 1]
    assert [record["rank"] for record in result.records()] == [1, 0, 1, 1]
    parsed = Parser(result.grammar, threshold=0).parse_one(["dogs", "sleep"])
    assert parsed.log_probability == pytest.approx(0.0, abs=1e-6)


def test_one_word_grammars() -> None:
    grammar = TensorGrammar.from_parts(root={"N": 1.0}, rules={}, words={("N", "dogs"): 0.25, ("N", "cats"): 0.75})
    result = truncate(grammar, tolerance=0, distances=True)
    assert result.grammar.states.tolist() == [1]
    assert result.closeness is not None
    assert result.closeness.l2_norm == pytest.approx(np.sqrt(0.25**2 + 0.75**2))
    with pytest.raises(GrammarError, match="any gamma is small enough"):
        truncate(grammar, tolerance=0, weighting="gamma")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weighting": "most"}, "no weighting 'most'; choose from l2, gamma, trees"),
        ({"weighting": "trees"}, "takes a treebank"),
        ({"symbols": "all"}, "no symbols 'all'; choose from own, base, none"),
        ({"gamma": 2.0}, "for weighting by gamma"),
        ({"gamma": 0.0, "weighting": "gamma"}, "gamma is a positive number"),
        ({"gamma": -1.0, "weighting": "gamma"}, "gamma is a positive number"),
        ({"gamma": float("nan"), "weighting": "gamma"}, "gamma is a positive number"),
        ({"gamma": float("inf"), "weighting": "gamma"}, "gamma is a positive number"),
        ({"states": 0}, "states must be at least 1, not 0"),
        ({"states": 2, "budget": 0.5}, "give one of"),
        ({"keep": 0.5}, "give one of work, budget, tolerance or states"),
        ({"budget": 0.5, "tolerance": 0.1}, "give one of"),
        ({"budget": 0.0}, "the budget must be above 0 and at most 1, not 0.0"),
        ({"budget": 1.5}, "the budget must be above 0"),
        ({"budget": -0.5}, "the budget must be above 0"),
        ({"budget": float("nan")}, "the budget must be above 0"),
        ({"tolerance": 1.0}, "the tolerance must be at least 0 and below 1, not 1.0"),
        ({"tolerance": -0.1}, "the tolerance must be at least 0"),
    ],
    ids=str,
)
def test_mistakes_are_explained(wide: TensorGrammar, options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        truncate(wide, **options)


def test_treebanks_that_do_not_go_with_it(wide: TensorGrammar) -> None:
    corpus = corpus_of(wide.sample(10, random_state=0, max_words=20))
    with pytest.raises(UsageError, match="needs labels"):
        truncate(wide, weighting="trees", corpus=corpus, symbols="none")
    others = Corpus.from_trees(made_up_treebank(3))
    with pytest.raises(InputError, match="none of the trees"):
        truncate(wide, weighting="trees", corpus=others)
