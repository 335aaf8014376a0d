"""Grammar compression by merging states: probabilities stay probabilities, zeros stay zeros.

A projection to fewer states (`sapwood.automata.reduce.truncation`) fills sparse tensors, so that a grammar with a
quarter of the states can have more weights than before and parse more slowly. Merging is also a projection, but by
matrices of zeros and shares: a group of states has the mean of its members' rules, weighted by their expected counts
(`sapwood.grammar.state_ops.merge_states`).

The states to merge are chosen by the likelihood of a treebank, as in split-merge (Petrov et al. 2006, section 2.3),
but for any two states `i`, `j` of a symbol, not only the halves of a split. With inside vectors `I`, outside vectors
`O`, scaled such that `I . O = 1` at each node, and the states' shares `p_i + p_j = 1`, merging them at one node alone
makes its tree

    1 + (p_i I_i + p_j I_j) (O_i + O_j) - I_i O_i - I_j O_j

times as probable; the sum of the logarithms over all nodes approximates the cost of merging. The cheapest pair is
merged, `I` and `O` become those of the merged states, and so on until one state is left: each symbol has a list of
merges with their costs. These take the place of squared singular values in choosing how many states symbols keep.

The merged grammar then loses its smallest probabilities (`drop_weights`), and weights are rounded to half precision, in
which they are stored. Fewer states alone hardly speed up parsing, so `sapwood.pipeline.compress` also trains a cell
pruner. Do not run EM after merging for parsing: it makes the trees more probable and their parses worse, because it
undoes the smoothing of training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from sapwood.automata.distance import Distances
from sapwood.automata.empirical_gram import known_trees, vectors_by_symbol
from sapwood.automata.reduce.truncation import Symbols, distance, distances_of, with_symbols
from sapwood.automata.svta import StateBudget, choose_states
from sapwood.errors import UsageError
from sapwood.grammar.coarsen import expected_symbols
from sapwood.grammar.state_ops import drop_weights, merge_states, quantise
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.estep.trees import TreeEStep
from sapwood.runtime.blas import with_one_blas_thread
from sapwood.runtime.executor import Threads
from sapwood.runtime.progress import Progress, Silent
from sapwood.storage.shapes import Array, Float, Int
from sapwood.trees.corpus import Corpus

# Defaults, chosen on development data; see docs/minimisation.md.
DEFAULT_BUDGET, DEFAULT_LEAST = 0.7, 1e-5
# Number of nodes processed at once.
_NODES = 1 << 15
# Lower bound of a node's factor in one merge, because the approximation can be negative.
_LEAST_FACTOR = 1e-6


@dataclass(frozen=True, eq=False)
class Merges:
    """The merges of a family: symbols whose states are merged together, such as preterminals that share an emitter.

    Attributes
    ----------
    symbols
        The family.
    pairs
        State `j` is merged into state `i < j`, in this order, until one is left.
    losses
        Approximate loss of log-likelihood of each merge.
    """

    symbols: list[int]
    pairs: Int[Array, "merges 2"]
    losses: Float[Array, "merges"]

    @property
    def values(self) -> Float[Array, "states"]:
        """Values of the states: roots of the losses in reverse order; the first state is always kept."""
        rising = np.maximum.accumulate(np.maximum(self.losses, 0.0))
        return np.sqrt(np.append(rising, rising[-1:] if len(rising) else 1.0)[::-1])

    def groups(self, count: int) -> Int[Array, "states"]:
        """Return the group of each state if `count` groups are left."""
        group = np.arange(len(self.pairs) + 1)
        for first, second in self.pairs[: len(group) - count].tolist():
            group[group == second] = first
        return np.unique(group, return_inverse=True)[1]


@dataclass(frozen=True, eq=False)
class MergeResult:
    """A grammar with merged states, and the cost of merging.

    Attributes
    ----------
    grammar, before
        The smaller grammar, and the original one.
    merges
        All possible merges, by families of symbols.
    likelihoods
        Mean log-likelihood, before and after, of those trees that are possible in the smaller grammar.
    impossible
        Number of trees that are not.
    closeness
        Exact distances of the two, None if not requested or not finite.
    """

    grammar: TensorGrammar
    before: TensorGrammar
    merges: list[Merges]
    likelihoods: tuple[float, float]
    impossible: int
    closeness: Distances | None

    def to_dict(self) -> dict[str, Any]:
        """Return the cost, and the distances if they are known, as JSON values."""
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
    min_probability: float = DEFAULT_LEAST,
    half_precision: bool = True,
    symbols: Symbols = "own",
    distances: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
    **choice: Unpack[StateBudget],
) -> MergeResult:
    """Return a probabilistic grammar with fewer states and weights.

    Parameters
    ----------
    grammar
        A grammar of probabilities.
    corpus
        The trees whose likelihood decides the merges, preferably the training trees (`corpus_for`).
    min_probability
        Drop rule probabilities below this at the end; 0 keeps all.
    half_precision
        Whether to round weights to half precision, to be stored in two bytes each.
    symbols, distances, threads, progress
        As in `sapwood.automata.reduce.truncation.truncate`; `symbols` are own or base.
    choice
        Number of states to keep: `work`, `budget`, `tolerance` or `states` (`sapwood.automata.svta.StateBudget`, with
        roots of losses for singular values); by default a budget of 0.7. A budget of 1 merges nothing.
    """
    if not grammar.probabilistic:
        raise UsageError("only states of probabilities can be merged; this grammar's weights are real: project it")
    if not 0 <= min_probability < 1:
        raise UsageError(f"the least probability to keep is at least 0 and below 1, not {min_probability}")
    if all(number is None for number in choice.values()):
        choice = {"budget": DEFAULT_BUDGET}
    if symbols == "none":
        raise UsageError("states are merged by trees, which have labels: symbols are own or base")
    progress = progress or Silent()
    grammar = with_symbols(grammar, symbols)
    trees = TreeEStep(known_trees(grammar, corpus, progress), workers=Threads(threads))
    merges = find_merges(grammar, trees, progress=progress)
    family = np.zeros(len(grammar.symbols), np.int64)
    for number, found in enumerate(merges):
        family[found.symbols] = number
    sizes = [len(found.pairs) + 1 for found in merges]
    rules = family[grammar.rules], grammar.rule_counts
    counts = choose_states([found.values for found in merges], sizes=sizes, rules=rules, **choice)
    smaller = merge_states(grammar, all_groups(grammar, merges, counts))
    smaller = drop_weights(smaller, min_probability) if min_probability else smaller
    smaller = quantise(smaller) if half_precision else smaller
    before, after = (trees.inside(g).log_likelihoods for g in (grammar, smaller))
    possible = np.isfinite(after)
    told = {"by": "merging", "symbols": symbols, "states_before": int(grammar.states.sum()), "least": min_probability}
    smaller = smaller.with_info(minimised=told)
    return MergeResult(
        grammar=smaller,
        before=grammar,
        merges=merges,
        likelihoods=(_mean(before[possible]), _mean(after[possible])),
        impossible=int((~possible).sum()),
        closeness=distance(grammar, smaller, progress) if distances else None,
    )


def find_merges(grammar: TensorGrammar, trees: TreeEStep, *, progress: Progress | None = None) -> list[Merges]:
    """Return all families of symbols with the merges of their states, down to one state each.

    `trees` have the grammar's symbols and rules. States of symbols that occur in no tree are merged in order, at no
    cost.
    """
    progress = progress or Silent()
    inside: dict[int, list[np.ndarray]] = {}
    outside: dict[int, list[np.ndarray]] = {}
    with progress.stage("node vectors", total=trees.n_shards, unit="shards") as stage:
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
            first = grammar.state_offsets[list(symbols)]
            occupancy = np.sum([grammar.occupancy[start : start + size] for start in first], axis=0)
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
    """Return the pairs of states to merge in turn, always the cheapest, and the loss of log-likelihood of each merge.

    The products of inside and outside vectors of a node sum to one, and `occupancy` has the expected counts of states.

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
    """Return the loss of log-likelihood of merging a state with each of the others."""
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
    """Return the group of each state of the grammar, given the number of states of each family."""
    groups = np.zeros(int(grammar.states.sum()), np.int64)
    for found, count in zip(merges, counts.tolist(), strict=True):
        for symbol in found.symbols:
            groups[grammar.state_offsets[symbol] : grammar.state_offsets[symbol + 1]] = found.groups(count)
    return groups


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("-inf")


def _families(grammar: TensorGrammar) -> list[list[int]]:
    """Return the symbols that must have the same groups: preterminals with one emitter; all others are alone."""
    first, emitter = grammar.n_interminals, grammar.emissions.emitter
    families: dict[int, list[int]] = {}
    for symbol in range(len(grammar.symbols)):
        owner = symbol if symbol < first or emitter is None else first + int(emitter[symbol - first])
        families.setdefault(owner, []).append(symbol)
    return list(families.values())


def _scaled(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors whose products sum to one for each node; nodes without weight are skipped."""
    largest = inside.max(axis=1)
    inside = inside / np.where(largest > 0, largest, 1)[:, None]
    products = np.einsum("ns,ns->n", inside, outside, dtype=np.float64)
    kept = np.isfinite(products) & (products > 0)
    return inside[kept], (outside[kept] / products[kept, None]).astype(np.float32)
