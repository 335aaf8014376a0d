"""Tables of rewrite rules, in the layout that the kernel applies (`src/native/trees/rewrite_trees.cpp`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from sapwood.storage.shapes import Array, Int32, Int64
from sapwood.treebank.rewriting.rules import Operation, RewriteRule, RewriteRules, Template, TreeNode, expand
from sapwood.trees.search.patterns import LabelTest
from sapwood.trees.search.program import NONE, Oracle, PatternProgram, decode, encode
from sapwood.trees.search.regex import Regex, texts_of

# The order of `Operation` in the kernel.
_KINDS = (
    "relabel", "relabel regex", "delete", "prune", "excise", "insert", "move", "replace", "createSubtree", "adjoin",
    "coindex", "split", "join",
)  # fmt: skip
_ADJOIN = {"adjoin": 0, "adjoinH": 1, "adjoinF": 2}
_TEXT, _NAME, _VARIABLE = range(3)
_COLUMNS = 6


class RewriteProgram:
    """Rewrite rules as tables.

    Attributes
    ----------
    tests
        The tests of all patterns.
    operations
        The operations, in the order of the table.
    regexes
        Regular expressions of operations, with the replacements.
    """

    def __init__(self, rules: RewriteRules) -> None:
        self.rules = rules
        self.tests: list[LabelTest] = []
        self.operations: list[Operation] = []
        self.regexes: list[tuple[Regex, str]] = []
        self._parts: list[list[int]] = []
        self._lists: list[int] = []
        self._rows: list[list[int]] = []
        self._operation_lists: list[int] = []
        self._constants: list[bytes] = []
        self._texts: list[list[tuple[int, int]]] = []
        self._trees: list[list[list[int]]] = []
        self._sizes: list[tuple[int, int, int, int, int]] = []
        for rule in rules.rules:
            self._add_rule(rule)

    def arguments(self) -> tuple[Any, ...]:
        """Return the tables as the kernel takes them."""
        parts, lists, operations, names, variables = zip(*self._sizes, strict=True)
        return (
            _bounds(parts), _bounds(lists), _bounds(operations), _longs(names), _longs(variables),
            _table(self._parts, 8), _ints(self._lists), _table(self._rows, _COLUMNS), _ints(self._operation_lists),
            _bounds([len(text) for text in self._texts]), _table([piece for text in self._texts for piece in text], 2),
            _bounds([len(tree) for tree in self._trees]), _table([node for tree in self._trees for node in tree], 5),
            self._constants,
        )  # fmt: skip

    def _add_rule(self, rule: RewriteRule) -> None:
        pattern = PatternProgram(rule.pattern, self.tests)
        self._parts += pattern.parts
        self._lists += pattern.lists
        self._names = {name: number for number, name in enumerate(pattern.names)}
        self._variables = {variable: number for number, variable in enumerate(pattern.variables)}
        for operation in rule.operations:
            for name in operation.made_names():
                self._names[name] = len(self._names)
            row = self._operation(operation)
            self._rows.append([*row, *[NONE] * (_COLUMNS - len(row))])
            self.operations.append(operation)
        self._sizes.append(
            (len(pattern.parts), len(pattern.lists), len(rule.operations), len(self._names), len(self._variables))
        )

    def _operation(self, operation: Operation) -> list[int]:
        names = [self._names[name] for name in operation.names]
        labels = [self._text(label) for label in operation.labels]
        kind = operation.kind
        if kind in _ADJOIN:
            (tree,) = (self._tree(item) for item in operation.items if not isinstance(item, str))
            return [_KINDS.index("adjoin"), tree, *names, _ADJOIN[kind]]
        if kind == "relabel" and operation.regex is not None:
            return [_KINDS.index("relabel regex"), *names, self._regex(operation)]
        code = _KINDS.index(kind)
        if kind in ("delete", "prune", "coindex"):
            return [code, *self._range(names)]
        if kind == "insert":
            (item,) = operation.items
            copied, tree = (self._names[item], NONE) if isinstance(item, str) else (NONE, self._tree(item))
            return [code, copied, tree, *self._place(operation)]
        if kind == "move":
            return [code, *names, *self._place(operation)]
        if kind == "replace":
            items = [self._names[item] if isinstance(item, str) else ~self._tree(item) for item in operation.items]
            return [code, *names, *self._range(items)]
        if kind == "createSubtree":
            return [code, *labels, *names]
        if kind == "split":
            return [code, *names, self._regex(operation), *self._range(labels)]
        if kind == "join":
            return [code, *names, *(labels or [NONE])]
        return [code, *names, *labels]

    def _range(self, items: Sequence[int]) -> tuple[int, int]:
        self._operation_lists += items
        return len(self._operation_lists) - len(items), len(self._operation_lists)

    def _place(self, operation: Operation) -> tuple[int, int, int]:
        assert operation.place is not None
        where, name = operation.place
        if isinstance(where, int):
            return 2, where, self._names[name]
        return ("$+", "$-").index(where), 0, self._names[name]

    def _regex(self, operation: Operation) -> int:
        assert operation.regex is not None
        self.regexes.append((operation.regex, operation.replacement))
        return len(self.regexes) - 1

    def _text(self, template: Template) -> int:
        pieces: list[tuple[int, int]] = []
        for kind, text in template.pieces:
            if kind == "text":
                pieces.append((_TEXT, len(self._constants)))
                self._constants.append(encode(text))
            elif kind == "name":
                pieces.append((_NAME, self._names[text]))
            else:
                pieces.append((_VARIABLE, self._variables[text]))
        self._texts.append(pieces)
        return len(self._texts) - 1

    def _tree(self, nodes: Sequence[TreeNode]) -> int:
        self._trees.append(
            [
                [
                    self._text(node.text),
                    int(node.is_word),
                    node.children,
                    NONE if node.name is None else self._names[node.name],
                    int(node.is_foot),
                ]
                for node in nodes
            ]
        )
        return len(self._trees) - 1


class RewriteOracle(Oracle):
    """What the kernel asks about spellings, and what regular expressions of operations make of them."""

    regexes: Sequence[tuple[Regex, str]] = ()

    def replaced(self, regex: int, text: bytes) -> list[bytes]:
        """Return a label or word after the replacement of all matches."""
        self.check()
        expression, replacement = self.regexes[regex]
        return [encode(expression.replace(decode(text), lambda groups: expand(replacement, groups)))]

    def split(self, regex: int, text: bytes) -> list[bytes]:
        """Return the groups of a match of the whole word; nothing if they are not all of it."""
        self.check()
        spelled = decode(text)
        groups = [group or "" for group in texts_of(spelled, self.regexes[regex][0].find(spelled) or [])[1:]]
        return [encode(group) for group in groups] if all(groups) and "".join(groups) == spelled else []


def _ints(values: Sequence[int]) -> Int32[Array, "values"]:
    return np.array(values, dtype=np.int32)


def _longs(values: Sequence[int]) -> Int64[Array, "values"]:
    return np.array(values, dtype=np.int64)


def _bounds(sizes: Sequence[int]) -> Int64[Array, "bounds"]:
    return _longs([0, *accumulate(sizes)])


def _table(rows: Sequence[Sequence[int]], columns: int) -> Int32[Array, "rows columns"]:
    return np.array(rows, dtype=np.int32).reshape(-1, columns)
