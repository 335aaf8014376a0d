"""Constituency tree: a label over children, or a label (the tag) over one word.

The words of a phrase need not be adjacent: in a tree with gaps each word has its position (`PlacedWord`), and
`sapwood.trees.formats.gaps` works with such trees.

Trees can be deeper than Python's recursion limit (a 2,000-word list, binarised), so nothing here
recurses: `Tree.fold` visits bottom-up with an explicit stack, and the rest is built on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from sapwood.errors import InputError, UsageError, shortened

if TYPE_CHECKING:
    import nltk

T = TypeVar("T")


class PlacedWord(str):
    """A word of a tree with gaps, and its position in the sentence, counted from 0."""

    __slots__ = ("position",)
    position: int

    def __new__(cls, word: str, position: int) -> PlacedWord:
        """Build from a word and its position."""
        made = super().__new__(cls, word)
        made.position = position
        return made

    def __reduce__(self) -> tuple[type[PlacedWord], tuple[str, int]]:
        return PlacedWord, (str(self), self.position)


class Tree:
    """An immutable constituency tree.

    Parameters
    ----------
    label
        Phrase label, or part-of-speech tag over a word.
    children
        The subtrees; empty exactly when there is a word.
    word
        The token below a tag (a *preterminal*), else None. In a tree with gaps, a `PlacedWord`; the children of each
        phrase are then in the order of their first words.

    Examples
    --------
    >>> tree = Tree("NP", [Tree("DT", word="the"), Tree("NN", word="dog")])
    >>> print(tree)
    (NP (DT the) (NN dog))
    >>> tree.words()
    ['the', 'dog']
    >>> gap = Tree.parse("(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))", format="discbracket")
    >>> gap.words(), gap.children[0].has_gaps
    (['is', 'John', 'rich'], True)
    """

    __slots__ = ("children", "label", "word")
    label: Final[str]  # type: ignore[misc]
    children: Final[tuple[Tree, ...]]  # type: ignore[misc]
    word: Final[str | None]  # type: ignore[misc]

    def __init__(self, label: str, children: Sequence[Tree] = (), *, word: str | None = None) -> None:
        if (word is None) == (not children):
            raise ValueError(f"a tree has either children or a word: {label!r}")
        for child in children:
            if not isinstance(child, Tree):
                raise TypeError(f"children of {label!r} must be trees; for a word say Tree(tag, word=...)")
        _set_label(self, label)
        _set_children(self, tuple(children))
        _set_word(self, word)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Tree is immutable: build a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Tree is immutable: build a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        return (from_preorder, (list(self._events()),))

    def __copy__(self) -> Tree:
        return self

    def __deepcopy__(self, memo: object) -> Tree:
        return self

    @property
    def is_preterminal(self) -> bool:
        """True if this node is a tag over a word."""
        return self.word is not None

    def fold(self, visit: Callable[[Tree, list[T]], T]) -> T:
        """Combine bottom-up: `visit(node, results of its children)`; returns the root's result."""
        # Each frame is [node, index of the next child, results so far].
        stack: list[tuple[Tree, Iterator[Tree], list[T]]] = [(self, iter(self.children), [])]
        while True:
            node, rest, results = stack[-1]
            child = next(rest, None)
            if child is None:
                stack.pop()
                value = visit(node, results)
                if not stack:
                    return value
                stack[-1][2].append(value)
            elif child.word is not None:
                results.append(visit(child, []))
            else:
                stack.append((child, iter(child.children), []))

    def nodes(self) -> Iterator[Tree]:
        """Yield all nodes, parents before children, left to right."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    @property
    def has_gaps(self) -> bool:
        """True if the words of any phrase are not adjacent."""
        if not self.is_placed:
            return False
        from sapwood.trees.formats.gaps import positions

        found = positions(self)
        return found != list(range(found[0], found[0] + len(found)))

    @property
    def is_placed(self) -> bool:
        """True if the words have positions: the tree, or one that it is part of, has gaps."""
        node = self
        while node.children:
            node = node.children[0]
        return isinstance(node.word, PlacedWord)

    def preterminals(self) -> list[Tree]:
        """Return the tag nodes in the order of their words."""
        found = [node for node in self.nodes() if node.word is not None]
        return sorted(found, key=_position) if isinstance(found[0].word, PlacedWord) else found

    def words(self) -> list[str]:
        """Return the words in their order."""
        found = [node.word for node in self.nodes() if node.word is not None]
        if isinstance(found[0], PlacedWord):
            return [str(node.word) for node in self.preterminals()]
        return found

    def tags(self) -> list[str]:
        """Return the part-of-speech tags in the order of their words."""
        return [node.label for node in self.preterminals()]

    def spans(self) -> list[tuple[int, int, str]]:
        """Return `(start, end, label)` of every phrase (not the tags), parents before children.

        Phrases with gaps have no such spans; `sapwood.trees.formats.gaps.phrase_blocks` has theirs.
        """
        if self.has_gaps:
            raise InputError(
                "spans: the tree has gaps; `sapwood.trees.formats.gaps.phrase_blocks` returns the blocks of phrases"
            )
        found: list[tuple[int, int, str]] = []
        position = 0
        # A frame is (node, slot in `found`); a negative slot closes the phrase.
        stack: list[tuple[Tree, int]] = [(self, 0)]
        while stack:
            node, slot = stack.pop()
            if slot < 0:
                start, _, label = found[~slot]
                found[~slot] = (start, position, label)
            elif node.word is not None:
                position += 1
            else:
                found.append((position, -1, node.label))
                stack.append((node, ~(len(found) - 1)))
                stack.extend((child, 0) for child in reversed(node.children))
        return found

    def depth(self) -> int:
        """Return the number of nodes on the longest path from the root to a tag."""
        return self.fold(lambda _, below: 1 + max(below, default=0))

    def __len__(self) -> int:
        """Return the number of words."""
        return sum(1 for node in self.nodes() if node.word is not None)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Tree):
            return NotImplemented
        pairs = [(self, other)]
        while pairs:
            a, b = pairs.pop()
            if a is b:
                continue
            if a.label != b.label or a.word != b.word or len(a.children) != len(b.children):
                return False
            pairs.extend(zip(a.children, b.children, strict=True))
        if self.is_placed or other.is_placed:
            from sapwood.trees.formats.gaps import positions

            return positions(self) == positions(other)
        return True

    def __hash__(self) -> int:
        return hash(tuple(self._events()))

    def __str__(self) -> str:
        """Return the tree on one line in Penn brackets, or in discbracket if it has gaps."""
        from sapwood.trees.formats.brackets import format_tree
        from sapwood.trees.formats.discbracket import format_discbracket

        return format_discbracket(self) if self.has_gaps else format_tree(self)

    def __repr__(self) -> str:
        return f"Tree.parse({str(self)!r}{', format=' + repr('discbracket') if self.has_gaps else ''})"

    @classmethod
    def parse(cls, text: str, *, format: Literal["brackets", "discbracket"] = "brackets") -> Tree:
        """Read one tree from a string of Penn brackets, or of discbracket, in which trees with gaps are written."""
        from sapwood.trees.formats.brackets import parse_trees
        from sapwood.trees.formats.discbracket import parse_discbracket

        read = {"brackets": parse_trees, "discbracket": parse_discbracket}.get(format)
        if read is None:
            raise UsageError(f"format={format!r}: choose brackets or discbracket")
        trees = list(read(text, source="<string>"))
        if len(trees) != 1:
            raise InputError(f"expected one tree, found {len(trees)}: {text[:60]!r}")
        return trees[0]

    def pretty(self, *, width: int = 100) -> str:
        """Return the tree indented over several lines, as treebank files show it.

        Levels that begin beyond `width` are not indented further.
        """
        from sapwood.trees.formats.brackets import format_pretty

        return format_pretty(self, width=width)

    def draw(self, *, unicode: bool = True, width: int | None = None) -> str:
        """Return a drawing of the tree for the terminal, with one node per line if it would be wider than `width`."""
        from sapwood.trees.drawing.terminal import draw_to_fit

        return draw_to_fit(self, width, unicode=unicode)

    def _repr_svg_(self) -> str | None:
        """Return a picture for notebooks; None if it would be too large."""
        from sapwood.trees.drawing.svg import format_svg

        try:
            return format_svg(self)
        except InputError:
            return None

    @classmethod
    def from_nltk(cls, tree: nltk.Tree) -> Tree:
        """Convert an `nltk.Tree` whose leaves are words, each the only child of its tag."""
        # Built bottom-up over an explicit stack; a frame is (nltk node, converted children).
        stack: list[tuple[Any, Iterator[Any], list[Tree]]] = [(tree, iter(tree), [])]
        while True:
            node, rest, done = stack[-1]
            child = next(rest, None)
            if isinstance(child, str):
                if len(node) != 1:
                    raise InputError(f"nltk.Tree: the word {child!r} is not alone below its tag {node.label()!r}")
                result = cls(str(node.label()), word=child)
            elif child is not None:
                stack.append((child, iter(child), []))
                continue
            elif not done:
                raise InputError(f"nltk.Tree: the node {node.label()!r} has no children")
            else:
                result = cls(str(node.label()), done)
            stack.pop()
            if not stack:
                return result
            stack[-1][2].append(result)

    def to_nltk(self) -> nltk.Tree:
        """Convert to an `nltk.Tree` (NLTK must be installed), which has no gaps."""
        import nltk

        from sapwood.trees.formats.gaps import require_no_gaps

        require_no_gaps(self, "NLTK")

        return self.fold(lambda node, below: nltk.Tree(node.label, below or [node.word]))

    def _events(self) -> Iterator[tuple[str, str | None, int]]:
        """Yield `(label, word, number of children)` in preorder: a complete flat encoding."""
        for node in self.nodes():
            yield node.label, node.word, len(node.children)


def _position(node: Tree) -> int:
    """Return the position of a word of a tree with gaps."""
    if not isinstance(node.word, PlacedWord):
        raise InputError(f"the word {node.word!r} has no position, and others of its tree have one")
    return node.word.position


_slots: dict[str, Any] = dict(vars(Tree))
_set_label, _set_children, _set_word = (_slots[name].__set__ for name in ("label", "children", "word"))


def checked_trees(trees: Iterable[Tree]) -> Iterator[Tree]:
    """Yield trees, and name the remedy if they are a path or strings instead."""
    if isinstance(trees, str | bytes | PathLike):
        raise UsageError(f"trees are `Tree` objects, not {trees!r}; read a file with `sapwood.read_trees(path)`")
    if isinstance(trees, Tree) or not isinstance(trees, Iterable):
        raise UsageError(f"trees are an iterable of `Tree` objects, not {type(trees).__name__}; put one in a list")
    for tree in trees:
        if not isinstance(tree, Tree):
            shown = shortened(repr(tree))
            raise UsageError(
                f"trees are `Tree` objects, not {type(tree).__name__} ({shown}); make one with "
                "`sapwood.Tree.parse(text)`, or read a file with `sapwood.read_trees(path)`"
            )
        yield tree


def from_preorder(events: Sequence[tuple[str, str | None, int]]) -> Tree:
    """Build a tree from `(label, word or None, number of children)` of its nodes in preorder."""
    waiting: list[Tree] = []
    for label, word, arity in reversed(events):
        waiting.append(Tree(label, [waiting.pop() for _ in range(arity)], word=word))
    return waiting[0]


def binary_from_preorder(nodes: Sequence[tuple[str, bool]], words: Sequence[str]) -> Tree:
    """Build a binary tree over the words from `(label, is leaf)` of its nodes in preorder."""
    remaining = iter(words)
    return from_preorder([(label, next(remaining), 0) if leaf else (label, None, 2) for label, leaf in nodes])


def plain_tree(label: str, children: tuple[Tree, ...], word: str | None) -> Tree:
    """Return `Tree(label, children, word=word)` without its checks, for arguments known to be valid."""
    tree = Tree.__new__(Tree)
    _set_label(tree, label)
    _set_children(tree, children)
    _set_word(tree, word)
    return tree
