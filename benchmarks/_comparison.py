"""How far grammars are from a known one, and what theorem 3 of the long paper asks for it.

Symbols have `STATES` states. Trees of up to `WORDS` words are compared, and marginals of all sentences of `SENTENCE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

import _oracles  # noqa: F401 (before what it makes importable)
from oracles.reference import inside_outside
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.research.exact_moments import TreePopulation, population
from sapwood.research.observable_representation import project
from sapwood.research.spectral_bounds import SampleBound

STATES = 2
WORDS, SENTENCE = 4, 3


class Comparison:
    """Compares grammars with a known one, symbols and rules being known by their names."""

    def __init__(self, truth: TensorGrammar) -> None:
        self.truth = truth
        self.symbols = [(name, a >= truth.n_interminals) for a, name in enumerate(truth.symbols)]
        self.probabilities = self.tree_probabilities(truth)
        self.sentences = list(product(truth.lexicon.words, repeat=SENTENCE))
        self.marginals = self.marginals_of(truth)

    def tree_probabilities(self, grammar: TensorGrammar) -> list[np.ndarray]:
        """Return the probabilities of all trees with 1, 2, .. `WORDS` words, in an order that the truth alone decides.

        Inside vectors of all trees of a symbol and length are made at once from those of their children.
        """
        truth = self.truth
        number = {(name, a >= grammar.n_interminals): a for a, name in enumerate(grammar.symbols)}
        places = [number.get(symbol) for symbol in self.symbols]
        sizes = [1 if place is None else int(grammar.states[place]) for place in places]
        rules = {tuple(rule): index for index, rule in enumerate(grammar.rules.tolist())}
        # By symbol and number of words, a row for each tree.
        inside: dict[tuple[int, int], np.ndarray] = {}
        for a in range(truth.n_interminals, len(self.symbols)):
            place = places[a]
            inside[a, 1] = np.array(
                [np.zeros(1) if place is None else grammar.lexical_vector(place, w) for w in truth.lexicon.words]
            )
        for n in range(2, WORDS + 1):
            parts: dict[int, list[np.ndarray]] = {}
            for a, b, c in truth.rules.tolist():
                rule = rules.get((places[a], places[b], places[c]))
                tensor = np.zeros((sizes[a], sizes[b], sizes[c])) if rule is None else grammar.tensor(rule)
                for k in range(1, n):
                    if (b, k) in inside and (c, n - k) in inside:
                        below = np.einsum("abc,ib,jc->ija", tensor, inside[b, k], inside[c, n - k])
                        parts.setdefault(a, []).append(below.reshape(-1, sizes[a]))
            inside.update({(a, n): np.concatenate(rows) for a, rows in parts.items()})
        found: list[list[np.ndarray]] = [[] for _ in range(WORDS)]
        for (a, n), rows in sorted(inside.items()):
            if truth.root_vector(a).any():
                place = places[a]
                found[n - 1].append(rows @ (np.zeros(1) if place is None else grammar.root_vector(place)))
        return [np.concatenate(parts) if parts else np.zeros(0) for parts in found]

    def marginals_of(self, grammar: TensorGrammar) -> np.ndarray:
        """Return `mu(a, i, j)` of the truth's symbols over all spans, `(sentences, symbols, i, j)`."""
        number = {(name, a >= grammar.n_interminals): a for a, name in enumerate(grammar.symbols)}
        found = np.zeros((len(self.sentences), len(self.symbols), SENTENCE, SENTENCE + 1))
        for row, sentence in zip(found, self.sentences, strict=True):
            chart = inside_outside(grammar, sentence)
            for a, symbol in enumerate(self.symbols):
                if symbol in number:
                    row[a] = chart.marginals[number[symbol]]
        return found

    def errors(self, grammar: TensorGrammar) -> Errors:
        """Return how far a grammar is from the truth."""
        found = self.tree_probabilities(grammar)
        pairs = list(zip(found, self.probabilities, strict=True))
        return Errors(
            trees=float(sum(np.abs(ours - true).sum() for ours, true in pairs)),
            relative=[float(np.abs(ours / true - 1).max()) for ours, true in pairs if len(true)],
            marginal=float(np.abs(self.marginals_of(grammar) - self.marginals).max()),
        )


@dataclass(frozen=True)
class Errors:
    """`trees`: summed over trees; `relative`: the greatest one, by number of words; `marginal`: the greatest one."""

    trees: float
    relative: list[float]
    marginal: float


def smallest_singular_value(source: TreePopulation) -> float:
    """Return sigma: the smallest of the m-th singular values of all symbols."""
    return min(float(np.linalg.svd(source.omega(a), compute_uv=False)[STATES - 1]) for a in range(len(source.counts)))


@dataclass(frozen=True)
class Bound:
    """What Theorem 3 is about, for one grammar.

    Attributes
    ----------
    sigma, smallest
        Sigma, and `Lambda` without the zeros beside the diagonal of `(Sigma^a)^{-1}` and those of symbols that are
        never at the root.
    rules
        `R`: rules of both kinds.
    rarest
        The chance of the symbol that is picked least often, when one node is picked of each tree.
    """

    sigma: float
    smallest: float
    rules: int
    rarest: float

    @classmethod
    def of(cls, grammar: TensorGrammar) -> Bound:
        """Compute the quantities from the exact moments of the grammar."""
        source = population(grammar, depth=1)
        found = [project(source.omega(a), STATES) for a in range(len(grammar.symbols))]
        moments = source.moments([(left, right) for left, right, _ in found])
        elements = [*(root for root in moments.root if root.any()), *moments.word, *moments.rule]
        elements += [1 / values for _, _, values in found]
        return cls(
            sigma=smallest_singular_value(source),
            smallest=min(float(np.abs(part).min()) for part in elements),
            rules=len(grammar.rules) + sum(len(ours) for ours in moments.terminals),
            rarest=float(population(grammar, depth=1, scheme="one node").counts.min()),
        )

    def trees(self, nodes: int, error: float, delta: float = 0.5) -> float:
        """Return the M that guarantees a relative error on trees of so many nodes."""
        bound = SampleBound(self.sigma, self.smallest, STATES, self.rules)
        return bound.samples(nodes, error, delta) / self.rarest
