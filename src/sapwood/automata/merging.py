"""Smaller grammars by merging states: probabilities stay probabilities, zeros stay zeros.

A projection to fewer states (`sapwood.automata.reduction`) fills tensors that had few weights, so that a grammar with a
quarter of the states can have more weights than before and parse more slowly. Merging is a projection, too, but one by
matrices of zeros and shares: a group of states has the mean of its members' rules, by how often each is expected
(`sapwood.grammar.states.join_states`).

Which states to merge is decided by the likelihood of a treebank, as in split-merge (Petrov et al. 2006, section 2.3),
but for any two states `i`, `j` of a symbol, not only the halves of a split. With inside vectors `I`, outside vectors
`O`, scaled such that `I . O = 1` at each node, and the states' shares `p_i + p_j = 1`, merging them at one node alone
makes its tree

    1 + (p_i I_i + p_j I_j) (O_i + O_j) - I_i O_i - I_j O_j

times as probable; the sum of the logarithms over all nodes is what merging costs, about. The cheapest pair is merged,
`I` and `O` become those of the merged states, and so on until one state is left: each symbol has a list of merges with
what each costs. The costs take the place of squared singular values where it is decided how many states symbols keep.

What is left then loses its smallest probabilities (`drop_weights`), and weights are rounded to half precision, in which
they are stored. Fewer states alone hardly make parsing faster, so cells of the chart that are no phrases by the words
around them are closed (`sapwood.learn.closing`). EM after merging is not for parsing: it makes the trees more probable
and their parses worse, for it undoes what smoothing did while the grammar was learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from sapwood.automata.distance import Closeness
from sapwood.automata.observed import known_trees, vectors_by_symbol
from sapwood.automata.reduction import Symbols, distance, distances_of, with_symbols
from sapwood.automata.svta import Choice, choose_states
from sapwood.errors import UsageError
from sapwood.grammar.coarsen import expected_symbols
from sapwood.grammar.states import drop_weights, join_states, round_to_halves
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.observed import ObservedTrees
from sapwood.learn.closing import DEFAULT_KEEP, FEWEST, learn_closing
from sapwood.run.parallel import with_one_blas_thread
from sapwood.run.progress import Progress, Silent
from sapwood.run.workers import Threads
from sapwood.shapes import Array, Float, Int
from sapwood.trees.corpus import Corpus

# What is kept if nothing else is said: chosen on development data, see docs/automata.md.
DEFAULT_BUDGET, DEFAULT_LEAST, DEFAULT_THRESHOLD = 0.7, 1e-5, 5e-5
# Nodes worked on at once.
_NODES = 1 << 15
# No node gets less probable than by this factor at one merge: an approximation can be below zero.
_LEAST_FACTOR = 1e-6


@dataclass(frozen=True, eq=False)
class Merges:
    """The merges of a family: symbols whose states go together, as those of preterminals with one emitter.

    Attributes
    ----------
    symbols
        The family.
    pairs
        State `j` is merged into state `i < j`, in this order, until one is left.
    losses
        How much log-likelihood each merge costs, about.
    """

    symbols: list[int]
    pairs: Int[Array, "merges 2"]
    losses: Float[Array, "merges"]

    @property
    def values(self) -> Float[Array, "states"]:
        """What the states are worth: roots of the losses, the last merge's first; the first of all is always kept."""
        rising = np.maximum.accumulate(np.maximum(self.losses, 0.0))
        return np.sqrt(np.append(rising, rising[-1:] if len(rising) else 1.0)[::-1])

    def groups(self, count: int) -> Int[Array, "states"]:
        """Return the group of each state if `count` are to be left."""
        group = np.arange(len(self.pairs) + 1)
        for first, second in self.pairs[: len(group) - count].tolist():
            group[group == second] = first
        return np.unique(group, return_inverse=True)[1]


@dataclass(frozen=True, eq=False)
class Merged:
    """A grammar with merged states, and what is known of it.

    Attributes
    ----------
    grammar, before
        The smaller grammar, and the one it was made from.
    merges
        What could be merged, by families of symbols.
    likelihoods
        Mean log-likelihood, before and after, of those trees that are possible in the smaller grammar.
    impossible
        How many trees are not.
    closeness
        Exact distances of the two, None if they were not asked for or are not finite.
    """

    grammar: TensorGrammar
    before: TensorGrammar
    merges: list[Merges]
    likelihoods: tuple[float, float]
    impossible: int
    closeness: Closeness | None

    def to_dict(self) -> dict[str, Any]:
        """Return what it cost, and the distances if they are known, as JSON values."""
        before, after = self.likelihoods
        told = {"log_likelihood": {"before": before, "after": after}, "impossible": self.impossible}
        return {**told, **distances_of(self.closeness)}

    def records(self) -> list[dict[str, Any]]:
        """Return each symbol's name, expected count, states, and the losses of its merges, the last first."""
        counts = expected_symbols(self.before)
        family = {symbol: merges for merges in self.merges for symbol in merges.symbols}
        return [
            {
                "symbol": name,
                "count": float(f"{counts[number]:.6g}"),
                "states_before": int(self.before.states[number]),
                "states": int(self.grammar.states[number]),
                "losses": [float(f"{loss:.6g}") for loss in family[number].losses[::-1]],
            }
            for number, name in enumerate(self.before.symbols)
        ]


@with_one_blas_thread
def merge(
    grammar: TensorGrammar,
    corpus: Corpus,
    *,
    least: float = DEFAULT_LEAST,
    halves: bool = True,
    keep_open: float = DEFAULT_KEEP,
    threshold: float | None = DEFAULT_THRESHOLD,
    symbols: Symbols = "own",
    distances: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
    **choice: Unpack[Choice],
) -> Merged:
    """Return a probabilistic grammar with fewer states and weights.

    Parameters
    ----------
    grammar
        A grammar of probabilities.
    corpus
        The trees by whose likelihood states are merged, best those that it was trained on (`corpus_for`).
    least
        Rule probabilities below this are left out in the end; 0 keeps all.
    halves
        Whether weights are rounded to half precision, to be stored in two bytes each.
    keep_open
        The part of the phrases of trees, about, whose cells of the chart stay open (`sapwood.learn.closing`): closing
        the others makes parsing faster. 1 closes none, as do fewer than a hundred trees.
    threshold
        What parsing prunes by unless it is told otherwise (`Parser`), where cells are closed: then it can be higher
        than usual. None: as before.
    symbols, distances, threads, progress
        As in `sapwood.automata.reduction.minimise`; `symbols` are own or base.
    choice
        How many states are left: `work`, `budget`, `tolerance` or `states` (`sapwood.automata.svta.Choice`, with roots
        of losses for singular values); by default a budget of 0.7. A budget of 1 merges nothing.
    """
    if not grammar.probabilistic:
        raise UsageError("only states of probabilities can be merged; this grammar's weights are real: project it")
    if not 0 <= least < 1:
        raise UsageError(f"the least probability to keep is at least 0 and below 1, not {least}")
    if not 0 < keep_open <= 1:
        raise UsageError(f"the part of the phrases to keep open is above 0 and at most 1, not {keep_open}")
    if threshold is not None and not 0 <= threshold < 1:
        raise UsageError(f"the threshold of parsing is at least 0 and below 1, not {threshold}")
    if all(number is None for number in choice.values()):
        choice = {"budget": DEFAULT_BUDGET}
    if symbols == "none":
        raise UsageError("states are merged by trees, which have labels: symbols are own or base")
    progress = progress or Silent()
    grammar = with_symbols(grammar, symbols)
    trees = ObservedTrees(known_trees(grammar, corpus, progress), workers=Threads(threads))
    merges = find_merges(grammar, trees, progress=progress)
    family = np.zeros(len(grammar.symbols), np.int64)
    for number, found in enumerate(merges):
        family[found.symbols] = number
    sizes = [len(found.pairs) + 1 for found in merges]
    rules = family[grammar.rules], grammar.rule_counts
    counts = choose_states([found.values for found in merges], sizes=sizes, rules=rules, **choice)
    smaller = join_states(grammar, all_groups(grammar, merges, counts))
    smaller = drop_weights(smaller, least) if least else smaller
    smaller = round_to_halves(smaller) if halves else smaller
    closing = None
    if keep_open < 1 and corpus.n_trees >= FEWEST:
        closing = learn_closing(smaller, corpus, keep=keep_open, progress=progress)
    elif keep_open < 1:
        progress.note(f"no cells are closed: that is learned from {FEWEST} trees or more, not from {corpus.n_trees}")
    before, after = (trees.inside(g).log_likelihoods for g in (grammar, smaller))
    possible = np.isfinite(after)
    told = {"by": "merging", "symbols": symbols, "states_before": int(grammar.states.sum()), "least": least}
    told["open"] = 1.0 if closing is None else keep_open
    smaller = replace(smaller, closing=closing).with_info(minimised=told)
    return Merged(
        grammar=smaller if threshold is None or closing is None else smaller.with_info(threshold=threshold),
        before=grammar,
        merges=merges,
        likelihoods=(_mean(before[possible]), _mean(after[possible])),
        impossible=int((~possible).sum()),
        closeness=distance(grammar, smaller, progress) if distances else None,
    )


def find_merges(grammar: TensorGrammar, trees: ObservedTrees, *, progress: Progress | None = None) -> list[Merges]:
    """Return all families of symbols with the merges of their states, down to one state each.

    `trees` are those of the grammar's symbols and rules. States of symbols that no tree has are merged in order, and
    cost nothing.
    """
    progress = progress or Silent()
    inside: dict[int, list[np.ndarray]] = {}
    outside: dict[int, list[np.ndarray]] = {}
    with progress.stage("vectors of nodes", total=trees.n_shards, unit="shards") as stage:
        for vectors in trees.inside_outside(grammar):
            for symbol, up, down in vectors_by_symbol(vectors, trees.corpus.symbol, grammar.states):
                up, down = _scaled(up, down)
                inside.setdefault(symbol, []).append(up)
                outside.setdefault(symbol, []).append(down)
            stage.step()
    merges = []
    families = _families(grammar)
    with progress.stage("merges", total=len(families), unit="symbols") as stage:
        for symbols in families:
            size, seen = int(grammar.states[symbols[0]]), [symbol for symbol in symbols if symbol in inside]
            occupancy = np.sum([_states_of(grammar, grammar.occupancy, symbol) for symbol in symbols], axis=0)
            if size == 1 or not seen:
                pairs = np.column_stack([np.zeros(size - 1, np.int64), np.arange(1, size)])
                merges.append(Merges(symbols, pairs, np.zeros(size - 1)))
            else:
                up, down = (np.concatenate([part for symbol in seen for part in d[symbol]]) for d in (inside, outside))
                merges.append(Merges(symbols, *merge_order(up, down, occupancy)))
            stage.step()
    return merges


def merge_order(
    inside: Float[Array, "nodes states"], outside: Float[Array, "nodes states"], occupancy: Float[Array, "states"]
) -> tuple[Int[Array, "merges 2"], Float[Array, "merges"]]:
    """Return which states to merge in turn, and the log-likelihood that each merge costs, the cheapest always next.

    The products of inside and outside vectors of a node sum to one, and states are expected as often as `occupancy`
    says.

    Examples
    --------
    >>> same = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> pairs, losses = merge_order(same, np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]), np.ones(3))
    >>> pairs.tolist(), losses.round(4).tolist()
    ([[0, 1], [0, 2]], [0.0, 1.5041])
    """
    up, down = (np.ascontiguousarray(vectors.T, np.float32) for vectors in (inside, outside))
    often = np.maximum(np.asarray(occupancy, float), 1e-300)
    size = len(up)
    costs = np.full((size, size), np.inf)
    for first in range(size - 1):
        costs[first, first + 1 :] = _costs(up, down, often, first, np.arange(first + 1, size))
    pairs, losses, left = [], [], np.arange(size)
    while len(left) > 1:
        i, j = (int(axis) for axis in np.unravel_index(int(costs.argmin()), costs.shape))
        pairs.append((i, j))
        losses.append(float(costs[i, j]))
        share = np.float32(often[i] / (often[i] + often[j]))
        up[i] = share * up[i] + (1 - share) * up[j]
        down[i] += down[j]
        often[i] += often[j]
        costs[j], costs[:, j] = np.inf, np.inf
        left = left[left != j]
        totals = np.einsum("sn,sn->n", up[left], down[left])
        down /= np.where(totals > 0, totals, 1)
        others = left[left != i]
        costs[np.minimum(i, others), np.maximum(i, others)] = _costs(up, down, often, i, others)
    return np.array(pairs, np.int64).reshape(-1, 2), np.array(losses)


def _costs(up: np.ndarray, down: np.ndarray, often: np.ndarray, state: int, others: np.ndarray) -> np.ndarray:
    """Return the log-likelihood that merging a state with each of the others costs."""
    share = (often[state] / (often[state] + often[others])).astype(np.float32)[:, None]
    costs = np.zeros(len(others))
    for begin in range(0, up.shape[1], _NODES):
        part = slice(begin, begin + _NODES)
        own_up, own_down, its_up, its_down = up[state, part], down[state, part], up[others, part], down[others, part]
        change = (share * own_up + (1 - share) * its_up) * (own_down + its_down)
        change -= own_up * own_down + its_up * its_down
        costs -= np.log1p(np.maximum(change, _LEAST_FACTOR - 1)).sum(axis=1, dtype=np.float64)
    return costs


def all_groups(
    grammar: TensorGrammar, merges: Sequence[Merges], counts: Int[Array, "families"]
) -> Int[Array, "all_states"]:
    """Return the group of each state of the grammar if families keep so many of them."""
    groups = np.zeros(int(grammar.states.sum()), np.int64)
    for found, count in zip(merges, counts.tolist(), strict=True):
        for symbol in found.symbols:
            groups[grammar.state_offsets[symbol] : grammar.state_offsets[symbol + 1]] = found.groups(count)
    return groups


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("-inf")


def _families(grammar: TensorGrammar) -> list[list[int]]:
    """Return symbols that must have the same groups: preterminals with one emitter; all others are alone."""
    first, emitter = grammar.n_interminals, grammar.emissions.emitter
    families: dict[int, list[int]] = {}
    for symbol in range(len(grammar.symbols)):
        owner = symbol if symbol < first or emitter is None else first + int(emitter[symbol - first])
        families.setdefault(owner, []).append(symbol)
    return list(families.values())


def _states_of(grammar: TensorGrammar, values: np.ndarray, symbol: int) -> np.ndarray:
    return values[grammar.state_offsets[symbol] : grammar.state_offsets[symbol + 1]]


def _scaled(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors whose products sum to one for each node, those without weight left out."""
    largest = inside.max(axis=1)
    inside = inside / np.where(largest > 0, largest, 1)[:, None]
    products = np.einsum("ns,ns->n", inside, outside, dtype=np.float64)
    kept = np.isfinite(products) & (products > 0)
    return inside[kept], (outside[kept] / products[kept, None]).astype(np.float32)
