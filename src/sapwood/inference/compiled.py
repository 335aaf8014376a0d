"""A grammar laid out for the kernels, with the one-state grammar that prunes for it (`grammar.coarsen`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse

from sapwood.grammar.coarsen import averaging_weights, coarsen
from sapwood.grammar.tensor_grammar import TensorGrammar

# Coarse lexical weights never vanish where the fine grammar has a word.
_FLOOR = 1e-12


class Leaf(NamedTuple):
    """The lexical weights of a word: the dense row over all preterminal states, and the coarse ones, sparse."""

    row: np.ndarray
    symbols: np.ndarray
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class CompiledGrammar:
    """Arrays that the kernels take; see `compile_grammar`."""

    grammar: TensorGrammar
    coarse: TensorGrammar
    dtype: type
    # The fine grammar: rules grouped by parent.
    states: np.ndarray
    rule_offsets: np.ndarray
    rule_left: np.ndarray
    rule_right: np.ndarray
    tensor_offsets: np.ndarray
    tensors: np.ndarray
    root: np.ndarray
    root_offsets: np.ndarray
    # From fine to coarse and back.
    coarse_of: np.ndarray
    fine_offsets: np.ndarray
    fine_symbol: np.ndarray
    coarse_emission: scipy.sparse.csr_array
    coarse_presence: scipy.sparse.csr_array
    # The coarse grammar, rules grouped by parent, and by pairs of children grouped by left child.
    coarse_rule_offsets: np.ndarray
    coarse_rule_left: np.ndarray
    coarse_rule_right: np.ndarray
    pair_offsets: np.ndarray
    pair_right: np.ndarray
    pair_rule_offsets: np.ndarray
    pair_rule_parent: np.ndarray
    pair_rule_weight: np.ndarray

    @property
    def n_coarse(self) -> int:
        """Number of coarse symbols."""
        return len(self.coarse.symbols)

    def leaf(self, row: np.ndarray) -> Leaf:
        """Return a word's lexical weights with their coarse averages."""
        average = self.coarse_emission @ row
        symbols = np.flatnonzero(self.coarse_presence @ (row != 0))
        floor = max(float(average.max(initial=0.0)) * _FLOOR, 1e-300)
        return Leaf(row, symbols.astype(np.int32), np.maximum(average[symbols], floor))

    @cached_property
    def log_tensors(self) -> np.ndarray:
        """Logarithms of the rule weights, for Viterbi."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(np.maximum(self.tensors, 0))

    @cached_property
    def log_root(self) -> np.ndarray:
        """Logarithms of the root weights, for Viterbi."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(self.root, 0))


def compile_grammar(grammar: TensorGrammar, dtype: type = np.float64) -> CompiledGrammar:
    """Lay a grammar and its coarse version out for the kernels, with fine weights in `dtype`."""
    n_symbols = len(grammar.symbols)
    coarse, coarse_of = coarsen(grammar)
    n_coarse = len(coarse.symbols)
    fine_symbol = np.argsort(coarse_of, kind="stable").astype(np.int32)
    a, b, c = (np.ascontiguousarray(coarse.rules[:, column]) for column in range(3))
    by_pair = np.lexsort((a, c, b))
    pair_key = b[by_pair].astype(np.int64) * n_coarse + c[by_pair]
    pairs, first = np.unique(pair_key, return_index=True)
    owner = coarse_of[grammar.n_interminals :][grammar.emissions.symbol_of_state]
    weights = averaging_weights(grammar, owner, n_coarse)
    shape = (n_coarse, len(owner))
    return CompiledGrammar(
        grammar=grammar,
        coarse=coarse,
        dtype=dtype,
        states=grammar.states.astype(np.int32),
        rule_offsets=_run_offsets(grammar.rules[:, 0], n_symbols),
        rule_left=np.ascontiguousarray(grammar.rules[:, 1]),
        rule_right=np.ascontiguousarray(grammar.rules[:, 2]),
        tensor_offsets=grammar.tensor_offsets,
        tensors=grammar.tensors.astype(dtype),
        root=grammar.root.astype(dtype),
        root_offsets=grammar.state_offsets,
        coarse_of=coarse_of,
        fine_offsets=_run_offsets(coarse_of[fine_symbol], n_coarse),
        fine_symbol=fine_symbol,
        coarse_emission=scipy.sparse.csr_array((weights, (owner, np.arange(len(owner)))), shape=shape),
        coarse_presence=scipy.sparse.csr_array((np.ones(len(owner)), (owner, np.arange(len(owner)))), shape=shape),
        coarse_rule_offsets=_run_offsets(a, n_coarse),
        coarse_rule_left=b,
        coarse_rule_right=c,
        pair_offsets=_run_offsets(pairs // n_coarse, n_coarse),
        pair_right=(pairs % n_coarse).astype(np.int32),
        pair_rule_offsets=np.append(first, len(pair_key)).astype(np.int64),
        pair_rule_parent=a[by_pair],
        pair_rule_weight=coarse.tensors[by_pair],
    )


def _run_offsets(sorted_numbers: np.ndarray, size: int) -> np.ndarray:
    """Return where each number's run begins in a sorted array, `(size + 1,)`."""
    return np.searchsorted(sorted_numbers, np.arange(size + 1)).astype(np.int64)
