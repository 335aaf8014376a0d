"""A grammar laid out for the kernels, with the one-state grammar that prunes for it (`grammar.coarsen`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sapwood import kernels
from sapwood.grammar.coarsen import averaging_weights, coarsen
from sapwood.grammar.emissions import offsets_of, run_offsets
from sapwood.grammar.groups import rule_keys
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.contexts import Contexts, find_contexts
from sapwood.inference.phrase_labels import find_labels
from sapwood.shapes import Array, Float, Float32, Float64, Int32, Int64

# Coarse lexical weights never vanish where the fine grammar has a word.
_FLOOR = 1e-12
# Symbols that begin no more pairs than this are summed pair by pair in the coarse pass.
_FEW = 16
# Weights below this share of what their parent's state has in all are left out of pruned parsing.
_LEAST_SHARE = 1e-6
# The states of the version of a grammar between the coarse one and itself.
_LEVEL_STATES = 4


# The lexical weights of a word: coarse ones, `symbols` and `values`, and the states' under them, `vector(row, symbol)`,
# where row 0 is the grammar's own and those behind are its levels'. `fixed` is set where a given tag must hold.
Leaf: TypeAlias = Any  # kernels.Leaf


class PairTables(NamedTuple):
    """Pairs of coarse symbols by what they are worth; see `CoarseGrammar` in `src/native/inference/grammar.hpp`."""

    merit: Float32[Array, "pairs"]
    dense_row: Int32[Array, "coarse"]
    dense_merit: Float32[Array, "coarse dense"]
    pair_of_code: Int32[Array, "codes"]


@dataclass(frozen=True, eq=False, repr=False)
class CompiledGrammar:
    """Arrays that the kernels take; see `compile_grammar`.

    A coarse symbol's *vector* holds the states of all its fine symbols; the vectors of all coarse symbols stand one
    behind the other in `state_order`.
    """

    # The grammar has no weights of rules any more: they are here, in another order.
    grammar: TensorGrammar
    coarse: TensorGrammar
    dtype: type
    # Coarse symbols: the size of their vectors, their order in rows over all states, how frequent they are.
    vector_sizes: Int64[Array, "coarse"]
    symbol_offsets: Int64[Array, "coarse+1"]
    state_order: Int64[Array, "fine_states"]
    root: Float[Array, "all_states"]
    prior: Float[Array, "coarse"]
    # The coarse grammar's rules, grouped by pairs of children, pairs grouped by left child.
    rule_parent: Int32[Array, "coarse_rules"]
    rule_left: Int32[Array, "coarse_rules"]
    rule_right: Int32[Array, "coarse_rules"]
    rule_weight: Float[Array, "coarse_rules"]
    pair_offsets: Int64[Array, "coarse+1"]
    pair_right: Int32[Array, "pairs"]
    pair_rule_offsets: Int64[Array, "pairs+1"]
    pair_merit: Float[Array, "pairs"]
    # The coarse symbol of each symbol, and the fine rules of each coarse rule.
    coarse_of: Int32[Array, "symbols"]
    fine_offsets: Int64[Array, "coarse_rules+1"]
    fine_rule: Int64[Array, "rules"]
    fine_places: Int32[Array, "rules 3"]
    fine_states: Int32[Array, "rules 3"]
    tensor_offsets: Int64[Array, "rules+1"]
    tensors: Float[Array, "weights"]
    # From a dense row of lexical weights over preterminal states to coarse averages.
    leaf_average: Float64[Array, "leaf_states"]
    row_order: Int64[Array, "leaf_states"]
    # Coarser versions with the same symbols and rules, the coarsest first.
    levels: tuple[Level, ...] = ()

    def __repr__(self) -> str:
        return f"<CompiledGrammar: {self.grammar!r}, {self.n_coarse} coarse symbols>"

    @property
    def n_coarse(self) -> int:
        """Number of coarse symbols."""
        return len(self.coarse.symbols)

    def without_weights(self) -> CompiledGrammar:
        """Return what is left of symbols and rules if nothing is to be parsed: a small part of it."""
        return replace(self, grammar=self.coarse, tensors=self.tensors[:0].copy(), levels=())

    def leaf(self, row: Float[Array, "leaf_states"], *, fixed: bool = False) -> Leaf:
        """Return a word's lexical weights, given as a dense row over preterminal states, with their coarse averages."""
        leaf = kernels.leaf(self, np.ascontiguousarray(row, np.float64), self.dtype is np.float32, _FLOOR, fixed)
        for level in self.levels:
            kernels.add_level(leaf, level, self.symbol_offsets, level.compiled.symbol_offsets)
        return leaf

    @cached_property
    def native_coarse(self) -> Any:
        """The coarse grammar as the kernels have it."""
        native = kernels.coarse_grammar(
            self, self.pair_tables, self.contexts, find_labels(self.coarse), self.coarse.root, self.coarse.n_interminals
        )
        if (closing := self.grammar.closing) is not None:
            kernels.set_closing(native, closing.weights, closing.limit)
        return native

    @cached_property
    def native(self) -> Any:
        """The grammar's states and tensors as the kernels have them."""
        # Exact parsing leaves nothing out; weights with signs can cancel each other.
        exact = self.dtype is np.float64 or not self.grammar.probabilistic
        # The tensors stay as long as the grammar that refers to them.
        return kernels.fine_grammar(self, 0.0 if exact else _LEAST_SHARE, self.tensors)

    @cached_property
    def kinds(self) -> Int32[Array, "terminals"] | None:
        """The kind of each word, if the grammar closes cells by them."""
        closing = self.grammar.closing
        return None if closing is None else closing.kinds(self.grammar.lexicon)

    @cached_property
    def contexts(self) -> Contexts:
        """Which tags stand next to each coarse symbol."""
        return find_contexts(self.coarse)

    @cached_property
    def pair_tables(self) -> PairTables:
        """How much the coarse grammar's pairs are worth, for the coarse pass."""
        merit = self.pair_merit / self.pair_merit.max(initial=1e-300)
        merit = np.maximum(merit, 1e-30).astype(np.float32)
        begun = np.diff(self.pair_offsets)
        dense = np.flatnonzero(begun > _FEW)
        dense_row = np.full(self.n_coarse, -1, np.int32)
        dense_row[dense] = np.arange(len(dense))
        row = np.repeat(dense_row, begun)
        pairs = np.flatnonzero(row >= 0)
        row, right = row[pairs], self.pair_right[pairs]
        dense_merit = np.zeros((self.n_coarse, len(dense)), np.float32)
        dense_merit[right, row] = merit[pairs]
        dense_pair = np.full((len(dense), self.n_coarse), -1, np.int32)
        dense_pair[row, right] = pairs
        pair_of_code = np.concatenate([dense_pair.ravel(), np.arange(len(merit), dtype=np.int32)])
        return PairTables(merit, dense_row, dense_merit, pair_of_code)

    @cached_property
    def rule_numbers(self) -> dict[tuple[int, int, int], int]:
        """The number of each coarse rule."""
        triples = zip(self.rule_parent.tolist(), self.rule_left.tolist(), self.rule_right.tolist(), strict=True)
        return {triple: number for number, triple in enumerate(triples)}

    @cached_property
    def symbol_of_place(self) -> Int64[Array, "fine_states"]:
        """The fine symbol of each position in rows over all states."""
        by_state = np.repeat(np.arange(len(self.grammar.symbols)), self.grammar.states)
        return by_state[self.state_order]


class Level(NamedTuple):
    """A version of a grammar with fewer states, those of the finer one being put together in groups.

    `compiled` has the coarser tensors. Its row of lexical weights is that of the finer one times `shares`, added up at
    the places `target`, negative for states that are left out; both are in the order of rows.
    """

    compiled: CompiledGrammar
    target: Int64[Array, "fine_states"]
    shares: Float[Array, "fine_states"]


def _gather(target: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Return sums of values by their places, negative ones left out."""
    return np.bincount(target[target >= 0], weights=values[target >= 0], minlength=size)


def _make_level(compiled: CompiledGrammar, groups: np.ndarray) -> Level:
    """Return the version with each state's `groups` number among those of its symbol for its state; -1 drops it."""
    grammar = compiled.grammar
    symbol = np.repeat(np.arange(len(grammar.symbols)), grammar.states)
    counts = np.zeros(len(grammar.symbols), np.int64)
    np.maximum.at(counts, symbol, groups.astype(np.int64) + 1)
    layout = _lay_out_vectors(compiled.coarse_of, counts, compiled.n_coarse)
    target = np.where(groups >= 0, layout.begins[symbol] + groups, -1)
    # A state's share of its group, equal where none is expected.
    used = target >= 0
    occupancy = np.maximum(grammar.occupancy, 1e-300)
    shares = np.zeros(len(groups))
    shares[used] = occupancy[used] / np.bincount(target[used], weights=occupancy[used])[target[used]]
    rules = grammar.rules[compiled.fine_rule]
    sizes, new_sizes = grammar.states[rules].astype(np.int64), counts[rules]
    offsets = offsets_of(new_sizes.prod(axis=1))
    tensors = np.zeros(int(offsets[-1]))
    kernels.project_tensors(
        grammar.state_offsets[rules], sizes, compiled.tensor_offsets, compiled.tensors, groups.astype(np.int64), shares,
        new_sizes, offsets, tensors,
    )  # fmt: skip
    target, shares = target[compiled.state_order], shares[compiled.state_order]
    root = _gather(target, compiled.root.astype(float), int(layout.symbol_offsets[-1]))
    level = replace(
        compiled,
        vector_sizes=layout.vector_sizes,
        symbol_offsets=layout.symbol_offsets,
        root=root.astype(compiled.dtype),
        fine_places=layout.place[rules].astype(np.int32),
        fine_states=new_sizes.astype(np.int32),
        tensor_offsets=offsets,
        tensors=tensors.astype(compiled.dtype),
        levels=(),
    )
    return Level(level, target, shares.astype(compiled.dtype))


class _Vectors(NamedTuple):
    """Where the states of symbols stand: in rows (`begins`), and in the vectors of their coarse symbols (`place`)."""

    vector_sizes: np.ndarray
    symbol_offsets: np.ndarray
    begins: np.ndarray
    place: np.ndarray


def _lay_out_vectors(coarse_of: np.ndarray, states: np.ndarray, n_coarse: int) -> _Vectors:
    """Put symbols with these numbers of states in order: by coarse symbol, and by number within it."""
    order = np.argsort(coarse_of, kind="stable")
    vector_sizes = np.bincount(coarse_of, weights=states, minlength=n_coarse).astype(np.int64)
    symbol_offsets = offsets_of(vector_sizes)
    begins = np.empty(len(states), np.int64)
    begins[order] = np.cumsum(states[order]) - states[order]
    return _Vectors(vector_sizes, symbol_offsets, begins, begins - symbol_offsets[coarse_of])


def compile_grammar(grammar: TensorGrammar, dtype: type = np.float64) -> CompiledGrammar:
    """Lay a grammar and its coarse version out for the kernels, with fine weights in `dtype`."""
    coarse, coarse_of = coarsen(grammar)
    n_coarse = len(coarse.symbols)
    states = grammar.states.astype(np.int64)

    vectors = _lay_out_vectors(coarse_of, states, n_coarse)
    by_coarse = np.argsort(coarse_of, kind="stable")
    state_order = np.concatenate([np.arange(grammar.state_offsets[s], grammar.state_offsets[s + 1]) for s in by_coarse])

    a, b, c = (np.ascontiguousarray(coarse.rules[:, column]) for column in range(3))
    by_pair = np.lexsort((a, c, b))
    pair_key = b[by_pair].astype(np.int64) * n_coarse + c[by_pair]
    pairs, first = np.unique(pair_key, return_index=True)

    # Fine rules by coarse rule; their tensors in that order, so that a group's stand together.
    rank = np.empty(len(by_pair), np.int64)
    rank[by_pair] = np.arange(len(by_pair))
    projected = rank[np.searchsorted(rule_keys(coarse.rules, n_coarse), rule_keys(coarse_of[grammar.rules], n_coarse))]
    rule_order = np.argsort(projected, kind="stable")
    fine_counts = np.bincount(projected, minlength=len(by_pair))
    rules = grammar.rules[rule_order]
    tensor_offsets = offsets_of(np.diff(grammar.tensor_offsets)[rule_order])
    bounds = grammar.tensor_offsets
    pieces = [grammar.tensors[bounds[rule] : bounds[rule + 1]] for rule in rule_order.tolist()]
    tensors = np.concatenate([np.zeros(0, grammar.tensors.dtype), *pieces])

    prior = np.maximum(coarse.occupancy / max(coarse.occupancy.sum(), 1e-300), 1e-9)
    leaf_states = grammar.state_offsets[grammar.n_interminals]
    owner = coarse_of[grammar.n_interminals :][grammar.emissions.symbol_of_state]
    compiled = CompiledGrammar(
        grammar=replace(grammar, tensors=np.zeros(0, grammar.tensors.dtype)),
        coarse=coarse,
        dtype=dtype,
        vector_sizes=vectors.vector_sizes,
        symbol_offsets=vectors.symbol_offsets,
        state_order=state_order,
        root=grammar.root[state_order].astype(dtype),
        prior=prior,
        rule_parent=a[by_pair],
        rule_left=b[by_pair],
        rule_right=c[by_pair],
        rule_weight=coarse.tensors[by_pair],
        pair_offsets=run_offsets(pairs // n_coarse, n_coarse),
        pair_right=(pairs % n_coarse).astype(np.int32),
        pair_rule_offsets=np.append(first, len(pair_key)).astype(np.int64),
        pair_merit=np.maximum.reduceat((coarse.tensors * prior[a])[by_pair], first) if len(first) else np.zeros(0),
        coarse_of=coarse_of,
        fine_offsets=offsets_of(fine_counts),
        fine_rule=rule_order,
        fine_places=vectors.place[rules].astype(np.int32),
        fine_states=states[rules].astype(np.int32),
        tensor_offsets=tensor_offsets,
        tensors=tensors.astype(dtype, copy=False),
        leaf_average=averaging_weights(grammar, owner, n_coarse),
        row_order=state_order[vectors.symbol_offsets[coarse.n_interminals] :] - leaf_states,
    )
    levels = tuple(_make_level(compiled, groups) for groups in _useful_levels(grammar))
    return replace(compiled, levels=levels)


def _useful_levels(grammar: TensorGrammar) -> list[np.ndarray]:
    """Return the levels of a grammar that are worth a pass of their own; if it has none, groups of alike states."""
    if int(grammar.states.max()) < 2 * _LEVEL_STATES:
        return []
    known = [groups for groups in grammar.levels if int(groups.max()) + 1 == _LEVEL_STATES]
    if known or not grammar.probabilistic:
        return known
    found = kernels.group_states(
        grammar.rules, grammar.state_offsets, grammar.tensor_offsets, grammar.tensors, grammar.occupancy, _LEVEL_STATES
    )
    return [found]
