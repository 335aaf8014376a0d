"""Dependencies by head rules, and CoNLL-U.

The head of a phrase is the head of its head child (`sapwood.trees.heads`); the heads of its other children depend on
it. The root of a sentence is the head of the whole tree. A dependency has the label of the highest phrase that the word
is the head of, with its function tags (`NP-SBJ`) if the tree has them, or the word's tag if it heads none. These are
labels of constituents, not the relations of Universal Dependencies, which trees alone do not tell.
"""

from __future__ import annotations

from typing import NamedTuple

from sapwood.trees.heads import HeadRules, head_positions
from sapwood.trees.tree import Tree


class Dependency(NamedTuple):
    """A word's head, counted from 1 (0: none, the word is the root), and the label of the dependency."""

    head: int
    label: str


def dependencies(tree: Tree, rules: HeadRules | None = None) -> list[Dependency]:
    """Return the head of each word, by English rules unless others are given.

    Examples
    --------
    >>> tree = Tree.parse("(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))")
    >>> dependencies(tree)
    [Dependency(head=2, label='DT'), Dependency(head=3, label='NP'), Dependency(head=0, label='root'), ...]
    """
    nodes = list(tree.nodes())
    heads = head_positions(tree, rules or HeadRules.english())
    found: dict[int, Dependency] = {heads[0]: Dependency(0, "root")}
    # Going down, the first node that a word heads is the highest; its parent's head is the word's.
    parents: list[int] = []
    waiting = [-1]
    for node in nodes:
        above = waiting.pop()
        waiting.extend([len(parents)] * len(node.children))
        parents.append(above)
    for number, node in enumerate(nodes):
        above = parents[number]
        if above >= 0 and heads[number] != heads[above]:
            found[heads[number]] = Dependency(heads[above] + 1, node.label)
    return [found[position] for position in sorted(found)]


def format_conllu(tree: Tree, number: int = 1, rules: HeadRules | None = None) -> str:
    """Return a tree's words, tags and dependencies in CoNLL-U, with the blank line that ends a sentence.

    Tags stand in the column of language-specific ones (XPOS); lemmas, universal tags and features are not known (`_`).
    """
    words = tree.words()
    lines = [f"# sent_id = {number}", "# text = " + " ".join(map(_column, words))]
    for place, (word, tag, found) in enumerate(zip(words, tree.tags(), dependencies(tree, rules), strict=True), 1):
        known = [str(place), _column(word), "_", "_", _column(tag), "_", str(found.head), _column(found.label)]
        lines.append("\t".join([*known, "_", "_"]))
    return "\n".join(lines) + "\n"


def _column(text: str) -> str:
    """Return a text that can stand in a column: without tabs and line ends, and not empty."""
    return " ".join(text.split()) or "_"
