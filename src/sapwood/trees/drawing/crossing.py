"""Places of the nodes of a tree with gaps, in pictures with crossing branches.

Words are in one row in the order of the sentence, tags in the row above. A phrase stands above words of its own: over
the block with the most of them, which is made as wide as the label. It is above its children, and in the lowest row
where no other phrase is in the way of the line from its first child to its last. Phrases over fewer words come first,
so that lines cross those of phrases around them. So labels never touch each other, nor a line of another phrase.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from sapwood.errors import InputError
from sapwood.trees.formats.gaps import node_blocks
from sapwood.trees.tree import Tree

# Most comparisons of lines in the search for rows.
_MOST_COMPARISONS = 1_000_000


@dataclass(frozen=True)
class NodePlace:
    """Place of a node.

    Attributes
    ----------
    node
        The node.
    x
        Its centre.
    row
        Its row: 0 is that of the words.
    start, end
        Its first word, and one past its last.
    parent
        The number of its parent, or -1.
    """

    node: Tree
    x: float
    row: int
    start: int
    end: int
    parent: int


def place_nodes(tree: Tree, measure: Callable[[str], float], gap: float) -> tuple[list[NodePlace], float]:
    """Return the places of the nodes in the order of `tree.nodes()`, and the width of the picture.

    Parameters
    ----------
    tree
        The tree.
    measure
        Function that returns the width of a label or word.
    gap
        Minimum distance between texts.
    """
    nodes, blocks = list(tree.nodes()), node_blocks(tree)
    offset = blocks[0][0][0]
    largest = [max(one, key=lambda block: block[1] - block[0]) for one in blocks]
    parents = _parents(nodes)
    widths = _widths(nodes, largest, offset, measure, gap)
    lefts = [0.0]
    for width in widths:
        lefts.append(lefts[-1] + width)
    xs, rows = [0.0] * len(nodes), [1] * len(nodes)
    below: dict[int, list[int]] = defaultdict(list)
    for number, parent in enumerate(parents):
        below[parent].append(number)
    for number in range(len(nodes) - 1, -1, -1):
        left, right = (lefts[place - offset] for place in largest[number])
        inside = [xs[child] for child in below[number] if left <= xs[child] <= right]
        half = (measure(nodes[number].label) + gap) / 2
        middle = (inside[0] + inside[-1]) / 2 if inside else (left + right) / 2
        xs[number] = min(max(middle, left + half), right - half)
    # Phrases in the order of the words that they are around, children before their parents.
    sizes = [one[-1][1] - one[0][0] for one in blocks]
    phrases = [number for number in range(len(nodes) - 1, -1, -1) if nodes[number].word is None]
    taken: dict[int, list[tuple[float, float]]] = defaultdict(list)
    comparisons = 0
    for number in sorted(phrases, key=sizes.__getitem__):
        half = (measure(nodes[number].label) + gap) / 2
        ends = [xs[child] for child in below[number]]
        first, last = min(*ends, xs[number] - half), max(*ends, xs[number] + half)
        row = 1 + max(rows[child] for child in below[number])
        while any(first < end and start < last for start, end in taken[row]):
            comparisons += len(taken[row])
            if comparisons > _MOST_COMPARISONS:
                raise InputError(
                    f"a tree of {len(tree)} words with phrases in more than {row} rows is too large for a picture; "
                    "write brackets instead"
                )
            row += 1
        rows[number] = row
        taken[row].append((first, last))
    places = [
        NodePlace(node, xs[number], rows[number], blocks[number][0][0], blocks[number][-1][1], parents[number])
        for number, node in enumerate(nodes)
    ]
    return places, lefts[-1]


def _parents(nodes: list[Tree]) -> list[int]:
    """Return the number of each node's parent, -1 for the first."""
    parents: list[int] = []
    waiting = [-1]
    for number, node in enumerate(nodes):
        parents.append(waiting.pop())
        waiting += [number] * len(node.children)
    return parents


def _widths(
    nodes: list[Tree], largest: list[tuple[int, int]], offset: int, measure: Callable[[str], float], gap: float
) -> list[float]:
    """Return the width of the column of each word."""
    widths = [0.0] * (max(end for _, end in largest) - offset)
    for node, (start, _) in zip(nodes, largest, strict=True):
        if node.word is not None:
            widths[start - offset] = max(measure(node.label), measure(node.word)) + gap
    for node, (start, end) in zip(nodes, largest, strict=True):
        missing = measure(node.label) + gap - sum(widths[start - offset : end - offset])
        if missing > 0:
            # Columns of characters stay whole.
            share = missing / (end - start) if isinstance(gap, float) else -(-missing // (end - start))
            for place in range(start - offset, end - offset):
                widths[place] += share
    return widths
