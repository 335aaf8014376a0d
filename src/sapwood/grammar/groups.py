"""Symbols put together in groups, and what becomes of the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sapwood.errors import GrammarError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.trees.transform import base_symbol


class SymbolGroups(NamedTuple):
    """Groups of symbols, those of interminals first, each part sorted by name.

    `group (symbols,)` int32 is each symbol's group, `rules (groups' rules, 3)` int32 are the rules over groups, sorted,
    and `rule_of (rules,)` which of them each rule becomes.
    """

    names: list[str]
    n_interminals: int
    group: np.ndarray
    rules: np.ndarray
    rule_of: np.ndarray


def group_symbols(grammar: TensorGrammar, names: Sequence[str] | None = None) -> SymbolGroups:
    """Put symbols with the same name in one group, by default those with the same base (`NP^S`, `NP^VP`: `NP`).

    Interminals and preterminals stay apart, whatever their names.
    """
    if names is None:
        names = [base_symbol(name) for name in grammar.symbols]
    if len(names) != len(grammar.symbols):
        raise GrammarError(f"{len(names)} names for {len(grammar.symbols)} symbols")
    keys = [(number >= grammar.n_interminals, name) for number, name in enumerate(names)]
    ids = {key: number for number, key in enumerate(sorted(set(keys)))}
    group = np.array([ids[key] for key in keys], np.int32)
    size = len(ids)
    distinct, rule_of = np.unique(rule_keys(group[grammar.rules], size), return_inverse=True)
    rules = np.stack([distinct // size**2, distinct // size % size, distinct % size], axis=1).astype(np.int32)
    return SymbolGroups([name for _, name in ids], sum(not leaf for leaf, _ in ids), group, rules, rule_of.ravel())


def rule_keys(rules: np.ndarray, n_symbols: int) -> np.ndarray:
    """Return a number for each rule, `(rules,)` int64, ordered as the rules are."""
    wide = rules.astype(np.int64)
    return (wide[:, 0] * n_symbols + wide[:, 1]) * n_symbols + wide[:, 2]
