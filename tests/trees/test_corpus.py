"""The corpus arrays against what the trees themselves say."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from sapwood import PCFG, Parser, evaluate_parser, train
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.storage.arrays import write_arrays
from sapwood.trees.corpus import Corpus
from sapwood.trees.normalise import Normaliser
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

COLUMNS = ("symbol", "rule", "left", "right", "word", "parent", "start", "end")

TREES = [
    "(S (NP-SBJ (DT the) (JJ small) (NN boat)) (VP (VBD sank) (ADVP (RB fast))) (. .))",
    "(S (NP (NNS storms)) (VP (VBP come) (PP (IN in) (NP (DT the) (NN night)))))",
    "(ROOT (INTJ (UH yes)))",
    "(FRAG (NP (DT the) (NN night)) (, ,) (NP (DT the) (NN boat)) (, ,) (NP (DT the) (NNS storms)))",
    "(S (NP (-NONE- *)) (VP (VB stop)))",
]

labels = st.sampled_from(["A", "B", "C", "N", "V"])
leaves = st.builds(lambda label, word: Tree(label, word=word), labels, st.sampled_from(["x", "y", "z", "w"]))
some_trees = st.recursive(
    leaves,
    lambda below: st.builds(Tree, labels, st.lists(below, min_size=1, max_size=4)),
    max_leaves=12,
)


def corpus_of(*texts: str, **settings_: object) -> Corpus:
    return Corpus.from_trees([Tree.parse(text) for text in texts], **settings_)


def check_columns(corpus: Corpus, skeletons: list[Tree]) -> None:
    """Compare every column with an independent walk over the trees."""
    assert corpus.n_trees == len(skeletons)
    assert corpus.n_words == sum(len(tree) for tree in skeletons)
    node = 0
    for number, skeleton in enumerate(skeletons):
        first = node
        assert corpus.offsets[number] == corpus.roots[number] == first
        found = {id(item): first + index for index, item in enumerate(walk(skeleton))}
        position = 0
        above = {id(child): item for item in walk(skeleton) for child in item.children}
        for item in walk(skeleton):
            assert found[id(item)] == node
            symbol = int(corpus.symbol[node])
            assert corpus.symbols[symbol] == item.label
            assert (symbol >= corpus.n_interminals) == (item.word is not None)
            if item.word is not None:
                assert corpus.words[corpus.word[node]] == item.word
                assert corpus.left[node] == corpus.right[node] == corpus.rule[node] == -1
                assert (corpus.start[node], corpus.end[node]) == (position, position + 1)
                position += 1
            else:
                assert corpus.word[node] == -1
                left, right = (found[id(child)] for child in item.children)
                assert (corpus.left[node], corpus.right[node]) == (left, right)
                rule = corpus.rules[corpus.rule[node]].tolist()
                assert rule == [symbol, corpus.symbol[left], corpus.symbol[right]]
                assert (corpus.start[node], corpus.end[node]) == (position, position + len(item))
            assert corpus.parent[node] == (found[id(above[id(item)])] if node > first else -1)
            node += 1
    assert node == corpus.n_nodes == corpus.offsets[-1]


def walk(tree: Tree) -> list[Tree]:
    """List the nodes in preorder (by recursion, unlike the code under test)."""
    return [tree, *(node for child in tree.children for node in walk(child))]


def skeletons_of(trees: list[Tree], normaliser: Normaliser, transform: TreeTransform) -> list[Tree]:
    """Return the skeletal trees as separate objects all through, so that nodes have identities."""
    clean = [normaliser(tree) for tree in trees]
    return [Tree.parse(str(transform(tree))) for tree in clean if tree is not None]


@examples(100)
@given(
    st.lists(some_trees, min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(0, 2),
    st.sampled_from(["left", "right"]),
)
def test_columns(trees, vertical, horizontal, direction):
    transform = TreeTransform(vertical=vertical, horizontal=horizontal, direction=direction)
    corpus = Corpus.from_trees(trees, transform=transform)
    skeletons = skeletons_of(trees, Normaliser(), transform)
    check_columns(corpus, skeletons)
    assert [corpus.tree(index) for index in range(corpus.n_trees)] == skeletons
    assert [corpus.sentence(index) for index in range(corpus.n_trees)] == [tree.words() for tree in skeletons]


def test_tables_and_counts():
    trees = [Tree.parse(text) for text in TREES]
    corpus = Corpus.from_trees(trees)
    skeletons = skeletons_of(trees, Normaliser(), TreeTransform())
    nodes = [node for tree in skeletons for node in walk(tree)]
    counts = corpus.symbol_counts()
    for part, inner in ((slice(0, corpus.n_interminals), True), (slice(corpus.n_interminals, None), False)):
        expected = Counter(node.label for node in nodes if (node.word is None) == inner)
        assert dict(zip(corpus.symbols[part], counts[part].tolist(), strict=True)) == expected
        assert counts[part].tolist() == sorted(counts[part], reverse=True)
    words = Counter(word for tree in skeletons for word in tree.words())
    assert sorted(corpus.words) == sorted(words)
    assert [words[word] for word in corpus.words] == sorted(words.values(), reverse=True)
    rules = Counter(
        (node.label, *((child.label, child.word is not None) for child in node.children))
        for node in nodes
        if node.word is None
    )
    names = [
        (corpus.symbols[a], *((corpus.symbols[x], x >= corpus.n_interminals) for x in (b, c)))
        for a, b, c in corpus.rules.tolist()
    ]
    assert dict(zip(names, corpus.rule_counts().tolist(), strict=True)) == rules
    assert corpus.rules.tolist() == sorted(corpus.rules.tolist())
    roots = Counter(tree.label for tree in skeletons)
    assert {corpus.symbols[x]: n for x, n in enumerate(corpus.root_counts().tolist()) if n} == roots
    pairs = Counter((node.label, node.word) for node in nodes if node.word is not None)
    assert {
        (corpus.symbols[s], corpus.words[w]): n
        for s, w, n in zip(*(x.tolist() for x in corpus.lexical_counts()), strict=True)
    } == pairs
    assert "5 trees" in repr(corpus)
    assert f"{len(words)} distinct" in repr(corpus)


def test_numbering_does_not_depend_on_order():
    trees = [Tree.parse(text) for text in TREES]
    one, other = Corpus.from_trees(trees), Corpus.from_trees(trees[::-1])
    assert one.symbols == other.symbols
    assert one.words == other.words
    np.testing.assert_array_equal(one.rules, other.rules)


def test_a_label_in_both_roles_gives_two_symbols():
    corpus = corpus_of("(S (X (X a) (Y b)) (X c))", normaliser=Normaliser(repeated_unaries=False))
    assert corpus.symbols.count("X") == 2
    inner, leaf = (number for number, name in enumerate(corpus.symbols) if name == "X")
    assert inner < corpus.n_interminals <= leaf
    assert corpus.symbol_counts()[[inner, leaf]].tolist() == [1, 2]
    assert corpus.tree(0) == Tree.parse("(S (X (X a) (Y b)) (X c))")


def test_transform_undoes_what_the_corpus_holds():
    corpus = corpus_of(*TREES)
    assert corpus.transform.invert(corpus.tree(0)) == Normaliser()(Tree.parse(TREES[0]))


def test_only_one_word_trees():
    corpus = corpus_of("(N a)", "(V b)")
    assert corpus.n_interminals == 0
    assert corpus.rules.shape == (0, 3)
    assert corpus.rule.tolist() == [-1, -1]


def test_dropped_trees_are_counted():
    corpus = corpus_of("(S (NP (-NONE- *)))", "(CODE (X y))", *TREES)
    assert corpus.dropped == 2
    assert corpus.n_trees == len(TREES)


@pytest.mark.parametrize("trees", [[], ["(S (-NONE- *))"]])
def test_no_trees(trees):
    with pytest.raises(InputError, match="no trees"):
        corpus_of(*trees)


def test_trees_are_not_kept():
    """The trees are taken one at a time: the corpus can be larger than the trees would fit in memory."""
    corpus = Corpus.from_trees(Tree.parse(TREES[0]) for _ in range(3))
    assert corpus.n_trees == 3


def test_memory_per_node():
    corpus = corpus_of(*TREES * 200)
    total = sum(
        array.nbytes
        for array in (getattr(corpus, field.name) for field in fields(corpus))
        if isinstance(array, np.ndarray)
    )
    assert total / corpus.n_nodes <= 50
    for name in COLUMNS:
        column = getattr(corpus, name)
        assert column.dtype == np.int32
        assert column.flags.c_contiguous
        assert column.shape == (corpus.n_nodes,)


def test_save_and_load(tmp_path):
    normaliser = Normaliser(function_tags="all", drop=("CODE", "ID"))
    transform = TreeTransform(vertical=2, horizontal=0, direction="left")
    corpus = corpus_of("(CODE (X y))", *TREES, normaliser=normaliser, transform=transform)
    corpus.save(tmp_path / "corpus")
    again = Corpus.load(tmp_path / "corpus")
    for field in fields(corpus):
        ours, theirs = getattr(corpus, field.name), getattr(again, field.name)
        if isinstance(ours, np.ndarray):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert ours == theirs
    assert again.dropped == 1
    assert again.tree(0) == corpus.tree(0)
    assert again.digest() == corpus.digest()
    again.save(tmp_path / "again")
    assert (tmp_path / "corpus").read_bytes() == (tmp_path / "again").read_bytes()


def test_digest_tells_corpora_apart():
    corpus = corpus_of(*TREES)
    assert corpus.digest() == corpus_of(*TREES).digest()
    assert corpus.digest() != corpus_of(*TREES[1:]).digest()
    assert corpus.digest() != replace(corpus, words=[*corpus.words[:-1], "other"]).digest()
    assert corpus.digest() != corpus_of(*TREES, transform=TreeTransform(horizontal=1)).digest()


def test_damaged_file(tmp_path):
    path = tmp_path / "corpus"
    corpus_of(*TREES).save(path)
    content = path.read_bytes()
    for damaged in (
        content[:-7],
        content[: len(content) // 2],
        content[:-9] + bytes([content[-9] ^ 4]) + content[-8:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(ModelError, match="corpus"):
            Corpus.load(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *((name, lambda array: array[:-1]) for name in (*COLUMNS, "offsets")),
        *((name, lambda array: array - 2) for name in (*COLUMNS, "rules", "offsets")),
        *((name, lambda array: array + 99) for name in (*COLUMNS, "rules", "offsets")),
        *((name, lambda array: array.astype(float)) for name in (*COLUMNS, "rules", "offsets")),
        ("offsets", lambda array: array * 0),
        ("rules", lambda array: array[:, :2]),
    ],
)
def test_columns_that_do_not_fit(tmp_path, name, change):
    arrays, metadata = corpus_of(*TREES)._content()
    write_arrays(tmp_path / "a", {**arrays, name: change(arrays[name])}, metadata, kind="corpus", version=2)
    with pytest.raises(ModelError, match=r"not a complete corpus: \w+: .*; make it again"):
        Corpus.load(tmp_path / "a")


def test_saving_a_single_word(tmp_path):
    corpus_of("(N a)").save(tmp_path / "corpus")
    assert Corpus.load(tmp_path / "corpus").tree(0) == Tree.parse("(N a)")


def test_deep_trees():
    tree = Tree("N", word="x")
    for _ in range(3000):
        tree = Tree("S", (Tree("N", word="x"), tree))
    corpus = Corpus.from_trees([tree])
    assert corpus.n_nodes == 6001
    assert corpus.end[0] == 3001
    assert corpus.tree(0) == tree


@examples(50)
@given(st.lists(some_trees, min_size=2, max_size=6), st.data())
def test_a_part_is_the_corpus_of_its_trees(trees, data):
    whole = Corpus.from_trees(trees, normaliser=Normaliser(empties=False))
    if whole.n_trees < 2 or whole.dropped:
        return
    chosen = data.draw(st.lists(st.integers(0, whole.n_trees - 1), min_size=1, unique=True))
    part = whole.part(np.array(chosen))
    alone = Corpus.from_trees([trees[tree] for tree in chosen], normaliser=Normaliser(empties=False))
    assert part.digest() == alone.digest()


@pytest.mark.parametrize(
    ("trees", "message"),
    [
        ("train.mrg", r"read a file with `sapwood\.read_trees"),
        (Path("train.mrg"), r"read a file with `sapwood\.read_trees"),
        (["(S (NP a))"], r"make one with `sapwood\.Tree\.parse"),
        (Tree.parse("(S (NP a))"), "put one in a list"),
        (None, "not NoneType"),
    ],
)
def test_what_is_not_trees_is_refused_with_the_remedy(trees, message):
    for use in (PCFG.prepare, train, partial(evaluate_parser, Parser())):
        with pytest.raises(UsageError, match=message):
            use(trees)
    with pytest.raises(UsageError, match=r"`sapwood\.Parser\(path\)`"):
        evaluate_parser("fast.sapwood", [])
