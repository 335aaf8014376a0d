"""Hidden Markov models as grammars of right-branching trees, beside the spectral learner made for them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from oracles.reference import tree_probability
from sapwood.errors import InputError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.learn.spectral import Spectral
from sapwood.learn.spectral.features import SEQUENCE_INSIDE, SEQUENCE_OUTSIDE
from sapwood.learn.spectral.node_table import NodeTable
from sapwood.research.exact_moments import learn_spectral
from sapwood.trees.corpus import Corpus
from sapwood.trees.sequences import right_branching
from sapwood.trees.tree import Tree

WORDS = ("a", "b", "c")
# All sequences of up to four words.
SHORT = [list(words) for n in range(1, 5) for words in product(WORDS, repeat=n)]
UNSMOOTHED = LexicalSettings(rare=0, frequent=0, word_strength=0.0, state_strength=0.0)


@dataclass(frozen=True)
class HMM:
    """`initial (m,)`, `transition (m, m)`, `emission (m, words)`, and `end (m,)`: whether a state is the last one."""

    initial: np.ndarray
    transition: np.ndarray
    emission: np.ndarray
    end: np.ndarray

    def probability(self, sequence) -> float:
        """Return the probability of a sequence, by the forward algorithm."""
        forward = self.initial
        for place, word in enumerate(sequence):
            if place:
                forward = (forward * (1 - self.end)) @ self.transition
            forward = forward * self.emission[:, WORDS.index(word)]
        return float(forward @ self.end)

    def sample(self, rng, count) -> list[list[str]]:
        def draw(rows):
            return (np.cumsum(rows, axis=1) < rng.random((len(rows), 1))).sum(axis=1)

        found: list[list[str]] = [[] for _ in range(count)]
        going, state = np.arange(count), draw(np.tile(self.initial, (count, 1)))
        while len(going):
            for sequence, x in zip(going.tolist(), draw(self.emission[state]).tolist(), strict=True):
                found[sequence].append(WORDS[x])
            stays = rng.random(len(going)) >= self.end[state]
            going, state = going[stays], draw(self.transition[state[stays]])
        return found

    def grammar(self) -> TensorGrammar:
        """Return the HMM as a grammar over trees with one tag, as in the module's text."""
        same = np.eye(len(self.end))
        going_on, ending = self.transition * (1 - self.end), self.transition * self.end
        return TensorGrammar.from_parts(
            root={"S": self.initial * (1 - self.end), "X": self.initial * self.end},
            rules={
                ("S", "X", "S"): same[:, :, None] * going_on[:, None],
                ("S", "X", "X"): same[:, :, None] * ending[:, None],
            },
            words={("X", word): self.emission[:, x] for x, word in enumerate(WORDS)},
        )

    def tagged_grammar(self) -> TensorGrammar:
        """Return the HMM as a grammar over trees in which each word is its own tag: a tag needs no states then."""
        going_on = self.transition * (1 - self.end)
        rules, root = {}, {"S": self.initial * (1 - self.end)}
        for x, word in enumerate(WORDS):
            root[word] = float((self.initial * self.end) @ self.emission[:, x])
            rules["S", word, "S"] = (self.emission[:, x, None] * going_on)[:, None, :]
            for y, last in enumerate(WORDS):
                ending = self.transition @ (self.end * self.emission[:, y])
                rules["S", word, last] = (self.emission[:, x] * ending)[:, None, None]
        return TensorGrammar.from_parts(root=root, rules=rules, words={(word, word): 1.0 for word in WORDS})


TRUTH = HMM(
    initial=np.array([0.7, 0.3]),
    transition=np.array([[0.2, 0.8], [0.7, 0.3]]),
    emission=np.array([[0.8, 0.1, 0.1], [0.1, 0.2, 0.7]]),
    end=np.array([0.15, 0.4]),
)


def error(probability) -> float:
    """Return the sum of errors over short sequences."""
    return sum(abs(probability(words) - TRUTH.probability(words)) for words in SHORT)


def grammar_error(grammar) -> float:
    return error(lambda words: tree_probability(grammar, right_branching([words])[0]))


def learn(sequences, nodes="all") -> TensorGrammar:
    """Learn two states without smoothing."""
    corpus = Corpus.from_trees(right_branching(sequences))
    return Spectral(
        states=2, inside=SEQUENCE_INSIDE, outside=SEQUENCE_OUTSIDE, min_feature_count=1, backoff=0, tolerance=1e-6,
        min_support=1,
        nodes=nodes, rare_threshold=0, lexical=UNSMOOTHED,
    ).fit(corpus)  # fmt: skip


def spectral_hmm(sequences, states):
    """Learn an HMM by Hsu, Kakade and Zhang (2009) and return its function from sequences to probabilities.

    The end of a sequence is a word `#` that is repeated for ever, emitted by a state more. Bigrams and trigrams are
    from all places of a sequence, not from the first alone, because no sequence begins with that state.
    """
    size = len(WORDS) + 1
    first, one = np.zeros(size), np.zeros(size)
    two, three = np.zeros((size, size)), np.zeros((size, size, size))
    for words in sequences:
        numbers = [*map(WORDS.index, words), size - 1, size - 1, size - 1]
        first[numbers[0]] += 1
        for x, y, z in zip(numbers, numbers[1:], numbers[2:], strict=False):
            one[x] += 1
            two[y, x] += 1
            three[y, z, x] += 1
    left = np.linalg.svd(two)[0][:, :states]
    inverse = np.linalg.pinv(left.T @ two)
    begin, finish = left.T @ first / len(sequences), np.linalg.pinv(two.T @ left) @ one
    operators = [left.T @ three[x] @ inverse for x in range(size)]

    def probability(words) -> float:
        vector = begin
        for x in [*map(WORDS.index, words), size - 1]:
            vector = operators[x] @ vector
        return float(finish @ vector)

    return probability


# Trees.


def test_trees():
    trees = right_branching([["a", "b", "c"], ["b"]], [["P", "Q", "P"], ["Q"]], phrase="T")
    assert [str(tree) for tree in trees] == ["(T (P a) (T (Q b) (P c)))", "(Q b)"]
    assert str(right_branching([("a", "b")], tag="Y")[0]) == "(S (Y a) (Y b))"
    assert right_branching(iter([])) == []


def test_long_sequences():
    words = [f"w{number}" for number in range(5000)]
    (tree,) = right_branching([words])
    assert tree.words() == words
    assert tree.depth() == 5000


@pytest.mark.parametrize(
    ("sequences", "tags", "message"),
    [
        ([["a"], []], None, "sequence 2 is empty"),
        ([["a", "b"]], [["P"]], "sequence 1 has 2 words and 1 tags"),
        ([["a"]], [["P"], ["P"]], "1 sequences of words, and 2 of tags"),
    ],
)
def test_bad_sequences(sequences, tags, message):
    with pytest.raises(InputError, match=message):
        right_branching(sequences, tags)


def test_features_look_at_neighbouring_words():
    trees = ["(S (X a) (S (X b) (X c)))", "(X b)", "(S (S (X c) (X a)) (X b))"]
    table = NodeTable(Corpus.from_trees([Tree.parse(tree) for tree in trees]))
    features = [SEQUENCE_INSIDE[1], *SEQUENCE_OUTSIDE]
    for feature, shift in zip(features, ("first", "before", "behind"), strict=True):
        found = []
        for node in range(table.n_nodes):
            view = table.view(node)
            begin, end = view.span
            at = {"first": begin, "before": begin - 1, "behind": end}[shift]
            sentence = view.sentence
            found.append(1 + table.corpus.words.index(sentence[at]) if 0 <= at < len(sentence) else 0)
        assert feature(table).tolist() == found
        assert len(set(found)) > 2


# Models.


def test_grammars_are_the_hmm():
    grammar, tagged = TRUTH.grammar(), TRUTH.tagged_grammar()
    for words in SHORT:
        expected = pytest.approx(TRUTH.probability(words), rel=1e-12)
        assert tree_probability(grammar, right_branching([words])[0]) == expected
        assert tree_probability(tagged, right_branching([words], [words])[0]) == expected


def test_the_population_gives_the_hmm_back():
    plain, tagged = learn_spectral(TRUTH.grammar()), learn_spectral(TRUTH.tagged_grammar())
    assert plain.states.tolist() == [2, 2]
    assert tagged.states.tolist() == [2, 1, 1, 1]
    assert (plain.tensors < 0).any()
    for words in [*SHORT, list("abcabcaabbcc")]:
        true = TRUTH.probability(words)
        assert tree_probability(plain, right_branching([words])[0]) == pytest.approx(true, rel=1e-8)
        assert tree_probability(tagged, right_branching([words], [words])[0]) == pytest.approx(true, rel=1e-8)


@pytest.mark.slow
def test_a_sample_gives_the_hmm_nearly_back_like_the_spectral_hmm():
    sequences = TRUTH.sample(np.random.default_rng(1), 20_000)
    grammar = learn(sequences)
    assert grammar.states.tolist() == [2, 2]
    ours = grammar_error(grammar)
    theirs = error(spectral_hmm(sequences, 3))
    # The sum over all sequences up to four words is about 0.8, and one state is not enough.
    one_state = learn_spectral(TRUTH.grammar(), 1)
    assert grammar_error(one_state) > 0.2
    assert ours < 0.03
    assert theirs < 0.03
    assert 1 / 4 < ours / theirs < 4


@pytest.mark.slow
def test_errors_fall_with_the_square_root_of_the_sample():
    sequences = TRUTH.sample(np.random.default_rng(2), 12_800)
    errors = []
    for size in (400, 6400):
        parts = [sequences[begin : begin + size] for begin in range(0, min(len(sequences), 8 * size), size)]
        errors.append(np.mean([grammar_error(learn(part)) for part in parts]))
    assert 2 < errors[0] / errors[1] < 8


@pytest.mark.slow
def test_one_node_of_each_tree_is_enough():
    """Picked nodes are weighted by the size of their tree; without this the result would tend to something else."""
    grammar = learn(TRUTH.sample(np.random.default_rng(3), 30_000), nodes="one")
    unweighted = learn_spectral(TRUTH.grammar(), scheme="one node")
    assert grammar_error(grammar) < 0.06
    assert grammar_error(unweighted) > 0.3
