"""Small grammars with unary rules, as BerkeleyParser writes them, and what they give sentences, the slow way."""

from __future__ import annotations

from pathlib import Path

import numpy as np

STATES = {"ROOT": 1, "S": 2, "VP": 3, "NP": 2, "X": 1, "@S": 2, "N": 2, "V": 3, "P": 1}
TAGS = ("N", "V", "P")
# No chain has more than two steps, but for those that begin at the root.
_UNARY = [("ROOT", "S"), ("ROOT", "X"), ("S", "VP"), ("VP", "V"), ("X", "NP"), ("NP", "N"), ("X", "P")]
_BINARY = [
    ("S", "NP", "VP"), ("S", "@S", "VP"), ("@S", "NP", "P"), ("@S", "@S", "X"), ("VP", "V", "NP"), ("VP", "V", "X"),
    ("VP", "VP", "S"), ("NP", "NP", "NP"), ("NP", "N", "S"), ("X", "P", "X"),
]  # fmt: skip
WORDS = {"N": ["dog", "cat", "-LRB-", "UNK-LC", "UNK"], "V": ["saw", "dog", "UNK-CAPS-s"], "P": ["of", "by"]}

Rules = dict[tuple[str, ...], np.ndarray]


def random_rules(seed: int) -> tuple[Rules, Rules]:
    """Return unary rules of one step, and binary rules: those of a state sum to 1, and trees are small."""
    rng = np.random.default_rng(seed)
    unary: Rules = {pair: rng.uniform(0.2, 1.0, [STATES[name] for name in pair]) for pair in _UNARY}
    binary: Rules = {rule: 0.12 * rng.uniform(0.2, 1.0, [STATES[name] for name in rule]) for rule in _BINARY}
    binary["@S", "NP", "P"] *= 20
    # Some states have no step, some rules no weight.
    unary["VP", "V"][0, 1:] = 0.0
    binary["NP", "N", "S"][:, 0] = 0.0
    for name, size in STATES.items():
        total = np.zeros(size)
        for rules in (unary, binary):
            for rule, table in rules.items():
                if rule[0] == name:
                    total += table.sum(axis=tuple(range(1, table.ndim)))
        for rules in (unary, binary):
            for rule, table in rules.items():
                if rule[0] == name:
                    table /= total.reshape(-1, *[1] * (table.ndim - 1))
    return unary, binary


def closed(unary: Rules) -> Rules:
    """Return the best path of one or two steps between any two states."""
    found = {pair: table.copy() for pair, table in unary.items()}
    for (a, m), first in unary.items():
        for (other, b), second in unary.items():
            if m == other:
                best = (first[:, :, None] * second[None]).max(axis=1)
                found[a, b] = np.maximum(found.get((a, b), 0.0), best)
    return found


def write_dump(folder: Path, seed: int = 0) -> Path:
    """Write the three files of a random grammar; returns what their names begin with."""
    unary, binary = random_rules(seed)
    rng = np.random.default_rng(seed + 1)
    lines = [f"{name}_{state} -> {name}_{state} 1.0" for name, size in STATES.items() for state in range(size)]
    for rule, table in {**closed(unary), **binary}.items():
        for place in np.argwhere(table).tolist():
            parent, *children = (f"{name}_{state}" for name, state in zip(rule, place, strict=True))
            lines.append(f"{parent} -> {' '.join(children)} {str(float(table[tuple(place)])).replace('e', 'E')}")
    prefix = folder / "tiny"
    prefix.with_suffix(".grammar").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = []
    for tag, names in WORDS.items():
        table = rng.dirichlet(np.ones(len(names)), STATES[tag]).T
        words += [f"{tag} {name} {row.tolist()}" for name, row in zip(names, table, strict=True)]
    prefix.with_suffix(".lexicon").write_text("\n".join(words) + "\n", encoding="utf-8")
    trees = {1: "(0 (0 0))", 2: "(0 (0 0) (1 1))", 3: "(0 (0 0 1) (1 2))"}
    splits = [f"{name}\t{trees[size]}" for name, size in STATES.items()]
    prefix.with_suffix(".splits").write_text("\n".join(splits) + "\n", encoding="utf-8")
    return prefix


class SlowChart:
    """Inside probabilities with unary rules applied once a span, at most two steps; `leaves[i][tag]` are of words."""

    def __init__(self, unary: Rules, binary: Rules, leaves: list[dict[str, np.ndarray]]) -> None:
        self.unary, self.binary, n = unary, binary, len(leaves)
        self.below: dict[tuple[int, int], dict[str, np.ndarray]] = {}
        self.above: dict[tuple[int, int], dict[str, np.ndarray]] = {}
        for length in range(1, n + 1):
            for start in range(n - length + 1):
                end = start + length
                found = {name: np.zeros(size) for name, size in STATES.items()}
                if length == 1:
                    found |= leaves[start]
                for (a, b, c), tensor in binary.items():
                    for split in range(start + 1, end):
                        left, right = self.above[start, split][b], self.above[split, end][c]
                        found[a] = found[a] + np.einsum("abc,b,c->a", tensor, left, right)
                self.below[start, end] = found
                once = self._step(found)
                twice = self._step(once)
                self.above[start, end] = {name: found[name] + once[name] + twice[name] for name in STATES}
        self.total = float(self.above[0, n]["ROOT"][0])

    def _step(self, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        result = {name: np.zeros(size) for name, size in STATES.items()}
        for (a, b), table in self.unary.items():
            result[a] += table @ found[b]
        return result
