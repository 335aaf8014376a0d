"""Tables of patterns, in the layout that the kernels match (`src/native/trees/pattern_matcher.hpp`).

A pattern becomes a table with a row per part: nodes, references, relations, "not", "and", "or", "optional". A part is
*pure* if it refers to no name and no variable, and names nothing that is referred to: its truth at a node then depends
on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sapwood.storage.shapes import Array, Int32
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.normalise import cut_function_tag
from sapwood.trees.search.patterns import And, Clause, LabelTest, Not, Optional, Pattern, PatternNode, Related
from sapwood.trees.search.regex import texts_of

_NODE, _REFERENCE, _RELATED, _NOT, _AND, _OR, _OPTIONAL = range(7)
# The order of `Relation` in the kernel.
_RELATIONS = (
    "<", ">", "<<", ">>", "<<n", ">>n", "==", "<=", ":", ".", ",", "..", ",,", "$", "$+", "$-", "$++", "$--",
    "<+", ">+", ".+", ",+",
)  # fmt: skip
_MOST_CHILDREN = 1 << 29
_ONLY, _HEAD = 1 << 30, (1 << 30) + 1
_COLUMNS = 8
NONE = -1


@dataclass
class PatternProgram:
    """A pattern as a table.

    Attributes
    ----------
    tests
        The tests of all patterns that share the list; parts refer to them by number.
    parts
        The table's rows.
    lists
        Lists that rows have ranges of: clauses, groups and variables.
    numbers
        The row of each part, by its identity.
    names, variables
        Names and variables in the order of their numbers.
    """

    pattern: Pattern
    tests: list[LabelTest] = field(default_factory=list)
    parts: list[list[int]] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names, self.variables = self.pattern.names, self.pattern.variables
        self._joined = set(self.pattern.joined)
        # Named nodes come first, for references to refer to their rows.
        self._tests = {
            node.name: self._test(node.test) for node in self.pattern.nodes() if node.name and not node.reference
        }
        self._add(self.pattern.root)

    def table(self) -> Int32[Array, "parts columns"]:
        """Return the table's rows as an array."""
        return np.array(self.parts, dtype=np.int32).reshape(-1, _COLUMNS)

    @property
    def has_precedence(self) -> bool:
        """Whether any relation depends on the order of words beyond that of sisters."""
        numbers = {_RELATIONS.index(relation) for relation in _RELATIONS if relation[0] in ".,"}
        return any(kind == _RELATED and relation in numbers for kind, relation, *_ in self.parts)

    def is_pure(self, part: PatternNode | Clause) -> bool:
        """Return whether a part's truth at a node depends on nothing else."""
        return bool(self.parts[self.numbers[id(part)]][6])

    def _test(self, test: LabelTest) -> int:
        self.tests.append(test)
        return len(self.tests) - 1

    def _range(self, items: Sequence[int]) -> tuple[int, int]:
        self.lists += items
        return len(self.lists) - len(items), len(self.lists)

    def _row(self, part: PatternNode | Clause, row: Sequence[int], below: Sequence[int], own: tuple[bool, bool]) -> int:
        """Add a row; `own` is whether the part itself is pure, and whether it binds names."""
        pure = own[0] and all(self.parts[number][6] for number in below)
        binds = own[1] or (not isinstance(part, Not) and any(self.parts[number][7] for number in below))
        self.parts.append([*row, *[NONE] * (_COLUMNS - 2 - len(row)), int(pure), int(binds)])
        self.numbers[id(part)] = len(self.parts) - 1
        return len(self.parts) - 1

    def _add(self, part: PatternNode | Clause) -> int:
        if isinstance(part, PatternNode):
            below = [] if part.clause is None else [self._add(part.clause)]
            clause = below[0] if below else NONE
            if part.reference:
                test, name = self._tests[part.name or ""], self.names.index(part.name or "")
                return self._row(part, [_REFERENCE, test, clause, name, int(part.like)], below, (False, True))
            name = NONE if part.name is None else self.names.index(part.name)
            test = self._test(part.test) if part.name is None else self._tests[part.name]
            bound = [n for group, variable in part.variables for n in (group, self.variables.index(variable))]
            row = [_NODE, test, clause, name, *self._range(bound)]
            pure = part.name not in self._joined and not bound
            return self._row(part, row, below, (pure, name != NONE or bool(bound)))
        if isinstance(part, Related):
            path = NONE if part.path is None else self._add(part.path)
            node = self._add(part.node)
            return self._row(part, [_RELATED, *_relation(part.relation), node, path], [node], (True, False))
        if isinstance(part, Not | Optional):
            below = [self._add(part.clause)]
            kind = _NOT if isinstance(part, Not) else _OPTIONAL
            return self._row(part, [kind, *below], below, (True, False))
        below = [self._add(clause) for clause in part.clauses]
        return self._row(part, [_AND if isinstance(part, And) else _OR, *self._range(below)], below, (True, False))


def _relation(relation: str) -> tuple[int, int]:
    """Return the numbers of a relation and of the kind of child in it."""
    if relation in _RELATIONS:
        return _RELATIONS.index(relation), 0
    steps = 2 if relation[:2] in ("<<", ">>") else 1
    kind = relation[steps:]
    number = {":": _ONLY, "#": _HEAD, ",": 1, "-": -1}.get(kind)
    if number is None:
        number = max(-_MOST_CHILDREN, min(int(kind), _MOST_CHILDREN))
    return _RELATIONS.index(relation[:steps] + "n" * (steps - 1)), number


class Oracle:
    """What the kernels ask about spellings: each question once, in bytes.

    Parameters
    ----------
    spellings
        Labels, then words.
    tests
        The tests of the patterns.
    heads
        Head rules.
    check
        Called before each answer, and now and then between them; may raise to stop.
    """

    def __init__(
        self, spellings: Sequence[str], tests: Sequence[LabelTest], heads: HeadRules, check: Callable[[], object]
    ) -> None:
        self._spellings, self._tests, self._heads, self.check = spellings, tests, heads, check

    def texts(self) -> list[bytes]:
        """Return all spellings."""
        return [encode(text) for text in self._spellings]

    def accepts(self, test: int, text: bytes, is_word: bool) -> bool:
        """Return whether a label or word passes a test."""
        self.check()
        return self._tests[test].accepts(decode(text), is_word, self.check)

    def groups(self, test: int, text: bytes) -> list[bytes | None]:
        """Return the match of a test's regular expression and its groups; nothing without a match."""
        self.check()
        spelled = cut_function_tag(decode(text)) if self._tests[test].basic else decode(text)
        found = self._tests[test].regexes[0].find(spelled)
        return [None if each is None else encode(each) for each in texts_of(spelled, found or [])]

    def head(self, labels: list[bytes]) -> int:
        """Return the index of the head among the children of a label, which is the first of `labels`."""
        label, *children = map(decode, labels)
        return self._heads.head_index(label, children)


def encode(text: str) -> bytes:
    """Return a text as bytes; halves of surrogate pairs are kept."""
    return text.encode("utf-8", "surrogatepass")


def decode(text: bytes) -> str:
    """Return the text of `encode`."""
    return text.decode("utf-8", "surrogatepass")
