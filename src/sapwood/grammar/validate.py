"""Validation of a grammar, with messages that name the symbol or rule at fault."""

from __future__ import annotations

from collections import Counter

import numpy as np

from sapwood import kernels
from sapwood.errors import GrammarError, ModelError
from sapwood.grammar.emissions import Emissions
from sapwood.grammar.tensor_grammar import GRAMMAR, TensorGrammar, weights_of
from sapwood.storage.shapes import Array, Float64


def validate(grammar: TensorGrammar, tolerance: float) -> None:
    """Raise `GrammarError` for the first defect."""
    arrays, metadata = grammar._content(as_it_is=True)
    try:
        GRAMMAR.check(arrays, {**metadata, "info": dict(grammar.info)})
    except ModelError as error:
        raise GrammarError(str(error)) from error
    check_meaning(grammar, tolerance)


def check_meaning(grammar: TensorGrammar, tolerance: float) -> None:
    """Raise `GrammarError` for the first defect of a grammar whose arrays fit `GRAMMAR`."""
    _check_symbols(grammar)
    _check_emissions(grammar)
    _check_finite(grammar)
    threshold = grammar.info.get("threshold", 0.0)
    _require(0 <= threshold < 1, f"info.threshold: {threshold} is not at least 0 and below 1")
    if grammar.probabilistic:
        _check_probabilities(grammar, tolerance)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise GrammarError(message)


def _check_symbols(grammar: TensorGrammar) -> None:
    n_symbols, n_inner = len(grammar.symbols), grammar.n_interminals
    _require(0 <= n_inner < n_symbols, f"{n_inner} interminals of {n_symbols} symbols: there must be preterminals")
    for part in (grammar.symbols[:n_inner], grammar.symbols[n_inner:]):
        name, times = Counter(part).most_common(1)[0] if part else ("", 0)
        _require(times <= 1, f"{name}: more than one symbol has this name")
    rules = grammar.rules
    bad = np.flatnonzero(rules[:, 0] >= n_inner)
    _require(not len(bad), f"{grammar.rule_name(bad[0]) if len(bad) else ''}: a preterminal cannot be expanded")
    keys = (rules[:, 0].astype(np.int64) * n_symbols + rules[:, 1]) * n_symbols + rules[:, 2]
    wrong = np.flatnonzero(np.diff(keys) <= 0)
    _require(
        not len(wrong), f"{grammar.rule_name(wrong[0] + 1) if len(wrong) else ''}: rules are not sorted or repeated"
    )
    size = weights_of(grammar.states, rules)
    _require(len(grammar.tensors) == size, f"{len(grammar.tensors)} tensor weights, the rules need {size:.15g}")
    inside = np.repeat(np.arange(n_symbols), grammar.states)
    same = inside[1:] == inside[:-1]
    for level in grammar.levels:
        before, behind = level[:-1][same], level[1:][same]
        rising = (behind == before) | ((before >= 0) & (behind == before + 1))
        fits = bool((level[grammar.state_offsets[:-1]] == 0).all() and (rising | (behind == -1)).all())
        _require(fits, "a level's groups are not numbered from 0 in the order of the states")


def _check_emissions(grammar: TensorGrammar) -> None:
    emissions = grammar.emissions
    same = np.array_equal(emissions.states, grammar.states[grammar.n_interminals :])
    _require(same, "emissions: the preterminals have other state counts than in the grammar")
    check_emissions(emissions)


def check_emissions(emissions: Emissions) -> None:
    """Raise `GrammarError` for the first defect of lexical weights whose arrays fit `EMISSIONS`."""
    sizes = {"share": int(emissions.states.sum()), "values": int(emissions.value_offsets[-1])}
    for name, size in sizes.items():
        found = len(getattr(emissions, name))
        _require(found == size, f"emissions.{name}: has {found} values, the preterminals' states need {size}")
    if emissions.emitter is not None:
        emitter = emissions.emitter
        _require(
            np.array_equal(emitter[emitter], emitter) and np.array_equal(emissions.states[emitter], emissions.states),
            "emissions.emitter: does not fit the preterminals",
        )
    parent = emissions.lexicon.parent
    rising = bool(np.all(parent[:-1] > np.arange(len(parent) - 1)) and parent.max(initial=-1) == len(parent) - 1)
    _require(rising and len(parent) > 0, "lexicon.parent: a signature does not come before its parent")


def _check_finite(grammar: TensorGrammar) -> None:
    # Located only if there are any: there are many rule weights.
    if not np.isfinite(grammar.tensors.sum(dtype=np.float64)) and len(
        bad := np.flatnonzero(~np.isfinite(grammar.tensors))
    ):
        rule = int(np.searchsorted(grammar.tensor_offsets, bad[0], side="right")) - 1
        raise GrammarError(f"{grammar.rule_name(rule)}: a weight is not a finite number")
    bad = np.flatnonzero(~np.isfinite(grammar.emissions.values))
    if len(bad):
        raise GrammarError(f"{_lexical_rule(grammar, int(bad[0]))}: a weight is not a finite number")


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
