"""Weighted context-free grammars in Chomsky normal form (Rabusseau et al. 2016, section 4.1).

Rules are `a -> b c`, `a -> x` and `-> a` (roots), with any real weights. The weight of a derivation is the product of
the weights of its rules, once for each use, and the weight of a sentence is the sum over its derivations,

    f_G(w) = sum over derivations t of w of weight(t).

An automaton with one state per nonterminal has the same arrays: `root` is `alpha`, `binary` is `T` and the columns of
`lexical` are the vectors `omega_x`.

`WeightedGrammar.from_rules` brings other rules into this form without changing the weight of any sentence:

- `a -> b c d` becomes `a -> b @c+d` and `@c+d -> c d`, the second with weight 1 and shared by all rules with this end;
- a word among other symbols becomes a nonterminal of its own, `a -> b x` the two rules `a -> b @x` and `@x -> x`;
- rules `a -> b` are removed: with their weights in a matrix `U`, the nonterminals to which `a` can be rewritten by any
  number of them have the weights `(I - U)^{-1}(a, .)`, and `a` takes over their other rules with these weights.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from sapwood.automata.tensors import SparseTensor, Tensor, as_sparse
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.storage.shapes import Array, Float, Int

# Distance below 1 that the spectral radius of unary rules must have.
_MARGIN = 1e-9
# Kinds of rules and their number of symbols.
_AXES = {"root": 1, "binary": 3, "lexical": 2, "unary": 2}
# Names of new nonterminals are cut to this length.
_LONGEST_NAME = 60


class Symbol(NamedTuple):
    """A word or a nonterminal on the right-hand side of a rule."""

    name: str
    is_word: bool = False


class Rule(NamedTuple):
    """A rule of any shape, a root if `parent` is None; `place` is the file and line for messages."""

    parent: str | None
    children: tuple[Symbol, ...]
    weight: float
    place: str = ""

    def __str__(self) -> str:
        shown = [repr(name) if is_word else _shown(name) for name, is_word in self.children]
        return " ".join([*([] if self.parent is None else [_shown(self.parent)]), "->", *shown])


class UniqueNames:
    """Makes names unique by adding a number to those that are taken."""

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
    """Rules by kind, as numbers, with new nonterminals for rules that are not in Chomsky normal form.

    The new ones have the numbers -1, -2, ... until all others are known.
    """

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        # The numbers of the symbols of each kind's rules, concatenated, and the rules' weights.
        self._places = {kind: array("q") for kind in _AXES}
        self._weights = {kind: array("d") for kind in _AXES}
        # The new nonterminals' expansions: a word, or a pair of symbols.
        self._new: dict[str | tuple[int, int], int] = {}

    def add(self, rule: Rule) -> None:
        """Split a rule into parts and keep them."""
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
        """Return the names of all nonterminals, new ones at the end."""
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
        """Return the number of a child of a longer rule; for a word, that of its nonterminal."""
        number = self._number(name, is_word)
        if is_word and name not in self._new:
            self._new[name] = -1 - len(self._new)
            self._append("lexical", 1.0, self._new[name], number)
        return self._new[name] if is_word else number

    def _pair(self, left: int, right: int) -> int:
        """Return the number of the nonterminal for a pair of symbols."""
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

    Nonterminals that reach each other are solved for together, those below them first. So only cycles require a matrix
    inverse; all else is sums and products, and unreachable pairs are exactly zero.
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
            # The nonterminal itself, and the nonterminals reached by its rules that leave the group.
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


@dataclass(frozen=True, eq=False, repr=False)
class WeightedGrammar:
    """A weighted grammar.

    Attributes
    ----------
    nonterminals, words
        Their names, without duplicates. A word and a nonterminal may have the same name.
    binary
        The weight of `a -> b c` at `(a, b, c)`.
    lexical
        The weight of `a -> x` at `(a, x)`, without stored zeros.
    root
        The weight of `-> a`.

    Examples
    --------
    >>> from sapwood.automata.wcfg.wcfg import Rule, Symbol
    >>> dogs, sleep = Symbol("dogs", is_word=True), Symbol("sleep", is_word=True)
    >>> rules = [
    ...     Rule(None, (Symbol("S"),), 1.0),
    ...     Rule("S", (Symbol("N"), Symbol("V")), 0.75),
    ...     Rule("S", (Symbol("N"), Symbol("N"), sleep), 0.25),
    ...     Rule("N", (dogs,), 1.0),
    ...     Rule("V", (sleep,), 0.5),
    ... ]
    >>> grammar = WeightedGrammar.from_rules(rules)
    >>> grammar
    <WeightedGrammar: 5 nonterminals, 2 words, 6 rules>
    >>> grammar.weight(["dogs", "sleep"]), grammar.weight(["dogs", "dogs", "sleep"])
    (0.375, 0.25)
    """

    nonterminals: list[str]
    words: list[str]
    binary: SparseTensor
    lexical: scipy.sparse.csr_array
    root: Float[Array, "nonterminals"]

    def __post_init__(self) -> None:
        n, n_words = len(self.nonterminals), len(self.words)
        for kind, names in (("nonterminal", self.nonterminals), ("word", self.words)):
            if len(set(names)) < len(names):
                twice = Counter(names).most_common(1)[0][0]
                raise GrammarError(f"two {kind}s of a weighted grammar have the same name, {twice!r}")
        if not n:
            raise GrammarError("a weighted grammar needs at least one nonterminal")
        shapes = {"root": (n,), "binary": (n, n, n), "lexical": (n, n_words)}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise GrammarError(
                    f"the {name} weights of {n:,} nonterminals and {n_words:,} words have the shape {shape}, "
                    f"not {getattr(self, name).shape}"
                )
        lexical = self.lexical.astype(float)
        lexical.sum_duplicates()
        lexical.eliminate_zeros()
        # Canonical form, so that equal grammars have equal arrays: sorted, no stored zeros, no negative zeros.
        binary = SparseTensor.from_entries((n, n, n), self.binary.places, self.binary.values)
        object.__setattr__(self, "binary", binary)
        object.__setattr__(self, "lexical", lexical)
        object.__setattr__(self, "root", np.asarray(self.root, float) + 0.0)
        for name, values in (("root", self.root), ("binary", self.binary.values), ("lexical", self.lexical.data)):
            if not np.isfinite(values).all():
                raise GrammarError(f"the {name} weights of a weighted grammar must be finite numbers")

    @property
    def n_rules(self) -> int:
        """Number of rules `a -> b c` and `a -> x`."""
        return len(self.binary.values) + int(self.lexical.nnz)

    @cached_property
    def _word_numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def __repr__(self) -> str:
        sizes = f"{len(self.nonterminals):,} nonterminals, {len(self.words):,} words, {self.n_rules:,} rules"
        return f"<WeightedGrammar: {sizes}>"

    def __eq__(self, other: object) -> bool:
        """Compare names, their order, and weights to the last bit."""
        if not isinstance(other, WeightedGrammar):
            return NotImplemented
        pairs = [
            (self.root, other.root),
            (self.binary.places, other.binary.places),
            (self.binary.values, other.binary.values),
            (self.lexical.indptr, other.lexical.indptr),
            (self.lexical.indices, other.lexical.indices),
            (self.lexical.data, other.lexical.data),
        ]
        names = self.nonterminals == other.nonterminals and self.words == other.words
        return names and all(np.array_equal(ours, theirs) for ours, theirs in pairs)

    __hash__ = None  # type: ignore[assignment]

    def weight(self, sentence: Sequence[str]) -> float:
        """Return `f_G`, the sum of the weights of all derivations; 0 if a word is unknown or there is none.

        Numbers are not scaled: the weights of very long sentences can underflow.
        """
        if isinstance(sentence, str):
            raise UsageError("a sentence is a list of words, not one string; split it first")
        numbers = [self._word_numbers.get(word, -1) for word in sentence]
        if not numbers or min(numbers) < 0:
            return 0.0
        length, n = len(numbers), len(self.nonterminals)
        inside = np.zeros((length, length + 1, n))
        inside[np.arange(length), np.arange(1, length + 1)] = self.lexical[:, numbers].toarray().T
        above, left, right = self.binary.places.T
        for width in range(2, length + 1):
            for i in range(length - width + 1):
                j = i + width
                pairs = inside[i, i + 1 : j].T @ inside[i + 1 : j, j]  # summed over the splits
                inside[i, j] = np.bincount(above, self.binary.values * pairs[left, right], minlength=n)
        return float(inside[0, length] @ self.root)

    @classmethod
    def from_parts(
        cls,
        root: Sequence[float] | Float[Array, "..."],
        binary: Tensor,
        lexical: Sequence[Sequence[float]] | Float[Array, "..."] | scipy.sparse.sparray,
        words: Sequence[str],
        nonterminals: Sequence[str] | None = None,
    ) -> WeightedGrammar:
        """Build from the weights of an automaton.

        Without names the nonterminals are `Q0`, `Q1`, ... An automaton without states, which has the weight 0 for
        everything, becomes one nonterminal without rules.
        """
        root = np.asarray(root, float)
        if root.shape == (0,) and not nonterminals:
            root, binary, lexical = np.zeros(1), np.zeros((1, 1, 1)), np.zeros((1, len(words)))
        if nonterminals is None:
            nonterminals = [f"Q{number}" for number in range(root.size)]
        matrix: Any = lexical if scipy.sparse.issparse(lexical) else np.asarray(lexical, float)
        for name, axes, shape in (("binary", 3, binary.shape), ("lexical", 2, matrix.shape)):
            if len(shape) != axes:
                raise GrammarError(f"the {name} weights of a grammar have {axes} axes, not {len(shape)}")
        return cls(list(nonterminals), list(words), as_sparse(binary), scipy.sparse.csr_array(matrix), root)

    @classmethod
    def from_rules(cls, rules: Iterable[Rule]) -> WeightedGrammar:
        """Build from rules of any shape, see the module docstring; weights of the same rule are added.

        Nonterminals and words are in order of first occurrence, new nonterminals at the end. Raises `GrammarError` if
        the grammar has no root, a rule has an empty right-hand side, or unary rules have cycles whose weights do not
        converge absolutely.
        """
        table = RuleTable()
        for rule in rules:
            table.add(rule)
        nonterminals, words = table.names(), list(table.words)
        n = len(nonterminals)
        at, weights = table.arrays("root")
        if not len(at):
            raise GrammarError(
                "no root: add a rule '-> S' with its weight, a line such as '1.0 -> S', for a nonterminal S"
            )
        root = np.bincount(at[:, 0], weights, minlength=n)
        binary = SparseTensor.from_entries((n, n, n), *table.arrays("binary"))
        places, weights = table.arrays("lexical")
        lexical = scipy.sparse.csr_array((weights, tuple(places.T)), shape=(n, len(words)))
        places, weights = table.arrays("unary")
        if len(places):
            unary = scipy.sparse.csr_array((weights, tuple(places.T)), shape=(n, n))
            unary.eliminate_zeros()
            closure = unary_closure(unary, nonterminals)
            binary, lexical = contracted(closure, binary), closure @ lexical
        return cls(nonterminals, words, binary, lexical, root)

    @classmethod
    def from_tensor_grammar(cls, grammar: TensorGrammar) -> WeightedGrammar:
        """Build from a sapwood model: a nonterminal for each state of each symbol, a word for each terminal.

        Nonterminals are named `NP` or, if a symbol has several states, `NP_0`, `NP_1`, ...; preterminals that share
        their name with an interminal, `NP/tag`. Words are numbered as the lexicon's terminals, known words first, then
        signatures in angle brackets. So the model's probability of a sentence is the weight of
        `[weighted.words[t] for t in grammar.lexicon.terminals(sentence)]`.
        """
        names, terms = UniqueNames(), UniqueNames()
        inner = set(grammar.symbols[: grammar.n_interminals])
        nonterminals = []
        for number, symbol in enumerate(grammar.symbols):
            name = f"{symbol}/tag" if number >= grammar.n_interminals and symbol in inner else symbol
            states = int(grammar.states[number])
            nonterminals += [names.new(name if states == 1 else f"{name}_{state}") for state in range(states)]
        words = [terms.new(grammar.lexicon.name(terminal)) for terminal in range(grammar.lexicon.n_terminals)]
        n, first = len(nonterminals), int(grammar.state_offsets[grammar.n_interminals])
        columns = [
            scipy.sparse.csr_array(grammar.emissions.column(preterminal).T)
            for preterminal in range(len(grammar.symbols) - grammar.n_interminals)
        ]
        lexical = scipy.sparse.vstack([scipy.sparse.csr_array((first, len(words))), *columns], format="csr")
        return cls(nonterminals, words, _tensor_of(grammar, n), lexical, grammar.root)


def _tensor_of(grammar: TensorGrammar, n: int) -> SparseTensor:
    """Return the weights of all rules of a sapwood model, indexed by state, `(n, n, n)`."""
    at = np.flatnonzero(grammar.tensors)
    rule = np.searchsorted(grammar.tensor_offsets, at, side="right") - 1
    local = at - grammar.tensor_offsets[rule]
    _, second, third = grammar.states[grammar.rules[rule]].astype(np.int64).T
    states = np.column_stack([local // (second * third), local // third % second, local % third])
    places = grammar.state_offsets[grammar.rules[rule]] + states
    return SparseTensor.from_entries((n, n, n), places, grammar.tensors[at].astype(float))
