"""Learning from trees and forests together: what EM promises, and what it is where all or nothing is known."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from helpers.elsewhere import Elsewhere
from helpers.forest_twins import derivations, skeleton
from helpers.latent_twins import rule_tensor
from helpers.made_up import made_up_treebank
from helpers.training_helpers import Interrupted, Lines
from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.constraints import requirements
from sapwood.inference.forest.packed import Forests, SentenceForest, sentence_forest
from sapwood.inference.parser import Parser
from sapwood.learn.lpcfg.em import EM
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.learn.lpcfg.unary import unfold
from sapwood.learn.lpcfg.weights import EMData, LatentWeights
from sapwood.learn.semi_supervised.forests import WeightedForests, joint_vocabulary, pack_for_estep
from sapwood.learn.spectral import Spectral
from sapwood.runtime.executor import Threads
from sapwood.trees.corpus import Corpus
from sapwood.trees.partial import UNKNOWN, PartialTree
from sapwood.trees.tree import Tree

TREES = made_up_treebank(60)
CORPUS = Corpus.from_trees(TREES[:30])
TEACHER = EM(states=1, iterations=1).fit(CORPUS)


def forests_of(grammar: TensorGrammar, partial: list[Tree], *, threshold: float = 2e-5, least: float = 0.0) -> Forests:
    """Return what a grammar leaves of partial trees."""
    parser = Parser(grammar, threshold=threshold)
    found = []
    for tree in partial:
        words, required = requirements(tree, "ROOT")
        chart = parser.chart(words, phrases=required)
        forest = None if chart is None else sentence_forest(chart, tree.words(), min_posterior=least)
        if forest is not None:
            found.append(forest)
    return Forests.join(found)


def plain(trees: list[Tree]) -> list[Tree]:
    return [PartialTree.plain(tree.words()).tree for tree in trees]


def some_brackets(trees: list[Tree]) -> list[Tree]:
    """Return trees with tags gone, and every second phrase."""
    found = []
    for tree in trees:
        clean = CORPUS.normaliser(tree)
        count = iter(range(10_000))

        def visit(node, below, count=count):
            if node.word is not None:
                return [Tree(UNKNOWN, word=node.word)]
            children = [child for part in below for child in part]
            return [Tree(node.label, children)] if node.label == "ROOT" or next(count) % 2 else children

        found.append(clean.fold(visit)[0])
    return found


def mixture(weight: float = 0.7, teacher_weight: float = 0.0) -> list[WeightedForests]:
    return [
        WeightedForests(forests_of(TEACHER, some_brackets(TREES[30:36])), weight, teacher_weight),
        WeightedForests(forests_of(TEACHER, plain(TREES[36:42]), least=0.001), 0.4, teacher_weight),
    ]


@pytest.mark.parametrize("unaries", ["explicit", "collapsed"])
@pytest.mark.parametrize(
    ("states", "prior", "teacher_weight"), [(1, 0.0, 0.0), (3, 0.0, 0.0), (2, 0.3, 0.0), (2, 0.0, 1.0)]
)
def test_the_likelihood_never_falls(unaries, states, prior, teacher_weight):
    """Whatever the mixture of trees, brackets and text, and their weights."""
    teacher = EM(states=1, iterations=1, unaries=unaries).fit(CORPUS)
    also = [
        WeightedForests(forests_of(teacher, some_brackets(TREES[30:36])), 0.7, teacher_weight),
        WeightedForests(forests_of(teacher, plain(TREES[36:42]), least=0.001), 0.4, teacher_weight),
    ]
    log = Lines()
    EM(states=states, iterations=12, prior=prior, rare_threshold=2, min_support=1, unaries=unaries, noise=0.4).fit(
        CORPUS, also=also, log=log
    )
    likelihoods = log.likelihoods()
    assert len(likelihoods) == 12
    assert all(after >= before - 1e-6 * abs(before) for before, after in pairwise(likelihoods))
    assert likelihoods[-1] > likelihoods[0] + 1


@pytest.mark.parametrize("unaries", ["explicit", "collapsed"])
@pytest.mark.parametrize(
    "learner", [EM(states=3, iterations=6, rare_threshold=2), SplitMerge(cycles=2, rare_threshold=2, min_support=2)]
)
def test_with_all_spans_given_it_is_learning_from_trees(learner, unaries):
    """Forests of whole trees, read off partial trees in which nothing is unknown, by constraints on charts."""
    learner = learner.replace(unaries=unaries)
    everything = Corpus.from_trees(TREES[:30])
    few, rest = everything.between(0, 12), everything.between(12, 30)
    # A grammar that has all rules.
    reader = PCFG().fit(Corpus.from_trees(TREES[:30]))
    assert reader.symbols == everything.symbols
    whole = [everything.transform.invert(rest.tree(index)) for index in range(rest.n_trees)]
    forests = forests_of(reader, whole)
    assert forests.n_sentences == rest.n_trees
    assert len(forests.edges) == (rest.rule >= 0).sum()
    log, other = Lines(), Lines()
    wanted = learner.fit(everything, log=log)
    found = learner.fit(few, also=[WeightedForests(forests)], log=other)
    assert other.likelihoods() == pytest.approx(log.likelihoods(), rel=1e-4)
    assert np.array_equal(found.rules, wanted.rules)
    assert np.array_equal(found.states, wanted.states)
    np.testing.assert_allclose(found.tensors, wanted.tensors, atol=2e-3)
    for word in ("the", "of"):
        for symbol in range(wanted.n_interminals, len(wanted.symbols)):
            np.testing.assert_allclose(
                found.lexical_vector(symbol, word), wanted.lexical_vector(symbol, word), rtol=1e-2, atol=1e-4
            )


def weights_of(problem: LPCFGProblem, seed: int, states: int) -> LatentWeights:
    rng = np.random.default_rng(seed)
    trees = problem.trees
    return trees.split(trees.one_state(), problem.wanted_states(states, 1), 0.5, rng)


class Twin:
    """Expected counts of one sentence, given by its unfolded trees, over all trees and all states."""

    def __init__(self, trees: EMData, weights: LatentWeights, word_class: np.ndarray) -> None:
        self.trees, self.weights, self.word_class = trees, weights, word_class
        self.rules: dict[tuple[int, ...], float] = defaultdict(float)
        self.words: dict[tuple[int, int, int], float] = defaultdict(float)
        self.number = {tuple(rule): place for place, rule in enumerate(weights.rules.tolist())}
        self.begins = np.concatenate([[0], np.cumsum(weights.states[trees.pair_symbol])])
        n_words = len(trees.corpus.words)
        self.pairs = {
            (int(a), int(w)): place
            for place, (a, w) in enumerate(zip(trees.word_symbol, trees._word, strict=True))
            if w < n_words
        }

    def vector(self, symbol: int, word: int) -> np.ndarray:
        pair = self.trees._pair_of_word[self.pairs[symbol, word]]
        return self.weights.lexical[self.begins[pair] : self.begins[pair + 1]]

    def probability(self, tree) -> list[tuple[dict[int, int], float]]:
        """Return the probability of each choice of states; a tree is nodes of (symbol, word or -1, children)."""
        sizes = [range(self.weights.states[symbol]) for symbol, _, _ in tree]
        found = []
        for choice in product(*sizes):
            value = float(self.weights.root[self.weights.state_offsets[tree[0][0]] + choice[0]])
            for place, (symbol, word, children) in enumerate(tree):
                if children:
                    names = tuple(tree[child][0] for child in children)
                    tensor = rule_tensor(self.weights, self.number[(symbol, *names)])
                    value *= tensor[(choice[place], *(choice[child] for child in children))]
                else:
                    value *= self.vector(symbol, word)[choice[place]]
            found.append((dict(enumerate(choice)), value))
        return found

    def add(self, trees) -> float:
        """Add the expected counts of a sentence; returns its log-likelihood."""
        every = [(tree, self.probability(tree)) for tree in trees]
        total = sum(value for _, choices in every for _, value in choices)
        for tree, choices in every:
            for states, value in choices:
                for place, (symbol, word, children) in enumerate(tree):
                    if children:
                        names = tuple(tree[child][0] for child in children)
                        key = (self.number[(symbol, *names)], states[place], *(states[child] for child in children))
                        self.rules[key] += value / total
                    else:
                        self.words[symbol, word, states[place]] += value / total
        return float(np.log(total))


def unfolded_trees(forest: SentenceForest, grammar: TensorGrammar, problem: LPCFGProblem) -> list[list[tuple]]:
    """Return all trees of a forest as the problem has them, each unfolded by itself."""
    joint = replace(problem.corpus, words=joint_vocabulary(problem.corpus, [WeightedForests(Forests.join([forest]))]))
    found = []
    for nodes in derivations(forest):
        tree = Corpus.from_trees([grammar.transform.invert(skeleton(forest, grammar, nodes))])
        both = joint.joined(tree)
        assert both.symbols == joint.symbols
        one = both.between(joint.n_trees, both.n_trees)
        if problem.unfolded is not None:
            one = unfold(replace(one, words=problem.unfolded.corpus.words[:-1])).corpus
        assert one.symbols == problem.trees.corpus.symbols
        children = np.stack([one.left, one.right], axis=1).tolist()
        found.append(
            [
                (int(one.symbol[v]), int(one.word[v]), tuple(children[v]) if one.left[v] >= 0 else ())
                for v in range(one.n_nodes)
            ]
        )
    return found


# Words of two tags, attachments of two kinds, and unary chains: a word or two have many trees.
AMBIGUOUS = Corpus.from_trees(
    Tree.parse(text)
    for text in (
        "(S (NP (N a)) (VP (V b) (NP (N a))))",
        "(S (NP (N b) (N a)) (VP (V b)))",
        "(S (NP (N a)) (VP (V a) (NP (N b) (N a))))",
        "(S (VP (V a)))",
        "(S (S (VP (V b) (NP (N b)))) (VP (V a)))",
        "(NP (NP (N a) (N b)) (NP (N a)))",
    )
)


@pytest.mark.parametrize("unaries", ["explicit", "collapsed"])
@pytest.mark.parametrize("text", ["a", "a b", "b a", "a b a", "b b a"])
def test_with_nothing_given_it_is_enumeration(unaries, text):
    """The E-step over plain sentences, with states and unary steps, against all trees one by one."""
    words, seed = text.split(), len(text)
    teacher = EM(states=1, iterations=1, unaries=unaries).fit(AMBIGUOUS)
    chart = Parser(teacher, threshold=0).chart(words)
    assert chart is not None
    forest = sentence_forest(chart, words)
    problem = EM(unaries=unaries, rare_threshold=0).problem(AMBIGUOUS, [WeightedForests(Forests.join([forest]))])
    weights = weights_of(problem, seed, 2)
    twin = Twin(problem.trees, weights, problem.word_classes)
    trees = unfolded_trees(forest, teacher, problem)
    assert len(trees) > (1 if len(words) > 2 else 0)
    expected_log = twin.add(trees)
    alone = problem.trees.tree_estep.expectations(
        weights, lexical=weights.lexical[problem.trees._places(weights.states)], dtype=np.float64
    )
    both = problem.trees.expectations(weights, dtype=np.float64)
    assert both.log_likelihoods[-1] == pytest.approx(expected_log, rel=1e-6)
    counts = both.tensors - alone.tensors
    for rule in range(len(weights.rules)):
        tensor = rule_tensor(weights, rule, counts)
        for states in np.ndindex(*tensor.shape):
            assert tensor[states] == pytest.approx(twin.rules[(rule, *states)], abs=1e-6)
    lexical = both.lexical - alone.lexical
    begin = 0
    for symbol, word in zip(problem.trees.word_symbol, problem.trees._word, strict=True):
        size = int(weights.states[symbol])
        for state in range(size):
            if symbol != (problem.unfolded.empty if problem.unfolded else -1):
                assert lexical[begin + state] == pytest.approx(twin.words[int(symbol), int(word), state], abs=1e-6)
        begin += size


def test_a_forest_keeps_its_trees_when_it_is_packed():
    """Unfolding a forest is unfolding each of its trees: the likelihood under one state says so."""
    forests = forests_of(TEACHER, plain(TREES[30:45]), threshold=0)
    problem = EM(rare_threshold=0).problem(CORPUS, [WeightedForests(forests)])
    assert problem.lost == [0]
    packed = problem.trees.sources[0]
    assert packed.posterior[packed.trees.roots].sum() == pytest.approx(forests.n_sentences)
    leaf = packed.trees.word >= 0
    assert packed.posterior[leaf].sum() == pytest.approx(forests.n_words)
    # Words with their tags are as probable as in the folded forest.
    folded = forests.word >= 0
    bottom = problem.unfolded.bottom[forests.symbol[folded]]
    ours = np.bincount(packed.trees.symbol[leaf], weights=packed.posterior[leaf], minlength=200)
    theirs = np.bincount(bottom, weights=forests.posterior[folded], minlength=200)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_weights_multiply_counts():
    forests = Forests.from_trees(CORPUS.between(20, 30))
    few = CORPUS.between(0, 20)
    problems = [EM(rare_threshold=0).problem(few, [WeightedForests(forests, weight)]) for weight in (1.0, 2.0)]
    for name in ("rule_counts", "symbol_counts", "root_counts"):
        alone = EM(rare_threshold=0).problem(few).trees
        once, twice = (getattr(problem.trees, name)() - getattr(alone, name)() for problem in problems)
        np.testing.assert_allclose(twice, 2 * once)
    twice = EM(rare_threshold=0).problem(few, [WeightedForests(forests), WeightedForests(forests)]).trees
    np.testing.assert_allclose(twice.rule_counts(), problems[1].trees.rule_counts())
    weights = twice.one_state()
    for one, two in zip(
        (twice.expectations(weights).tensors, twice.expectations(weights).occupancy),
        (problems[1].expectations(weights).tensors, problems[1].expectations(weights).occupancy),
        strict=True,
    ):
        np.testing.assert_allclose(one, two, rtol=1e-6)


def test_sentences_without_a_tree_are_left_out():
    few = Corpus.from_trees([Tree.parse("(S (NP (N a) (N b)) (VP (V c) (V d)))")])
    other = Corpus.from_trees([Tree.parse("(S (VP (V c) (V d)) (NP (N a) (N b)))"), few.transform.invert(few.tree(0))])
    both = few.joined(other)
    assert both.symbols == few.symbols
    packed = pack_for_estep(WeightedForests(Forests.from_trees(both.between(1, 3))), few, None)
    assert packed.lost == 1
    assert packed.trees.n_sentences == 1
    assert EM().problem(few, [WeightedForests(Forests.from_trees(both.between(1, 3)))]).lost == [1]


def test_split_merge_learns_from_forests_the_same_bits_wherever(tmp_path):
    learner = SplitMerge(cycles=2, rare_threshold=2, min_support=2, iterations=4, smoothing_iterations=2)
    also = mixture(teacher_weight=1.0)
    wanted = learner.fit(CORPUS, also=also)
    for workers in (Threads(2), Elsewhere(2)):
        found = learner.replace(workers=workers).fit(CORPUS, also=also)
        assert found == wanted
    assert wanted != learner.fit(CORPUS)
    # Words of the text are known now.
    assert set(wanted.lexicon.words) >= {word for tree in TREES[36:42] for word in tree.words()}


def test_interrupted_learning_goes_on(tmp_path):
    learner = SplitMerge(cycles=1, rare_threshold=2, min_support=2, iterations=4, smoothing_iterations=2)
    also = mixture()
    wanted = learner.fit(CORPUS, also=also)
    path = tmp_path / "state"
    with pytest.raises(Interrupted):
        learner.fit(CORPUS, also=also, log=Lines(fail_at=3), checkpoint=path)
    with pytest.raises(UsageError, match="other settings or trees"):
        learner.fit(CORPUS, also=mixture(weight=0.9), checkpoint=path)
    with pytest.raises(UsageError, match="other settings or trees"):
        learner.fit(CORPUS, checkpoint=path)
    assert learner.fit(CORPUS, also=also, checkpoint=path) == wanted


def test_merging_costs_what_it_costs_at_each_node():
    """In a forest of one tree merge losses are a tree's."""
    few, rest = CORPUS.between(0, 20), CORPUS.between(20, 30)
    whole = EM(rare_threshold=0).problem(CORPUS)
    parts = EM(rare_threshold=0).problem(few, [WeightedForests(Forests.from_trees(rest))])
    weights = weights_of(whole, 0, 2)
    occupancy = whole.expectations(weights).occupancy
    twin = np.zeros(len(weights.root), bool)
    twin[weights.state_offsets[:-1][weights.states > 1]] = True
    losses = whole.trees.merge_losses(weights, occupancy, twin)
    assert losses.any()
    np.testing.assert_allclose(parts.trees.merge_losses(weights, occupancy, twin), losses, rtol=1e-3, atol=1e-3)
    found = [
        EM(rare_threshold=0)
        .problem(few, [WeightedForests(Forests.from_trees(rest), weight)])
        .trees.merge_losses(weights, occupancy, twin)
        for weight in (1.0, 2.0, 3.0)
    ]
    assert (found[1] != found[0]).any()
    np.testing.assert_allclose(found[2] - found[1], found[1] - found[0], rtol=1e-6, atol=1e-9)


def test_learners_of_trees_alone_say_so():
    with pytest.raises(UsageError, match="spectral learns from whole trees"):
        Spectral().fit(CORPUS, also=mixture())


@pytest.mark.parametrize(
    ("settings", "problem"), [({"weight": 0}, "weight"), ({"teacher_weight": -1}, "teacher_weight")]
)
def test_settings_of_sources_are_checked(settings, problem):
    with pytest.raises(UsageError, match=problem):
        WeightedForests(Forests.join([]), **settings)
