"""Random grammars: small L-PCFGs for tests and examples.

Every grammar is proper and normalised, and its trees have a finite expected size: below each interminal
state at most 0.8 interminals are expected, so a tree dies out geometrically.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from sapwood.errors import UsageError
from sapwood.grammar.expectations import with_expected_counts
from sapwood.grammar.tensor_grammar import TensorGrammar, plain_emissions
from sapwood.storage.shapes import Array, Float, Int32
from sapwood.trees.symbols import SymbolTable

_MAX_GROWTH = 0.8


def random_grammar(
    rng: np.random.Generator,
    *,
    interminals: int = 3,
    preterminals: int = 3,
    words: int = 4,
    states: tuple[int, int] = (1, 3),
    density: float = 0.6,
    real: bool = False,
) -> TensorGrammar:
    """Return a random L-PCFG over the symbols `A0, A1, ...`, tags `P0, P1, ...` and words `w0, w1, ...`.

    Parameters
    ----------
    rng
        Source of all random choices.
    interminals, preterminals, words
        Number of each; every tag emits every word.
    states
        Minimum and maximum number of states, drawn for each symbol.
    density
        Probability that a rule `a -> b c` exists (each interminal has at least one pair of tags), and that a
        symbol, including tags, is a root (at least one is).
    real
        Return the same distribution in another basis (Theorem 1), with real weights, some of them negative.

    Examples
    --------
    >>> random_grammar(np.random.default_rng(0), interminals=2, preterminals=2, words=3, states=(2, 2))
    <TensorGrammar: 4 symbols (2 states), 14 rules, 3 words>
    """
    if interminals < 0 or preterminals < 1 or words < 1:
        raise UsageError("a random grammar needs at least one preterminal and one word")
    if not 1 <= states[0] <= states[1]:
        raise UsageError(f"states must be (fewest, most) with 1 <= fewest <= most, not {states}")
    n_symbols = interminals + preterminals
    sizes = rng.integers(states[0], states[1] + 1, size=n_symbols).astype(np.int32)
    rules: list[tuple[int, int, int]] = []
    tensors: list[np.ndarray] = []
    for a in range(interminals):
        pairs = _draw_pairs(rng, interminals, n_symbols, density)
        rules += [(a, b, c) for b, c in pairs]
        tensors += _draw_tensors(rng, int(sizes[a]), pairs, sizes, interminals)
    lexical = [rng.dirichlet(np.ones(words), size=int(size)).T for size in sizes[interminals:]]
    root = _draw_root(rng, sizes, interminals, density)
    grammar = made_of(sizes, rules, tensors, root, lexical, {"method": "random"})
    return grammar.conjugate(random_bases(rng, grammar)) if real else grammar


def made_of(
    sizes: Int32[Array, "symbols"],
    rules: Sequence[tuple[int, int, int]],
    tensors: Sequence[Float[Array, "m_a m_b m_c"]],
    root: Float[Array, "all_states"],
    lexical: Sequence[Float[Array, "words m_a"]],
    info: dict[str, Any],
) -> TensorGrammar:
    """Return a probabilistic grammar over `A0, A1, ...`, tags `P0, P1, ...` and words `w0, w1, ...`, with its counts.

    Each tag has a matrix of `lexical` probabilities; words without weight in any state are not among its words.
    """
    interminals = len(sizes) - len(lexical)
    tags = [f"P{number}" for number in range(len(lexical))]
    words = [f"w{number}" for number in range(len(lexical[0]))]
    vectors = {(p, word): row for p, rows in enumerate(lexical) for word, row in enumerate(rows) if row.any()}
    grammar = TensorGrammar(
        symbols=SymbolTable.from_names([f"A{number}" for number in range(interminals)] + tags),
        n_interminals=interminals,
        states=sizes,
        rules=np.array(rules, np.int32).reshape(-1, 3),
        tensors=np.concatenate([tensor.ravel() for tensor in tensors] or [np.zeros(0)]),
        root=root,
        emissions=plain_emissions(words, tags, sizes[interminals:], vectors),
        probabilistic=True,
        occupancy=np.ones(len(root)),
        rule_counts=np.ones(len(rules)),
        info=info,
    )
    return with_expected_counts(grammar.validate())


def random_basis(rng: np.random.Generator, size: int) -> Float[Array, "states states"]:
    """Return a well-conditioned random matrix: a rotation, stretched."""
    rotation, _ = np.linalg.qr(rng.normal(size=(size, size)))
    return np.asarray(rotation * np.exp(rng.uniform(-0.5, 0.5, size=size)))


def random_bases(rng: np.random.Generator, grammar: TensorGrammar) -> list[Float[Array, "m_a m_a"]]:
    """Return a well-conditioned random matrix `G^a` for each symbol."""
    return [random_basis(rng, size) for size in grammar.states.tolist()]


def _draw_pairs(rng: np.random.Generator, interminals: int, n_symbols: int, density: float) -> list[tuple[int, int]]:
    """Choose the right-hand sides of one interminal, in order, including a pair of tags."""
    sure = tuple(int(number) for number in rng.integers(interminals, n_symbols, size=2))
    everything = product(range(n_symbols), range(n_symbols))
    return [pair for pair in everything if rng.random() < density or pair == sure]


def _draw_tensors(
    rng: np.random.Generator, size: int, pairs: list[tuple[int, int]], sizes: np.ndarray, interminals: int
) -> list[np.ndarray]:
    """Draw the tensors of one interminal with `size` states, normalised over all of `pairs`."""
    tensors = [rng.gamma(1.0, size=(size, sizes[b], sizes[c])) for b, c in pairs]
    growing = [(b < interminals) + (c < interminals) for b, c in pairs]
    total = sum(tensor.sum(axis=(1, 2)) for tensor in tensors)
    tensors = [tensor / total[:, None, None] for tensor in tensors]
    # Scale rules with interminal children down until growth is bounded, and the others up.
    mass = [np.zeros(size), np.zeros(size), np.zeros(size)]
    for tensor, below in zip(tensors, growing, strict=True):
        mass[below] += tensor.sum(axis=(1, 2))
    growth = mass[1] + 2 * mass[2]
    down = np.minimum(1.0, _MAX_GROWTH / np.maximum(growth, _MAX_GROWTH))
    up = (1 - down * (mass[1] + mass[2])) / mass[0]
    scale = [down if below else up for below in growing]
    return [tensor * factor[:, None, None] for tensor, factor in zip(tensors, scale, strict=True)]


def _draw_root(rng: np.random.Generator, sizes: np.ndarray, interminals: int, density: float) -> np.ndarray:
    """Draw root probabilities over all states, tags less likely; the first symbol can always be a root."""
    weights = rng.random(len(sizes)) < density
    weights[0] = True
    weights = np.where(np.arange(len(sizes)) < interminals, 1.0, 0.25) * weights
    drawn = rng.gamma(1.0, size=int(sizes.sum())) * np.repeat(weights, sizes)
    return drawn / drawn.sum()


def random_states(
    grammar: TensorGrammar, states: int, rng: np.random.Generator, *, noise: float = 0.5
) -> TensorGrammar:
    """Split each symbol of a one-state grammar into `states` random states, as in the initialisation of EM.

    Each rule's probability is divided among its children's states with noise, so the result is a proper L-PCFG with
    the same rules; with `noise` 0, all states are alike, and the probabilities of trees do not change.
    """
    if int(grammar.states.max()) != 1:
        raise UsageError("random_states splits grammars with one state per symbol")
    m = states
    weights = grammar.tensors[:, None, None, None] * (1 + noise * (rng.random((len(grammar.rules), m, m, m)) - 0.5))
    totals = np.zeros((grammar.n_interminals, m))
    np.add.at(totals, grammar.rules[:, 0], weights.sum(axis=(2, 3)))
    weights /= totals[grammar.rules[:, 0]][:, :, None, None]
    old = grammar.emissions
    n_leaf = len(old.states)
    factors = 1 + noise * (rng.random((len(old.symbol), m)) - 0.5)
    emissions = replace(
        old,
        states=np.full(n_leaf, m, np.int32),
        values=(old.values[:, None] * factors).ravel(),
        share=np.repeat(old.share, m),
    )
    # Values and shares of a state are divided by its total, so that its words sum to one.
    sums = emissions.totals().reshape(n_leaf, m)
    emissions = replace(
        emissions,
        values=(old.values[:, None] * factors / sums[old.symbol]).ravel(),
        share=np.repeat(old.share, m) / sums.ravel(),
    )
    return replace(
        grammar,
        states=np.full(len(grammar.symbols), m, np.int32),
        tensors=weights.ravel().astype(np.float32),
        root=np.repeat(grammar.root / m, m),
        emissions=emissions,
        occupancy=np.repeat(grammar.occupancy / m, m),
        info={**grammar.info, "method": f"random states ({m})"},
    )
