"""Summary of a grammar as text or HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.runtime.tables import html_table


def describe(grammar: TensorGrammar, *, top: int) -> str:
    """Return a readable summary of the grammar."""
    lines = [f"{name:<12} {value}" for name, value in _facts(grammar)]
    for title, rows in _most_frequent(grammar, top).items():
        lines += ["", title, *(f"  {count:>12,.6g}  {name}" for name, count in rows)]
    return "\n".join(lines)


def describe_html(grammar: TensorGrammar, *, top: int = 5) -> str:
    """Return the summary as tables in HTML."""
    tables = [html_table([[name, value] for name, value in _facts(grammar)], title=repr(grammar), headings=False)]
    for title, rows in _most_frequent(grammar, top).items():
        tables.append(html_table([[title, "expected"], *([name, f"{count:,.6g}"] for name, count in rows)]))
    return "".join(tables)


def label_counts(grammar: TensorGrammar) -> tuple[dict[str, float], dict[str, float]]:
    """Return the phrase labels and the tags of a grammar with their counts in the treebank, without the root."""
    phrases: dict[str, float] = {}
    tags: dict[str, float] = {}
    for number, symbol in enumerate(grammar.symbols):
        begin, end = grammar.state_offsets[number : number + 2]
        count = float(grammar.occupancy[begin:end].sum())
        is_tag = number >= grammar.n_interminals
        if is_tag:
            tag = grammar.symbols.tags[number]
            tags[tag] = tags.get(tag, 0.0) + count
        for label in symbol.chain[:-1] if is_tag else symbol.chain:
            if label != grammar.transform.root:
                phrases[label] = phrases.get(label, 0.0) + count
    return phrases, tags


def _facts(grammar: TensorGrammar) -> list[tuple[str, str]]:
    """Return sizes and training information, by name."""
    transform = grammar.transform
    states, n_inner = grammar.states, grammar.n_interminals
    spread = f"{states.min()}" if states.min() == states.max() else f"{states.min()} to {states.max()}"
    weights = len(grammar.tensors) + len(grammar.emissions.values) + len(grammar.root)
    kind = "probabilistic" if grammar.probabilistic else "real-valued"
    facts = [
        ("method", f"{grammar.info.get('method', 'unknown')} ({kind})"),
        ("symbols", f"{n_inner:,} interminals, {len(states) - n_inner:,} preterminals, {spread} state(s) each"),
        ("rules", f"{len(grammar.rules):,} binary"),
        ("words", f"{grammar.lexicon.n_words:,} known, {len(grammar.lexicon.signatures):,} signatures"),
        ("weights", f"{weights:,}"),
        ("trees", f"v = {transform.vertical}, h = {transform.horizontal}, binarised {transform.direction}"),
    ]
    told = [(key, _in_words(grammar.info[key])) for key in sorted(set(grammar.info) - {"method"})]
    return facts + [(key, words) for key, words in told if words]


def _most_frequent(grammar: TensorGrammar, top: int) -> dict[str, list[tuple[str, float]]]:
    """Return the most frequent symbols and rules with their expected counts."""
    occupancy = np.add.reduceat(grammar.occupancy, grammar.state_offsets[:-1])
    found: dict[str, list[tuple[str, float]]] = {}
    for title, numbers in (
        ("interminals", range(grammar.n_interminals)),
        ("preterminals", range(grammar.n_interminals, len(grammar.symbols))),
    ):
        best = sorted(numbers, key=lambda number: -occupancy[number])[:top]
        found[f"most frequent {title}"] = [(str(grammar.symbols[number]), float(occupancy[number])) for number in best]
    order = np.argsort(-grammar.rule_counts, kind="stable")[:top]
    found["most frequent rules"] = [(grammar.rule_name(rule), float(grammar.rule_counts[rule])) for rule in order]
    return found


def _in_words(value: Any) -> str:
    """Return a readable form of a JSON value: `name value` pairs for an object."""
    if isinstance(value, Mapping):
        pairs = [(name, inner) for name, inner in value.items() if not isinstance(inner, Mapping | list)]
        lists = [f"{len(inner)} {name}" for name, inner in value.items() if isinstance(inner, list)]
        return ", ".join([f"{name} {str(inner)[:16]}" for name, inner in pairs] + lists)
    return str(value)
