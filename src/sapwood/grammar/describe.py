"""A grammar in words and figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sapwood.grammar.tensor_grammar import TensorGrammar


def describe(grammar: TensorGrammar, *, top: int) -> str:
    """Return a readable summary of the grammar."""
    transform = grammar.transform
    states, n_inner = grammar.states, grammar.n_interminals
    spread = f"{states.min()}" if states.min() == states.max() else f"{states.min()} to {states.max()}"
    weights = len(grammar.tensors) + len(grammar.emissions.values) + len(grammar.root)
    kind = "probabilistic" if grammar.probabilistic else "real-valued"
    lines = [
        f"method       {grammar.info.get('method', 'unknown')} ({kind})",
        f"symbols      {n_inner:,} interminals, {len(states) - n_inner:,} preterminals, {spread} state(s) each",
        f"rules        {len(grammar.rules):,} binary",
        f"words        {grammar.lexicon.n_words:,} known, {len(grammar.lexicon.signatures):,} signatures",
        f"weights      {weights:,}",
        f"trees        v = {transform.vertical}, h = {transform.horizontal}, binarised {transform.direction}",
    ]
    for key in sorted(set(grammar.info) - {"method"}):
        if words := _in_words(grammar.info[key]):
            lines.append(f"{key:<12} {words}")
    offsets = grammar.state_offsets
    occupancy = np.add.reduceat(grammar.occupancy, offsets[:-1])
    for title, numbers in (
        ("interminals", range(grammar.n_interminals)),
        ("preterminals", range(grammar.n_interminals, len(grammar.symbols))),
    ):
        best = sorted(numbers, key=lambda number: -occupancy[number])[:top]
        lines.append("")
        lines.append(f"most frequent {title}")
        lines += [f"  {occupancy[n]:>12,.6g}  {grammar.symbols[n]}" for n in best]
    lines.append("")
    lines.append("most frequent rules")
    order = np.argsort(-grammar.rule_counts, kind="stable")[:top]
    lines += [f"  {grammar.rule_counts[rule]:>12,.6g}  {grammar.rule_name(rule)}" for rule in order]
    return "\n".join(lines)


def _in_words(value: Any) -> str:
    """Return a JSON value for reading: `name value` pairs for an object."""
    if isinstance(value, Mapping):
        pairs = [(name, inner) for name, inner in value.items() if not isinstance(inner, Mapping | list)]
        lists = [f"{len(inner)} {name}" for name, inner in value.items() if isinstance(inner, list)]
        return ", ".join([f"{name} {str(inner)[:16]}" for name, inner in pairs] + lists)
    return str(value)
