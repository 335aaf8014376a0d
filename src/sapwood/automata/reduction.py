"""Smaller grammars: fewer states for each symbol, those that matter least being left out.

Which states matter is a question of what counts, and there are three answers (`Weighing`):

- `l2`: all trees, each by its squared weight. These are the singular values of the Hankel matrices, and the result is a
  truncated singular value tree automaton (Rabusseau, Balle and Cohen 2016).
- `gamma`: the same for `gamma^size(t) f(t)`, so that larger trees count for more (SVTA*).
- `trees`: the nodes of a treebank, as often as they are seen (`sapwood.automata.observed`). The best for parsing.

The result is a projection of the grammar in each case. Its weights are real numbers, not probabilities, and hardly any
is zero: for parsers of probabilities that have learned to be sparse, merging (`sapwood.automata.merging`) does better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack, get_args

import numpy as np

from sapwood.automata.automaton import TreeAutomaton
from sapwood.automata.distance import Closeness, compare
from sapwood.automata.gram import DivergenceError, check_gamma, gram_matrices, largest_gamma
from sapwood.automata.minimal import minimal
from sapwood.automata.observed import node_grams
from sapwood.automata.svta import Choice, SingularStates, check_choice, choose_states, project, singular_states
from sapwood.errors import UsageError
from sapwood.grammar.coarsen import expected_symbols
from sapwood.grammar.states import change_states, merge_symbols
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.run.parallel import with_one_blas_thread
from sapwood.run.progress import Progress, Silent
from sapwood.shapes import Array, Float, Int
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

Weighing = Literal["l2", "gamma", "trees"]
Symbols = Literal["own", "base", "none"]
# The part of the singular values that may go if nothing else is said.
DEFAULT_TOLERANCE = 0.05
# How close to the largest gamma the default one is: at it the sums are just not finite.
_BELOW = 0.97
# Weights that a grammar whose symbols are merged may have: 4 GB of them.
MOST_WEIGHTS = 1 << 29


@dataclass(frozen=True, eq=False, kw_only=True)
class _Smaller(ABC):
    """What is known of a smaller grammar or automaton."""

    states: SingularStates
    closeness: Closeness | None
    gamma: float | None
    weighing: Weighing

    @property
    @abstractmethod
    def kept(self) -> Int[Array, "sorts"]:
        """How many states each sort kept: the first of its singular states."""

    @property
    def dropped(self) -> float:
        """The part of the singular values that was left out: roots of sums of squares, an estimate of the error."""
        total = self.states.dropped(0)
        return self.best_possible() / total if total > 0 else 0.0

    def best_possible(self) -> float:
        """Return the least Hankel distance that anything with so many states can have (for `l2`)."""
        return self.states.dropped(self.kept)

    def to_dict(self) -> dict[str, Any]:
        """Return what was left out, and the distances if they are known, as JSON values."""
        close = self.closeness
        return {
            "dropped": self.dropped,
            "gamma": self.gamma,
            **distances_of(close),
            "hankel_best": self.best_possible() if close is not None and self.weighing == "l2" else None,
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
class Reduction(_Smaller):
    """A smaller grammar, and what is known of it.

    Attributes
    ----------
    grammar
        The grammar with fewer states.
    before
        The grammar with its symbols merged, if they were, and all states.
    states
        All singular states of `before`; the first `grammar.states` of each symbol were kept.
    closeness
        Exact distances of the two, weights as they are stored, None if not asked for or not finite.
    gamma, weighing
        What was used.
    """

    grammar: TensorGrammar
    before: TensorGrammar

    @property
    def kept(self) -> Int[Array, "sorts"]:
        """How many states each symbol kept."""
        return self.grammar.states

    def records(self) -> list[dict[str, Any]]:
        """Return each symbol's name, expected count, states, and singular values, as JSON values."""
        counts = expected_symbols(self.before)
        return self._records(self.before.symbols, self.before.states, counts)


@dataclass(frozen=True, eq=False, kw_only=True)
class SmallerAutomaton(_Smaller):
    """A smaller automaton, and what is known of it, as in `Reduction`."""

    automaton: TreeAutomaton
    before: TreeAutomaton

    @property
    def kept(self) -> Int[Array, "sorts"]:
        """How many states each sort kept."""
        return self.automaton.sizes

    def records(self) -> list[dict[str, Any]]:
        """Return each sort's name, states, and singular values, as JSON values; each counts once."""
        return self._records(self.before.sorts, self.before.sizes, np.ones(len(self.before.sorts)))


def distances_of(close: Closeness | None) -> dict[str, float | None]:
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
    """Return trees as `minimise` takes them: normalised as the grammar's were, with its symbols or their bases."""
    transform = grammar.transform
    if symbols == "base":
        transform = replace(transform, vertical=1, horizontal=0, annotate_tags=False)
    return Corpus.from_trees(trees, normaliser=grammar.normaliser, transform=transform, progress=progress)


@with_one_blas_thread
def minimise(
    grammar: TensorGrammar,
    *,
    weighing: Weighing = "l2",
    gamma: float | None = None,
    corpus: Corpus | None = None,
    symbols: Symbols = "own",
    distances: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
    **choice: Unpack[Choice],
) -> Reduction:
    """Return a grammar with fewer states.

    Parameters
    ----------
    grammar
        Any grammar.
    weighing
        What counts, see the module's text.
    gamma
        For `gamma`: the factor; by default nearly the largest for which sums are finite, found by bisection.
    corpus
        For `trees`: the trees, with the grammar's symbols, or with base symbols if these are asked for.
    symbols
        Whose states they are: each symbol's `own`; those of all symbols that share a `base` (so that a treebank
        grammar with annotations can be reduced); or `none`, states of one phrase and one tag, for trees without labels.
    distances
        Whether to compute how far the result is from the grammar; takes about as long as the rest.
    threads, progress
        As everywhere.
    choice
        How many states symbols keep: `work`, `budget`, `tolerance` or `states`, see `sapwood.automata.svta.Choice`; by
        default a tolerance of 0.05. A tolerance of 0 leaves out only what has no effect on any tree (or on the nodes of
        the treebank): with `l2` that is the minimal form of the grammar (`sapwood.automata.minimal`), in double
        precision.
    """
    if weighing not in get_args(Weighing):
        raise UsageError(f"no weighing {weighing!r}; choose from {', '.join(get_args(Weighing))}")
    if weighing == "trees" and corpus is None:
        raise UsageError("weighing by trees takes a treebank; give one, or choose l2 or gamma")
    if weighing == "trees" and symbols == "none":
        raise UsageError("weighing by trees needs labels, own or base: the treebank's trees have them")
    choice, exact = _checked(choice, weighing, gamma)
    progress = progress or Silent()
    with progress.stage("symbols", total=2, unit="steps") as stage:
        before = with_symbols(grammar, symbols)
        stage.step()
        automaton = None if weighing == "trees" else TreeAutomaton.from_grammar(before, words=False)
        stage.step()
    if exact:
        assert automaton is not None
        found, reduced = _exactly(before, automaton, progress)
    else:
        if automaton is None:
            assert corpus is not None
            found = singular_states(node_grams(before, corpus, threads=threads, progress=progress))
        else:
            found, gamma = _states_of(automaton, weighing, gamma, progress)
        # Canonical correlations do not say how often a symbol occurs; singular values of all trees do.
        weights = np.sqrt(expected_symbols(before)) if weighing == "trees" else None
        rules = before.rules, before.rule_counts
        counts = choose_states(found.values, sizes=before.states.tolist(), weights=weights, rules=rules, **choice)
        reduced = change_states(before, *_one_scale(found.truncated(counts)))
        # Single precision is what parsing works with.
        reduced = replace(reduced, tensors=reduced.tensors.astype(np.float32))
    closeness = distance(before, reduced, progress) if distances else None
    told = {"weighing": weighing, "symbols": symbols, "states_before": int(before.states.sum())}
    reduced = reduced.with_info(minimised={**told, **({} if gamma is None else {"gamma": gamma})})
    return Reduction(grammar=reduced, before=before, states=found, closeness=closeness, gamma=gamma, weighing=weighing)


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
    weighing: Literal["l2", "gamma"] = "l2",
    gamma: float | None = None,
    progress: Progress | None = None,
    **choice: Unpack[Choice],
) -> SmallerAutomaton:
    """Return an automaton with fewer states, with the distance if it is finite; see `minimise`.

    Examples
    --------
    >>> automaton = TreeAutomaton.single([1.0, 0.5], np.full((2, 2, 2), 0.05), {"a": [0.5, 0.25], "b": [0.25, 0.1]})
    >>> minimise_automaton(automaton, work=1).automaton
    <TreeAutomaton: 1 sort, 1 states, 1 rules>
    """
    choice, exact = _checked(choice, weighing, gamma)
    progress = progress or Silent()
    if exact:
        smaller = minimal(automaton).automaton
        found = singular_states(gram_matrices(smaller, progress=progress))
    else:
        found, gamma = _states_of(automaton, weighing, gamma, progress)
        rules = automaton.rules, np.ones(len(automaton.rules))
        counts = choose_states(found.values, sizes=automaton.sizes.tolist(), rules=rules, **choice)
        smaller = project(automaton, found.truncated(counts))
    closeness = _distance(automaton, smaller, progress)
    return SmallerAutomaton(
        automaton=smaller, before=automaton, states=found, closeness=closeness, gamma=gamma, weighing=weighing
    )


def _checked(choice: Choice, weighing: Weighing, gamma: float | None) -> tuple[Choice, bool]:
    """Return how to choose states, by default by a tolerance, and whether nothing of any effect may go."""
    if gamma is not None:
        if weighing != "gamma":
            raise UsageError("gamma is for weighing by gamma")
        check_gamma(gamma)
    if all(number is None for number in choice.values()):
        choice = {"tolerance": DEFAULT_TOLERANCE}
    return choice, check_choice(choice) == ("tolerance", 0) and weighing == "l2"


def _states_of(
    automaton: TreeAutomaton, weighing: Weighing, gamma: float | None, progress: Progress
) -> tuple[SingularStates, float | None]:
    """Return the singular states of all trees' sums, and the gamma that was used."""
    if weighing == "gamma" and gamma is None:
        gamma = _BELOW * largest_gamma(automaton, tolerance=0.01, progress=progress)
    # Near the largest gamma the matrices are not well determined, nor need they be.
    exactness = 1e-13 if weighing == "l2" else 1e-9
    grams = gram_matrices(automaton, gamma=gamma or 1.0, tolerance=exactness, progress=progress)
    return singular_states(grams), gamma


def distance(before: TensorGrammar, after: TensorGrammar, progress: Progress) -> Closeness | None:
    """Return how far a grammar is from another one with its symbols, as they are stored; None if that is not finite."""
    return _distance(*TreeAutomaton.from_grammars(before, after), progress)


def _distance(automaton: TreeAutomaton, smaller: TreeAutomaton, progress: Progress) -> Closeness | None:
    try:
        with progress.stage("distance", total=1, unit="grammars") as stage:
            found = compare(automaton, smaller)
            stage.step()
        return found
    except DivergenceError:
        progress.note("the smaller grammar's sums over all trees are not finite, so its distance is not either")
        return None


def with_symbols(grammar: TensorGrammar, symbols: Symbols) -> TensorGrammar:
    """Merge the symbols that are to have their states in common."""
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
    """Return the bases, scaled so that inside vectors of all symbols are about as large as they were."""
    factors = [np.sqrt(matrix.shape[1]) / max(float(np.linalg.norm(matrix)), 1e-300) for matrix in states.inside]
    return (
        [matrix * factor for matrix, factor in zip(states.inside, factors, strict=True)],
        [matrix / factor for matrix, factor in zip(states.outside, factors, strict=True)],
    )
