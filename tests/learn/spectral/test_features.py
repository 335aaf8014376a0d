"""Features of nodes against slow twins that walk trees, and their matrices against dictionaries."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from helpers.effort import examples, slow
from helpers.made_up import made_up_treebank
from helpers.strategies import PLAIN_LABELS, deep, trees
from helpers.treebank_files import treebank
from sapwood import read_trees
from sapwood.errors import UsageError
from sapwood.learn.lpcfg.lexical import LexicalModel, LexicalSettings
from sapwood.learn.lpcfg.unary import EMPTY, unfold
from sapwood.learn.spectral.feature_matrices import SymbolFeatures, extract, scale, scale_factors
from sapwood.learn.spectral.features import (
    FEATURE_SETS,
    INSIDE,
    OUTSIDE,
    Entries,
    Feature,
    bin_widths,
    combine,
    from_function,
    register_feature,
)
from sapwood.learn.spectral.node_table import NodeTable, NodeView
from sapwood.trees.corpus import Corpus
from sapwood.trees.heads.rules import HeadRules, head_positions
from sapwood.trees.lexicon.signatures import shape
from sapwood.trees.symbols import as_symbol
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

TRANSFORMS = [
    TreeTransform(1, 0),
    TreeTransform(1, 0, direction="left"),
    TreeTransform(2, 2, direction="head"),
    TreeTransform(2, 1, annotate_tags=True),
]
SENTENCE = (
    "(ROOT (S (NP (DT the) (JJ old) (NN dog)) (VP (VBZ sees) (NP (NNP Rex)) (PP (IN in) (NP (DT the) (NN town)))) "
    "(. .)))"
)


@pytest.fixture(autouse=True)
def _same_registry():
    """Forget features that a test registers."""
    before = dict(INSIDE), dict(OUTSIDE)
    yield
    for registry, included in zip((INSIDE, OUTSIDE), before, strict=True):
        registry.clear()
        registry.update(included)


def corpus_of(*texts: str, transform: TreeTransform | None = None) -> Corpus:
    return Corpus.from_trees([Tree.parse(text) for text in texts], transform=transform)


def label_of(table: NodeTable, node: int) -> str:
    return table.corpus.symbols[table.corpus.symbol[node]]


@dataclass(eq=False)
class Slow:
    """A node of a tree with links, found by recursion."""

    label: str
    word: str | None
    children: list[Slow]
    parent: Slow | None = None
    start: int = 0
    end: int = 0

    @property
    def empty(self) -> bool:
        return self.word is not None and self.label == EMPTY

    @property
    def symbol(self) -> tuple[str, bool]:
        return self.label, self.word is None

    @property
    def rule(self) -> tuple[tuple[str, bool], ...] | None:
        return (self.symbol, *(child.symbol for child in self.children)) if self.children else None

    @property
    def root(self) -> Slow:
        return self if self.parent is None else self.parent.root

    @property
    def height(self) -> int:
        return 1 + max(child.height for child in self.children) if self.children else 0

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else 1 + self.parent.depth

    @property
    def side(self) -> int:
        return -1 if self.parent is None else self.parent.children.index(self)

    @property
    def preorder(self) -> list[Slow]:
        return [self, *(node for child in self.children for node in child.preorder)]

    @property
    def leaves(self) -> list[Slow]:
        return [node for node in self.preorder if node.word is not None and not node.empty]

    def head(self, rules: HeadRules, outward: bool) -> Slow:
        if not self.children:
            return self
        left, right = self.children
        labels = [(as_symbol(child.label).parts.labels or ("",))[0] for child in self.children]
        chosen = 0 if right.empty else rules.head_index(as_symbol(self.label).parts.labels[-1], labels)
        if outward and left.label.startswith("@") != right.label.startswith("@"):
            chosen = int(right.label.startswith("@"))
        return self.children[chosen].head(rules, outward)

    @property
    def phrase(self) -> Slow | None:
        if self.parent is None or not self.parent.label.startswith("@"):
            return self.parent
        return self.parent.phrase

    def outer_head(self, rules: HeadRules, outward: bool) -> Slow | None:
        ancestor = self.phrase
        while ancestor is not None and ancestor.head(rules, outward) is self.head(rules, outward):
            ancestor = ancestor.phrase
        return None if ancestor is None else ancestor.head(rules, outward)


def slow_tree(tree: Tree) -> Slow:
    def visit(node: Tree, parent: Slow | None, start: int) -> Slow:
        result = Slow(node.label, node.word, [], parent, start)
        position = start
        for child in node.children:
            result.children.append(visit(child, result, position))
            position = result.children[-1].end
        result.end = position + (node.word is not None and not result.empty)
        return result

    return visit(tree, None, 0)


def slow_bin(width: int) -> Any:
    if width <= 5:
        return width
    octave = int(math.log2(width))
    return octave, width >= 1.5 * 2**octave


def slow_tag(node: Slow | None) -> str | None:
    return None if node is None else (as_symbol(node.label).parts.labels or ("",))[-1]


def slow_features(
    node: Slow, rules: tuple[HeadRules, bool], class_of: dict[str, int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all included features of a node; those it does not have are left out."""
    inside: dict[str, Any] = {}
    if node.children:
        left, right = node.children
        inside = {
            "left": left.symbol,
            "right": right.symbol,
            "rule": node.rule,
            "rule+left-rule": (node.rule, left.rule),
            "rule+right-rule": (node.rule, right.rule),
            "head-tag": slow_tag(node.head(*rules)),
            "width": slow_bin(node.end - node.start),
        }
    else:
        assert node.word is not None
        inside["word"] = class_of[node.word]
        if not node.empty:
            inside["shape"] = shape(node.word, False)
            if len(node.word) > 2:
                inside["prefix"] = node.word[:2].lower()
            if len(node.word) > 3:
                inside["suffix"] = node.word[-3:].lower()
    path: list[Any] = []
    labels: list[Any] = []
    at: Slow | None = node
    for _ in range(3):
        above = None if at is None else at.parent
        path.append(None if above is None or at is None else (above.rule, at.side))
        labels.append(None if above is None else above.symbol)
        at = above
    outside: dict[str, Any] = {
        "parent-rule": path[0],
        "parent-rule-2": tuple(path[:2]),
        "parent-rule-3": tuple(path),
        "parent-label": labels[0],
        "parent-grandparent": tuple(labels[:2]),
        "head-outside": slow_tag(node.outer_head(*rules)),
        "left-width": slow_bin(node.start),
        "right-width": slow_bin(node.root.end - node.end),
    }
    if node.word is not None and not node.empty:
        leaves = node.root.leaves
        before, after = leaves[: node.start], leaves[node.end :]
        outside["previous-word"] = class_of[str(before[-1].word)] if before else None
        outside["next-word"] = class_of[str(after[0].word)] if after else None
    return inside, outside


def check_arrays(table: NodeTable, nodes: list[Slow], rules: tuple[HeadRules, bool]) -> None:
    number = {id(node): index for index, node in enumerate(nodes)}

    def numbers(found: list[Slow | None]) -> list[int]:
        return [-1 if node is None else number[id(node)] for node in found]

    assert table.height.tolist() == [node.height for node in nodes]
    assert table.depth.tolist() == [node.depth for node in nodes]
    assert table.start.tolist() == [node.start for node in nodes]
    assert table.end.tolist() == [node.end for node in nodes]
    assert table.width.tolist() == [len(node.leaves) for node in nodes]
    assert table.words_after.tolist() == [len(node.root.leaves) - node.end for node in nodes]
    assert table.head.tolist() == numbers([node.head(*rules) for node in nodes])
    assert table.outer_head.tolist() == numbers([node.outer_head(*rules) for node in nodes])
    assert table.phrase.tolist() == numbers([node.phrase for node in nodes])
    assert table.parent.tolist() == numbers([node.parent for node in nodes])
    assert table.grandparent.tolist() == numbers([node.parent and node.parent.parent for node in nodes])
    assert table.sibling.tolist() == numbers(
        [None if node.parent is None else node.parent.children[1 - node.side] for node in nodes]
    )
    assert table.is_right.tolist() == [node.side == 1 for node in nodes]
    assert table.is_empty.tolist() == [node.empty for node in nodes]
    tags = [None if tag < 0 else table.tags[tag] for tag in table.tag.tolist()]
    assert tags == [slow_tag(node) if node.word is not None else None for node in nodes]


def check_features(table: NodeTable, *, outward: bool = False) -> None:
    """Compare arrays, features and matrices of all nodes with the slow twins."""
    corpus = table.corpus
    nodes = [node for index in range(corpus.n_trees) for node in slow_tree(corpus.tree(index)).preorder]
    check_arrays(table, nodes, (table.heads, outward))
    class_of = dict(zip(corpus.words, table.word_classes.tolist(), strict=True))
    slow = [slow_features(node, (table.heads, outward), class_of) for node in nodes]
    for which, registry in enumerate((INSIDE, OUTSIDE)):
        assert {name for found in slow for name in found[which]} <= set(registry)
        for name, feature in registry.items():
            values = feature(table)
            assert isinstance(values, np.ndarray)
            assert values.dtype == np.int64
            wanted = [found[which].get(name, "nothing") for found in slow]
            assert (values < 0).tolist() == [value == "nothing" for value in wanted]
            # As many pairs as values on either side: one stands for the other within a symbol.
            pairs = set(zip(corpus.symbol.tolist(), values.tolist(), wanted, strict=True))
            assert len(pairs) == len({pair[:2] for pair in pairs}) == len({pair[::2] for pair in pairs})
    for least in (1, 2):
        extracted = extract(table, least=least)
        for symbol in range(len(corpus.symbols)):
            own = np.flatnonzero(corpus.symbol == symbol)
            assert extracted.nodes(symbol).tolist() == own.tolist()
            for which, matrix in enumerate((extracted.inside(symbol), extracted.outside(symbol))):
                check_matrix(matrix, [list(slow[node][which].items()) for node in own.tolist()], least)


def check_matrix(matrix: sparse.csr_array, wanted: list[list[Any]], least: int) -> None:
    """Compare an indicator matrix with the features of its rows, whatever the order of the columns."""
    counts = Counter(feature for row in wanted for feature in row)
    rows: dict[Any, list[int]] = defaultdict(list)
    for number, row in enumerate(wanted):
        for feature in row:
            if counts[feature] >= least:
                rows[feature].append(number)
    assert matrix.shape == (len(wanted), len(rows))
    assert matrix.dtype == np.float64
    assert (matrix.data == 1).all()
    assert matrix.has_canonical_format
    columns = matrix.tocsc()
    found = [
        tuple(columns.indices[begin:end].tolist())
        for begin, end in zip(columns.indptr[:-1], columns.indptr[1:], strict=True)
    ]
    assert sorted(found) == sorted(tuple(numbers) for numbers in rows.values())


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("unfolded", [False, True])
def test_features_of_a_treebank(transform, unfolded):
    corpus = Corpus.from_trees(made_up_treebank(30, seed=1), transform=transform)
    if unfolded:
        corpus = unfold(corpus).corpus
        assert EMPTY in corpus.symbols
    check_features(
        NodeTable(corpus, LexicalModel(corpus, LexicalSettings()).word_classes(2)),
        outward=transform.direction == "head",
    )


@examples(60)
@given(
    st.lists(trees(st.sampled_from(PLAIN_LABELS), st.sampled_from(["a", "dog", "Runs", "12"])), min_size=1, max_size=4),
    st.sampled_from(TRANSFORMS),
    st.booleans(),
    st.sampled_from([None, HeadRules.leftmost(), HeadRules.rightmost()]),
)
def test_features_of_random_trees(found, transform, unfolded, heads):
    corpus = Corpus.from_trees(found, transform=transform)
    check_features(
        NodeTable(unfold(corpus).corpus if unfolded else corpus, heads=heads),
        outward=heads is None and transform.direction == "head",
    )


@examples(40)
@given(st.lists(trees(), min_size=1, max_size=3), st.booleans())
def test_odd_labels_and_words(found, unfolded):
    corpus = Corpus.from_trees([Tree("ROOT", [Tree("S", [tree, Tree("N", word="x")])]) for tree in found])
    check_features(NodeTable(unfold(corpus).corpus if unfolded else corpus))


@pytest.mark.parametrize("direction", ["right", "left", "head"])
def test_heads_of_binarised_phrases_are_those_of_the_phrases(direction):
    tree = Tree.parse(SENTENCE)
    corpus = Corpus.from_trees([tree], transform=TreeTransform(1, 0, direction=direction))
    table = NodeTable(corpus)
    heads = head_positions(tree, HeadRules.english())
    phrases = [head for node, head in zip(tree.nodes(), heads, strict=True) if node.children]
    wanted = dict(zip(tree.spans(), phrases, strict=True))
    checked = 0
    for node in range(table.n_nodes):
        labels, _, _, intermediate = as_symbol(label_of(table, node)).parts
        if not intermediate and corpus.word[node] < 0:
            assert table.start[table.head[node]] == wanted[int(table.start[node]), int(table.end[node]), labels[-1]]
            checked += 1
    assert checked == 5
    # And what the first other head above each phrase or word is.
    outer = {
        (label_of(table, node), *table.view(node).span): OUTSIDE["head-outside"].describe(table, node)
        for node in range(table.n_nodes)
        if not table.is_intermediate[node]
    }
    assert outer == {
        ("S", 0, 9): "(none)", ("VP", 3, 8): "(none)", ("VBZ", 3, 4): "(none)", (".", 8, 9): "VBZ",
        ("NP", 0, 3): "VBZ", ("DT", 0, 1): "NN", ("JJ", 1, 2): "NN", ("NN", 2, 3): "VBZ",
        ("NP|NNP", 4, 5): "VBZ", ("PP", 5, 8): "VBZ", ("IN", 5, 6): "VBZ",
        ("NP", 6, 8): "IN", ("DT", 6, 7): "NN", ("NN", 7, 8): "IN",
    }  # fmt: skip


def test_heads_of_trees_that_grow_outward_from_them():
    """A possessor is a noun phrase too, so only the intermediate symbol says where the head is."""
    text = "(ROOT (NP (NP (NNP Rex) (POS 's)) (JJ old) (JJ red) (NN ball)))"
    corpus = corpus_of(text, transform=TreeTransform(1, 0, direction="head"))
    assert NodeTable(corpus).view(0).head.word == "ball"
    assert NodeTable(corpus, heads=HeadRules.english()).view(0).head.word == "Rex"


def test_heads_come_from_the_transform_or_the_argument():
    corpus = corpus_of(SENTENCE, transform=TreeTransform(1, 0, heads="* right"))
    assert NodeTable(corpus).view(0).head.word == "."
    assert NodeTable(corpus, heads=HeadRules.leftmost()).view(0).head.word == "the"
    assert NodeTable(replace(corpus, transform=TreeTransform(1, 0))).view(0).head.word == "sees"


def test_single_words():
    corpus = corpus_of("(ROOT (N cats))", "(ROOT (N dogs))", "(ROOT (V run))")
    table = NodeTable(corpus)
    check_features(table)
    found = extract(table)
    cats = corpus.symbols.index("N")
    assert found.inside(cats).shape[0] == 2
    assert found.describe_outside(cats, 0) == "parent-rule: (root)"
    assert found.outside(cats).toarray().min() == 1  # all the same: nothing is outside
    check_features(NodeTable(unfold(corpus).corpus))


def test_roots_are_told_apart():
    corpus = corpus_of("(ROOT (NP (NP (D a) (N x)) (NP (D a) (N x))))")
    np_symbol = corpus.symbols.index("NP")
    found = extract(NodeTable(corpus), outside=["parent-rule"])
    assert found.outside(np_symbol).toarray().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert [found.describe_outside(np_symbol, column) for column in range(3)] == [
        "parent-rule: (root)",
        "parent-rule: NP -> _ NP",
        "parent-rule: NP -> NP _",
    ]


def test_empty_leaves_are_no_words():
    corpus = unfold(corpus_of("(ROOT (S (NP (N dogs)) (VP (V bark))))")).corpus
    table = NodeTable(corpus)
    views = [table.view(node) for node in range(table.n_nodes)]
    assert [view.label for view in views] == ["S", "NP", "N", EMPTY, "VP", "V", EMPTY]
    assert [view.span for view in views] == [(0, 2), (0, 1), (0, 1), (1, 1), (1, 2), (1, 2), (2, 2)]
    assert views[0].words == views[3].sentence == ["dogs", "bark"]
    assert views[3].words == []
    assert views[3].word is None
    assert views[1].head == views[2]
    assert table.previous_leaf[5] == 2


def test_word_classes():
    corpus = corpus_of("(ROOT (S (N cats) (V run)))", "(ROOT (S (N dogs) (V run)))")
    noun = corpus.symbols.index("N")
    assert extract(NodeTable(corpus), inside=["word"]).inside(noun).shape == (2, 2)
    classes = np.array([word == "run" for word in corpus.words]).astype(int)
    shared = extract(NodeTable(corpus, classes), inside=["word"])
    assert shared.inside(noun).toarray().tolist() == [[1], [1]]
    assert shared.describe_inside(noun, 0) == "word: cats dogs"
    for bad in (classes[1:], classes - 1, classes * 0.5):
        with pytest.raises(UsageError, match="word_classes must be 3 numbers"):
            NodeTable(corpus, bad)


@pytest.mark.parametrize(("nouns", "name"), [("a b c", "a b c"), ("a b c d", "a b c ... (4 words)")])
def test_classes_of_many_words_are_called_by_three_of_them(nouns, name):
    corpus = corpus_of(*(f"(ROOT (S (N {noun}) (V run)))" for noun in nouns.split()))
    classes = np.array([word == "run" for word in corpus.words]).astype(int)
    found = extract(NodeTable(corpus, classes), inside=["word"])
    assert found.describe_inside(corpus.symbols.index("N"), 0) == f"word: {name}"


def test_descriptions():
    corpus = corpus_of(SENTENCE, transform=TreeTransform(1, 0))
    table = NodeTable(corpus)
    found = extract(table)

    def described(label: str, node: int) -> tuple[set[str], set[str]]:
        symbol = corpus.symbols.index(label)
        row = found.nodes(symbol).tolist().index(node)
        return (
            {found.describe_inside(symbol, c) for c in found.inside(symbol)[[row]].indices.tolist()},
            {found.describe_outside(symbol, c) for c in found.outside(symbol)[[row]].indices.tolist()},
        )

    (verb_phrase,) = [node for node in range(table.n_nodes) if label_of(table, node) == "VP"]
    inside, outside = described("VP", verb_phrase)
    assert inside == {
        "left: VBZ",
        "right: @VP",
        "rule: VP -> VBZ @VP",
        "rule+left-rule: VP -> VBZ @VP > VBZ",
        "rule+right-rule: VP -> VBZ @VP > @VP -> NP|NNP PP",
        "head-tag: VBZ",
        "width: 5",
    }
    assert outside == {
        "parent-rule: @S -> _ .",
        "parent-rule-2: @S -> _ . < S -> NP _",
        "parent-rule-3: @S -> _ . < S -> NP _ < (root)",
        "parent-label: @S",
        "parent-grandparent: @S < S",
        "head-outside: (none)",
        "left-width: 3",
        "right-width: 1",
    }
    verb = int(corpus.left[verb_phrase])
    inside, outside = described("VBZ", verb)
    assert inside == {"word: sees", "shape: a", "prefix: se-", "suffix: -ees"}
    assert {"previous-word: dog", "next-word: Rex"} <= outside
    assert "width: 8-11" in described("S", 0)[0]
    with pytest.raises(IndexError):
        found.describe_inside(corpus.symbols.index("VP"), 7)
    assert f"{len(corpus.symbols)} symbols, {corpus.n_nodes} nodes" in repr(found)


def same(first: SymbolFeatures, second: SymbolFeatures) -> bool:
    corpus = first.table.corpus
    return all(
        a.shape == b.shape
        and np.array_equal(a.indptr, b.indptr)
        and np.array_equal(a.indices, b.indices)
        and np.array_equal(a.data, b.data)
        and describe(first)(symbol, column) == describe(second)(symbol, column)
        for symbol in range(len(corpus.symbols))
        for a, b, describe in (
            (first.inside(symbol), second.inside(symbol), lambda found: found.describe_inside),
            (first.outside(symbol), second.outside(symbol), lambda found: found.describe_outside),
        )
        for column in range(a.shape[1])
    )


def test_same_trees_same_matrices():
    bank = made_up_treebank(20, seed=3)
    first = extract(NodeTable(Corpus.from_trees(bank)))
    second = extract(NodeTable(Corpus.from_trees(bank)))
    assert same(first, second)
    assert not same(first, extract(NodeTable(Corpus.from_trees(bank)), inside="simple"))


def test_columns_are_in_order_of_features():
    corpus = Corpus.from_trees(made_up_treebank(20, seed=3))
    found = extract(NodeTable(corpus), inside=["width", "rule", "left"])
    for symbol in range(corpus.n_interminals):
        matrix = found.inside(symbol)
        names = [found.describe_inside(symbol, column).split(":")[0] for column in range(matrix.shape[1])]
        assert names == sorted(names, key=["width", "rule", "left"].index)
        assert np.diff(matrix.indptr).tolist() == [3] * matrix.shape[0]


def test_sets_and_names():
    corpus = corpus_of(SENTENCE)
    table = NodeTable(corpus)
    assert same(extract(table, "simple", "simple"), extract(table, ["rule", "word"], ["parent-rule"]))
    assert same(extract(table), extract(table, list(INSIDE), list(OUTSIDE)))
    assert FEATURE_SETS["rich"] == (tuple(INSIDE), tuple(OUTSIDE))
    nothing = extract(table, [], [])
    assert nothing.inside(0).shape == nothing.outside(0).shape == ((corpus.symbol == 0).sum(), 0)
    with pytest.raises(UsageError, match="no set of features 'poor'; choose simple or rich"):
        extract(table, "poor")
    with pytest.raises(UsageError, match="no inside feature 'parent-rule'; choose from left, right"):
        extract(table, ["parent-rule"])
    with pytest.raises(UsageError, match="two outside features are called 'left-width'"):
        extract(table, outside=["left-width", "left-width"])
    with pytest.raises(UsageError, match="'rule' is an inside feature"):
        extract(table, outside=[INSIDE["rule"]])


def test_symbols_without_nodes():
    corpus = corpus_of(SENTENCE)
    wider, _ = corpus.renumbered(
        [corpus.symbols[0], "UNSEEN", *corpus.symbols[1:]],
        corpus.n_interminals + 1,
        np.where(corpus.rules > 0, corpus.rules + 1, 0),
    )
    found = extract(NodeTable(wider))
    assert len(found.nodes(1)) == 0
    assert found.inside(1).shape == found.outside(1).shape == (0, 0)
    assert scale(found.inside(1), 5.0).shape == (0, 0)
    assert found.inside(2).shape[0] == (corpus.symbol == 1).sum()


def test_features_of_users():
    corpus = corpus_of(SENTENCE, transform=TreeTransform(1, 0))
    table = NodeTable(corpus)

    @register_feature("tall", "inside")
    def tall(table: NodeTable) -> np.ndarray:
        return np.where(table.is_leaf, -1, table.height > 2)

    def huge(table: NodeTable) -> np.ndarray:
        return table.width * (2**60) - 1

    assert register_feature("huge", "outside", huge, describe=lambda table, node: f"{table.width[node]} words") is huge
    noun_phrase = corpus.symbols.index("NP")
    found = extract(table, ["tall", "rule"], ["huge"])
    assert [found.describe_inside(noun_phrase, column) for column in range(3)] == [
        "tall: 0",
        "rule: NP -> DT @NP",
        "rule: NP -> DT NN",
    ]
    assert found.inside(noun_phrase).toarray()[:, 0].tolist() == [1, 1]
    assert found.describe_outside(noun_phrase, 0) == "huge: 2 words"
    assert found.outside(noun_phrase).toarray().tolist() == [[0, 1], [1, 0]]
    assert same(extract(table, [tall], []), extract(table, ["tall"], []))
    with pytest.raises(UsageError, match="included inside feature 'rule'"):
        register_feature("rule", "inside", tall)
    with pytest.raises(UsageError, match="inside or outside, not 'upside'"):
        register_feature("tall", "upside", tall)  # type: ignore[call-overload]
    for wrong in (lambda table: table.corpus.rules[:, 0], lambda table: table.width / 2):
        with pytest.raises(UsageError, match="'half' must return 17 integers"):
            extract(table, [Feature("half", "inside", wrong)])


def test_views_of_nodes_have_what_the_trees_have():
    corpus = corpus_of(SENTENCE, transform=TreeTransform(1, 0))
    table = NodeTable(corpus)
    sentence = Tree.parse(SENTENCE).words()
    for node in range(corpus.n_nodes):
        view = NodeView(table, node)
        begin, end = view.span
        assert view.words == sentence[begin:end]
        assert view.word == (sentence[begin] if table.is_leaf[node] else None)
        assert view.label == corpus.symbols[corpus.symbol[node]]
        assert (view.parent is None) == (node == 0)


def test_plain_python_features():
    corpus = corpus_of(SENTENCE, transform=TreeTransform(1, 0))
    table = NodeTable(corpus)

    def letters(node: NodeView) -> dict[str, float] | None:
        return None if node.word is None else {**Counter(node.word), "nothing": 0.0, "minus": -0.5}

    def around(node: NodeView) -> list[str]:
        if node.parent is None or node.sibling is None:
            return []
        return [node.parent.label, f"{node.is_right} {node.sibling.label}", node.parent.label]

    def width(node: NodeView) -> str:
        return str(node.span[1] - node.span[0])

    found = extract(table, [from_function(letters), from_function(width), "rule"], [from_function(around)])
    symbol = corpus.symbols.index("VBZ")
    row = dict(
        zip(
            [found.describe_inside(symbol, column) for column in range(found.inside(symbol).shape[1])],
            found.inside(symbol).toarray()[0].tolist(),
            strict=True,
        )
    )
    assert row == {"letters: minus": -0.5, "letters: s": 2, "letters: e": 2, "width: 1": 1}
    assert list(row) == sorted(row)  # by feature, then by value
    assert found.outside(symbol).toarray().tolist() == [[1, 1]]
    assert {found.describe_outside(symbol, column) for column in (0, 1)} == {"around: VP", "around: False @VP"}
    assert found.outside(corpus.symbols.index("S")).shape == (1, 0)
    # The same thing by arrays and by Python.
    by_array = extract(table, ["rule"], ["parent-label"])
    by_python = extract(
        table,
        [from_function(lambda node: " ".join((node.label, *node.child_labels)) if node.children else None)],
        [from_function(lambda node: node.parent.label if node.parent else "(root)")],
    )
    for number in range(len(corpus.symbols)):
        for a, b in (
            (by_array.inside(number), by_python.inside(number)),
            (by_array.outside(number), by_python.outside(number)),
        ):
            assert sorted(map(tuple, a.toarray().T)) == sorted(map(tuple, b.toarray().T))


@pytest.mark.parametrize("result", [{"x": math.nan}, {"x": "much"}, [1], {1: 1.0}])
def test_plain_python_features_that_return_nonsense(result):
    def nonsense(node):
        return result

    table = NodeTable(corpus_of(SENTENCE))
    with pytest.raises(UsageError, match=r"'nonsense' must return strings.*for <node 0: S -> .* it returned"):
        extract(table, [from_function(nonsense)])


def test_entries_are_added_up():
    corpus = corpus_of("(ROOT (S (N cats) (V run)))")
    entries = Entries(np.array([0, 1, 0, 0]), np.array([7, 7, 3, 7]), np.array([1.0, 2.0, 4.0, 8.0]))
    found = extract(NodeTable(corpus), [Feature("own", "inside", lambda table: entries)])
    assert found.inside(0).toarray().tolist() == [[4, 9]]
    assert found.inside(0).nnz == 2
    assert [found.describe_inside(0, column) for column in (0, 1)] == ["own: 3", "own: 7"]
    with pytest.raises(UsageError, match="as many nodes as values"):
        Entries(np.array([0]), np.array([0, 1]), np.array([1.0]))
    with pytest.raises(UsageError, match="numbers from 0"):
        Entries(np.array([0]), np.array([-1]), np.array([1.0]))


def test_least_counts_nodes_of_the_symbol():
    corpus = corpus_of(*["(ROOT (S (N cats) (V run)))"] * 2, "(ROOT (S (V run) (N dogs)))")
    found = extract(NodeTable(corpus), ["word"], [], least=2)
    noun, verb = corpus.symbols.index("N"), corpus.symbols.index("V")
    assert found.inside(noun).toarray().tolist() == [[1], [1], [0]]
    assert found.describe_inside(noun, 0) == "word: cats"
    assert found.inside(verb).toarray().tolist() == [[1]] * 3


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(
            st.tuples(*[st.integers(-1, 3) | st.sampled_from([10**6, 2**62, 2**63 - 1])] * n), min_size=1, max_size=12
        )
    )
)
def test_combine(rows):
    values = combine(*np.array(rows, np.int64).T)
    present = sorted({row for row in rows if min(row) >= 0})
    assert values.tolist() == [present.index(row) if min(row) >= 0 else -1 for row in rows]


def test_bins():
    widths = np.arange(2000)
    bins = bin_widths(widths)
    assert bins[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert set(np.diff(bins).tolist()) == {0, 1}
    assert len(set(map(slow_bin, range(2000)))) == len(set(bins.tolist()))
    sizes = np.bincount(bins)[6:-1]
    assert (sizes[2:] == 2 * sizes[:-2]).all()


@given(st.integers(0, 5), st.integers(0, 6), st.floats(0, 10), st.integers(0, 2**32 - 1))
def test_scale(n_rows, n_columns, kappa, seed):
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < 0.5)
    matrix = sparse.csr_array(dense)
    wanted = np.zeros_like(dense)
    for column in range(n_columns):
        if dense[:, column].any():
            wanted[:, column] = dense[:, column] * math.sqrt(n_rows / ((dense[:, column] ** 2).sum() + kappa))
    np.testing.assert_allclose(scale(matrix, kappa).toarray(), wanted, rtol=1e-12)
    assert np.isfinite(scale_factors(matrix, kappa)).all()
    assert np.array_equal(matrix.toarray(), dense)


def test_scale_refuses_negative_kappa():
    with pytest.raises(UsageError, match="must not be negative"):
        scale(sparse.csr_array(np.eye(2)), -1)


def test_deep_trees():
    corpus = Corpus.from_trees([deep(5000, branching="right"), deep(5000, branching="left")])
    table = NodeTable(corpus)
    found = extract(table)
    symbol = corpus.symbols.index("S")
    assert found.inside(symbol).shape[0] == 10_000
    assert table.height.max() == table.depth.max() == 5000


@pytest.mark.parametrize("name", ["ours/train.mrg", slow("gum/train.mrg")])
def test_a_whole_treebank(name):
    """No more entries than nodes have features, and each feature once."""
    corpus = Corpus.from_trees(read_trees(treebank(name)), transform=TreeTransform(1, 0))
    table = NodeTable(corpus, LexicalModel(corpus, LexicalSettings()).word_classes(2))
    found = extract(table)
    inside = sum(found.inside(symbol).nnz for symbol in range(len(corpus.symbols)))
    outside = sum(found.outside(symbol).nnz for symbol in range(len(corpus.symbols)))
    assert inside == sum(int((feature(table) >= 0).sum()) for feature in INSIDE.values())
    assert outside == sum(int((feature(table) >= 0).sum()) for feature in OUTSIDE.values())
