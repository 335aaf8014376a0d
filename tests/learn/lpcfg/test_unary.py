"""Unary steps: unfolding against trees, folding against probabilities by hand."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.made_up import made_up_treebank
from helpers.strategies import odd_labels, trees
from oracles.reference import tree_probability
from sapwood.errors import InputError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.grammar.validate import inner_sums
from sapwood.inference.estep.trees import Expectations
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.learn.lpcfg.problem import LPCFGProblem
from sapwood.learn.lpcfg.unary import EMPTY, Unfolded, expected_steps, fold, folded_rules, share_emissions, unfold
from sapwood.learn.lpcfg.weights import EMData, LatentWeights
from sapwood.trees.corpus import Corpus
from sapwood.trees.symbols import as_symbol, make_symbol
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

TRANSFORMS = [
    TreeTransform(),
    TreeTransform(vertical=2, horizontal=1),
    TreeTransform(vertical=2, horizontal=1, annotate_tags=True),
    TreeTransform(vertical=3, horizontal=2, annotate_tags=True, direction="left"),
]
TREES = [
    "(ROOT (S (NP (N dogs)) (VP (V sleep))))",
    "(ROOT (S (NP (D the) (N dogs)) (VP (V chase) (NP (N cats)))))",
    "(ROOT (S (VP (V sleep))))",  # one word below a chain of three
    "(ROOT (N cats))",
    "(ROOT (FRAG (NP (N cats))))",
    "(ROOT (S (NP (D the) (N cats)) (VP (V say) (S (VP (V chase) (NP (N dogs)))))))",
    "(ROOT (X (S (NP (N cats)) (VP (V chase) (NP (D the) (N dogs))))))",
    "(ROOT (X (S (VP (V chase) (NP (N dogs))))))",  # a chain of three above two words
    "(ROOT (NP (NP (N dogs)) (NP (NP (D the) (N cats)))))",
]


def corpus_of(*texts: str, transform: TreeTransform | None = None) -> Corpus:
    return Corpus.from_trees([Tree.parse(text) for text in texts], transform=transform)


def unfolded_by_hand(tree: Tree, *, annotate_tags: bool) -> Tree:
    """Return a skeletal tree with steps; labels must not have signs that are escaped."""

    def visit(node: Tree, children: list[Tree]) -> Tree:
        chain, *ancestors = node.label.split("^")
        labels = chain.split("|")
        if node.label.startswith("@") or len(labels) == 1:
            return Tree(node.label, children, word=node.word)
        above = [*labels[-2::-1], *ancestors][: len(ancestors)]
        if node.word is not None and not annotate_tags:
            above = []
        below = Tree("^".join([labels[-1], *above]), children, word=node.word)
        return Tree("^".join(["|".join(labels[:-1]), *ancestors]), [below, Tree(EMPTY, word="\0")])

    return tree.fold(visit)


def check_unfolded(corpus: Corpus) -> Unfolded:
    unfolded = unfold(corpus)
    new = unfolded.corpus
    wanted = [
        unfolded_by_hand(corpus.tree(index), annotate_tags=corpus.transform.annotate_tags)
        for index in range(corpus.n_trees)
    ]
    assert [new.tree(index) for index in range(new.n_trees)] == wanted
    steps = sum(node.label == EMPTY for tree in wanted for node in tree.nodes())
    assert unfolded.has_steps == (steps > 0)
    assert new.n_nodes == corpus.n_nodes + 2 * steps
    assert unfolded.empty == (new.symbols.index(EMPTY) if steps else -1)
    if steps:
        assert unfolded.empty == len(new.symbols) - 1
        assert new.words == [*corpus.words, "\0"]
    else:
        assert new.words == corpus.words
    # Every symbol occurs, and none has two numbers.
    assert set(new.symbol.tolist()) == set(range(len(new.symbols)))
    roles = [(name, number >= new.n_interminals) for number, name in enumerate(new.symbols)]
    assert len(set(roles)) == len(roles)
    # What stands above and below each symbol's step.
    for number, (top, bottom) in enumerate(zip(unfolded.top.tolist(), unfolded.bottom.tolist(), strict=True)):
        leaf = number >= corpus.n_interminals
        name = Tree(corpus.symbols[number], [] if leaf else [Tree("N", word="x")] * 2, word="x" if leaf else None)
        by_hand = unfolded_by_hand(name, annotate_tags=corpus.transform.annotate_tags)
        if by_hand.label == name.label:
            assert (top, new.symbols[bottom]) == (-1, name.label)
        else:
            assert (new.symbols[top], new.symbols[bottom]) == (by_hand.label, by_hand.children[0].label)
            assert top < new.n_interminals
        assert (bottom >= new.n_interminals) == leaf
    return unfolded


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_unfolding_by_hand(transform):
    unfolded = check_unfolded(corpus_of(*TREES, transform=transform))
    assert unfolded.has_steps
    check_unfolded(Corpus.from_trees(made_up_treebank(60), transform=transform))


plain_labels = st.sampled_from(["S", "NP", "VP", "X", "N"])
plain_trees = trees(plain_labels, st.sampled_from(["a", "b", "c"]), max_leaves=6, max_children=3)


@given(st.lists(plain_trees, min_size=1, max_size=5), st.sampled_from(TRANSFORMS))
def test_unfolding_random_trees_by_hand(some_trees, transform):
    check_unfolded(Corpus.from_trees(some_trees, transform=transform))


def folded_again(tree: Tree) -> Tree:
    """Undo the steps of an unfolded tree."""

    def visit(node: Tree, children: list[Tree]) -> Tree:
        if not children or children[1].label != EMPTY or children[1].word != "\0":
            return Tree(node.label, children, word=node.word)
        below = children[0]
        parts = as_symbol(node.label).parts
        chain = (*parts.labels, as_symbol(below.label).parts.labels[-1])
        return Tree(make_symbol(chain, parts.ancestors), below.children, word=below.word)

    return tree.fold(visit)


@given(
    st.lists(trees(odd_labels, st.sampled_from(["a", "b"]), max_leaves=6), min_size=1, max_size=4),
    st.sampled_from(TRANSFORMS),
)
def test_odd_labels_come_back(some_trees, transform):
    try:
        corpus = Corpus.from_trees(some_trees, transform=transform)
    except InputError:
        assume(False)
    new = unfold(corpus).corpus
    for index in range(corpus.n_trees):
        assert folded_again(new.tree(index)) == corpus.tree(index)
    # At most one step a span: what stands below one takes none.
    below = new.left[(new.rule >= 0) & (new.symbol[new.right] == len(new.symbols) - 1) & (new.symbols[-1] == EMPTY)]
    inner = below[new.rule[below] >= 0]
    assert not any(new.symbols[symbol] == EMPTY for symbol in new.symbol[new.right[inner]])


def test_tags_below_a_step_are_the_tags_elsewhere():
    """That is what steps are for: the words of `NP|N` and of `N` are the same nouns, with ancestors written or not."""
    for transform in (TreeTransform(), TreeTransform(vertical=2)):
        unfolded = unfold(corpus_of(*TREES, transform=transform))
        assert unfolded.corpus.symbols[unfolded.corpus.n_interminals : -1] == ["N", "V", "D"]


# Folding.


def slow_vectors(corpus: Corpus, weights: LatentWeights, lexical: dict) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return inside and outside vectors of all nodes."""
    tensors = [
        weights.tensors[begin:end].astype(float).reshape(weights.states[rule])
        for begin, end, rule in zip(weights.tensor_offsets, weights.tensor_offsets[1:], weights.rules, strict=False)
    ]
    inside = [np.zeros(0)] * corpus.n_nodes
    outside = [np.zeros(0)] * corpus.n_nodes
    for node in range(corpus.n_nodes - 1, -1, -1):
        if corpus.rule[node] < 0:
            inside[node] = lexical[int(corpus.symbol[node]), int(corpus.word[node])]
        else:
            left, right = inside[corpus.left[node]], inside[corpus.right[node]]
            inside[node] = np.einsum("abc,b,c->a", tensors[corpus.rule[node]], left, right)
    for node in range(corpus.n_nodes):
        symbol = corpus.symbol[node]
        if corpus.parent[node] < 0:
            outside[node] = weights.root[weights.state_offsets[symbol] : weights.state_offsets[symbol + 1]]
        if corpus.rule[node] >= 0:
            tensor, left, right = tensors[corpus.rule[node]], corpus.left[node], corpus.right[node]
            outside[left] = np.einsum("abc,a,c->b", tensor, outside[node], inside[right])
            outside[right] = np.einsum("abc,a,b->c", tensor, outside[node], inside[left])
    return inside, outside


class StepsByHand:
    """An L-PCFG of unfolded trees as the module's text has it: `u`, `stop` and `T` by name and state.

    Steps are as probable as they are expected in the training trees, among occurrences that are not below a step.
    """

    def __init__(self, unfolded: Unfolded, trees: EMData, weights: LatentWeights, tag_rows: dict) -> None:
        corpus = unfolded.corpus
        self.unfolded, self.tag_rows, self.weights = unfolded, tag_rows, weights
        table = trees.expectations(weights).lexical_offsets
        by_word = weights.lexical[trees._places(weights.states)]
        pairs = zip(trees.tree_estep.pair_symbol, trees.tree_estep.pair_word, table, table[1:], strict=False)
        lexical = {(int(a), int(w)): by_word[begin:end] for a, w, begin, end in pairs}
        inside, outside = slow_vectors(corpus, weights, lexical)
        self.free: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(1))
        self.step: dict[tuple[int, int], np.ndarray] = defaultdict(lambda: np.zeros(1))
        for node in range(corpus.n_nodes):
            symbol, parent = int(corpus.symbol[node]), int(corpus.parent[node])
            below_step = parent >= 0 and corpus.symbol[corpus.right[parent]] == unfolded.empty
            joint = inside[node] * outside[node]
            if not below_step:
                self.free[symbol] = self.free[symbol] + joint / joint.sum()
            elif node == corpus.left[parent]:
                rule = corpus.rule[parent]
                matrix = weights.tensors[weights.tensor_offsets[rule] : weights.tensor_offsets[rule + 1]].astype(float)
                matrix = matrix.reshape(-1, len(joint)) * outside[parent][:, None] * inside[node]
                key = int(corpus.symbol[parent]), symbol
                self.step[key] = self.step[key] + matrix / matrix.sum()
        self.u = {key: matrix / self.free[key[0]][:, None] for key, matrix in self.step.items()}
        self.stop = {
            symbol: 1 - sum((u.sum(axis=1) for key, u in self.u.items() if key[0] == symbol), np.zeros(len(often)))
            for symbol, often in self.free.items()
        }
        tensors = {}
        totals: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(1))
        for rule, (a, b, c) in enumerate(weights.rules.tolist()):
            if c != unfolded.empty:
                part = weights.tensors[weights.tensor_offsets[rule] : weights.tensor_offsets[rule + 1]]
                tensors[a, b, c] = part.astype(float).reshape(weights.states[[a, b, c]])
                totals[a] = totals[a] + tensors[a, b, c].sum(axis=(1, 2))
        self.binary = {key: tensor / totals[key[0]][:, None, None] for key, tensor in tensors.items()}

    def probability(self, tree: Tree) -> float:
        """Return the probability of a collapsed tree."""
        unfolded = self.unfolded
        names = {
            (name, number >= unfolded.folded.n_interminals): number
            for number, name in enumerate(unfolded.folded.symbols)
        }

        def visit(node: Tree, below: list[tuple[int, np.ndarray]]) -> tuple[int, np.ndarray]:
            number = names[node.label, node.word is not None]
            top, bottom = int(unfolded.top[number]), int(unfolded.bottom[number])
            if node.word is not None:
                body = self.tag_rows[bottom, node.word]
            else:
                (left, left_inside), (right, right_inside) = below
                body = np.einsum("abc,b,c->a", self.binary[bottom, left, right], left_inside, right_inside)
            return (top, self.u[top, bottom] @ body) if top >= 0 else (bottom, self.stop[bottom] * body)

        symbol, inside = tree.fold(visit)
        root = self.weights.root[self.weights.state_offsets[symbol] : self.weights.state_offsets[symbol + 1]]
        return float(root @ inside)


def learned(
    corpus: Corpus, seed: int, *, iterations: int = 3, most: int = 3
) -> tuple[LPCFGProblem, LatentWeights, Expectations]:
    """Return weights after a few iterations of EM from a random start, and their expectations."""
    problem = LPCFGProblem(corpus, unaries="explicit", rare=0, lexical=LexicalSettings(state_strength=1.0))
    rng = np.random.default_rng(seed)
    states = np.where(problem.splittable(), rng.integers(1, most + 1, size=len(problem.trees.corpus.symbols)), 1)
    weights = problem.trees.split(problem.trees.one_state(), states, 0.8, rng)
    for _ in range(iterations):
        expected = problem.trees.expectations(weights, dtype=np.float64)
        weights = problem.trees.m_step(weights, problem.trees.counts(weights, expected))
    return problem, weights, problem.trees.expectations(weights, dtype=np.float64)


def folded_grammar(
    problem: LPCFGProblem, weights: LatentWeights, expected: Expectations, least: float
) -> tuple[TensorGrammar, dict]:
    """Return the grammar of collapsed trees, and the tags' lexical vectors by tag and word."""
    unfolded = problem.unfolded
    assert unfolded is not None
    inner = unfolded.corpus.n_interminals
    tags = problem.lexical.emissions(weights.states[inner:-1], expected.lexical[:-1])
    rows = {}
    for word in unfolded.folded.words:
        row = np.split(tags.row(tags.lexicon.terminal(word, False)), tags.state_offsets[1:-1])
        rows.update({(inner + tag, word): vector for tag, vector in enumerate(row)})
    steps = expected_steps(unfolded, weights, expected)
    grammar = replace(
        problem.grammar(weights, {}),
        emissions=share_emissions(unfolded, tags),
        **vars(fold(unfolded, weights, steps, expected.occupancy, folded_rules(unfolded, least=least))),
    )
    return grammar.validate(tolerance=1e-5), rows


@examples(30)
@given(st.lists(plain_trees, min_size=1, max_size=6), st.integers(0, 2**32 - 1), st.sampled_from(TRANSFORMS[:3]))
def test_folded_tree_probabilities_by_hand(some_trees, seed, transform):
    corpus = Corpus.from_trees([*map(Tree.parse, TREES[:4]), *some_trees], transform=transform)
    problem, weights, expected = learned(corpus, seed)
    grammar, rows = folded_grammar(problem, weights, expected, 0.0)
    slow = StepsByHand(problem.unfolded, problem.trees, weights, rows)
    seen = [corpus.tree(index) for index in range(corpus.n_trees)]
    for tree in seen:
        assert tree_probability(grammar, tree) == pytest.approx(slow.probability(tree), rel=1e-4)
        assert slow.probability(tree) > 0
    # Trees that combine what was never seen together too, words that are known only.
    for tree in grammar.sample(10, random_state=seed, max_words=60):
        if all(word in corpus.words for word in tree.words()):
            assert tree_probability(grammar, tree) == pytest.approx(slow.probability(tree), rel=1e-4)


def test_steps_by_hand_make_new_trees():
    """Who has seen a subject of one word and a verb with an object may combine them."""
    corpus = corpus_of(*TREES * 3)
    problem, weights, expected = learned(corpus, 1)
    grammar, rows = folded_grammar(problem, weights, expected, 0.0)
    slow = StepsByHand(problem.unfolded, problem.trees, weights, rows)
    new = Tree.parse("(S (NP|N dogs) (VP (V chase) (NP|N cats)))")
    names = [[corpus.symbols[symbol] for symbol in rule] for rule in corpus.rules]
    assert ["S", "NP|N", "VP"] not in names
    assert tree_probability(grammar, new) == pytest.approx(slow.probability(new), rel=1e-4)
    assert tree_probability(grammar, new) > 0


def expected_by_pcfg(unfolded: Unfolded) -> Counter[tuple[int, int, int]]:
    """Return how often the unfolded treebank's PCFG expects each collapsed rule: what it is, below and above a step."""
    folded, corpus = unfolded.folded, unfolded.corpus
    outer = [top if top >= 0 else bottom for top, bottom in zip(unfolded.top, unfolded.bottom, strict=True)]
    often = Counter(folded.symbol.tolist())
    as_bottom: Counter[int] = Counter()
    as_outer: Counter[int] = Counter()
    for symbol, count in often.items():
        as_bottom[unfolded.bottom[symbol]] += count
        as_outer[outer[symbol]] += count
    found: Counter[tuple[int, int, int]] = Counter()
    for (a, b, c), count in zip(corpus.rules.tolist(), corpus.rule_counts().tolist(), strict=True):
        parents = [s for s in range(folded.n_interminals) if unfolded.bottom[s] == a]
        lefts, rights = ([s for s, symbol in enumerate(outer) if symbol == child] for child in (b, c))
        for parent, left, right in product(parents, lefts, rights):
            share = often[parent] / as_bottom[a] * often[left] / as_outer[b] * often[right] / as_outer[c]
            found[parent, left, right] = count * share
    return found


@examples(30)
@given(
    st.lists(plain_trees, min_size=1, max_size=5),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.1, 0.3, 1.0, 1e9]),
)
def test_which_rules_are_kept(some_trees, seed, least):
    corpus = Corpus.from_trees([*map(Tree.parse, TREES[:4]), *some_trees])
    unfolded = unfold(corpus)
    rules, source = folded_rules(unfolded, least=least)
    slow = expected_by_pcfg(unfolded)
    observed = set(map(tuple, corpus.rules.tolist()))
    assert sum(slow.values()) == pytest.approx(corpus.rule_counts().sum())
    border = {rule for rule, often in slow.items() if abs(often - least) < 1e-9}
    found = set(map(tuple, rules.tolist()))
    assert found - border == {rule for rule, often in slow.items() if often >= least or rule in observed} - border
    assert observed <= found
    assert rules.tolist() == sorted(rules.tolist())
    for (parent, left, right), r in zip(rules.tolist(), source.tolist(), strict=True):
        a, b, c = unfolded.corpus.rules[r]
        assert unfolded.bottom[parent] == a
        outer = [top if top >= 0 else bottom for top, bottom in zip(unfolded.top, unfolded.bottom, strict=True)]
        assert (outer[left], outer[right]) == (b, c)
    if least == 1e9:
        assert found == observed

    # Whatever is left out, what remains is a grammar: rows and root sum to one, all training trees are possible.
    problem, weights, expected = learned(corpus, seed, iterations=2)
    grammar, _ = folded_grammar(problem, weights, expected, least)
    assert grammar.rules.tolist() == rules.tolist()
    np.testing.assert_allclose(inner_sums(grammar), 1, rtol=1e-5)
    assert grammar.root.sum() == pytest.approx(1)
    for index in range(corpus.n_trees):
        assert tree_probability(grammar, corpus.tree(index)) > 0
    # A symbol is expected as often as it occurs, and expands as often as it is expected.
    by_symbol = np.add.reduceat(grammar.occupancy, grammar.state_offsets[:-1])
    np.testing.assert_allclose(by_symbol, corpus.symbol_counts(), rtol=1e-5)
    expanded = np.bincount(grammar.rules[:, 0], weights=grammar.rule_counts, minlength=len(corpus.symbols))
    inner = slice(0, corpus.n_interminals)
    np.testing.assert_allclose(expanded[inner], corpus.symbol_counts()[inner], rtol=1e-5)


def test_a_state_that_loses_all_its_rules_is_like_the_others():
    """State 1 of A has only rules that `X|A` was never seen with, and a large `least` leaves those out."""
    corpus = corpus_of(
        *["(ROOT (S (X (A (B b) (C c))) (B b)))"] * 20,
        *["(ROOT (S (A (D d) (E e)) (C c)))"] * 20,
        *["(ROOT (S (A (B b) (C c)) (D d)))"] * 20,
    )
    problem = LPCFGProblem(corpus, unaries="explicit", rare=0, lexical=LexicalSettings())
    names = problem.trees.corpus.symbols
    start = problem.trees.one_state()
    weights = problem.trees.split(start, np.where(np.array(names) == "A", 2, 1), 0.0, np.random.default_rng(0))
    for rule, (a, b, _) in enumerate(weights.rules):
        if names[a] == "A":
            at = weights.tensor_offsets[rule]
            weights.tensors[at : at + 2] = (1.0, 0.0) if names[b] == "B" else (0.0, 1.0)
    expected = problem.expectations(weights)
    grammar, _ = folded_grammar(problem, weights, expected, 1e9)
    composite = grammar.symbol_number("X|A")
    rules = [rule for rule, key in enumerate(grammar.rules) if key[0] == composite]
    assert [grammar.rule_name(rule) for rule in rules] == ["X|A -> B C"]
    np.testing.assert_allclose(grammar.tensor(rules[0]).ravel(), [1, 1])


@examples(30)
@given(st.lists(plain_trees, min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_preterminals_have_the_words_of_their_tags(some_trees, seed):
    corpus = Corpus.from_trees([*map(Tree.parse, TREES[:3]), *some_trees])
    problem, weights, expected = learned(corpus, seed, iterations=1)
    unfolded = problem.unfolded
    assert unfolded is not None
    inner = unfolded.corpus.n_interminals
    tags = problem.lexical.emissions(weights.states[inner:-1], expected.lexical[:-1])
    shared = share_emissions(unfolded, tags)
    below = unfolded.bottom[corpus.n_interminals :] - inner
    for terminal in range(tags.lexicon.n_terminals):
        by_tag = np.split(tags.row(terminal), tags.state_offsets[1:-1])
        np.testing.assert_array_equal(shared.row(terminal), np.concatenate([by_tag[tag] for tag in below]))
    assert shared.emitter is not None
    for preterminal, tag in enumerate(below.tolist()):
        assert below[shared.emitter[preterminal]] == tag
        np.testing.assert_array_equal(shared.column(preterminal), tags.column(tag))
        assert shared.tags[shared.tag_of[preterminal]] == tags.tags[tags.tag_of[tag]]
    # Vectors are stored once for each tag.
    assert len(shared.values) == len(tags.values)
    np.testing.assert_allclose(shared.totals(), 1, rtol=1e-9)


def test_trees_without_unary_chains_stay_as_they_are():
    corpus = corpus_of("(S (N a) (V b))", "(S (N a) (S (N b) (V a)))")
    unfolded = unfold(corpus)
    assert not unfolded.has_steps
    assert unfolded.corpus.symbols == corpus.symbols
    assert [unfolded.corpus.tree(index) for index in range(2)] == [corpus.tree(index) for index in range(2)]
    problem = LPCFGProblem(corpus, unaries="explicit", rare=0, lexical=LexicalSettings())
    other = LPCFGProblem(corpus, unaries="collapsed", rare=0, lexical=LexicalSettings())
    assert problem.grammar(problem.trees.one_state(), {}) == other.grammar(other.trees.one_state(), {})


# Corpora from columns.


@given(st.lists(plain_trees, min_size=1, max_size=6), st.sampled_from(TRANSFORMS))
def test_columns_give_the_corpus_back(some_trees, transform):
    corpus = Corpus.from_trees(some_trees, transform=transform)
    again = Corpus.from_columns(
        corpus.symbols, corpus.n_interminals, corpus.words, corpus.symbol, corpus.word, corpus.offsets,
        corpus.normaliser, corpus.transform,
    )  # fmt: skip
    assert again.digest() == corpus.digest()


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        ([-1, 0], [0, 2]),  # one child
        ([0, 0], [0, 2]),  # a second root
        ([-1, 0, 0, 0], [0, 4]),
        ([-1, 0, 0, -1, 0], [0, 3, 5]),
        ([-1], [0, 1]),
    ],
)
def test_columns_that_are_no_binary_trees(words, offsets):
    word = np.array(words, np.int32)
    symbol = np.where(word < 0, 0, 1).astype(np.int32)
    corpus = corpus_of("(S (N a) (N a))")
    with pytest.raises(InputError, match=f"tree {len(offsets) - 1} is not binary"):
        Corpus.from_columns(
            ["S", "N"], 1, ["a"], symbol, word, np.array(offsets, np.int64), corpus.normaliser, corpus.transform
        )
