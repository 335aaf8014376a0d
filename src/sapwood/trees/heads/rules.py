"""Head rules: which child of a phrase is its head.

A table is text with one rule per line and columns separated by white space:

    LABEL  DIRECTION  CANDIDATE ...

    left, right              the first candidate that any child has wins; among several children with
                             that label, the one nearest to the named side
    leftdis, rightdis        the child nearest to the named side that has any of the labels
    leftexcept, rightexcept  the child nearest to the named side that has none of the labels

A line without candidates takes the child at the named side. Several lines for one label are tried
in order; if none finds a child, the child at the side that the last one names is the head.
Lines with the label `*` apply to all labels without a line of their own (if there are none: the
leftmost child). Blank lines are skipped, and so are comments: lines whose first non-blank
character is a `#` with white space or nothing after it (`#` alone is also a tag, and may be a
candidate).

A label is looked up as is, and if that finds nothing, cut before the first `-`, `=`, `^` or `|`
after its first character, so that `NP-SBJ` and `NP^S` use the rules for `NP` and match the
candidate `NP`, while a table may still name `NP-TMP` or `-LRB-`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from sapwood.errors import InputError, shortened
from sapwood.storage.files import name_of, read_lines
from sapwood.trees.formats.gaps import positions
from sapwood.trees.heads.tables import HEAD_TABLES
from sapwood.trees.tree import Tree

DEFAULT_LABEL: Final = "*"
_DECORATION = re.compile(r"[-=^|]")
_KINDS = ("dis", "except")
# Share of labels that rules must name to fit a treebank.
_FIT: Final = 0.5
_ROOTS: Final = frozenset({"", "ROOT", "TOP", "S1", "VROOT"})


class _Rule(NamedTuple):
    """One line of a table."""

    from_left: bool
    # "" for candidates in order of preference, "dis" for any of them, "except" for none.
    kind: str
    # The position of each candidate in the line.
    ranks: dict[str, int]


class HeadRules:
    """A table of head rules; make one with `parse`, `read`, `named`, `english`, `icelandic`, `leftmost` or `rightmost`.

    Attributes
    ----------
    name
        Where the table comes from: a file name, `"english"`, `"leftmost"`, ...

    Examples
    --------
    >>> HeadRules.english().head_index("NP", ["DT", "JJ", "NN"])
    2
    """

    def __init__(self, rules: dict[str, tuple[_Rule, ...]], name: str) -> None:
        self.name = name
        self._rules = rules
        self._default = rules.get(DEFAULT_LABEL) or (_Rule(True, "", {}),)
        # Caches: the rules of each label looked up, and labels without decoration.
        self._of_label: dict[str, tuple[_Rule, ...]] = {}
        self._plain: dict[str, str] = {}

    @classmethod
    def parse(cls, text: str, *, source: str = "<string>") -> HeadRules:
        """Parse a table given as a string."""
        return cls._from_lines(enumerate(text.split("\n"), 1), source)

    @classmethod
    def read(cls, path: str | Path) -> HeadRules:
        """Read a table from a file."""
        return cls._from_lines(read_lines(path), name_of(path))

    @classmethod
    def english(cls) -> HeadRules:
        """Return rules for Penn-style English labels."""
        return cls.named("english")

    @classmethod
    def icelandic(cls) -> HeadRules:
        """Return rules for the labels of IcePaHC, the Icelandic Parsed Historical Corpus."""
        return cls.named("icelandic")

    @classmethod
    def named(cls, name: str | Path) -> HeadRules:
        """Return the rules for `english` or `icelandic`; any other name is a file name."""
        table = HEAD_TABLES.get(str(name))
        return cls.read(name) if table is None else cls.parse(table, source=str(name))

    @classmethod
    def fitting(cls, phrases: Mapping[str, float], tags: Mapping[str, float]) -> HeadRules | None:
        """Return the built-in rules that fit the labels of a treebank, given by their counts; None if none do.

        Rules fit if they name most phrases, and most tags as candidates (counted by occurrence, tags without letters
        aside). If several do, those that name the most tags are returned.

        Examples
        --------
        >>> HeadRules.fitting({"S": 5, "NP": 9, "VP": 5}, {"NN": 9, "VBZ": 5, ".": 5})
        <HeadRules english: 26 labels>
        >>> HeadRules.fitting({"S": 5, "sn": 9, "grup.verb": 5}, {"nc": 9, "vm": 5})
        """
        best, most = None, _FIT
        for name in HEAD_TABLES:
            rules = cls.named(name)
            if (share := rules._coverage(phrases, tags)) > most:
                best, most = rules, share
        return best

    def _coverage(self, phrases: Mapping[str, float], tags: Mapping[str, float]) -> float:
        """Return the share of tags that are candidates, 0 if too few phrases have rules."""
        candidates = {name for rules in self._rules.values() for rule in rules for name in rule.ranks}
        words = {tag: count for tag, count in tags.items() if tag[:1].isalpha()}
        shares = []
        for found, known in ((phrases, self._rules.keys()), (words, candidates)):
            fits = sum(n for label, n in found.items() if label in known or without_decoration(label) in known)
            shares.append(fits / (sum(found.values()) or 1))
        return shares[1] if shares[0] > _FIT else 0.0

    @classmethod
    def leftmost(cls) -> HeadRules:
        """Return the rules by which the first child is always the head."""
        return cls.parse("* left", source="leftmost")

    @classmethod
    def rightmost(cls) -> HeadRules:
        """Return the rules by which the last child is always the head."""
        return cls.parse("* right", source="rightmost")

    @classmethod
    def _from_lines(cls, lines: Iterable[tuple[int, str]], source: str) -> HeadRules:
        rules: dict[str, list[_Rule]] = {}
        # Labels whose last line always finds a head, with that line's number.
        settled: dict[str, int] = {}
        for number, line in lines:
            columns = line.split()
            if not columns or columns[0] == "#":
                continue
            if len(columns) < 2:
                raise InputError(
                    f"{source}:{number}: a head rule is LABEL DIRECTION CANDIDATE ...: {shortened(line.strip())!r}"
                )
            label, direction, *candidates = columns
            side = "left" if direction.startswith("left") else "right"
            kind = direction.removeprefix(side)
            if not direction.startswith(side) or kind not in ("", *_KINDS):
                raise InputError(
                    f"{source}:{number}: unknown direction {direction!r}; choose left, right, leftdis, "
                    "rightdis, leftexcept or rightexcept (a comment begins with '#' and a blank)"
                )
            if kind and not candidates:
                raise InputError(f"{source}:{number}: {direction} needs at least one candidate; {side} needs none")
            ranks = {candidate: rank for rank, candidate in enumerate(candidates)}
            if len(ranks) < len(candidates):
                twice = next(c for c, count in Counter(candidates).items() if count > 1)
                raise InputError(f"{source}:{number}: the candidate {twice!r} stands twice in one rule")
            if label in settled:
                raise InputError(
                    f"{source}:{number}: this rule for {label!r} is never reached: the one on line "
                    f"{settled[label]} has no candidates and always finds a head"
                )
            if not candidates:
                settled[label] = number
            rules.setdefault(label, []).append(_Rule(side == "left", kind, ranks))
        if not rules:
            raise InputError(f"{source}: no head rules in it")
        return cls({label: tuple(lines) for label, lines in rules.items()}, source)

    def __repr__(self) -> str:
        return f"<HeadRules {self.name}: {len(self._rules)} labels>"

    def head_index(self, label: str, child_labels: Sequence[str]) -> int:
        """Return the index of the head child of a phrase `label` with children of these labels."""
        count = len(child_labels)
        if count < 2:
            if count == 0:
                raise ValueError(f"a phrase without children has no head: {label!r}")
            return 0
        rules = self._of_label.get(label)
        if rules is None:
            rules = self._rules.get(label) or self._rules.get(without_decoration(label)) or self._default
            self._of_label[label] = rules
        plain = self._plain
        for from_left, kind, ranks in rules:
            if not ranks:
                return 0 if from_left else count - 1
            best, head = len(ranks), -1
            for index in range(count) if from_left else range(count - 1, -1, -1):
                child = child_labels[index]
                rank = ranks.get(child)
                if rank is None:
                    short = plain.get(child)
                    if short is None:
                        short = plain[child] = without_decoration(child)
                    rank = ranks.get(short, -1)
                if kind:
                    if (rank < 0) == (kind == "except"):
                        return index
                elif 0 <= rank < best:
                    best, head = rank, index
                    if rank == 0:
                        break
            if head >= 0:
                return head
        return 0 if rules[-1].from_left else count - 1


def count_labels(trees: Iterable[Tree]) -> tuple[Counter[str], Counter[str]]:
    """Return the phrase labels and the tags of trees with their counts, for `HeadRules.fitting`; roots are skipped."""
    phrases: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    for tree in trees:
        for node in tree.nodes():
            if node is not tree or node.label not in _ROOTS:
                (phrases if node.word is None else tags)[node.label] += 1
    return phrases, tags


def head_positions(tree: Tree, rules: HeadRules) -> list[int]:
    """Return for each node, in the order of `tree.nodes()`, the position of its head word."""
    nodes = list(tree.nodes())
    heads = [0] * len(nodes)
    places = positions(tree)
    # Nodes are visited backwards: the children of a node are on top of the stack, the first one uppermost.
    waiting: list[int] = []
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        if node.word is not None:
            heads[index] = places.pop()
        else:
            children = node.children
            chosen = rules.head_index(node.label, [child.label for child in children])
            heads[index] = heads[waiting[-1 - chosen]]
            del waiting[-len(children) :]
        waiting.append(index)
    return heads


def without_decoration(label: str) -> str:
    """Return a label cut before function tags and other marks."""
    mark = _DECORATION.search(label, 1)
    return label[: mark.start()] if mark else label
