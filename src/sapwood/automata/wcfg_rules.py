"""Rules of any shape on their way to Chomsky normal form; see `sapwood.automata.wcfg` for how it is done."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from graphlib import TopologicalSorter
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from sapwood.automata.tensors import SparseTensor
from sapwood.errors import GrammarError
from sapwood.shapes import Array, Float, Int

# How far below 1 the spectral radius of unary rules must be.
_MARGIN = 1e-9
# Kinds of rules and how many symbols each has.
_AXES = {"root": 1, "binary": 3, "lexical": 2, "unary": 2}
# Names of new nonterminals are cut to this length.
_LONGEST_NAME = 60


class Symbol(NamedTuple):
    """A word or a nonterminal on the right-hand side of a rule."""

    name: str
    is_word: bool = False


class Rule(NamedTuple):
    """A rule of any shape, a root if `parent` is None; `place`, file and line, is for messages."""

    parent: str | None
    children: tuple[Symbol, ...]
    weight: float
    place: str = ""

    def __str__(self) -> str:
        shown = [repr(name) if is_word else _shown(name) for name, is_word in self.children]
        return " ".join([*([] if self.parent is None else [_shown(self.parent)]), "->", *shown])


class UniqueNames:
    """Gives out names, with a number behind those that are taken."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}

    def new(self, wanted: str) -> str:
        """Return a name that is not taken yet: `wanted`, or `wanted_2` and so on."""
        name = wanted
        while name in self._taken:
            self._counts[wanted] = self._counts.get(wanted, 1) + 1
            name = f"{wanted}_{self._counts[wanted]}"
        self._taken.add(name)
        return name


class RuleTable:
    """Rules by kind, in numbers, with new nonterminals for what Chomsky normal form has no place for.

    The new ones have the numbers -1, -2, ... until all others are known.
    """

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        # The numbers of the symbols of each kind's rules, one rule behind the other, and the rules' weights.
        self._places = {kind: array("q") for kind in _AXES}
        self._weights = {kind: array("d") for kind in _AXES}
        # What the new nonterminals stand for: a word, or two others in a row.
        self._new: dict[str | tuple[int, int], int] = {}

    def add(self, rule: Rule) -> None:
        """Take a rule apart and keep its parts."""
        parent, children, weight, _ = rule
        if not isfinite(weight):
            raise _refused(rule, f"its weight {weight} is not a finite number")
        if not children:
            raise _refused(
                rule, "empty right-hand sides are not read; write the rules it is used in without it as well"
            )
        if parent is None:
            if len(children) > 1 or children[0].is_word:
                raise _refused(rule, "a root is one nonterminal")
            self._append("root", weight, self._number(*children[0]))
            return
        above = self._number(parent, False)
        if len(children) == 1:
            self._append("lexical" if children[0].is_word else "unary", weight, above, self._number(*children[0]))
            return
        first, *middle, last = [self._child(*child) for child in children]
        for child in reversed(middle):
            last = self._pair(child, last)
        self._append("binary", weight, above, first, last)

    def names(self) -> list[str]:
        """Return the names of all nonterminals, new ones behind."""
        names, taken = list(self._numbers), UniqueNames(self._numbers)
        for meaning in self._new:
            parts = [meaning] if isinstance(meaning, str) else [names[self._final(number)] for number in meaning]
            name = "@" + "+".join(part.removeprefix("@") for part in parts)
            names.append(taken.new(name[:_LONGEST_NAME]))
        return names

    def arrays(self, kind: str) -> tuple[Int[Array, "rules axes"], Float[Array, "rules"]]:
        """Return the numbers of the symbols and the weights of one kind of rules."""
        places = np.array(self._places[kind], np.int64).reshape(-1, _AXES[kind])
        return self._final(places), np.array(self._weights[kind])

    def _final(self, number: Any) -> Any:
        return np.where(number < 0, len(self._numbers) - 1 - number, number)

    def _append(self, kind: str, weight: float, *place: int) -> None:
        self._places[kind].extend(place)
        self._weights[kind].append(weight)

    def _number(self, name: str, is_word: bool) -> int:
        numbers = self.words if is_word else self._numbers
        return numbers.setdefault(name, len(numbers))

    def _child(self, name: str, is_word: bool) -> int:
        """Return the number of a child of a longer rule, of a word that of the nonterminal that stands for it."""
        number = self._number(name, is_word)
        if is_word and name not in self._new:
            self._new[name] = -1 - len(self._new)
            self._append("lexical", 1.0, self._new[name], number)
        return self._new[name] if is_word else number

    def _pair(self, left: int, right: int) -> int:
        """Return the number of the nonterminal that stands for two others in a row."""
        if (left, right) not in self._new:
            self._new[left, right] = -1 - len(self._new)
            self._append("binary", 1.0, self._new[left, right], left, right)
        return self._new[left, right]


def _shown(name: str) -> str:
    return name if name and name.isprintable() else repr(name)


def _refused(rule: Rule, problem: str) -> GrammarError:
    return GrammarError(f"{rule.place}{': ' if rule.place else ''}{rule}: {problem}")


def unary_closure(unary: scipy.sparse.csr_array, names: Sequence[str]) -> scipy.sparse.csr_array:
    """Return `(I - U)^{-1}`, `(N, N)`.

    Nonterminals that reach each other are solved for together, those below them first. So only cycles need a matrix
    to be inverted; all else is sums and products, and what cannot be reached is exactly zero.
    """
    n = len(names)
    n_groups, group = connected_components(unary, connection="strong")
    members: list[list[int]] = [[] for _ in range(n_groups)]
    for number, its_group in enumerate(group.tolist()):
        members[its_group].append(number)
    below: dict[int, set[int]] = {number: set() for number in range(n_groups)}
    cyclic: set[int] = set()
    for above, child in zip(*(group[places].tolist() for places in unary.nonzero()), strict=True):
        if above != child:
            below[above].add(child)
        else:
            cyclic.add(above)
    rows: dict[int, dict[int, float]] = {}
    for its_group in TopologicalSorter(below).static_order():
        ours = members[its_group]
        for number in ours:
            # The nonterminal itself, and what its rules that leave the group lead to.
            rows[number] = {number: 1.0}
            for at in range(unary.indptr[number], unary.indptr[number + 1]):
                child = int(unary.indices[at])
                if group[child] != its_group:
                    _add(rows[number], float(unary.data[at]), rows[child])
        if its_group in cyclic:
            inverse = _geometric_sum(unary[ours][:, ours].toarray(), [_shown(names[number]) for number in ours])
            mixed: list[dict[int, float]] = [{} for _ in ours]
            for row, factors in zip(mixed, inverse.tolist(), strict=True):
                for factor, number in zip(factors, ours, strict=True):
                    _add(row, factor, rows[number])
            rows.update(zip(ours, mixed, strict=True))
    indptr = np.cumsum([0, *(len(rows[number]) for number in range(n))])
    indices = np.array([column for number in range(n) for column in rows[number]], np.int64)
    data = np.array([value for number in range(n) for value in rows[number].values()])
    return scipy.sparse.csr_array((data, indices, indptr), shape=(n, n))


def _add(row: dict[int, float], factor: float, other: Mapping[int, float]) -> None:
    for column, value in other.items():
        row[column] = row.get(column, 0.0) + factor * value


def _geometric_sum(block: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Return `I + U + U^2 + ...` of the unary rules of nonterminals that reach each other."""
    if np.isfinite(block).all():
        radius = float(np.abs(np.linalg.eigvals(np.abs(block))).max())
        if radius < 1 - _MARGIN:
            return np.linalg.inv(np.eye(len(block)) - block)
    else:
        radius = float("inf")
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    raise GrammarError(
        f"the unary rules among {shown} go round in cycles whose weights do not sum up (the spectral radius of their "
        f"absolute values is {radius:.6g}, not below 1); give them smaller weights, or leave a rule of each cycle out"
    )


def contracted(closure: scipy.sparse.csr_array, tensor: SparseTensor) -> SparseTensor:
    """Return `sum over d of C(a, d) T(d, b, c)`."""
    pairs, which = tensor.pairs
    matrix = scipy.sparse.csr_array((tensor.values, (tensor.places[:, 0], which)), (tensor.shape[0], len(pairs)))
    product = (closure @ matrix).tocoo()
    places = np.column_stack([product.coords[0], pairs[product.coords[1]]])
    return SparseTensor.from_entries(tensor.shape, places, product.data)
