"""Checks that a grammar is what it says, with messages that name the symbol or rule at fault."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from sapwood import kernels
from sapwood.errors import GrammarError
from sapwood.shapes import Array, Float64

if TYPE_CHECKING:
    from sapwood.grammar.tensor_grammar import TensorGrammar


def validate(grammar: TensorGrammar, tolerance: float) -> None:
    """Raise `GrammarError` for the first thing that is wrong."""
    _check_shapes(grammar)
    _check_finite(grammar)
    if grammar.probabilistic:
        _check_probabilities(grammar, tolerance)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise GrammarError(message)


def _check_shapes(grammar: TensorGrammar) -> None:
    n_symbols, n_inner = len(grammar.symbols), grammar.n_interminals
    emissions = grammar.emissions
    _require(0 <= n_inner < n_symbols, f"{n_inner} interminals of {n_symbols} symbols: there must be preterminals")
    for part in (grammar.symbols[:n_inner], grammar.symbols[n_inner:]):
        name, times = Counter(part).most_common(1)[0] if part else ("", 0)
        _require(times <= 1, f"{name}: more than one symbol has this name")
    _require(grammar.states.shape == (n_symbols,), f"{len(grammar.states)} state counts for {n_symbols} symbols")
    short = np.flatnonzero(grammar.states < 1)
    _require(not len(short), f"{grammar.symbols[short[0]] if len(short) else ''} has no states")
    rules = grammar.rules
    _require(rules.ndim == 2 and rules.shape[1:] == (3,), f"rules have shape {rules.shape}, expected (rules, 3)")
    if len(rules):
        _require(bool(rules.min() >= 0 and rules.max() < n_symbols), "a rule names a symbol that does not exist")
        bad = np.flatnonzero(rules[:, 0] >= n_inner)
        _require(not len(bad), f"{grammar.rule_name(bad[0]) if len(bad) else ''}: a preterminal cannot be expanded")
        keys = (rules[:, 0].astype(np.int64) * n_symbols + rules[:, 1]) * n_symbols + rules[:, 2]
        wrong = np.flatnonzero(np.diff(keys) <= 0)
        _require(
            not len(wrong), f"{grammar.rule_name(wrong[0] + 1) if len(wrong) else ''}: rules are not sorted or repeated"
        )
    total = int(grammar.states.sum())
    size = int(grammar.tensor_offsets[-1])
    _require(grammar.tensors.shape == (size,), f"{len(grammar.tensors)} tensor weights, the rules need {size}")
    for name in ("root", "occupancy"):
        found = getattr(grammar, name).shape
        _require(found == (total,), f"{name} has shape {found}, expected ({total},)")
    _require(grammar.rule_counts.shape == (len(rules),), "rule_counts does not fit the rules")
    n_leaf, n_terminals = n_symbols - n_inner, emissions.lexicon.n_terminals
    same = np.array_equal(emissions.states, grammar.states[n_inner:])
    _require(same, "emissions: the preterminals have other state counts than in the grammar")
    leaf_states = int(emissions.states.sum())
    shapes = {
        "states": (emissions.states, n_leaf),
        "tag_of": (emissions.tag_of, n_leaf),
        "share": (emissions.share, leaf_states),
        "offsets": (emissions.offsets, n_terminals + 1),
        "tag_offsets": (emissions.tag_offsets, n_terminals + 1),
        "backoff": (emissions.backoff, n_terminals),
        "word_signature": (emissions.lexicon.word_signature, emissions.lexicon.n_words),
        "parent": (emissions.lexicon.parent, len(emissions.lexicon.signatures)),
        "climb": (emissions.climb, len(emissions.lexicon.signatures)),
    }
    for name, (array, length) in shapes.items():
        _require(array.shape == (length,), f"emissions: {name} has shape {array.shape}, expected ({length},)")
    for name, index, bound in (
        ("symbol", emissions.symbol, n_leaf),
        ("tag", emissions.tag, len(emissions.tags)),
        ("tag_of", emissions.tag_of, len(emissions.tags)),
        ("word_signature", emissions.lexicon.word_signature, len(emissions.lexicon.signatures)),
    ):
        _require(not len(index) or bool(index.min() >= 0 and index.max() < bound), f"emissions: {name} is out of range")
    inside = np.repeat(np.arange(len(grammar.states)), grammar.states)
    for level in grammar.levels:
        fits = level.shape == inside.shape and level.dtype.kind == "i" and bool((level >= -1).all())
        fits = fits and bool((level[grammar.state_offsets[:-1]] == 0).all())
        if fits:
            same = inside[1:] == inside[:-1]
            before, behind = level[:-1][same], level[1:][same]
            rising = (behind == before) | ((before >= 0) & (behind == before + 1))
            fits = bool((rising | (behind == -1)).all())
        _require(fits, "a level's groups are not numbered from 0 in the order of the states")
    if emissions.emitter is not None:
        emitter = emissions.emitter
        shape = emitter.shape == (n_leaf,) and bool((emitter >= 0).all() and (emitter < n_leaf).all())
        _require(
            shape
            and np.array_equal(emitter[emitter], emitter)
            and np.array_equal(emissions.states[emitter], emissions.states),
            "emissions: emitter does not fit the preterminals",
        )
    parent = emissions.lexicon.parent
    rising = bool(np.all(parent[:-1] > np.arange(len(parent) - 1)) and parent.max(initial=-1) == len(parent) - 1)
    _require(rising, "emissions: a signature does not come before its parent")
    for name, offsets, length in (
        ("offsets", emissions.offsets, len(emissions.symbol)),
        ("tag_offsets", emissions.tag_offsets, len(emissions.tag)),
    ):
        rising = offsets[0] == 0 and offsets[-1] == length and bool(np.all(np.diff(offsets) >= 0))
        _require(rising, f"emissions: {name} does not fit its entries")
    _require(emissions.values.shape == (int(emissions.value_offsets[-1]),), "emissions: values do not fit the states")
    _require(emissions.tag_values.shape == emissions.tag.shape, "emissions: tag_values do not fit the tags")


def _check_finite(grammar: TensorGrammar) -> None:
    # Looked for only where there are any: rule weights are many.
    if not np.isfinite(grammar.tensors.sum(dtype=np.float64)) and len(
        bad := np.flatnonzero(~np.isfinite(grammar.tensors))
    ):
        rule = int(np.searchsorted(grammar.tensor_offsets, bad[0], side="right")) - 1
        raise GrammarError(f"{grammar.rule_name(rule)}: a weight is not a finite number")
    emissions = grammar.emissions
    bad = np.flatnonzero(~np.isfinite(emissions.values))
    if len(bad):
        raise GrammarError(f"{_lexical_rule(grammar, int(bad[0]))}: a weight is not a finite number")
    for name, array in (
        ("root", grammar.root),
        ("occupancy", grammar.occupancy),
        ("rule count", grammar.rule_counts),
        ("share", emissions.share),
        ("back-off", emissions.backoff),
        ("climb", emissions.climb),
        ("tag", emissions.tag_values),
    ):
        _require(bool(np.isfinite(array).all()), f"a {name} weight is not a finite number")


def _check_probabilities(grammar: TensorGrammar, tolerance: float) -> None:
    if grammar.tensors.min(initial=0) < 0:
        negative = np.flatnonzero(grammar.tensors < 0)
        rule = int(np.searchsorted(grammar.tensor_offsets, negative[0], side="right")) - 1
        raise GrammarError(f"{grammar.rule_name(rule)}: a probability is negative")
    emissions = grammar.emissions
    negative = np.flatnonzero(grammar.root < 0)
    if len(negative):
        raise GrammarError(f"{_symbol_of_state(grammar, int(negative[0]))}: a root probability is negative")
    negative = np.flatnonzero(emissions.values < 0)
    if len(negative):
        raise GrammarError(f"{_lexical_rule(grammar, int(negative[0]))}: a probability is negative")
    for name, array in (
        ("share", emissions.share),
        ("back-off", emissions.backoff),
        ("climb", emissions.climb),
        ("tag", emissions.tag_values),
    ):
        _require(bool((array >= 0).all()), f"a {name} probability is negative")
    total = float(grammar.root.sum())
    _require(abs(total - 1) <= tolerance, f"root probabilities sum to {total:.9g}, not 1")
    offsets = grammar.state_offsets
    sums = np.zeros(offsets[-1])
    sums[: offsets[grammar.n_interminals]] = inner_sums(grammar)
    sums[offsets[grammar.n_interminals] :] = emissions.totals()
    wrong = np.flatnonzero(np.abs(sums - 1) > tolerance)
    if len(wrong):
        place = _symbol_of_state(grammar, int(wrong[0]))
        raise GrammarError(f"{place}: probabilities sum to {sums[wrong[0]]:.9g}, not 1")


def _symbol_of_state(grammar: TensorGrammar, flat: int) -> str:
    symbol = int(np.searchsorted(grammar.state_offsets, flat, side="right")) - 1
    return f"{grammar.symbols[symbol]}, state {flat - grammar.state_offsets[symbol]}"


def _lexical_rule(grammar: TensorGrammar, position: int) -> str:
    """Return `A -> word` for a position in `emissions.values`."""
    emissions = grammar.emissions
    entry = int(np.searchsorted(emissions.value_offsets, position, side="right")) - 1
    terminal = int(np.searchsorted(emissions.offsets, entry, side="right")) - 1
    name = grammar.symbols[grammar.n_interminals + emissions.symbol[entry]]
    return f"{name} -> {emissions.lexicon.name(terminal)}"


def inner_sums(grammar: TensorGrammar) -> Float64[Array, "inner_states"]:
    """Return the total weight of all rules of each interminal state."""
    sums = np.zeros(int(grammar.state_offsets[-1]))
    kernels.row_totals(grammar, 0, len(grammar.rules), grammar.tensors, sums)
    return sums[: grammar.state_offsets[grammar.n_interminals]]
