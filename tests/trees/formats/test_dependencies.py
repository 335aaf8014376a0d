"""Dependencies by head rules, and CoNLL-U."""

from __future__ import annotations

import pytest
from hypothesis import given

from helpers.effort import examples
from helpers.strategies import any_trees, deep, trees
from sapwood.trees.formats.conllu import Dependency, dependencies, format_conllu
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.tree import Tree

TREE = Tree.parse("(ROOT (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP it))) (. .)))")


def slow(tree: Tree, rules: HeadRules) -> list[Dependency]:
    """By definition, recursively: each phrase attaches the heads of its children to that of the head child."""
    found: dict[int, Dependency] = {}

    def head(node: Tree, start: int) -> int:
        if node.word is not None:
            return start
        heads = []
        for child in node.children:
            heads.append(head(child, start))
            start += len(child)
        chosen = heads[rules.head_index(node.label, [child.label for child in node.children])]
        for child, position in zip(node.children, heads, strict=True):
            if position != chosen:
                found[position] = Dependency(chosen + 1, child.label)
        return chosen

    found[head(tree, 0)] = Dependency(0, "root")
    return [found[position] for position in range(len(tree))]


@pytest.mark.parametrize("rules", [HeadRules.english(), HeadRules.leftmost(), HeadRules.rightmost()], ids=str)
@examples(200)
@given(tree=trees())
def test_the_same_as_by_definition(rules, tree):
    assert dependencies(tree, rules) == slow(tree, rules)


@examples(200)
@given(any_trees)
def test_they_form_a_tree(tree):
    found = dependencies(tree)
    assert sum(one.head == 0 for one in found) == 1
    for start in range(len(found)):
        at, steps = start + 1, 0
        while at:
            at, steps = found[at - 1].head, steps + 1
            assert steps <= len(found)


def test_an_example():
    assert dependencies(TREE) == [(2, "DT"), (3, "NP-SBJ"), (0, "root"), (3, "NP"), (3, ".")]
    assert format_conllu(TREE, 7) == (
        "# sent_id = 7\n# text = the dog sees it .\n"
        "1\tthe\t_\t_\tDT\t_\t2\tDT\t_\t_\n"
        "2\tdog\t_\t_\tNN\t_\t3\tNP-SBJ\t_\t_\n"
        "3\tsees\t_\t_\tVBZ\t_\t0\troot\t_\t_\n"
        "4\tit\t_\t_\tPRP\t_\t3\tNP\t_\t_\n"
        "5\t.\t_\t_\t.\t_\t3\t.\t_\t_\n"
    )


@examples(200)
@given(any_trees)
def test_lines_have_ten_columns(tree):
    comments, rows = format_conllu(tree).split("\n")[:2], format_conllu(tree).split("\n")[2:-1]
    assert [line[:2] for line in comments] == ["# ", "# "]
    assert len(rows) == len(tree)
    assert all(len(row.split("\t")) == 10 and all(row.split("\t")) for row in rows)


def test_deep_trees():
    assert dependencies(deep(20_000, branching="left"), HeadRules.leftmost())[5].head == 1
