"""Grammar compression by projection: fewer states for each symbol, dropping those that matter least.

Three criteria decide which states matter (`Weighting`):

- `l2`: all trees, each by its squared weight. This gives the singular values of the Hankel matrices, and the result is
  a truncated singular value tree automaton (Rabusseau, Balle and Cohen 2016).
- `gamma`: the same for `gamma^size(t) f(t)`, so that larger trees count for more (SVTA*).
- `trees`: the nodes of a treebank, by their frequency (`sapwood.automata.empirical_gram`). The best for parsing.

The result is always a projection of the grammar. Its weights are real numbers, not probabilities, and hardly any is
zero: for sparse probabilistic grammars, merging (`sapwood.automata.reduce.state_merging`) does better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Unpack, get_args

import numpy as np

from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.distance import Distances, compare
from sapwood.automata.empirical_gram import node_grams
from sapwood.automata.gram import DivergenceError, check_gamma, gram_matrices, largest_gamma
from sapwood.automata.minimal import minimal
from sapwood.automata.svta import SingularStates, StateBudget, check_choice, choose_states, project, singular_states
from sapwood.errors import UsageError
from sapwood.grammar.coarsen import expected_symbols
from sapwood.grammar.state_ops import change_states, merge_symbols
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.runtime.blas import with_one_blas_thread
from sapwood.runtime.progress import Progress, Silent
from sapwood.storage.shapes import Array, Float, Int
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

Weighting = Literal["l2", "gamma", "trees"]
Symbols = Literal["own", "base", "none"]
# Default fraction of the singular values to drop.
DEFAULT_TOLERANCE = 0.05
# Default gamma relative to the largest one, at which the sums are no longer finite; and smaller ones that are tried in
# turn if the truncation loses everything: twice as far from the border each time.
_SHARES = (0.97, 0.94, 0.88, 0.76, 0.52)
# A truncation with this l2 distance or more, relative to the norm, has lost everything: zero has 1.
_LOST = 0.99
# Maximum number of weights of a grammar with merged symbols: 4 GB.
MOST_WEIGHTS = 1 << 29


@dataclass(frozen=True, eq=False, kw_only=True)
class _Smaller(ABC):
    """Base class of smaller grammars and automata."""

    states: SingularStates
    closeness: Distances | None
    gamma: float | None
    weighting: Weighting

    @property
    @abstractmethod
    def kept(self) -> Int[Array, "sorts"]:
        """Number of states that each sort kept: the first of its singular states."""

    @property
    def dropped(self) -> float:
        """The dropped fraction of the singular values: roots of sums of squares, an estimate of the error."""
        total = self.states.dropped(0)
        return self.best_possible() / total if total > 0 else 0.0

    def best_possible(self) -> float:
        """Return the lower bound of the Hankel distance with this number of states (for `l2`)."""
        return self.states.dropped(self.kept)

    def to_dict(self) -> dict[str, Any]:
        """Return the dropped fraction, and the distances if they are known, as JSON values."""
        close = self.closeness
        return {
            "dropped": self.dropped,
            "gamma": self.gamma,
            **distances_of(close),
            "hankel_best": self.best_possible() if close is not None and self.weighting == "l2" else None,
        }

    def _records(
        self, names: Sequence[str], before: Int[Array, "sorts"], counts: Float[Array, "sorts"]
    ) -> list[dict[str, Any]]:
        return [
            {
                "symbol": name,
                "count": _rounded(counts[number]),
                "states_before": int(before[number]),
                "rank": int((values > 0).sum()),
                "states": int(self.kept[number]),
                "singular_values": [_rounded(value) for value in values],
            }
            for number, (name, values) in enumerate(zip(names, self.states.values, strict=True))
        ]


@dataclass(frozen=True, eq=False, kw_only=True)
class Truncation(_Smaller):
    """A smaller grammar and its distance from the original.

    Attributes
    ----------
    grammar
        The grammar with fewer states.
    before
        The grammar with all states, and with its symbols merged if requested.
    states
        All singular states of `before`; the first `grammar.states` of each symbol were kept.
    closeness
        Exact distances of the two, weights as they are stored, None if not requested or not finite.
    gamma, weighting
        The values that were used.
    """

    grammar: TensorGrammar
    before: TensorGrammar

    @property
    def kept(self) -> Int[Array, "sorts"]:
        """Number of states that each symbol kept."""
        return self.grammar.states

    def records(self) -> list[dict[str, Any]]:
        """Return each symbol's name, expected count, states, and singular values, as JSON values."""
        counts = expected_symbols(self.before)
        return self._records(self.before.symbols, self.before.states, counts)


@dataclass(frozen=True, eq=False, kw_only=True)
class ReducedAutomaton(_Smaller):
    """A smaller automaton and its distance from the original, as in `Truncation`."""

    automaton: TreeAutomaton
    before: TreeAutomaton

    @property
    def kept(self) -> Int[Array, "sorts"]:
        """Number of states that each sort kept."""
        return self.automaton.sizes

    def records(self) -> list[dict[str, Any]]:
        """Return each sort's name, states, and singular values, as JSON values; each counts once."""
        return self._records(self.before.sorts, self.before.sizes, np.ones(len(self.before.sorts)))


def distances_of(close: Distances | None) -> dict[str, float | None]:
    """Return distances as JSON values."""
    return {
        "l2": None if close is None else close.l2,
        "l2_relative": None if close is None else close.relative,
        "hankel": None if close is None else close.hankel,
    }


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def corpus_for(
    grammar: TensorGrammar, trees: Iterable[Tree], *, symbols: Symbols = "own", progress: Progress | None = None
) -> Corpus:
    """Return trees in the form that `truncate` takes: normalised as the grammar's, with its symbols or their bases."""
    transform = grammar.transform
    if symbols == "base":
        transform = replace(transform, vertical=1, horizontal=0, annotate_tags=False)
    return Corpus.from_trees(trees, normaliser=grammar.normaliser, transform=transform, progress=progress)


@with_one_blas_thread
def truncate(
    grammar: TensorGrammar,
    *,
    weighting: Weighting = "l2",
    gamma: float | None = None,
    corpus: Corpus | None = None,
    symbols: Symbols = "own",
    distances: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
    **choice: Unpack[StateBudget],
) -> Truncation:
    """Return a grammar with fewer states.

    Parameters
    ----------
    grammar
        Any grammar.
    weighting
        Criterion, see the module docstring.
    gamma
        For `gamma`: the factor; by default nearly the largest for which sums are finite, found by bisection. If the
        truncation then loses everything, the default is smaller (`default_states`).
    corpus
        For `trees`: the trees, with the grammar's symbols, or with base symbols if these are requested.
    symbols
        Which symbols share states: each has its `own`; all symbols with the same `base` share them (so that an
        annotated treebank grammar can be reduced); or `none`, one phrase and one tag, for trees without labels.
    distances
        Whether to compute the distance of the result from the grammar; takes about as long as the rest.
    threads, progress
        Number of threads, and progress display.
    choice
        Number of states to keep: `work`, `budget`, `tolerance` or `states`, see `sapwood.automata.svta.StateBudget`; by
        default a tolerance of 0.05. A tolerance of 0 drops only states without effect on any tree (or on the nodes of
        the treebank): with `l2` that is the minimal form of the grammar (`sapwood.automata.minimal`), in double
        precision.
    """
    if weighting not in get_args(Weighting):
        raise UsageError(f"no weighting {weighting!r}; choose from {', '.join(get_args(Weighting))}")
    if weighting == "trees" and corpus is None:
        raise UsageError("weighting by trees takes a treebank; give one, or choose l2 or gamma")
    if weighting == "trees" and symbols == "none":
        raise UsageError("weighting by trees needs labels, own or base: the treebank's trees have them")
    choice, exact = _checked(choice, weighting, gamma)
    progress = progress or Silent()
    with progress.stage("symbols", total=2, unit="steps") as stage:
        before = with_symbols(grammar, symbols)
        stage.step()
        automaton = None if weighting == "trees" else TreeAutomaton.from_grammar(before, words=False)
        stage.step()
    if exact:
        assert automaton is not None
        found, reduced = _exactly(before, automaton, progress)
    else:
        if automaton is None:
            assert corpus is not None
            found = singular_states(node_grams(before, corpus, threads=threads, progress=progress))
        else:
            choose = partial(_choose, before.states, (before.rules, before.rule_counts), choice)
            found, gamma = _states_of(automaton, weighting, gamma, choose, progress)
        # Canonical correlations ignore the frequency of a symbol; singular values of all trees do not.
        weights = np.sqrt(expected_symbols(before)) if weighting == "trees" else None
        counts = _choose(before.states, (before.rules, before.rule_counts), choice, found, weights)
        reduced = change_states(before, *_one_scale(found.truncated(counts)))
        # Parsing works in single precision.
        reduced = replace(reduced, tensors=reduced.tensors.astype(np.float32))
    closeness = distance(before, reduced, progress) if distances else None
    told = {"weighing": weighting, "symbols": symbols, "states_before": int(before.states.sum())}
    reduced = reduced.with_info(minimised={**told, **({} if gamma is None else {"gamma": gamma})})
    return Truncation(
        grammar=reduced, before=before, states=found, closeness=closeness, gamma=gamma, weighting=weighting
    )


def _exactly(
    grammar: TensorGrammar, automaton: TreeAutomaton, progress: Progress
) -> tuple[SingularStates, TensorGrammar]:
    """Return the singular states of a grammar's minimal form, and the grammar in that form."""
    with progress.stage("minimal form", total=1, unit="grammars") as stage:
        exact = minimal(automaton)
        stage.step()
    found = singular_states(gram_matrices(exact.automaton, progress=progress))
    return found, change_states(grammar, exact.inside, exact.outside)


@with_one_blas_thread
def minimise_automaton(
    automaton: TreeAutomaton,
    *,
    weighting: Literal["l2", "gamma"] = "l2",
    gamma: float | None = None,
    progress: Progress | None = None,
    **choice: Unpack[StateBudget],
) -> ReducedAutomaton:
    """Return an automaton with fewer states, with the distance if it is finite; see `truncate`.

    Examples
    --------
    >>> automaton = TreeAutomaton.single([1.0, 0.5], np.full((2, 2, 2), 0.05), {"a": [0.5, 0.25], "b": [0.25, 0.1]})
    >>> minimise_automaton(automaton, work=1).automaton
    <TreeAutomaton: 1 sort, 1 states, 1 rules>
    """
    choice, exact = _checked(choice, weighting, gamma)
    progress = progress or Silent()
    if exact:
        smaller = minimal(automaton).automaton
        found = singular_states(gram_matrices(smaller, progress=progress))
    else:
        choose = partial(_choose, automaton.sizes, (automaton.rules, np.ones(len(automaton.rules))), choice)
        found, gamma = _states_of(automaton, weighting, gamma, choose, progress)
        smaller = project(automaton, found.truncated(choose(found)))
    closeness = _distance(automaton, smaller, progress)
    return ReducedAutomaton(
        automaton=smaller, before=automaton, states=found, closeness=closeness, gamma=gamma, weighting=weighting
    )


def _checked(choice: StateBudget, weighting: Weighting, gamma: float | None) -> tuple[StateBudget, bool]:
    """Return the choice of states, by default a tolerance, and whether only states without effect may be dropped."""
    if gamma is not None:
        if weighting != "gamma":
            raise UsageError("gamma is for weighting by gamma")
        check_gamma(gamma)
    if all(number is None for number in choice.values()):
        choice = {"tolerance": DEFAULT_TOLERANCE}
    return choice, check_choice(choice) == ("tolerance", 0) and weighting == "l2"


def _choose(
    sizes: np.ndarray,
    rules: tuple[np.ndarray, np.ndarray],
    choice: StateBudget,
    found: SingularStates,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return the number of states to keep of each sort."""
    return choose_states(found.values, sizes=sizes.tolist(), weights=weights, rules=rules, **choice)


def _states_of(
    automaton: TreeAutomaton,
    weighting: Weighting,
    gamma: float | None,
    choose: Callable[[SingularStates], Int[Array, "sorts"]],
    progress: Progress,
) -> tuple[SingularStates, float | None]:
    """Return the singular states of all trees' sums, and the gamma that was used."""
    if weighting == "gamma" and gamma is None:
        return default_states(automaton, choose, progress=progress)
    # Near the largest gamma the matrices are ill-determined, but need not be precise.
    exactness = 1e-13 if weighting == "l2" else 1e-9
    grams = gram_matrices(automaton, gamma=gamma or 1.0, tolerance=exactness, progress=progress)
    return singular_states(grams), gamma


def default_states(
    automaton: TreeAutomaton,
    choose: Callable[[SingularStates], Int[Array, "sorts"]] | None = None,
    *,
    progress: Progress | None = None,
) -> tuple[SingularStates, float]:
    """Return the singular states for the default gamma (SVTA*), and that gamma.

    It is 0.97 of the largest for which the sums are finite. So near to the border, the states of the largest trees can
    come before states that every tree needs, and a truncation then gives no tree its weight. If the truncation to the
    states that `choose` keeps has lost everything, 0.94, 0.88, 0.76 and 0.52 are tried in turn; if all have, the first
    is taken, and a note says so: more states are needed.
    """
    progress = progress or Silent()
    largest = largest_gamma(automaton, tolerance=0.01, progress=progress)
    first: tuple[SingularStates, float] | None = None
    for share in _SHARES:
        gamma = share * largest
        found = singular_states(gram_matrices(automaton, gamma=gamma, tolerance=1e-9, progress=progress))
        first = first or (found, gamma)
        if choose is None or not _loses_everything(automaton, project(automaton, found.truncated(choose(found)))):
            return found, gamma
    assert first is not None
    progress.note("with these states the truncation loses all trees, whatever gamma is; keep more states")
    return first


def _loses_everything(automaton: TreeAutomaton, smaller: TreeAutomaton) -> bool:
    try:
        return compare(automaton, smaller).relative >= _LOST
    except DivergenceError:
        return True


def distance(before: TensorGrammar, after: TensorGrammar, progress: Progress) -> Distances | None:
    """Return the distance of a grammar from another one with its symbols, as stored; None if it is not finite."""
    return _distance(*TreeAutomaton.from_grammars(before, after), progress)


def _distance(automaton: TreeAutomaton, smaller: TreeAutomaton, progress: Progress) -> Distances | None:
    try:
        with progress.stage("distance", total=1, unit="grammars") as stage:
            found = compare(automaton, smaller)
            stage.step()
        return found
    except DivergenceError:
        progress.note("the smaller grammar's sums over all trees are not finite, so its distance is not either")
        return None


def with_symbols(grammar: TensorGrammar, symbols: Symbols) -> TensorGrammar:
    """Merge the symbols that are to share their states."""
    if symbols == "own":
        return grammar
    if symbols not in get_args(Symbols):
        raise UsageError(f"no symbols {symbols!r}; choose from {', '.join(get_args(Symbols))}")
    if symbols == "none":
        inner = int(grammar.states[: grammar.n_interminals].sum())
        leaf = int(grammar.states[grammar.n_interminals :].sum())
        if inner * (inner + leaf) ** 2 > MOST_WEIGHTS:
            raise UsageError(
                f"without labels the grammar would have {inner:,} x {inner + leaf:,}^2 weights; minimise it with its "
                "own symbols first, or take a grammar with fewer"
            )
        return merge_symbols(grammar, ["X"] * len(grammar.symbols))
    return merge_symbols(grammar)


def _one_scale(states: SingularStates) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the bases, scaled so that inside vectors of all symbols keep about their size."""
    factors = [np.sqrt(matrix.shape[1]) / max(float(np.linalg.norm(matrix)), 1e-300) for matrix in states.inside]
    return (
        [matrix * factor for matrix, factor in zip(states.inside, factors, strict=True)],
        [matrix / factor for matrix, factor in zip(states.outside, factors, strict=True)],
    )
