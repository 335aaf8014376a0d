"""Exact moments: spectral learning from a known grammar instead of a sample, as with infinite data.

All `Moments` of `observable_representation` are exact here, so the learned grammar is the given one in another basis
(Theorem 2 of Cohen et al., long paper) and says how much of a learner's error is due to its sample. For small grammars.

**Features.** Inside: the expansion of the node (its rule, or its word), and for a rule also the rule with the expansion
of the left, and with that of the right child. Outside: whether the node is the root, else the rule above with the side
on which the node hangs, and that with the same one level higher. All are indicators.

**Moments.** Given the state `h` of a node, its inside and its outside tree are independent. So a few matrices of
expectations given `h` determine all moments (identities 17-20): `I^a = E[phi(T_1) | h, a]`, `J^a = E[psi(O) | h, a]`
(Definition 2) and the expected numbers of each state, which solve a linear system.

**Schemes.** This takes nodes to be picked in proportion to how often they occur: a treebank's nodes, all of them.
Sections 7.1 and 8 instead pick one node of each tree, each of its `N` nodes with probability `1 / N`. `N` depends on
inside and outside tree together, so they are *not* independent given `h` then, nor is a node's rule distributed by
`t`, nor are roots distributed by `pi`: identities 17-20 hold only if all trees have the same number of nodes, and
`Omega^a` has more than `m_a` singular values. Scheme `"one node"` computes these moments too, by
`1 / N = integral from 0 to 1 of s^(N - 1) ds`: trees weighted by `s^N` are those of another L-PCFG (`tilt`), so each
point of a quadrature rule adds moments of the usual kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.emissions import Emissions, offsets_of, run_offsets
from sapwood.grammar.expectations import expected_counts
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.research.observable_representation import Moments, SpectralWeights, assemble, project
from sapwood.storage.shapes import Array, Float

Scheme = Literal["all nodes", "one node"]
# An expansion is a rule's number, or the number of rules plus a terminal. Inside features are `(expansion,)` or
# `(rule, side, expansion of that child)`; outside features `()` for the root, `(rule above, side)`, and
# `(rule above, side, rule above that, side)`, or `(rule above, side, -1)` below the root.
Feature = tuple[int, ...]

_QUADRATURE = 64
_STEPS = 100_000


class States:
    """What trees of one probabilistic grammar look like from each state."""

    def __init__(self, grammar: TensorGrammar, depth: int) -> None:
        self.grammar = grammar
        self.depth = depth
        offsets = grammar.state_offsets
        occupancy, self.rule_counts = expected_counts(grammar)
        # Expected numbers of each state, and of each state as a root, by symbol.
        self.expected = [occupancy[offsets[a] : offsets[a + 1]] for a in range(len(grammar.symbols))]
        self.pi = [grammar.root_vector(a) for a in range(len(grammar.symbols))]
        self.words = [grammar.emissions.column(p) for p in range(len(grammar.symbols) - grammar.n_interminals)]
        tensors = [grammar.tensor(rule) for rule in range(len(grammar.rules))]
        # `steps[rule][side]`: (m_a, m of that child), the chance of the rule with the child in a state.
        self.steps = [(tensor.sum(axis=2), tensor.sum(axis=1)) for tensor in tensors]

    def expansions(self, symbol: int) -> dict[int, Float[Array, "m_a"]]:
        """Return the chances of a symbol's rules or words given its state, by expansion."""
        grammar = self.grammar
        if symbol >= grammar.n_interminals:
            column = self.words[symbol - grammar.n_interminals]
            return {len(grammar.rules) + int(x): column[x] for x in np.flatnonzero(column.any(axis=1))}
        first, last = np.searchsorted(grammar.rules[:, 0], [symbol, symbol + 1])
        return {rule: self.steps[rule][0].sum(axis=1) for rule in range(first, last)}

    @cached_property
    def inside(self) -> list[dict[Feature, Float[Array, "m_a"]]]:
        """By symbol and inside feature `E[phi(T_1) | h, a]`: the rows of `I^a`."""
        ours = [self.expansions(symbol) for symbol in range(len(self.grammar.symbols))]
        found: list[dict[Feature, np.ndarray]] = [{(key,): row for key, row in rows.items()} for rows in ours]
        if self.depth > 1:
            for rule, (a, *children) in enumerate(self.grammar.rules.tolist()):
                for side, child in enumerate(children):
                    for key, row in ours[child].items():
                        found[a][rule, side, key] = self.steps[rule][side] @ row
        return found

    @cached_property
    def outside(self) -> list[dict[Feature, Float[Array, "m_a"]]]:
        """By symbol and outside feature the expected number of nodes in state `h` with it.

        These are the rows of `J^a`, times the expected number of nodes in each state.
        """
        found: list[dict[Feature, np.ndarray]] = [{(): pi} for pi in self.pi]
        above: list[dict[Feature, np.ndarray]] = [{} for _ in self.pi]
        for rule, (a, *children) in enumerate(self.grammar.rules.tolist()):
            for side, child in enumerate(children):
                above[child][rule, side] = self.expected[a] @ self.steps[rule][side]
        for rows, more in zip(found, above, strict=True):
            rows.update(more)
        if self.depth > 1:
            for rule, (a, *children) in enumerate(self.grammar.rules.tolist()):
                for side, child in enumerate(children):
                    step = self.steps[rule][side]
                    found[child][rule, side, -1] = self.pi[a] @ step
                    for key, row in above[a].items():
                        found[child][rule, side, *key] = row @ step
        return found


@dataclass(frozen=True, eq=False)
class TreePopulation:
    """The trees of a grammar, and how nodes are picked from them.

    Attributes
    ----------
    grammar
        The grammar that trees come from.
    components
        Grammars with weights, whose moments add up to those asked for: one for `"all nodes"`.
    inside_features, outside_features
        By symbol the features that `Omega^a` has rows and columns for.
    """

    grammar: TensorGrammar
    components: list[tuple[float, States]]
    inside_features: list[list[Feature]]
    outside_features: list[list[Feature]]

    @cached_property
    def counts(self) -> Float[Array, "symbols"]:
        """How often each symbol is picked, in a tree."""
        return sum(
            (weight * np.array([row.sum() for row in states.expected]) for weight, states in self.components),
            start=np.zeros(len(self.grammar.symbols)),
        )

    def given_state(
        self, symbol: int
    ) -> tuple[Float[Array, "inside m_a"], Float[Array, "outside m_a"], Float[Array, "m_a"]]:
        """Return `I^a`, `J^a`, and `gamma^a = P(H_1 = h | A_1 = a)` (Definition 2).

        Columns of `J^a` for states that never occur are zero.
        """
        if len(self.components) > 1:
            raise UsageError("inside and outside trees depend on more than the state when one node a tree is picked")
        states = self.components[0][1]
        expected = states.expected[symbol]
        scale = np.divide(1.0, expected, out=np.zeros_like(expected), where=expected > 0)
        gamma = expected * self._scale[symbol]
        return self._inside(states, symbol), self._outside(states, symbol) * scale, gamma

    def omega(self, symbol: int) -> Float[Array, "inside outside"]:
        """Return `Omega^a = E[phi(T_1) psi(O)^T | A_1 = a]` (equation 21); zero if `a` never occurs."""
        joint = sum(
            weight * self._inside(states, symbol) @ self._outside(states, symbol).T
            for weight, states in self.components
        )
        return np.asarray(joint) * self._scale[symbol]

    def moments(self, projections: Sequence[tuple[Float[Array, "inside m_a"], Float[Array, "outside m_a"]]]) -> Moments:
        """Return the moments under `U^a` and `V^a` of each symbol.

        With `G^a = (U^a)^T I^a` and `K^a = (V^a)^T J^a` they are identities 17-20.
        """
        grammar = self.grammar
        n_symbols, n_inner = len(grammar.symbols), grammar.n_interminals
        sizes = [left.shape[1] for left, _ in projections]
        sigma = [np.zeros((size, size)) for size in sizes]
        mean, root = ([np.zeros(size) for size in sizes] for _ in range(2))
        rule_moments = [np.zeros([sizes[symbol] for symbol in rule]) for rule in grammar.rules.tolist()]
        terminals = [np.flatnonzero(column.any(axis=1)) for column in self.components[0][1].words]
        word = [np.zeros((len(ours), sizes[n_inner + p])) for p, ours in enumerate(terminals)]
        rule_counts = np.zeros(len(grammar.rules))
        roots = 0.0
        for weight, states in self.components:
            # `below` is G^a and `above` is K^a diag(expected numbers of states), both (m_a, true states).
            below = [left.T @ self._inside(states, a) for a, (left, _) in enumerate(projections)]
            above = [right.T @ self._outside(states, a) for a, (_, right) in enumerate(projections)]
            for a in range(n_symbols):
                sigma[a] += weight * below[a] @ above[a].T
                mean[a] += weight * below[a] @ states.expected[a]
                root[a] += weight * below[a] @ states.pi[a]
            for rule, (a, b, c) in enumerate(grammar.rules.tolist()):
                tensor = states.grammar.tensor(rule)
                rule_moments[rule] += weight * np.einsum("hij,zh,yi,xj->zyx", tensor, above[a], below[b], below[c])
            for p, ours in enumerate(terminals):
                word[p] += weight * states.words[p][ours] @ above[n_inner + p].T
            rule_counts += weight * states.rule_counts
            roots += weight * sum(float(pi.sum()) for pi in states.pi)
        scale = self._scale
        return Moments(
            symbols=grammar.symbols,
            n_interminals=n_inner,
            rules=grammar.rules,
            counts=self.counts,
            rule_counts=rule_counts,
            sigma=[moment * factor for moment, factor in zip(sigma, scale, strict=True)],
            mean=[moment * factor for moment, factor in zip(mean, scale, strict=True)],
            rule=[moment * scale[a] for moment, a in zip(rule_moments, grammar.rules[:, 0], strict=True)],
            terminals=terminals,
            word=[moment * factor for moment, factor in zip(word, scale[n_inner:], strict=True)],
            root=[moment / roots for moment in root],
        )

    @cached_property
    def _scale(self) -> np.ndarray:
        """One over `counts`, zero for symbols that never occur."""
        return np.divide(1.0, self.counts, out=np.zeros_like(self.counts), where=self.counts > 0)

    def _inside(self, states: States, symbol: int) -> np.ndarray:
        return np.array([states.inside[symbol][feature] for feature in self.inside_features[symbol]])

    def _outside(self, states: States, symbol: int) -> np.ndarray:
        return np.array([states.outside[symbol][feature] for feature in self.outside_features[symbol]])


def population(grammar: TensorGrammar, *, depth: int = 2, scheme: Scheme = "all nodes") -> TreePopulation:
    """Return the population of a probabilistic grammar's trees.

    Parameters
    ----------
    grammar
        A small probabilistic grammar.
    depth
        How many rules a feature may look at, 1 or 2.
    scheme
        How nodes are picked: `"all nodes"`, or `"one node"` of each tree. See the module's text.
    """
    if not grammar.probabilistic:
        raise GrammarError("only a probabilistic grammar has a population of trees; this one has real-valued weights")
    if depth not in (1, 2):
        raise UsageError(f"features look at 1 or 2 rules, not {depth}")
    if scheme == "all nodes":
        components = [(1.0, States(grammar, depth))]
    elif scheme == "one node":
        components = []
        points, weights = np.polynomial.legendre.leggauss(_QUADRATURE)
        for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
            tilted, total = tilt(grammar, float(point))
            components.append((float(weight * total / point), States(tilted, depth)))
    else:
        raise UsageError(f"the scheme is 'all nodes' or 'one node', not {scheme!r}")
    states = components[0][1]
    return TreePopulation(
        grammar=grammar,
        components=components,
        inside_features=[list(rows) for rows in states.inside],
        outside_features=[list(rows) for rows in states.outside],
    )


def tilt(grammar: TensorGrammar, factor: float) -> tuple[TensorGrammar, float]:
    """Return the L-PCFG whose trees have probability `p(tree) s^N / total`, and the `total`, for a factor `s` below 1.

    `N` counts all nodes. With `z_h` the total weight `s^N` of the inside trees of a state, which is the smallest
    solution of `z = s T(z, z)` with `z = s` for preterminals, `T` becomes `s T z_b z_c / z_a`.
    """
    if not 0 < factor <= 1:
        raise UsageError(f"trees can be weighted by numbers above 0 and up to 1, not {factor}")
    sizes, rules = grammar.states, grammar.rules.tolist()
    tensors = [grammar.tensor(rule) for rule in range(len(rules))]
    z = [np.zeros(size) for size in sizes[: grammar.n_interminals]]
    z += [np.full(size, factor) for size in sizes[grammar.n_interminals :]]
    for _ in range(_STEPS):
        new = [np.zeros_like(row) for row in z[: grammar.n_interminals]]
        for tensor, (a, b, c) in zip(tensors, rules, strict=True):
            new[a] += factor * (tensor @ z[c]) @ z[b]
        change = max((float(np.abs(row - old).max()) for row, old in zip(new, z, strict=False)), default=0.0)
        z[: grammar.n_interminals] = new
        if change < 1e-15:
            break
    else:
        raise GrammarError("the grammar's trees have no finite expected size: its rules grow faster than they end")
    if any((row <= 0).any() for row in z):
        raise GrammarError("a state of the grammar has no finite tree below it")
    flat = np.concatenate(z)
    tilted = [
        factor * tensor * z[b][:, None] * z[c] / z[a][:, None, None]
        for tensor, (a, b, c) in zip(tensors, rules, strict=True)
    ]
    total = float(grammar.root @ flat)
    other = replace(
        grammar,
        tensors=np.concatenate([tensor.ravel() for tensor in tilted] or [np.zeros(0)]),
        root=grammar.root * flat / total,
        levels=(),
    )
    return other.validate(), total


def learn_spectral(
    grammar: TensorGrammar,
    states: int | Sequence[int] | None = None,
    *,
    depth: int = 2,
    scheme: Scheme = "all nodes",
    tolerance: float = 1e-10,
) -> TensorGrammar:
    """Return the result of spectral learning on infinite data from a probabilistic grammar (figures 7 and 8).

    Parameters
    ----------
    grammar
        The grammar that the data come from.
    states
        The most states of a symbol, or of each; by default as many as in `grammar`. Symbols whose `Omega^a` has a
        lower numerical rank get fewer.
    depth, scheme
        Features, and how nodes are picked, as for `population`.
    tolerance
        The part of the largest singular value at which the numerical rank is cut.

    Examples
    --------
    >>> grammar = TensorGrammar.from_parts(
    ...     root={"S": 1.0}, rules={("S", "N", "V"): 1.0}, words={("N", "rain"): 1.0, ("V", "fell"): 1.0}
    ... )
    >>> learn_spectral(grammar)
    <TensorGrammar: 3 symbols (1 states), 1 rules, 2 words>
    """
    limits = np.array(grammar.states if states is None else np.broadcast_to(states, grammar.states.shape))
    source = population(grammar, depth=depth, scheme=scheme)
    found = [project(source.omega(a), int(limit), tolerance) for a, limit in enumerate(limits)]
    moments = source.moments([(left, right) for left, right, _ in found])
    learned = grammar_from_moments(grammar, moments)
    return replace(learned, info={"method": "spectral, from a population", "scheme": scheme, "depth": depth})


def grammar_from_moments(grammar: TensorGrammar, moments: Moments) -> TensorGrammar:
    """Return the grammar that spectral learning makes of moments (step 3 of figure 7), without smoothing.

    Parameters
    ----------
    grammar
        Has the symbols, rules and words that moments are numbered by; its weights are ignored.
    moments
        Exact or estimated.
    """
    weights = assemble(moments)
    learned = replace(
        grammar,
        states=weights.states,
        tensors=weights.tensors,
        root=weights.root,
        emissions=_emissions(grammar, moments, weights),
        probabilistic=False,
        occupancy=weights.occupancy,
        rule_counts=moments.rule_counts,
        levels=(),
        info={"method": "spectral, from moments"},
    )
    return learned.validate()


def _emissions(grammar: TensorGrammar, moments: Moments, weights: SpectralWeights) -> Emissions:
    """Return the learned vectors of all words and signatures, with neither back-off nor sharing between tags."""
    lexicon = grammar.lexicon
    terminal = np.concatenate(moments.terminals)
    symbol = np.repeat(np.arange(len(moments.terminals)), [len(ours) for ours in moments.terminals])
    rows = [row for vectors in weights.lexical for row in vectors]
    order = np.lexsort((symbol, terminal))
    states = weights.states[moments.n_interminals :]
    return replace(
        grammar.emissions,
        states=states,
        offsets=run_offsets(terminal[order], lexicon.n_terminals),
        symbol=symbol[order].astype(np.int32),
        values=np.concatenate([rows[entry] for entry in order]),
        # A signature's own vectors count once, and words do not lean on theirs.
        backoff=(np.arange(lexicon.n_terminals) >= lexicon.n_words).astype(float),
        climb=np.zeros(len(lexicon.signatures)),
        share=np.zeros(int(offsets_of(states)[-1])),
        tag_offsets=np.zeros(lexicon.n_terminals + 1, np.int64),
        tag=np.zeros(0, np.int32),
        tag_values=np.zeros(0),
        emitter=None,
    )
