"""Trees with gaps, whose branches cross: the positions of words, the blocks of phrases, and trees without gaps instead.

In a tree with gaps every word is a `PlacedWord`, which has its position in the sentence, and the children of a phrase
are in the order of their first words. A tree without gaps has plain words in the order of its leaves. `arrange` brings
any tree into one of these two forms.

The words of a phrase make up *blocks* of adjacent ones, `(start, end)`; a phrase without a gap has one block.

Two treatments replace a tree with gaps by one without:

- `sapwood.trees.formats.discontinuous` moves the parts of a phrase up to where they leave no gap. The gaps are lost.
- `split_gaps` splits each phrase with gaps into one node for each of its blocks (Boyd 2007), and `join_gaps` restores
  the tree. The parts of a phrase `VP` are labelled `VP*`; if several phrases `VP` with gaps have the same parent, those
  of the second are `VP*2`, and so on. `join_gaps` goes down from the root, and joins those children of a phrase that
  have the same mark and label. A part that has no partner becomes a phrase of its own. A `*` in any other label is
  doubled.

A parser may predict parts without partners. `find_partners` looks for these, and `drop_single_parts` removes the
others.

A phrase can have as many blocks as words, and a deep tree that many in each phrase: the square of its size. Trees with
many times more blocks than nodes are refused, which no treebank has (`check_blocks`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Literal, NamedTuple, TypeAlias, get_args

from sapwood.errors import InputError, UsageError
from sapwood.trees.tree import PlacedWord, Tree, from_preorder

Blocks: TypeAlias = tuple[tuple[int, int], ...]
# What readers do with gaps; `join` restores those that were split.
Gaps = Literal["keep", "close", "split", "join", "error"]
# Least posterior of the partner of a part that has none.
PARTNER = 0.2
# The label of a part: one star, and a number from 2 on; further stars come in pairs.
# Most blocks of a tree, for each node and of any tree.
_BLOCKS_OF_NODE, _BLOCKS_OF_TREE = 10, 1000
_PART = re.compile(r"((?:[^*]|\*\*)*)\*([1-9][0-9]*)?", re.DOTALL)


def check_blocks(blocks: int, nodes: int) -> None:
    """Raise an `InputError` if a tree of some nodes has many times more blocks."""
    most = _BLOCKS_OF_NODE * nodes + _BLOCKS_OF_TREE
    if blocks > most:
        raise InputError(
            f"a tree of {nodes:,} nodes whose phrases have more than {most:,} blocks of adjacent words; "
            "check the positions of its words"
        )


def check_gaps(gaps: str) -> None:
    """Raise a `UsageError` for a value that is not one of `Gaps`."""
    if gaps not in get_args(Gaps):
        raise UsageError(f"gaps={gaps!r}: choose one of {', '.join(get_args(Gaps))}")


def positions(tree: Tree) -> list[int]:
    """Return the position of each word, in the order of the leaves.

    >>> positions(Tree.parse("(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))", format="discbracket"))
    [0, 2, 1]
    """
    words = [node.word for node in tree.nodes() if node.word is not None]
    placed = [word.position for word in words if isinstance(word, PlacedWord)]
    if not placed:
        return list(range(len(words)))
    if len(placed) != len(words):
        raise InputError("some words of a tree have positions, and others have none")
    return placed


def arrange(tree: Tree) -> Tree:
    """Return the tree with its words numbered from 0, without gaps in the numbers, and its children in their order.

    If no phrase has a gap, its words are plain.
    """
    if not tree.is_placed:
        return tree
    found = positions(tree)
    if len(set(found)) != len(found):
        raise InputError("two words of a tree have the same position")
    rank = {position: number for number, position in enumerate(sorted(found))}
    numbers = iter([rank[position] for position in found])

    def visit(node: Tree, below: list[tuple[int, Tree]]) -> tuple[int, Tree]:
        if node.word is not None:
            number = next(numbers)
            return number, Tree(node.label, word=PlacedWord(str(node.word), number))
        below.sort(key=_first)
        return below[0][0], Tree(node.label, [child for _, child in below])

    arranged = tree.fold(visit)[1]
    return arranged if arranged.has_gaps else plain_words(arranged)


def plain_words(tree: Tree) -> Tree:
    """Return the tree with plain words in the order of its leaves."""
    return tree.fold(lambda node, below: Tree(node.label, below, word=None if node.word is None else str(node.word)))


def _first(item: tuple[int, Tree]) -> int:
    return item[0]


def node_blocks(tree: Tree, numbers: Sequence[int | None] | None = None) -> list[Blocks]:
    """Return the blocks of every node, tags included, in the order of `tree.nodes()`.

    Parameters
    ----------
    tree
        The tree.
    numbers
        Position of each word, in the order of the leaves, instead of its own; None for a word that does not count.

    Examples
    --------
    >>> node_blocks(Tree.parse("(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))", format="discbracket"))
    [((0, 3),), ((0, 1), (2, 3)), ((0, 1),), ((2, 3),), ((1, 2),)]
    """
    own: list[Blocks] = [
        () if number is None else ((number, number + 1),)
        for number in (positions(tree) if numbers is None else numbers)
    ]
    found: list[Blocks] = []
    # Backwards, the children of a node come before it; the first one is on top of the stack.
    waiting: list[Blocks] = []
    nodes, total = list(tree.nodes()), 0
    for node in reversed(nodes):
        waiting.append(own.pop() if node.word is not None else _union([waiting.pop() for _ in node.children]))
        found.append(waiting[-1])
        total += len(waiting[-1])
        check_blocks(total, len(nodes))
    return found[::-1]


def _union(parts: Sequence[Blocks]) -> Blocks:
    """Return the blocks of several phrases together."""
    if len(parts) == 1:
        return parts[0]
    joined: list[tuple[int, int]] = []
    for start, end in sorted(block for blocks in parts for block in blocks):
        if joined and start == joined[-1][1]:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return tuple(joined)


def phrase_blocks(tree: Tree) -> list[tuple[Blocks, str]]:
    """Return the blocks and the label of every phrase (not the tags), parents before children.

    >>> phrase_blocks(Tree.parse("(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))", format="discbracket"))
    [(((0, 3),), 'S'), (((0, 1), (2, 3)), 'VP')]
    """
    pairs = zip(tree.nodes(), node_blocks(tree), strict=True)
    return [(blocks, node.label) for node, blocks in pairs if node.word is None]


def require_no_gaps(tree: Tree, what: str) -> None:
    """Raise an `InputError` that names the remedies if the tree has gaps."""
    if tree.has_gaps:
        text = " ".join(tree.words()[:6])
        raise InputError(
            f"{what} cannot show the gaps of the tree of {text!r} ...: choose export, tiger or discbracket, or "
            "close or split the gaps (--gaps close, --gaps split)"
        )


class _Piece(NamedTuple):
    """A node over a block of words."""

    start: int
    end: int
    tree: Tree


class _Split(NamedTuple):
    """The blocks of a phrase with gaps, each with its children, and its label."""

    label: str
    blocks: list[list[_Piece]]


def split_gaps(tree: Tree) -> Tree:
    """Return the tree with each phrase with gaps split into a node for each of its blocks.

    >>> print(split_gaps(Tree.parse("(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))", format="discbracket")))
    (S (VP* (VB is)) (NP John) (VP* (JJ rich)))
    """
    places = iter(positions(tree))
    nodes, total = sum(1 for _ in tree.nodes()), 0

    def visit(node: Tree, below: list[_Piece | _Split]) -> _Piece | _Split:
        nonlocal total
        label = node.label.replace("*", "**") if "*" in node.label else node.label
        if node.word is not None:
            place = next(places)
            return _Piece(place, place + 1, Tree(label, word=str(node.word)))
        parts: list[_Piece] = []
        marked: Counter[str] = Counter()
        for child in below:
            if isinstance(child, _Piece):
                parts.append(child)
                continue
            # Parts of different phrases have different marks.
            marked[child.label] += 1
            number = marked[child.label]
            mark = f"{child.label}*{number if number > 1 else ''}"
            parts += [_phrase(mark, block) for block in child.blocks]
        parts.sort(key=_start)
        blocks = list(_adjacent(parts))
        total += len(blocks)
        check_blocks(total, nodes)
        return _phrase(label, parts) if len(blocks) == 1 else _Split(label, blocks)

    whole = tree.fold(visit)
    if isinstance(whole, _Split):
        raise InputError("the tree is part of a larger one, and its own words are not adjacent")
    return whole.tree


def _start(part: _Piece) -> int:
    return part.start


def _phrase(label: str, parts: list[_Piece]) -> _Piece:
    return _Piece(parts[0].start, parts[-1].end, Tree(label, [part.tree for part in parts]))


def _adjacent(parts: list[_Piece]) -> Iterator[list[_Piece]]:
    """Yield runs of adjacent parts."""
    run = [parts[0]]
    for part in parts[1:]:
        if part.start != run[-1].end:
            yield run
            run = []
        run.append(part)
    yield run


def join_gaps(tree: Tree) -> Tree:
    """Return the tree with gaps that `split_gaps` split; parts without a partner become phrases.

    >>> tree = Tree.parse("(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))", format="discbracket")
    >>> join_gaps(split_gaps(tree)) == tree
    True
    >>> print(join_gaps(Tree.parse("(S (VP* (VB is)) (NP*2 John))")))
    (S (VP (VB is)) (NP John))
    """
    if tree.is_placed or not any("*" in node.label for node in tree.nodes()):
        return tree
    numbers = count()
    tree = tree.fold(
        lambda node, below: Tree(
            node.label, below, word=None if node.word is None else PlacedWord(node.word, next(numbers))
        )
    )
    # Nodes of the result in preorder: label, word and number of children.
    events: list[tuple[str, str | None, int]] = []
    stack: list[tuple[str, str | None, list[Tree]]] = [(_unmarked(tree.label), tree.word, list(tree.children))]
    while stack:
        label, word, children = stack.pop()
        joined: list[tuple[str, str | None, list[Tree]]] = []
        parts: dict[str, list[Tree]] = {}
        for child in children:
            if child.word is None and child.label in parts:
                parts[child.label] += child.children
                continue
            joined.append((_unmarked(child.label), child.word, list(child.children)))
            if child.word is None and "*" in child.label and _PART.fullmatch(child.label):
                parts[child.label] = joined[-1][2]
        events.append((label, word, len(joined)))
        stack.extend(reversed(joined))
    return arrange(from_preorder(events))


def _unmarked(label: str) -> str:
    """Return the label of a node as it was before splitting."""
    if "*" not in label:
        return label
    match = _PART.fullmatch(label)
    return (match[1] if match else label).replace("**", "*")


def lacks_partners(tree: Tree) -> bool:
    """Return whether a tree in parts has a part without a partner.

    >>> lacks_partners(Tree.parse("(S (VP* (VB is)) (NP John))"))
    True
    """
    return bool(_single_parts(tree))


def _single_parts(tree: Tree) -> set[int]:
    """Return the identities of the parts that `join_gaps` joins with no other, in a tree without shared nodes."""
    found: set[int] = set()
    # Nodes that are joined, each with its parts.
    waiting = [[tree]]
    while waiting:
        parts: dict[str, list[Tree]] = {}
        for child in [child for node in waiting.pop() for child in node.children]:
            if _is_part(child):
                parts.setdefault(child.label, []).append(child)
            elif child.word is None:
                waiting.append([child])
        found.update(id(some[0]) for some in parts.values() if len(some) == 1)
        waiting += parts.values()
    return found


def find_partners(tree: Tree, posterior: Mapping[tuple[int, int, str], float], least: float = PARTNER) -> Tree:
    """Return a tree in parts in which parts without a partner have found the most probable one.

    A part alone is nearly always part of a phrase whose other part was dropped as improbable. Its partner is the run of
    sisters, not adjacent to it and without parts, with the highest posterior of a part of this label, at least `least`.

    Parameters
    ----------
    tree
        The tree, without gaps.
    posterior
        Posterior of `(start, end, label)`.
    least
        Posterior below which a part stays alone.

    Examples
    --------
    >>> tree = Tree.parse("(S (JJ rich) (VB is) (VP* (NP John)))")
    >>> print(find_partners(tree, {(0, 1, "VP*"): 0.3, (2, 3, "VP*"): 0.6}))
    (S (VP* (JJ rich)) (VB is) (VP* (NP John)))
    """
    spans: dict[str, list[tuple[float, int, int]]] = {}
    for (start, end, label), probability in posterior.items():
        if probability >= least and "*" in label:
            spans.setdefault(label, []).append((-probability, start, end))
    for candidates in spans.values():
        candidates.sort()
    places = count()
    tree = _without_shared_nodes(tree)
    single = _single_parts(tree)

    def visit(node: Tree, below: list[_Piece]) -> _Piece:
        if node.word is not None:
            place = next(places)
            return _Piece(place, place + 1, node)
        for label in [child.label for child in node.children if id(child) in single]:
            run = _partner(below, label, spans.get(label, []))
            if run is not None:
                below[run] = [_phrase(label, below[run])]
        return _Piece(below[0].start, below[-1].end, Tree(node.label, [piece.tree for piece in below]))

    return tree.fold(visit).tree


def drop_single_parts(tree: Tree) -> Tree:
    """Return a tree in parts without those that have no partner; their children take their places.

    >>> print(drop_single_parts(Tree.parse("(S (VP* (VB is) (JJ rich)) (NP John))")))
    (S (VB is) (JJ rich) (NP John))
    """
    while single := _single_parts(tree := _without_shared_nodes(tree)):
        tree = _spliced(tree, single)
    return tree


def _spliced(tree: Tree, dropped: Collection[int]) -> Tree:
    """Return the tree without the nodes of these identities, with their children in their places."""

    def visit(node: Tree, below: list[Tree]) -> Tree:
        if node.word is not None:
            return node
        pairs = zip(node.children, below, strict=True)
        return Tree(
            node.label, [kept for child, made in pairs for kept in (made.children if id(child) in dropped else (made,))]
        )

    return tree.fold(visit)


def _without_shared_nodes(tree: Tree) -> Tree:
    """Return a copy of the tree in which each node is another object."""
    return from_preorder([(node.label, node.word, len(node.children)) for node in tree.nodes()])


def _is_part(node: Tree) -> bool:
    return node.word is None and "*" in node.label and _PART.fullmatch(node.label) is not None


def _partner(pieces: list[_Piece], label: str, candidates: Sequence[tuple[float, int, int]]) -> slice | None:
    """Return the most probable run of sisters that can be the partner of the only part with this label."""
    starts = {piece.start: number for number, piece in enumerate(pieces)}
    ends = {piece.end: number for number, piece in enumerate(pieces)}
    alone = next(number for number, piece in enumerate(pieces) if piece.tree.label == label and _is_part(piece.tree))
    for _, start, end in candidates:
        first, last = starts.get(start), ends.get(end)
        if first is None or last is None or first - 1 <= alone <= last + 1:
            continue
        if not any(_is_part(piece.tree) for piece in pieces[first : last + 1]):
            return slice(first, last + 1)
    return None
