"""Compiled grammar: arrays for the kernels, with the one-state grammar that prunes for it (`grammar.coarsen`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sapwood import kernels
from sapwood.grammar.coarsen import averaging_weights, coarsen
from sapwood.grammar.emissions import offsets_of, run_offsets
from sapwood.grammar.symbol_groups import rule_keys
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.chart.boundary_model import BoundaryModel, compute_boundary_model
from sapwood.model.cell_pruner import CellPruner
from sapwood.storage.shapes import Array, Float, Float32, Float64, Int32, Int64

# Minimum of the coarse lexical weights where the fine grammar has the word.
_FLOOR = 1e-12
# Symbols that begin at most this many pairs are summed pair by pair in the coarse pass.
_FEW = 16
# Weights below this share of the total of their parent's state are skipped in pruned parsing.
_LEAST_SHARE = 1e-6
# Number of states of the level between the coarse grammar and the full one.
_LEVEL_STATES = 4


# Lexical weights of a word: coarse ones, `symbols` and `values`, and those of the states, `vector(row, symbol)`, where
# row 0 is the grammar's own and the following ones those of its levels. `fixed` is set if the tag is given.
Leaf: TypeAlias = kernels.Leaf


class PairTables(NamedTuple):
    """Pairs of coarse symbols by weight; see `CoarseGrammar` in `src/native/chart/grammar.hpp`."""

    merit: Float32[Array, "pairs"]
    dense_row: Int32[Array, "coarse"]
    dense_merit: Float32[Array, "coarse dense"]
    pair_of_code: Int32[Array, "codes"]


@dataclass(frozen=True, eq=False, repr=False)
class CompiledGrammar:
    """Arrays for the kernels; see `compile_grammar`.

    The *vector* of a coarse symbol holds the states of all its fine symbols; the vectors of all coarse symbols are
    concatenated in `state_order`.
    """

    # Grammar without rule weights, which are stored here in another order.
    grammar: TensorGrammar
    coarse: TensorGrammar
    dtype: type
    # Coarse symbols: the size of their vectors, their order in rows over all states, their frequency.
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
    # Coarse symbol of each symbol, and fine rules of each coarse rule.
    coarse_of: Int32[Array, "symbols"]
    fine_offsets: Int64[Array, "coarse_rules+1"]
    fine_rule: Int64[Array, "rules"]
    fine_places: Int32[Array, "rules 3"]
    fine_states: Int32[Array, "rules 3"]
    tensor_offsets: Int64[Array, "rules+1"]
    tensors: Float[Array, "weights"]
    # Map from a dense row of lexical weights over preterminal states to coarse averages.
    leaf_average: Float64[Array, "leaf_states"]
    row_order: Int64[Array, "leaf_states"]
    # Levels with the same symbols and rules but fewer states, the coarsest first.
    levels: tuple[Level, ...] = ()
    # Chart-cell pruner, applied before any rule.
    cell_pruner: CellPruner | None = None

    def __repr__(self) -> str:
        return f"<CompiledGrammar: {self.grammar!r}, {self.n_coarse} coarse symbols>"

    @property
    def n_coarse(self) -> int:
        """Number of coarse symbols."""
        return len(self.coarse.symbols)

    def without_weights(self) -> CompiledGrammar:
        """Return a copy with symbols and rules only, which cannot parse and is much smaller."""
        return replace(self, grammar=self.coarse, tensors=self.tensors[:0].copy(), levels=(), cell_pruner=None)

    def leaf(self, row: Float[Array, "leaf_states"], *, fixed: bool = False) -> Leaf:
        """Return the lexical weights of a word, a dense row over preterminal states, with their coarse averages."""
        leaf = kernels.leaf(self, np.ascontiguousarray(row, np.float64), self.dtype is np.float32, _FLOOR, fixed)
        for level in self.levels:
            kernels.add_level(leaf, level, self.symbol_offsets, level.compiled.symbol_offsets)
        return leaf

    @cached_property
    def native_coarse(self) -> kernels.CoarseGrammar:
        """Coarse grammar as a kernel object."""
        native = kernels.coarse_grammar(
            self,
            self.pair_tables,
            self.boundary_model,
            find_labels(self.coarse),
            self.coarse.root,
            self.coarse.n_interminals,
        )
        if self.cell_pruner is not None:
            kernels.set_cell_pruner(native, self.cell_pruner.weights, self.cell_pruner.threshold)
        return native

    @cached_property
    def native(self) -> Any:
        """States and tensors of the grammar as a kernel object."""
        # Exact parsing skips nothing; signed weights can cancel out.
        exact = self.dtype is np.float64 or not self.grammar.probabilistic
        # The tensors live as long as the grammar that refers to them.
        return kernels.fine_grammar(self, 0.0 if exact else _LEAST_SHARE, self.tensors)

    @cached_property
    def word_ids(self) -> Int32[Array, "terminals"] | None:
        """Word class of each word for cell pruning; None without a cell pruner."""
        return None if self.cell_pruner is None else self.cell_pruner.word_ids(self.grammar.lexicon)

    @cached_property
    def boundary_model(self) -> BoundaryModel:
        """Boundary model: tags next to each coarse symbol."""
        return compute_boundary_model(self.coarse)

    @cached_property
    def pair_tables(self) -> PairTables:
        """Weights of the coarse grammar's pairs, for the coarse pass."""
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
        """Index of each coarse rule."""
        triples = zip(self.rule_parent.tolist(), self.rule_left.tolist(), self.rule_right.tolist(), strict=True)
        return {triple: number for number, triple in enumerate(triples)}

    @cached_property
    def symbol_of_place(self) -> Int64[Array, "fine_states"]:
        """Fine symbol of each position in rows over all states."""
        by_state = np.repeat(np.arange(len(self.grammar.symbols)), self.grammar.states)
        return by_state[self.state_order]


class Level(NamedTuple):
    """Level: a version of a grammar with fewer states, each of which is a group of finer states.

    `compiled` has the coarser tensors. Its row of lexical weights is that of the finer one times `shares`, summed at
    the positions `target` (negative for dropped states); both are in the order of rows.
    """

    compiled: CompiledGrammar
    target: Int64[Array, "fine_states"]
    shares: Float[Array, "fine_states"]


def _gather(target: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Return sums of values by position; negative positions are skipped."""
    return np.bincount(target[target >= 0], weights=values[target >= 0], minlength=size)


def _make_level(compiled: CompiledGrammar, groups: np.ndarray) -> Level:
    """Return the level in which the state is `groups` (index within the symbol) of each finer state; -1 drops it."""
    grammar = compiled.grammar
    symbol = np.repeat(np.arange(len(grammar.symbols)), grammar.states)
    counts = np.zeros(len(grammar.symbols), np.int64)
    np.maximum.at(counts, symbol, groups.astype(np.int64) + 1)
    layout = _lay_out_vectors(compiled.coarse_of, counts, compiled.n_coarse)
    target = np.where(groups >= 0, layout.begins[symbol] + groups, -1)
    # Share of a state in its group; uniform where none is expected.
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
    """Offsets of the symbols' states in rows (`begins`) and in the vectors of their coarse symbols (`place`)."""

    vector_sizes: np.ndarray
    symbol_offsets: np.ndarray
    begins: np.ndarray
    place: np.ndarray


def _lay_out_vectors(coarse_of: np.ndarray, states: np.ndarray, n_coarse: int) -> _Vectors:
    """Order symbols with the given numbers of states by coarse symbol, then by index."""
    order = np.argsort(coarse_of, kind="stable")
    vector_sizes = np.bincount(coarse_of, weights=states, minlength=n_coarse).astype(np.int64)
    symbol_offsets = offsets_of(vector_sizes)
    begins = np.empty(len(states), np.int64)
    begins[order] = np.cumsum(states[order]) - states[order]
    return _Vectors(vector_sizes, symbol_offsets, begins, begins - symbol_offsets[coarse_of])


def compile_grammar(
    grammar: TensorGrammar, dtype: type = np.float64, cell_pruner: CellPruner | None = None
) -> CompiledGrammar:
    """Compile a grammar and its coarse version for the kernels, with fine weights in `dtype`."""
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

    # Fine rules by coarse rule, with tensors in the same order, so that those of a group are contiguous.
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
        cell_pruner=cell_pruner,
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
    """Return the levels of a grammar that are worth a pass of their own; if it has none, groups of similar states."""
    if int(grammar.states.max()) < 2 * _LEVEL_STATES:
        return []
    known = [groups for groups in grammar.levels if int(groups.max()) + 1 == _LEVEL_STATES]
    if known or not grammar.probabilistic:
        return known
    found = kernels.cluster_states(
        grammar.rules, grammar.state_offsets, grammar.tensor_offsets, grammar.tensors, grammar.occupancy, _LEVEL_STATES
    )
    return [found]


class PhraseLabels(NamedTuple):
    """Label indices of each symbol, for the phrases that `f1` decoding counts.

    Those of tags follow the first `phrases` of `total`. A node of a symbol `S|VP` is two phrases over the same words,
    an intermediate node none, a preterminal `NP|NN` the phrase `NP` and the tag `NN`. The second `NP` of a chain
    `NP|SBAR|NP` is a different phrase from the first.
    """

    offsets: Int64[Array, "symbols+1"]
    labels: Int32[Array, "uses"]
    phrases: int
    total: int


def find_labels(coarse: TensorGrammar) -> PhraseLabels:
    """Return the phrase labels of each symbol."""
    symbols, phrases, tags = coarse.symbols, dict[tuple[str, int], int](), dict[str, int]()
    rows: list[list[int]] = []
    for symbol, chain in enumerate(symbols.chain):
        leaf, seen, row = symbol >= coarse.n_interminals, Counter[str](), []
        for label in chain[: len(chain) - leaf]:
            row.append(phrases.setdefault((label, seen[label]), len(phrases)))
            seen[label] += 1
        # Indices of tags are negative until the number of phrases is known.
        rows.append([*row, -1 - tags.setdefault(symbols.tags[symbol], len(tags))] if leaf else row)
    numbers = np.array([number for row in rows for number in row], np.int32)
    numbers[numbers < 0] = len(phrases) - 1 - numbers[numbers < 0]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return PhraseLabels(offsets, numbers, len(phrases), len(phrases) + len(tags))
