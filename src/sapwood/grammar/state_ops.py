"""State operations: change of basis, projection, merging of states or symbols, pruning, half precision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from sapwood import kernels
from sapwood.errors import GrammarError
from sapwood.grammar.emissions import Emissions, offsets_of, run_offsets
from sapwood.grammar.io.codec import to_halves
from sapwood.grammar.symbol_groups import SymbolGroups, group_symbols
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.storage.shapes import Array, Float, Float64, Int

# Maximum number of rule weights in a batch.
_BATCH = 1 << 22
# Share of its largest weight above which a rule keeps weights, however small.
_FAR = 0.1


def rule_batches(
    rules: Int[Array, "rules 3"], states: Int[Array, "symbols"], new_states: Int[Array, "symbols"] | None = None
) -> Iterator[Int[Array, "batch"]]:
    """Yield batches of rules whose symbols have the same number of `states` (and `new_states`)."""
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
    """Change the states of a grammar: inside vectors times `inside[a]`, outside vectors times `outside[a]`.

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
    """Return `T(M1, M2, M3)` for a stack of tensors, `(g, k_a, k_b, k_c)`."""
    g, m_a, m_b, m_c = tensors.shape
    k_a, k_b, k_c = (matrix.shape[2] for matrix in (first, second, third))
    half = np.matmul(first.transpose(0, 2, 1), tensors.reshape(g, m_a, m_b * m_c)).reshape(g, k_a, m_b, m_c)
    half = np.matmul(second.transpose(0, 2, 1)[:, None], half)  # g, k_a, k_b, m_c
    return np.asarray(np.matmul(half.reshape(g, k_a * k_b, m_c), third)).reshape(g, k_a, k_b, k_c)


def _change_emissions(emissions: Emissions, inside: Sequence[np.ndarray]) -> Emissions:
    """Multiply lexical vectors by the matrices of their preterminals, `(m_a, k_a)`."""
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
    """Merge symbols that get the same name; the states of the new symbol are those of all of them.

    By default symbols are named by their base: `NP^S` and `NP^VP` become states of `NP`, and a treebank grammar with
    annotations becomes one with hidden states. Trees then do not show the merged annotation; their weights are sums
    over it. Interminals and preterminals are never merged with each other.
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
    """Return the tensors of rules over groups, assembled from blocks."""
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
        # Weights shared by a tag cannot be shared by a group with several tags: all weights are written out.
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


def merge_states(grammar: TensorGrammar, groups: Int[Array, "all_states"]) -> TensorGrammar:
    """Merge states of a probabilistic grammar: state `z` becomes state `groups[z]` of its symbol.

    Rules and words of a group are the means of its members', weighted by expected counts; transitions into any of them
    lead to the group. That is the closest grammar (in relative entropy of rules) with these states, non-negative and at
    least as sparse. Preterminals that share an emitter must have the same groups.
    """
    groups = np.asarray(groups, np.int64)
    symbol = np.repeat(np.arange(len(grammar.symbols)), grammar.states)
    states = np.zeros(len(grammar.symbols), np.int64)
    np.maximum.at(states, symbol, groups + 1)
    target = offsets_of(states)[symbol] + groups
    if len(groups) != len(symbol) or groups.min() < 0 or not np.bincount(target, minlength=int(states.sum())).all():
        raise GrammarError("groups of states are numbered from 0 for each symbol, and none is empty")
    sizes = states[grammar.rules]
    offsets = offsets_of(sizes.prod(axis=1))
    tensors = np.zeros(int(offsets[-1]))
    kernels.project_tensors(
        grammar.state_offsets[grammar.rules], grammar.states[grammar.rules].astype(np.int64), grammar.tensor_offsets,
        grammar.tensors, groups, _shares(grammar.occupancy, target), sizes, offsets, tensors,
    )  # fmt: skip
    first = grammar.state_offsets[grammar.n_interminals]
    return replace(
        grammar,
        states=states.astype(np.int32),
        tensors=tensors.astype(grammar.tensors.dtype),
        root=np.bincount(target, weights=grammar.root),
        occupancy=np.bincount(target, weights=grammar.occupancy),
        emissions=_join_emissions(
            grammar.emissions, grammar.occupancy[first:], groups[first:], states[grammar.n_interminals :]
        ),
        levels=(),
    )


def _shares(occupancy: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the share of each state in its group, uniform where none is expected."""
    often = np.maximum(occupancy, 1e-300)
    return np.asarray(often / np.bincount(target, weights=often)[target])


def _join_emissions(old: Emissions, occupancy: np.ndarray, groups: np.ndarray, states: np.ndarray) -> Emissions:
    """Return lexical vectors over groups of states: means weighted by expected counts of the emitter's states."""
    target = offsets_of(states)[old.symbol_of_state] + groups
    if old.emitter is not None:
        if not (np.array_equal(states, states[old.emitter]) and np.array_equal(groups, groups[old.emitting_state])):
            raise GrammarError("preterminals that share an emitter must have the same groups of states")
        occupancy = np.bincount(old.emitting_state, weights=occupancy, minlength=len(occupancy))
    shares = _shares(occupancy, target)
    sizes = old.states[old.symbol].astype(np.int64)
    state = np.repeat(old.state_offsets[old.symbol] - old.value_offsets[:-1], sizes) + np.arange(len(old.values))
    offsets = offsets_of(states[old.symbol])
    place = np.repeat(offsets[:-1], sizes) + groups[state]
    return replace(
        old,
        states=states.astype(np.int32),
        values=np.bincount(place, weights=shares[state] * old.values, minlength=int(offsets[-1])),
        share=np.bincount(target, weights=shares * old.share, minlength=int(states.sum())),
    )


def drop_weights(grammar: TensorGrammar, least: float) -> TensorGrammar:
    """Prune rule probabilities below `least` from a probabilistic grammar and renormalise each state.

    Rare rules keep the weights that are not far below their largest, so that trees which have them stay possible, and a
    state that would lose all its weights keeps them.

    Examples
    --------
    >>> from sapwood.model.installed import default_model_path
    >>> grammar = TensorGrammar.load(default_model_path())
    >>> bool(np.count_nonzero(drop_weights(grammar, 1e-4).tensors) < np.count_nonzero(grammar.tensors))
    True
    """
    if not len(grammar.tensors):
        return grammar
    sizes = grammar.states[grammar.rules].astype(np.int64)
    largest = np.maximum.reduceat(grammar.tensors, grammar.tensor_offsets[:-1])
    limit = np.repeat(np.minimum(least, _FAR * largest), np.diff(grammar.tensor_offsets))
    # A row has the weights of a rule for one state of its parent.
    rows = offsets_of(sizes[:, 0])
    parent = np.repeat(grammar.state_offsets[grammar.rules[:, 0]] - rows[:-1], sizes[:, 0]) + np.arange(rows[-1])
    width = np.repeat(sizes[:, 1] * sizes[:, 2], sizes[:, 0])
    kept = np.where(grammar.tensors >= limit, grammar.tensors, 0).astype(np.float64)
    totals = np.bincount(parent, np.add.reduceat(kept, offsets_of(width)[:-1]), len(grammar.root))
    alive = totals > 0
    kept = np.where(np.repeat(alive[parent], width), kept, grammar.tensors)
    kept /= np.repeat(np.where(alive, totals, 1.0)[parent], width)
    return replace(grammar, tensors=kept.astype(grammar.tensors.dtype))


def quantise(grammar: TensorGrammar) -> TensorGrammar:
    """Round rule and lexical weights of a probabilistic grammar to half precision, two bytes each in files.

    The relative error of each weight is at most 5e-4, and so is that of sums to 1.
    """
    return replace(grammar, tensors=to_halves(grammar.tensors), emissions=grammar.emissions.in_halves())
