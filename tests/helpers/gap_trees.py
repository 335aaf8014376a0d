"""Random trees with gaps."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from sapwood.trees.formats.gaps import arrange
from sapwood.trees.tree import PlacedWord, Tree

LABELS = ("S", "VP", "NP", "*", "VP*", "VP*2", "a**b", "X(", "-LRB-")
WORDS = ("a", "b", "(", "#LRB#", "0=a", "=", "#500", '"', "é", "<")


def placed(tree: Tree, order: list[int]) -> Tree:
    """Return the tree with its words at these positions."""
    places = iter(order)
    return arrange(
        tree.fold(
            lambda node, below: Tree(
                node.label, below, word=None if node.word is None else PlacedWord(node.word, next(places))
            )
        )
    )


@st.composite
def gap_trees(draw: st.DrawFn, labels: tuple[str, ...] = LABELS, words: tuple[str, ...] = WORDS) -> Tree:
    """Return trees, most of them with gaps, of any labels and words."""
    some = st.sampled_from(labels)
    leaves = st.builds(lambda label, word: Tree(label, word=word), some, st.sampled_from(words))
    tree = draw(st.recursive(leaves, lambda below: st.builds(Tree, some, st.lists(below, min_size=1, max_size=4))))
    return placed(tree, draw(st.permutations(range(len(tree)))))


def random_gap_tree(
    rng: random.Random, size: int, labels: tuple[str, ...] = ("S", "VP", "NP"), words: tuple[str, ...] = ()
) -> Tree:
    """Return a random tree over `size` words, of which some are swapped; with `words`, tags have labels, too."""
    parts = [
        Tree(rng.choice(labels), word=rng.choice(words)) if words else Tree("T", word=f"w{place}")
        for place in range(size)
    ]
    while len(parts) > 1:
        first = rng.randrange(len(parts) - 1)
        taken = rng.randint(2, min(4, len(parts) - first))
        parts[first : first + taken] = [Tree(rng.choice(labels), parts[first : first + taken])]
    order = list(range(size))
    for _ in range(rng.randrange(3)):
        one, other = rng.randrange(size), rng.randrange(size)
        order[one], order[other] = order[other], order[one]
    return placed(parts[0], order)
