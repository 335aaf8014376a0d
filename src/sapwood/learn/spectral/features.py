"""Features of the inside and outside trees of nodes, as sparse matrices, one pair per symbol.

Spectral learning sees each node of symbol `a` as a pair of vectors: `phi(t)` of the inside tree `t`, the node with all
below it, and `psi(o)` of the outside tree `o`, everything else (Cohen et al. 2014, section 7.1). Given the hidden state
the two are independent, so their covariance has as many singular values as there are states. Any feature is
allowed as long as an inside one looks at nothing outside and the other way round.

A *feature* is a function of a `NodeTable` that returns `(nodes,)` integers, -1 for nodes that do not have it. Each
distinct value becomes a column, with a 1 in the rows of its nodes. Values are compared within one symbol only, so the
label `a` need not be part of them. Missing context at the edge of a tree (the parent of a root, the word before the
first) is a value of its own. `INSIDE` and `OUTSIDE` have the features by name, `FEATURE_SETS` sets of them;
`register_feature` adds others, and `from_function` makes one from plain Python.

In trees with unary steps (`sapwood.learn.lpcfg.unary`) empty leaves are not words: they have no width, are never heads,
and are invisible to features of neighbouring words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from numbers import Real
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np

from sapwood.errors import UsageError
from sapwood.learn.spectral.node_table import NodeTable, NodeView
from sapwood.storage.shapes import Array, Int, Int64, Num
from sapwood.trees.lexicon.signatures import shape

Side: TypeAlias = Literal["inside", "outside"]
# Lower edges of width bins: 0, 1, .., 5, then two per doubling.
BIN_EDGES: Final = np.array([0, 1, 2, 3, 4, 5, *(e for k in range(1, 30) for e in (3 << k, 4 << k))])
_ROOM = 1 << 62
_SUFFIX, _PREFIX = 3, 2


@dataclass(frozen=True, eq=False)
class Entries:
    """Alternative return value of a feature: any number of weighted values per node.

    Attributes
    ----------
    node, value
        Numbers from 0.
    weight
        Weights of equal pairs are added up.
    names
        Descriptions of values.
    """

    node: Int[Array, "entries"]
    value: Int[Array, "entries"]
    weight: Num[Array, "entries"]
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.node.shape == self.value.shape == self.weight.shape == (len(self.node),):
            raise UsageError(
                f"entries need as many nodes as values and weights, not {self.node.shape}, {self.value.shape} "
                f"and {self.weight.shape}"
            )
        if (self.node < 0).any() or (self.value < 0).any() or not np.isfinite(self.weight).all():
            raise UsageError("nodes and values of entries are numbers from 0, and weights are finite")


FeatureFunction: TypeAlias = Callable[[NodeTable], np.ndarray | Entries]
# Describes the value of a node.
Describe: TypeAlias = Callable[[NodeTable, int], str]
F = TypeVar("F", bound=FeatureFunction)


@dataclass(frozen=True)
class Feature:
    """A named feature, to be called on a `NodeTable`; for `describe` see `register_feature`."""

    name: str
    side: Side
    function: FeatureFunction
    describe: Describe | None = None

    def __call__(self, table: NodeTable) -> np.ndarray | Entries:
        """Return the values of all nodes: `(nodes,)` int64, or entries."""
        found = self.function(table)
        if isinstance(found, Entries):
            return found
        found = np.asarray(found)
        if found.shape != (table.n_nodes,) or not np.can_cast(found.dtype, np.int64):
            raise UsageError(
                f"the feature {self.name!r} must return {table.n_nodes:,} integers, one for each node, "
                f"not an array {found.shape} of {found.dtype}"
            )
        return found.astype(np.int64)


class FeatureSet(NamedTuple):
    """Names of inside and of outside features."""

    inside: tuple[str, ...]
    outside: tuple[str, ...]


INSIDE: dict[str, Feature] = {}
OUTSIDE: dict[str, Feature] = {}
FEATURE_SETS: dict[str, FeatureSet] = {}


@overload
def register_feature(name: str, side: Side, function: F, *, describe: Describe | None = None) -> F: ...
@overload
def register_feature(name: str, side: Side, *, describe: Describe | None = None) -> Callable[[F], F]: ...
def register_feature(
    name: str, side: Side, function: F | None = None, *, describe: Describe | None = None
) -> F | Callable[[F], F]:
    """Register a feature under a name for `extract`; without `function` this is a decorator.

    `describe(table, node)` describes the value of a node. The names of the built-in features are taken.

    >>> @register_feature("height", "inside")
    ... def height(table):
    ...     return np.minimum(table.height, 5)
    """
    if side not in ("inside", "outside"):
        raise UsageError(f"a feature is inside or outside, not {side!r}")
    registry = INSIDE if side == "inside" else OUTSIDE
    if any(name in getattr(names, side) for names in FEATURE_SETS.values()):
        raise UsageError(f"there is an included {side} feature {name!r}; choose another name")

    def register(function: F) -> F:
        registry[name] = Feature(name, side, function, describe)
        return function

    return register if function is None else register(function)


def from_function(
    function: Callable[[NodeView], str | Sequence[str] | Mapping[str, float] | None],
) -> Callable[[NodeTable], Entries]:
    """Make a feature from a function of one node that returns one value, several, values with weights, or None.

    The function is called for each node, which is slow on a large treebank.

    >>> def ending(node):
    ...     return node.word[-2:] if node.word else None
    >>> _ = register_feature("ending", "inside", from_function(ending))
    """
    title = getattr(function, "__name__", "function")

    @wraps(function)
    def feature(table: NodeTable) -> Entries:
        nodes: list[int] = []
        names: list[str] = []
        weights: list[float] = []
        for node in range(table.n_nodes):
            found = function(NodeView(table, node))
            if found is None:
                continue
            if isinstance(found, Mapping):
                pairs = list(found.items())
            else:
                pairs = [(name, 1.0) for name in ((found,) if isinstance(found, str) else dict.fromkeys(found))]
            for name, weight in pairs:
                if not (isinstance(name, str) and isinstance(weight, Real) and math.isfinite(weight)):
                    raise UsageError(
                        f"the feature {title!r} must return strings, or strings with finite weights; "
                        f"for {table.view(node)!r} it returned {found!r}"
                    )
                if weight != 0:
                    nodes.append(node)
                    names.append(name)
                    weights.append(float(weight))
        distinct = sorted(set(names))
        numbers = {name: number for number, name in enumerate(distinct)}
        values = np.array([numbers[name] for name in names], np.int64)
        return Entries(np.array(nodes, np.int64), values, np.array(weights, float), distinct)

    return feature


def combine(*parts: Int[Array, "nodes"]) -> Int64[Array, "nodes"]:
    """Number the distinct combinations of several integers per node, in order; -1 where any is negative."""
    result = np.full(len(parts[0]), -1, np.int64)
    present = np.logical_and.reduce([part >= 0 for part in parts])
    if not present.any():
        return result
    keys, size = np.zeros(int(present.sum()), np.int64), 1
    for part in parts:
        more, n_more = compact(part[present].astype(np.int64), size)
        distinct, keys = number_keys(keys * n_more + more, size * n_more)
        size = len(distinct)
    result[present] = keys
    return result


def compact(values: Int[Array, "entries"], other_size: int) -> tuple[Int[Array, "entries"], int]:
    """Return values and a bound above them, renumbered if the bound times the other size could overflow."""
    size = int(values.max(initial=-1)) + 1
    if size * other_size < _ROOM:
        return values, size
    distinct, values = np.unique(values, return_inverse=True)
    return values, len(distinct)


def number_keys(keys: Int[Array, "entries"], size: int) -> tuple[Int64[Array, "distinct"], Int64[Array, "entries"]]:
    """Return the distinct keys (all below `size`) in order, and the index of each key among them."""
    if size > 8 * len(keys) + 1024:
        return np.unique(keys, return_inverse=True)
    new = np.zeros(size, np.int64)
    new[keys] = 1
    distinct = np.flatnonzero(new)
    new[distinct] = np.arange(len(distinct))
    return distinct, new[keys]


def bin_widths(widths: Int[Array, "nodes"]) -> Int64[Array, "nodes"]:
    """Return the bin of `BIN_EDGES` of each width: 0 to 5 have their own, then two bins per doubling.

    >>> bin_widths(np.array([0, 1, 5, 6, 7, 8, 11, 12]))
    array([0, 1, 5, 6, 6, 7, 7, 8])
    """
    return np.searchsorted(BIN_EDGES, widths, side="right") - 1


# Descriptions of values, by a node that has them.


def _symbol_name(table: NodeTable, node: int) -> str:
    return table.corpus.symbols[table.corpus.symbol[node]] if node >= 0 else "(none)"


def _bin_name(width: int) -> str:
    number = int(bin_widths(np.array([width]))[0])
    first, last = int(BIN_EDGES[number]), int(BIN_EDGES[number + 1]) - 1
    return str(first) if first == last else f"{first}-{last}"


def _path_name(table: NodeTable, node: int, levels: int) -> str:
    """Return the rules above, with `_` for the subtree below: `VP -> V _ < S -> NP _`."""
    steps = []
    for _ in range(levels):
        above = int(table.parent[node])
        if above < 0:
            steps.append("(root)")
            break
        left, right = _symbol_name(table, table.corpus.left[above]), _symbol_name(table, table.corpus.right[above])
        children = f"{left} _" if table.is_right[node] else f"_ {right}"
        steps.append(f"{_symbol_name(table, above)} -> {children}")
        node = above
    return " < ".join(steps)


def _tag_name(table: NodeTable, leaf: int) -> str:
    return table.tags[table.tag[leaf]] if leaf >= 0 else "(none)"


def _class_name(table: NodeTable, leaf: int) -> str:
    """Return the words of a class, the most frequent ones if there are many."""
    if leaf < 0:
        return "(none)"
    members = np.flatnonzero(table.word_classes == table.word_class[leaf])
    names = " ".join(table.corpus.words[number] for number in members[:3])
    return names if len(members) <= 3 else f"{names} ... ({len(members)} words)"


# Built-in features, and functions shared by several of them.


def _with_child(table: NodeTable, child: np.ndarray) -> np.ndarray:
    """Return the rule of each inner node together with the rule of a child, if it has one."""
    return combine(table.corpus.rule, 1 + table.corpus.rule[child])


def _inner(table: NodeTable, values: np.ndarray) -> np.ndarray:
    """Return the values of nodes, -1 on leaves."""
    return np.where(table.is_leaf, -1, values)


def _neighbour(table: NodeTable, leaf: np.ndarray) -> np.ndarray:
    """Return the class of another leaf's word for each leaf, counted from 1, 0 if there is none."""
    return np.where(table.is_leaf & ~table.is_empty, np.where(leaf >= 0, 1 + table.word_class[leaf], 0), -1)


def _path(table: NodeTable, values: np.ndarray, levels: int) -> np.ndarray:
    """Return the values of a node and its ancestors together, `levels` in all; 0 stands above the root."""
    parts = [values]
    for _ in range(levels - 1):
        parts.append(table.above(parts[-1], 0))
    return combine(*parts)


def _inside(name: str, function: FeatureFunction, describe: Describe) -> None:
    register_feature(name, "inside", function, describe=describe)


def _spelling(name: str, cut: Callable[[str], str | None]) -> None:
    _inside(name, lambda table: table.by_word(cut), lambda table, node: str(cut(table.view(node).words[0])))


def _outside(name: str, function: FeatureFunction, describe: Describe) -> None:
    register_feature(name, "outside", function, describe=describe)


_inside(
    "left", lambda t: _inner(t, t.corpus.symbol[t.corpus.left]), lambda t, node: _symbol_name(t, t.corpus.left[node])
)
_inside(
    "right", lambda t: _inner(t, t.corpus.symbol[t.corpus.right]), lambda t, node: _symbol_name(t, t.corpus.right[node])
)
_inside("rule", lambda t: t.corpus.rule, lambda t, node: t.rule_name(node))
_inside(
    "rule+left-rule",
    lambda t: _with_child(t, t.corpus.left),
    lambda t, node: f"{t.rule_name(node)} > {t.rule_name(t.corpus.left[node])}",
)
_inside(
    "rule+right-rule",
    lambda t: _with_child(t, t.corpus.right),
    lambda t, node: f"{t.rule_name(node)} > {t.rule_name(t.corpus.right[node])}",
)
_inside("head-tag", lambda t: _inner(t, t.tag[t.head]), lambda t, node: _tag_name(t, t.head[node]))
_inside("width", lambda t: _inner(t, bin_widths(t.width)), lambda t, node: _bin_name(t.width[node]))
_inside("word", lambda t: t.word_class, lambda t, node: _class_name(t, node))
_spelling("shape", lambda word: shape(word, False))
_spelling("prefix", lambda word: word[:_PREFIX].lower() + "-" if len(word) > _PREFIX else None)
_spelling("suffix", lambda word: "-" + word[-_SUFFIX:].lower() if len(word) > _SUFFIX else None)
_outside("parent-rule", lambda t: t.attachment, lambda t, node: _path_name(t, node, 1))
_outside("parent-rule-2", lambda t: _path(t, t.attachment, 2), lambda t, node: _path_name(t, node, 2))
_outside("parent-rule-3", lambda t: _path(t, t.attachment, 3), lambda t, node: _path_name(t, node, 3))
_outside("parent-label", lambda t: t.above(1 + t.corpus.symbol, 0), lambda t, node: _symbol_name(t, t.parent[node]))
_outside(
    "parent-grandparent",
    lambda t: _path(t, t.above(1 + t.corpus.symbol, 0), 2),
    lambda t, node: f"{_symbol_name(t, t.parent[node])} < {_symbol_name(t, t.grandparent[node])}",
)
_outside(
    "head-outside",
    lambda t: np.where(t.outer_head >= 0, 1 + t.tag[t.outer_head], 0),
    lambda t, node: _tag_name(t, t.outer_head[node]),
)
_outside("left-width", lambda t: bin_widths(t.start), lambda t, node: _bin_name(t.start[node]))
_outside("right-width", lambda t: bin_widths(t.words_after), lambda t, node: _bin_name(t.words_after[node]))
_outside(
    "previous-word",
    lambda t: _neighbour(t, t.previous_leaf),
    lambda t, node: _class_name(t, t.previous_leaf[node]),
)
_outside("next-word", lambda t: _neighbour(t, t.next_leaf), lambda t, node: _class_name(t, t.next_leaf[node]))

FEATURE_SETS["simple"] = FeatureSet(("rule", "word"), ("parent-rule",))
FEATURE_SETS["rich"] = FeatureSet(tuple(INSIDE), tuple(OUTSIDE))


def _word_at(table: NodeTable, places: np.ndarray) -> np.ndarray:
    """Return the class, from 1, of the word `places` positions after each node's first; 0 if there is none."""
    is_word = table.is_leaf & ~table.is_empty
    leaves = np.flatnonzero(is_word)
    first = np.cumsum(is_word) - is_word
    at = table.start + places
    present = (at >= 0) & (at < table.end + table.words_after)
    return np.where(present, 1 + table.word_class[leaves[np.where(present, first + places, 0)]], 0)


def _first_word(table: NodeTable) -> np.ndarray:
    return _word_at(table, np.zeros(table.n_nodes, np.int64))


def _word_before(table: NodeTable) -> np.ndarray:
    return _word_at(table, np.full(table.n_nodes, -1))


def _word_behind(table: NodeTable) -> np.ndarray:
    return _word_at(table, table.width)


# Features of sequences as right-branching trees (`sapwood.trees.sequences`): the default features of a phrase use rules
# and tags but no words, and carry no information about states if all words have the same tag. With these, `Omega` of
# `S` holds the bigrams that Hsu, Kakade and Zhang (2009) learn HMMs from.
SEQUENCE_INSIDE: Final = ("rule", Feature("first-word", "inside", _first_word))
SEQUENCE_OUTSIDE: Final = (
    Feature("word-before", "outside", _word_before),
    Feature("word-behind", "outside", _word_behind),
)
