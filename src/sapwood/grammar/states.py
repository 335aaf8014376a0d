"""Other states for a grammar's symbols: another basis, fewer dimensions, or symbols put together as states of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from sapwood.errors import GrammarError
from sapwood.grammar.emissions import Emissions, offsets_of, run_offsets
from sapwood.grammar.groups import SymbolGroups, group_symbols
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.shapes import Array, Float, Float64, Int

# Weights of rules worked on at once.
_BATCH = 1 << 22


def rule_batches(
    rules: Int[Array, "rules 3"], states: Int[Array, "symbols"], new_states: Int[Array, "symbols"] | None = None
) -> Iterator[Int[Array, "batch"]]:
    """Yield numbers of rules whose symbols have as many `states` (and `new_states`), not too many at a time."""
    if not len(rules):
        return
    both = [states] if new_states is None else [states, new_states]
    shapes = np.concatenate([sizes[rules].astype(np.int64) for sizes in both], axis=1)
    _, which = np.unique(shapes, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    for run in np.split(order, np.flatnonzero(np.diff(which.ravel()[order])) + 1):
        step = max(1, _BATCH // int(shapes[run[0], :3].prod()))
        for begin in range(0, len(run), step):
            yield run[begin : begin + step]


def stacked_tensors(grammar: TensorGrammar, rules: Int[Array, "batch"]) -> Float64[Array, "batch m_a m_b m_c"]:
    """Return the tensors of rules of one shape."""
    shape = grammar.states[grammar.rules[rules[0]]].astype(np.int64)
    places = grammar.tensor_offsets[rules][:, None] + np.arange(int(shape.prod()))
    return grammar.tensors[places].astype(np.float64).reshape(len(rules), *shape)


def change_states(
    grammar: TensorGrammar, inside: Sequence[Float[Array, "m_a k_a"]], outside: Sequence[Float[Array, "m_a k_a"]]
) -> TensorGrammar:
    """Return the grammar over other states: inside vectors times `inside[a]`, outside vectors times `outside[a]`.

    With `inside[a].T @ outside[a]` the identity and `k_a = m_a` no tree's weight changes; with
    `k_a < m_a` the states are projected to fewer. A rule's tensor `T` becomes `T(inside_a, outside_b, outside_c)`.
    """
    sizes = [matrix.shape[1] for matrix in inside]
    fits = [(first.shape, second.shape) for first, second in zip(inside, outside, strict=True)]
    if fits != [((m, k), (m, k)) for m, k in zip(grammar.states, sizes, strict=True)] or min(sizes) < 1:
        raise GrammarError("new states take two matrices for each symbol, of a row for each of its states")
    states = np.array(sizes, np.int32)
    offsets = offsets_of(states[grammar.rules].astype(np.int64).prod(axis=1))
    tensors = np.zeros(int(offsets[-1]))
    for batch in rule_batches(grammar.rules, grammar.states, states):
        a, b, c = grammar.rules[batch].T
        changed = _contract(
            stacked_tensors(grammar, batch),
            np.stack([inside[s] for s in a]),
            np.stack([outside[s] for s in b]),
            np.stack([outside[s] for s in c]),
        ).reshape(len(batch), -1)
        tensors[offsets[batch][:, None] + np.arange(changed.shape[1])] = changed
    bounds = grammar.state_offsets
    parts = [slice(bounds[a], bounds[a + 1]) for a in range(len(grammar.symbols))]
    return replace(
        grammar,
        states=states,
        tensors=tensors,
        root=np.concatenate([grammar.root[part] @ matrix for part, matrix in zip(parts, outside, strict=True)]),
        occupancy=np.concatenate(
            [grammar.occupancy[part] @ matrix for part, matrix in zip(parts, outside, strict=True)]
        ),
        emissions=_change_emissions(grammar.emissions, inside[grammar.n_interminals :]),
        probabilistic=False,
        levels=(),
    )


def _contract(tensors: np.ndarray, first: np.ndarray, second: np.ndarray, third: np.ndarray) -> np.ndarray:
    """`T(M1, M2, M3)` of a stack of tensors, `(g, k_a, k_b, k_c)`."""
    g, m_a, m_b, m_c = tensors.shape
    k_a, k_b, k_c = (matrix.shape[2] for matrix in (first, second, third))
    half = np.matmul(first.transpose(0, 2, 1), tensors.reshape(g, m_a, m_b * m_c)).reshape(g, k_a, m_b, m_c)
    half = np.matmul(second.transpose(0, 2, 1)[:, None], half)  # g, k_a, k_b, m_c
    return np.asarray(np.matmul(half.reshape(g, k_a * k_b, m_c), third)).reshape(g, k_a, k_b, k_c)


def _change_emissions(emissions: Emissions, inside: Sequence[np.ndarray]) -> Emissions:
    """Return lexical vectors times the matrices of their preterminals, `(m_a, k_a)`."""
    old = emissions.separate()
    states = np.array([matrix.shape[1] for matrix in inside], np.int32)
    offsets = offsets_of(states[old.symbol])
    values = np.zeros(int(offsets[-1]))
    share = np.zeros(int(states.sum()))
    bounds, new_bounds = old.state_offsets, offsets_of(states)
    by_symbol = np.argsort(old.symbol, kind="stable")
    runs = run_offsets(old.symbol[by_symbol], len(states))
    for symbol, matrix in enumerate(inside):
        m, k = matrix.shape
        entries = by_symbol[runs[symbol] : runs[symbol + 1]]
        vectors = old.values[old.value_offsets[entries][:, None] + np.arange(m)]
        values[offsets[entries][:, None] + np.arange(k)] = vectors @ matrix
        share[new_bounds[symbol] : new_bounds[symbol + 1]] = old.share[bounds[symbol] : bounds[symbol + 1]] @ matrix
    return replace(old, states=states, values=values, share=share)


def merge_symbols(grammar: TensorGrammar, names: Sequence[str] | None = None) -> TensorGrammar:
    """Return the grammar over fewer symbols, whose states are those of all symbols that get the same name.

    By default symbols are named by their base: `NP^S` and `NP^VP` become states of `NP`, and a treebank grammar with
    annotations becomes one with hidden states. Trees then do not show what was merged; their weights are sums over it.
    Interminals and preterminals stay apart, whatever their names.
    """
    groups = group_symbols(grammar, names)
    group = groups.group
    order = np.argsort(group, kind="stable")
    states = np.bincount(group, weights=grammar.states, minlength=len(groups.symbols)).astype(np.int32)
    place = np.zeros(len(group), np.int64)
    place[order] = offsets_of(grammar.states[order])[:-1]
    place -= offsets_of(states)[group]
    moved = np.concatenate(
        [np.arange(grammar.state_offsets[symbol], grammar.state_offsets[symbol + 1]) for symbol in order]
    )
    return replace(
        grammar,
        symbols=groups.symbols,
        n_interminals=groups.n_interminals,
        states=states,
        rules=groups.rules,
        tensors=_merge_tensors(grammar, groups, place, states),
        rule_counts=np.bincount(groups.rule_of, grammar.rule_counts, len(groups.rules)).astype(float, copy=False),
        root=grammar.root[moved],
        occupancy=grammar.occupancy[moved],
        emissions=_merge_emissions(grammar, group, place, states, groups.n_interminals),
        levels=(),
    )


def _merge_tensors(grammar: TensorGrammar, groups: SymbolGroups, place: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return the tensors of rules over groups, put together from blocks."""
    sizes = states[groups.rules].astype(np.int64)
    offsets = offsets_of(sizes.prod(axis=1))
    tensors = np.zeros(int(offsets[-1]), grammar.tensors.dtype)
    for rule, new in enumerate(groups.rule_of):
        _, m_b, m_c = sizes[new]
        begin_a, begin_b, begin_c = place[grammar.rules[rule]]
        tensor = grammar.tensor(rule)
        target = tensors[offsets[new] : offsets[new + 1]].reshape(-1, m_b, m_c)
        end_a, end_b, end_c = np.array([begin_a, begin_b, begin_c]) + tensor.shape
        target[begin_a:end_a, begin_b:end_b, begin_c:end_c] = tensor
    return tensors


def _merge_emissions(
    grammar: TensorGrammar, group: np.ndarray, place: np.ndarray, states: np.ndarray, n_inner: int
) -> Emissions:
    """Return lexical vectors over groups of preterminals."""
    old = grammar.emissions.separate()
    leaf_group, leaf_place = group[grammar.n_interminals :] - n_inner, place[grammar.n_interminals :]
    new_states = states[n_inner:]
    tag_of = np.zeros(len(new_states), np.int32)
    tag_of[leaf_group] = old.tag_of
    if not np.array_equal(tag_of[leaf_group], old.tag_of):
        # What is shared by a tag cannot be shared by a group with several: all weights are written out.
        old = old.explicit()
        tag_of[:] = 0
    n_leaf = len(new_states)
    terminal = np.repeat(np.arange(old.lexicon.n_terminals), np.diff(old.offsets))
    keys, which = np.unique(terminal * n_leaf + leaf_group[old.symbol], return_inverse=True)
    symbol = (keys % n_leaf).astype(np.int32)
    offsets = offsets_of(new_states[symbol])
    sizes = old.states[old.symbol].astype(np.int64)
    begins = offsets[which.ravel()] + leaf_place[old.symbol]
    values = np.zeros(int(offsets[-1]), old.values.dtype)
    values[np.repeat(begins - offsets_of(sizes)[:-1], sizes) + np.arange(int(sizes.sum()))] = old.values
    share = np.zeros(int(new_states.sum()))
    at = np.repeat(offsets_of(new_states)[leaf_group] + leaf_place - old.state_offsets[:-1], old.states)
    share[at + np.arange(len(old.share))] = old.share
    return replace(
        old,
        states=new_states,
        offsets=run_offsets(keys // n_leaf, old.lexicon.n_terminals),
        symbol=symbol,
        values=values,
        tag_of=tag_of,
        share=share,
    )
