"""The trees of the sequence labelling parser: encoded and decoded without loss, repaired where labels contradict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from _sequence_labelling import Labels, decode, encode
from helpers.made_up import made_up_treebank
from sapwood import Tree


def test_trees_survive():
    for tree in made_up_treebank(200):
        assert decode(tree.words(), encode(tree)) == tree


def test_labels_count_shared_ancestors():
    tree = Tree.parse("(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP it)))))")
    assert [label.change for label in encode(tree)] == [2, -1, 1, 0]
    assert [label.shared for label in encode(tree)] == ["NP", "ROOT+S", "VP", ""]
    assert encode(tree)[3].leaf == "NP+PRP"


@given(st.lists(st.tuples(st.integers(-9, 9), st.sampled_from(["", "S", "NP+VP"]), st.sampled_from(["NN", "NP+NN"]))))
def test_any_labels_give_a_tree(labels):
    if labels:
        words = [f"w{i}" for i in range(len(labels))]
        assert decode(words, [Labels(*one) for one in labels]).words() == words
