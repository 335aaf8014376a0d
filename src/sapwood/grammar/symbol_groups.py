"""Symbol groups: merge symbols by name, and the rules with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sapwood.errors import GrammarError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.storage.shapes import Array, Int, Int32, Int64
from sapwood.trees.symbols import SymbolTable


class SymbolGroups(NamedTuple):
    """Groups of symbols, interminals first, each part sorted by name.

    `group` is the group of each symbol, `rules` are the rules over groups, sorted, and `rule_of` maps each rule to one
    of them.
    """

    symbols: SymbolTable
    n_interminals: int
    group: Int32[Array, "symbols"]
    rules: Int32[Array, "group_rules 3"]
    rule_of: Int[Array, "rules"]


def group_symbols(grammar: TensorGrammar, names: Sequence[str] | None = None) -> SymbolGroups:
    """Group symbols with the same name, by default those with the same base (`NP^S`, `NP^VP`: `NP`).

    Interminals and preterminals are never grouped together.
    """
    if names is not None and len(names) != len(grammar.symbols):
        raise GrammarError(f"{len(names)} names for {len(grammar.symbols)} symbols")
    symbols = grammar.symbols.base if names is None else SymbolTable.from_names(names)
    keys = [(number >= grammar.n_interminals, symbol) for number, symbol in enumerate(symbols)]
    ids = {key: number for number, key in enumerate(sorted(set(keys)))}
    group = np.array([ids[key] for key in keys], np.int32)
    size = len(ids)
    distinct, rule_of = np.unique(rule_keys(group[grammar.rules], size), return_inverse=True)
    rules = np.stack([distinct // size**2, distinct // size % size, distinct % size], axis=1).astype(np.int32)
    table = SymbolTable(tuple(symbol for _, symbol in ids))
    return SymbolGroups(table, sum(not leaf for leaf, _ in ids), group, rules, rule_of.ravel())


def rule_keys(rules: Int[Array, "rules 3"], n_symbols: int) -> Int64[Array, "rules"]:
    """Return an integer key for each rule, in the order of the rules."""
    wide = rules.astype(np.int64)
    return (wide[:, 0] * n_symbols + wide[:, 1]) * n_symbols + wide[:, 2]
