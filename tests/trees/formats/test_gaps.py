"""Trees with gaps: their blocks, split and joined, next to slow definitions."""

from __future__ import annotations

import copy
import pickle
import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.gap_trees import gap_trees, random_gap_tree
from helpers.treebank_files import treebank
from sapwood.errors import InputError, UsageError
from sapwood.trees.formats.gaps import (
    arrange,
    drop_single_parts,
    find_partners,
    join_gaps,
    lacks_partners,
    node_blocks,
    phrase_blocks,
    positions,
    require_no_gaps,
    split_gaps,
)
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.normalise import Normaliser
from sapwood.trees.punctuation import without_punctuation
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import PlacedWord, Tree

RICH = "(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John) (? 3=?))"


def parse(text: str) -> Tree:
    return Tree.parse(text, format="discbracket")


def places_below(tree: Tree) -> list[set[int]]:
    """Return the positions of the words of each node, by looking at all of them."""
    order = positions(tree)
    leaves = [node for node in tree.nodes() if node.word is not None]
    # Leaves may be equal; each is found by its number.
    found = []
    start = 0
    stack = [(tree, 0)]
    while stack:
        node, start = stack.pop()
        found.append({order[place] for place in range(start, start + len(node))})
        below = []
        for child in node.children:
            below.append((child, start))
            start += len(child)
        stack.extend(reversed(below))
    assert len(order) == len(leaves)
    return found


def blocks_of(places: set[int]) -> tuple[tuple[int, int], ...]:
    starts = sorted(place for place in places if place - 1 not in places)
    ends = sorted(place + 1 for place in places if place + 1 not in places)
    return tuple(zip(starts, ends, strict=True))


def test_words_and_tags_are_in_the_order_of_the_sentence() -> None:
    tree = parse(RICH)
    assert (tree.words(), tree.tags()) == (["is", "John", "rich", "?"], ["VB", "NP", "JJ", "?"])
    assert [type(word) for word in tree.words()] == [str] * 4
    assert [node.label for node in tree.nodes()] == ["S", "VP", "VB", "JJ", "NP", "?"]
    assert (tree.has_gaps, tree.children[0].has_gaps, tree.children[1].has_gaps) == (True, True, False)
    assert (str(tree), repr(tree)) == (RICH, f"Tree.parse({RICH!r}, format='discbracket')")
    assert eval(repr(tree), {"Tree": Tree}) == tree


def test_trees_with_the_same_brackets_and_other_positions_differ() -> None:
    tree = parse(RICH)
    plain = Tree.parse("(S (VP (VB is) (JJ rich)) (NP John) (? ?))")
    assert tree != plain
    assert plain != tree
    assert tree != parse("(S (VP (VB 0=is) (JJ 3=rich)) (NP 1=John) (? 2=?))")
    assert tree == parse("(S (? 3=?) (NP 1=John) (VP (JJ 2=rich) (VB 0=is)))")
    assert hash(tree) == hash(parse(RICH))
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert copy.deepcopy(tree) == tree
    assert type(pickle.loads(pickle.dumps(tree)).children[0].children[0].word) is PlacedWord


def test_what_has_no_gaps_refuses_them() -> None:
    tree = parse(RICH)
    for refused in (tree.spans, tree.pretty, tree.to_nltk, lambda: require_no_gaps(tree, "x")):
        with pytest.raises(InputError, match="gaps"):
            refused()
    with pytest.raises(UsageError, match="brackets or discbracket"):
        Tree.parse("(A a)", format="export")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="has gaps, and the grammar has none"):
        TreeTransform()(tree)
    with pytest.raises(InputError, match="others have none"):
        positions(Tree("S", [Tree("A", word="a"), Tree("B", word=PlacedWord("b", 0))]))
    with pytest.raises(InputError, match="same position"):
        arrange(Tree("S", [Tree("A", word=PlacedWord("a", 0)), Tree("B", word=PlacedWord("b", 0))]))
    with pytest.raises(InputError, match="part of a larger one"):
        split_gaps(tree.children[0])


@given(gap_trees())
def test_blocks_are_those_of_the_definition(tree: Tree) -> None:
    below = places_below(tree)
    assert node_blocks(tree) == [blocks_of(places) for places in below]
    assert tree.has_gaps == any(len(blocks_of(places)) > 1 for places in below)
    assert tree.has_gaps == tree.is_placed
    phrases = [node.label for node in tree.nodes() if node.word is None]
    assert [label for _, label in phrase_blocks(tree)] == phrases
    for node in tree.nodes():
        firsts = [min(positions(child)) for child in node.children] if tree.is_placed else []
        assert all(one < other for one, other in pairwise(firsts))


@given(gap_trees())
def test_splitting_is_undone_by_joining(tree: Tree) -> None:
    parts = split_gaps(tree)
    assert not parts.has_gaps
    assert parts.words() == tree.words()
    joined = join_gaps(parts)
    assert joined == tree
    assert positions(joined) == positions(tree)
    # As many nodes as phrases have blocks.
    assert sum(1 for _ in parts.nodes()) == sum(map(len, node_blocks(tree)))


@given(gap_trees(labels=("A*", "A*2", "A", "B*", "***")))
def test_any_tree_with_marks_is_joined_to_a_tree_over_the_same_words(tree: Tree) -> None:
    plain = tree if not tree.is_placed else split_gaps(tree)
    joined = join_gaps(plain)
    assert joined.words() == plain.words()
    assert join_gaps(split_gaps(joined)) == joined


def test_parts_find_their_partners_among_their_sisters() -> None:
    def joined(text: str) -> str:
        return str(join_gaps(Tree.parse(text)))

    assert joined("(S (VP* (A a)) (B b) (VP* (C c)))") == "(S (VP (A 0=a) (C 2=c)) (B 1=b))"
    # Different marks are different phrases, whose parts may alternate.
    assert joined("(S (V* (A a)) (V*2 (B b)) (V* (C c)) (V*2 (D d)))") == (
        "(S (V (A 0=a) (C 2=c)) (V (B 1=b) (D 3=d)))"
    )
    # Parts inside parts find each other when those are joined.
    assert joined("(S (V* (N* (A a))) (B b) (V* (C c) (N* (D d))))") == ("(S (V (N (A 0=a) (D 3=d)) (C 2=c)) (B 1=b))")
    # A part alone, parts that are adjacent, and parts of different parents.
    assert joined("(S (V* (A a)) (B b))") == "(S (V (A a)) (B b))"
    assert joined("(S (V* (A a)) (V* (C c)) (B b))") == "(S (V (A a) (C c)) (B b))"
    assert joined("(S (X (V* (A a))) (B b) (Y (V* (C c))))") == "(S (X (V (A a))) (B b) (Y (V (C c))))"
    assert joined("(S (V** (A a)) (B b))") == "(S (V* (A a)) (B b))"


def test_parts_alone_find_the_most_probable_partner() -> None:
    def found(text: str, posterior: dict[tuple[int, int, str], float]) -> str:
        return str(find_partners(Tree.parse(text), posterior))

    text = "(S (A a) (B b) (V* (C c)) (D d) (E e))"
    # The more probable one; not one that is adjacent, improbable, of another label, or across phrases.
    assert found(text, {(0, 1, "V*"): 0.3, (4, 5, "V*"): 0.4}) == "(S (A a) (B b) (V* (C c)) (D d) (V* (E e)))"
    for posterior in ({(1, 2, "V*"): 0.9}, {(3, 5, "V*"): 0.9}, {(0, 1, "V*"): 0.1}, {(0, 1, "V"): 0.9}, {}):
        assert found(text, posterior) == text
    nested = "(S (X (A a) (B b)) (C c) (V* (D d)))"
    assert found(nested, {(1, 2, "V*"): 0.9, (0, 2, "V*"): 0.5}) == "(S (V* (X (A a) (B b))) (C c) (V* (D d)))"
    # Runs of several sisters; parts with partners, and runs with parts in them, stay as they are.
    assert found("(S (A a) (B b) (C c) (V* (D d)))", {(0, 2, "V*"): 0.5}) == "(S (V* (A a) (B b)) (C c) (V* (D d)))"
    paired = "(S (V* (A a)) (B b) (V* (C c)) (D d) (E e))"
    assert found(paired, {(4, 5, "V*"): 0.9}) == paired
    mixed = "(S (N* (A a)) (B b) (V* (C c)) (D d) (N* (E e)))"
    assert found(mixed, {(0, 1, "V*"): 0.9}) == mixed
    assert found("(S (A a) (B b))", {(0, 1, "V*"): 0.9}) == "(S (A a) (B b))"


def test_parts_alone_are_dropped() -> None:
    def dropped(text: str) -> str:
        return str(drop_single_parts(Tree.parse(text)))

    assert dropped("(S (A a) (V* (B b) (N* (C c))))") == "(S (A a) (B b) (C c))"
    assert dropped("(S (V* (A a)) (B b) (V*2 (C c)) (V* (D d)))") == "(S (V* (A a)) (B b) (C c) (V* (D d)))"
    # Words whose tags look like parts, and phrases whose labels have stars in pairs, are none.
    assert dropped("(S (A* a) (V** (B b)))") == "(S (A* a) (V** (B b)))"


@given(gap_trees())
def test_no_parts_of_trees_with_gaps_are_dropped(tree: Tree) -> None:
    parts = split_gaps(tree)
    assert drop_single_parts(parts) == parts
    assert not lacks_partners(parts)


@given(gap_trees(labels=("A*", "A*2", "A", "B*", "***")))
def test_after_dropping_each_part_has_a_partner(tree: Tree) -> None:
    plain = tree if not tree.is_placed else split_gaps(tree)
    dropped = drop_single_parts(plain)
    assert (dropped.words(), dropped.tags()) == (plain.words(), plain.tags())
    assert not Counter(dropped.spans()) - Counter(plain.spans())


@given(gap_trees(), st.integers(0, 1000))
def test_partners_keep_words_and_other_phrases(tree: Tree, seed: int) -> None:
    rng = random.Random(seed)
    # Some parts are gone, as a parser may predict.
    parts = split_gaps(tree)
    posterior = {
        (start, end, label): rng.random()
        for start in range(len(parts))
        for end in range(start + 1, len(parts) + 1)
        for label in ("VP*", "NP*", "S*")
    }
    found = find_partners(parts, posterior)
    assert (found.words(), found.tags()) == (parts.words(), parts.tags())
    before, after = Counter(parts.spans()), Counter(found.spans())
    assert not before - after
    assert all(posterior[span] >= 0.2 for span in after - before)


def test_removed_words_leave_no_gap() -> None:
    # Without the trace in it, the gap of X is closed, and the words are plain.
    tree = parse("(S (X (A 0=a) (C 2=c)) (-NONE- 1=*T*) (D 3=d))")
    clean = Normaliser()(tree)
    assert clean == Tree.parse("(ROOT (S (X (A a) (C c)) (D d)))")
    assert clean is not None
    assert not clean.is_placed
    tree = parse("(S (X (-NONE- 0=*T*) (A 1=a) (C 3=c)) (B 2=b) (D 4=d))")
    assert str(Normaliser()(tree)) == "(ROOT (S (X (A 0=a) (C 2=c)) (B 1=b) (D 3=d)))"
    tree = parse("(S (X (A 0=a) (C 2=c)) (, 1=,))")
    assert without_punctuation(tree) == Tree.parse("(S (X (A a) (C c)))")


@given(gap_trees())
def test_the_transform_of_a_treebank_with_gaps_is_inverted(tree: Tree) -> None:
    clean = Normaliser(repeated_unaries=False, empties=False, function_tags="none")(tree)
    assert clean is not None
    for settings in ({}, {"vertical": 2, "horizontal": 1}, {"direction": "left"}):
        transform = TreeTransform(gaps=True, **settings)  # type: ignore[arg-type]
        assert transform.invert(transform(clean)) == clean
        assert transform.from_dict(transform.to_dict()) == transform
    assert "gaps" not in TreeTransform().to_dict()


def test_random_trees_of_many_words() -> None:
    rng = random.Random(3)
    for _ in range(50):
        tree = random_gap_tree(rng, rng.randint(2, 60))
        assert join_gaps(split_gaps(tree)) == tree
        assert node_blocks(tree) == [blocks_of(places) for places in places_below(tree)]


@pytest.mark.parametrize(("part", "trees", "gaps"), [("dev", 360, 170)])
def test_every_tree_of_alpino(part: str, trees: int, gaps: int) -> None:
    seen = with_gaps = 0
    for tree in read_trees(treebank(f"alpino/{part}.dbr.gz"), format="discbracket"):
        seen += 1
        with_gaps += tree.has_gaps
        assert join_gaps(split_gaps(tree)) == tree
        clean = Normaliser()(tree)
        transform = TreeTransform(gaps=True)
        assert clean is not None
        assert transform.invert(transform(clean)) == clean
    assert (seen, with_gaps) == (trees, gaps)
