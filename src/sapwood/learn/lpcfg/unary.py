"""Unary steps: unfolded for learning, and folded back into composite symbols for parsing.

A `Corpus` has every unary chain collapsed into one symbol (`NP|NN`, `S|VP`), which hides that the words of `NP|NN` and
of `NN` are the same nouns. `unfold` restores the last step of each chain: `NP|NN` becomes `NP` over `NN`, `S|VP|VB`
becomes `S|VP` over `VB`, so there is at most one step per span. A unary node `X -> Z` is represented in the unfolded
corpus as a binary one, `X -> Z EMPTY`, whose right child is always the same deterministic leaf, so all code for binary
trees applies to it unchanged; its tensor `(m_X, m_Z, 1)` is the matrix of the step.

`fold` turns an L-PCFG of unfolded trees into one of collapsed trees with the same parameters. Symbol `X|Z` gets the
states of `Z`. With `u(x, z)` the probability that state `x` of `X` takes the step to `z`, and `T` the probabilities of
binary rules if no step is taken,

    A -> B C            T(a, b, c) stop(b) stop(c)          stop(b) = 1 - sum over steps of u(b, z)
    A -> B|Z C          sum over b of T(a, b, c) u(b, z) stop(c)
    X|A -> B C          the same as A -> B C

so children may combine that were never observed together. Rules with too low an expected count (`folded_rules`) are
dropped, and rows are renormalised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np

from sapwood.grammar.emissions import Emissions, offsets_of
from sapwood.inference.estep.trees import Expectations
from sapwood.learn.lpcfg.weights import LatentWeights
from sapwood.storage.shapes import Array, Float, Int, Int32, Int64, Shaped
from sapwood.trees.corpus import Corpus
from sapwood.trees.symbols import Parts, Symbol, SymbolTable, make_symbol

# The empty leaf below a unary step; having no labels, it cannot be a symbol of a tree.
EMPTY = Symbol("EMPTY|", Parts(()))
_NO_WORD = "\0"


@dataclass(frozen=True, eq=False)
class Unfolded:
    """A corpus with unary steps.

    Attributes
    ----------
    folded
        The original corpus.
    corpus
        The corpus with a node for each unary step. If there are any, its last preterminal and its last word are the
        empty leaf.
    top, bottom
        For each composite symbol of `folded`, the unfolded symbols above and below its step; for other symbols, -1 and
        their own index.
    """

    folded: Corpus
    corpus: Corpus
    top: Int32[Array, "folded_symbols"]
    bottom: Int32[Array, "folded_symbols"]

    @property
    def has_steps(self) -> bool:
        """True if there is any unary step."""
        return bool((self.top >= 0).any())

    @cached_property
    def empty(self) -> int:
        """Index of the empty leaf's preterminal, -1 if there is none."""
        return len(self.corpus.symbols) - 1 if self.has_steps else -1


def unfold(corpus: Corpus) -> Unfolded:
    """Restore the last step of each unary chain."""
    is_leaf = np.arange(len(corpus.symbols)) >= corpus.n_interminals
    plain = is_leaf & (not corpus.transform.annotate_tags)
    steps = [_step(symbol, bool(bare)) for symbol, bare in zip(corpus.symbols, plain, strict=True)]
    # Symbols by their parts: the lower half of one symbol can be a whole other symbol.
    inner = {above.parts: above for above, _ in steps if above is not None}
    tags: dict[Parts, Symbol] = {}
    for (_, below), leaf in zip(steps, is_leaf, strict=True):
        (tags if leaf else inner).setdefault(below.parts, below)
    composite = np.array([above is not None for above, _ in steps])
    symbols = SymbolTable((*inner.values(), *tags.values(), *([EMPTY] if composite.any() else [])))
    inner_ids = {parts: number for number, parts in enumerate(inner)}
    tag_ids = {parts: len(inner) + number for number, parts in enumerate(tags)}
    top = np.array([-1 if above is None else inner_ids[above.parts] for above, _ in steps], np.int32)
    bottom = np.array(
        [(tag_ids if leaf else inner_ids)[below.parts] for (_, below), leaf in zip(steps, is_leaf, strict=True)],
        np.int32,
    )
    # Each composite node is followed by its lower half; the empty leaf follows its last descendant.
    nodes = np.arange(corpus.n_nodes)
    stepping = np.flatnonzero(composite[corpus.symbol])
    behind = stepping + 2 * (corpus.end[stepping] - corpus.start[stepping]) - 1
    position = np.concatenate([nodes, stepping, behind])
    kind = np.repeat([2, 1, 0], [len(nodes), len(stepping), len(stepping)])  # lower half or whole, upper half, empty
    order = np.lexsort((-np.concatenate([nodes, stepping, stepping]), kind, position))
    symbol = np.concatenate(
        [bottom[corpus.symbol], top[corpus.symbol[stepping]], np.full(len(stepping), len(symbols) - 1, np.int32)]
    )
    n_words = len(corpus.words)
    word = np.concatenate([corpus.word, np.full(len(stepping), -1), np.full(len(stepping), n_words)])
    tree_of_step = np.searchsorted(corpus.offsets, stepping, side="right") - 1
    added = np.concatenate([[0], np.cumsum(2 * np.bincount(tree_of_step, minlength=corpus.n_trees))])
    unfolded = Corpus.from_columns(
        symbols,
        len(inner),
        [*corpus.words, *([_NO_WORD] if composite.any() else [])],
        symbol[order].astype(np.int32),
        word[order].astype(np.int32),
        corpus.offsets + added,
        corpus.normaliser,
        corpus.transform,
    )
    # A corpus can have rules and symbols that do not occur in its trees.
    outer = np.where(top >= 0, top, bottom)
    a, b, c = corpus.rules.T
    stepped = np.flatnonzero(top >= 0)
    empty = np.full(len(stepped), len(symbols) - 1)
    rules = np.concatenate(
        [np.stack([bottom[a], outer[b], outer[c]], axis=1), np.stack([top[stepped], bottom[stepped], empty], axis=1)]
    )
    return Unfolded(corpus, unfolded.with_rules(rules), top, bottom)


def _step(symbol: Symbol, plain: bool) -> tuple[Symbol | None, Symbol]:
    """Return the symbols above and below the last unary step of a symbol; None above without a step.

    With `plain`, the symbol below is a tag without ancestors, like tags that are not part of a unary chain.
    """
    labels, ancestors, _, intermediate = symbol.parts
    if intermediate or len(labels) < 2:
        return None, symbol
    *above, tag = labels
    known = () if plain else (*reversed(above), *ancestors)[: len(ancestors)]
    return make_symbol(tuple(above), ancestors), make_symbol((tag,), known)


@dataclass(frozen=True, eq=False)
class FoldedRules:
    """Result of `fold`: rules and root of a grammar over the collapsed symbols, as in `TensorGrammar`."""

    states: Int32[Array, "symbols"]
    rules: Int32[Array, "rules 3"]
    tensors: Float[Array, "weights"]
    rule_counts: Float[Array, "rules"]
    root: Float[Array, "all_states"]
    occupancy: Float[Array, "all_states"]


def folded_rules(
    unfolded: Unfolded, counts: Shaped[Array, "unfolded_rules"] | None = None, *, least: float = 0.1
) -> tuple[Int32[Array, "rules 3"], Int64[Array, "rules"]]:
    """Return the rules over collapsed symbols to keep, sorted, and the unfolded rule of each.

    These are the observed rules, and those that the treebank's PCFG of unfolded trees expects at least `least` times in
    a treebank of the same size. They depend on the trees alone, so grammars that differ in their states have the same
    rules. Rule counts are those of the trees, unless `counts` is given.
    """
    counts = unfolded.corpus.rule_counts() if counts is None else counts
    corpus, folded = unfolded.corpus, unfolded.folded
    outer = np.where(unfolded.top >= 0, unfolded.top, unfolded.bottom)
    as_parent, as_child = _shares(unfolded)
    is_inner = np.arange(len(folded.symbols)) < folded.n_interminals
    parents, children = defaultdict(list), defaultdict(list)
    for s in range(len(folded.symbols)):
        children[int(outer[s])].append(s)
        if is_inner[s]:
            parents[int(unfolded.bottom[s])].append(s)
    observed = set(map(tuple, folded.rules.tolist()))
    found: dict[tuple[int, int, int], int] = {}
    for r, ((a, b, c), often) in enumerate(zip(corpus.rules.tolist(), counts.tolist(), strict=True)):
        if c == unfolded.empty:
            continue
        for parent in parents[a]:
            for left in children[b]:
                share = often * as_parent[parent] * as_child[left]
                for right in children[c]:
                    if share * as_child[right] >= least or (parent, left, right) in observed:
                        found[parent, left, right] = r
    rules = sorted(found)
    return np.array(rules, np.int32).reshape(-1, 3), np.array([found[rule] for rule in rules], np.int64)


def fold(
    unfolded: Unfolded,
    weights: LatentWeights,
    steps: Mapping[int, Float[Array, "m_x m_z"]],
    occupancy: Float[Array, "all_states"],
    wanted: tuple[Int32[Array, "rules 3"], Int64[Array, "rules"]] | None = None,
) -> FoldedRules:
    """Return the rules over collapsed symbols that an L-PCFG of unfolded trees implies.

    `steps` (see `expected_steps`) and `occupancy` are its expected counts in those trees; `wanted` is the result of
    `folded_rules`.
    """
    corpus, folded = unfolded.corpus, unfolded.folded
    offsets = weights.state_offsets
    parts = [slice(offsets[s], offsets[s + 1]) for s in range(len(corpus.symbols))]
    tensors = _by_rule(weights, weights.tensors)
    states = weights.states[unfolded.bottom]

    # Expected counts of the states of each collapsed symbol, and of unfolded symbols that are not below a step.
    seen: list[np.ndarray] = [np.zeros(0)] * len(folded.symbols)
    direct = np.flatnonzero(unfolded.top < 0).tolist()
    free = occupancy.copy()
    for s, count in steps.items():
        seen[s] = count.sum(axis=0)
        free[parts[unfolded.bottom[s]]] -= seen[s]
    free = np.maximum(free, 0.0)
    # Probability of each step given the state above it, and of no step (the diagonal of a matrix).
    stop = np.ones(len(weights.root))
    child: list[np.ndarray] = [np.zeros((0, 0))] * len(folded.symbols)
    for s, count in steps.items():
        above = parts[unfolded.top[s]]
        child[s] = count / np.where(free[above] > 0, free[above], 1.0)[:, None]
        stop[above] -= child[s].sum(axis=1)
    stop = np.maximum(stop, 0.0)
    for s in direct:
        own = parts[unfolded.bottom[s]]
        seen[s] = free[own] * stop[own]
        child[s] = stop[own]
    # A symbol below a step takes no further step: only its binary rules apply.
    binary = np.zeros(len(weights.root))
    for r in np.flatnonzero(corpus.rules[:, 2] != unfolded.empty).tolist():
        binary[parts[corpus.rules[r, 0]]] += tensors[r].astype(np.float64).sum(axis=(1, 2))

    rules, source = wanted or folded_rules(unfolded)
    folded_offsets, tensor_offsets = offsets_of(states), offsets_of(states[rules].prod(axis=1, dtype=np.int64))
    rows, rule_counts = np.zeros(int(states.sum())), np.zeros(len(rules))
    result = np.empty(int(tensor_offsets[-1]), np.float32)
    order = np.argsort(source, kind="stable").tolist()
    sources = [(r, list(numbers)) for r, numbers in groupby(order, lambda number: int(source[number]))]
    # First the normalisers of rows, which need no tensors, then one tensor at a time.
    totals = [step if step.ndim == 1 else step.sum(axis=1) for step in child]
    for r, numbers in sources:
        tensor = _rows(tensors[r].astype(np.float64), binary[parts[corpus.rules[r, 0]]])
        for parent, left, right in rules[numbers].tolist():
            rows[folded_offsets[parent] : folded_offsets[parent + 1]] += tensor @ totals[right] @ totals[left]
    for r, numbers in sources:
        tensor = _rows(tensors[r].astype(np.float64), binary[parts[corpus.rules[r, 0]]])
        made: dict[tuple[int, int], np.ndarray] = {}  # parents of one unfolded rule share its tensors
        for number, (parent, left, right) in zip(numbers, rules[numbers].tolist(), strict=True):
            if (left, right) not in made:
                made[left, right] = _take_steps(tensor, child[left], child[right])
            own = rows[folded_offsets[parent] : folded_offsets[parent + 1]]
            piece = _rows(made[left, right], own).astype(np.float32)
            rule_counts[number] = seen[parent] @ piece.sum(axis=(1, 2), dtype=np.float64)
            result[tensor_offsets[number] : tensor_offsets[number + 1]] = piece.ravel()
    root = np.zeros(int(states.sum()))
    for s, step in enumerate(child):
        above = weights.root[parts[unfolded.top[s] if s in steps else unfolded.bottom[s]]]
        root[folded_offsets[s] : folded_offsets[s + 1]] = above @ step if s in steps else above * step
    return FoldedRules(
        states=states.astype(np.int32),
        rules=rules,
        tensors=result,
        rule_counts=rule_counts,
        root=root / root.sum(),
        occupancy=np.concatenate(seen),
    )


def expected_steps(
    unfolded: Unfolded, weights: LatentWeights, expected: Expectations
) -> dict[int, Float[Array, "m_x m_z"]]:
    """Return the expected counts of each composite symbol's step, by the states above and below it."""
    counts = _by_rule(weights, expected.tensors)
    number = {(a, b): r for r, (a, b, c) in enumerate(unfolded.corpus.rules.tolist()) if c == unfolded.empty}
    composite = np.flatnonzero(unfolded.top >= 0).tolist()
    return {s: counts[number[int(unfolded.top[s]), int(unfolded.bottom[s])]][:, :, 0].copy() for s in composite}


def _take_steps(tensor: np.ndarray, left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray:
    """Return a rule's tensor over the states below its children's steps, given as matrices, diagonals, or None."""
    for axis, step in ((1, left), (2, right)):
        if step is not None and step.ndim == 1:
            tensor = tensor * (step[:, None] if axis == 1 else step)
        elif step is not None:
            tensor = np.moveaxis(np.tensordot(tensor, step, axes=(axis, 0)), -1, axis)
    return tensor


def fold_weights(
    unfolded: Unfolded,
    states: Int[Array, "unfolded_symbols"],
    tensors: Sequence[Float[Array, "m_a m_b m_c"]],
    root: Sequence[Float[Array, "m_a"]],
    means: Sequence[Float[Array, "m_a"]],
    *,
    least: float = 0.1,
) -> FoldedRules:
    """Return the rules over collapsed symbols that real-valued weights of unfolded trees imply.

    Such weights are not normalised, so nothing is divided: a symbol without a step keeps its rules, one with a step
    gets `sum over b of T(a, b, c) U(b, z)`. A symbol below a step could take another step in the unfolded grammar but
    not here, so the weights of all trees sum to slightly less. Rule counts are those that the treebank's PCFG of
    unfolded trees expects; `means` are the mean inside vectors of the unfolded symbols.
    """
    corpus, folded = unfolded.corpus, unfolded.folded
    steps = {(int(a), int(b)): tensors[r][:, :, 0] for r, (a, b, c) in enumerate(corpus.rules) if c == unfolded.empty}
    child = [
        None if top < 0 else steps[int(top), int(bottom)]
        for top, bottom in zip(unfolded.top, unfolded.bottom, strict=True)
    ]
    rules, source = folded_rules(unfolded, least=least)
    pieces = []
    made: dict[tuple[int, int, int], np.ndarray] = {}
    for (_, left, right), rule in zip(rules.tolist(), source.tolist(), strict=True):
        if (rule, left, right) not in made:
            made[rule, left, right] = _take_steps(tensors[rule], child[left], child[right])
        pieces.append(made[rule, left, right].ravel())
    counts = folded.symbol_counts().astype(float)
    as_parent, as_child = _shares(unfolded)
    often = corpus.rule_counts()[source] * as_parent[rules[:, 0]] * as_child[rules[:, 1]] * as_child[rules[:, 2]]
    folded_root = [
        root[bottom] if step is None else root[top] @ step
        for top, bottom, step in zip(unfolded.top, unfolded.bottom, child, strict=True)
    ]
    occupancy = [count * means[bottom] for count, bottom in zip(counts, unfolded.bottom, strict=True)]
    return FoldedRules(
        states=states[unfolded.bottom].astype(np.int32),
        rules=rules,
        tensors=np.concatenate(pieces or [np.zeros(0)]),
        rule_counts=often,
        root=np.concatenate(folded_root),
        occupancy=np.concatenate(occupancy),
    )


def _shares(unfolded: Unfolded) -> tuple[np.ndarray, np.ndarray]:
    """Return each collapsed symbol's share among those with the same bottom, and among those with the same top."""
    counts = unfolded.folded.symbol_counts().astype(float)
    size = len(unfolded.corpus.symbols)
    outer = np.where(unfolded.top >= 0, unfolded.top, unfolded.bottom)
    below = np.bincount(unfolded.bottom, weights=counts, minlength=size)
    outside = np.bincount(outer, weights=counts, minlength=size)
    return counts / np.maximum(below, 1)[unfolded.bottom], counts / np.maximum(outside, 1)[outer]


def share_emissions(unfolded: Unfolded, emissions: Emissions) -> Emissions:
    """Return the emissions of the collapsed preterminals, given those of the tags below their steps.

    One preterminal of each tag is the emitter for all preterminals that end in it.
    """
    first = unfolded.folded.n_interminals
    tags = unfolded.bottom[first:] - unfolded.corpus.n_interminals
    owner: dict[int, int] = {}
    for preterminal, tag in enumerate(tags.tolist()):
        owner.setdefault(tag, preterminal)
    emitter = np.array([owner[tag] for tag in tags.tolist()], np.int32)
    owners = np.array([owner[tag] for tag in range(len(owner))], np.int32)
    sizes = emissions.states[tags].astype(np.int64)
    begins = np.repeat(emissions.state_offsets[tags] - (np.cumsum(sizes) - sizes), sizes)
    return replace(
        emissions,
        states=emissions.states[tags],
        symbol=owners[emissions.symbol],
        tag_of=emissions.tag_of[tags],
        share=emissions.share[begins + np.arange(int(sizes.sum()))],
        emitter=emitter,
    )


def _rows(tensor: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Divide each row by its total; states without one get the mean of the others."""
    alive = totals > 0
    rows = tensor / np.where(alive, totals, 1.0)[:, None, None]
    if not alive.all():
        rows[~alive] = rows[alive].mean(axis=0) if alive.any() else 0.0
    return rows


def _by_rule(weights: LatentWeights, flat: np.ndarray) -> list[np.ndarray]:
    shapes = weights.states[weights.rules].tolist()
    return [
        flat[begin:end].reshape(shape)
        for (begin, end), shape in zip(pairwise(weights.tensor_offsets.tolist()), shapes, strict=True)
    ]
