"""Training of an aggregate Markov model: initial parameters and EM iterations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import scipy.sparse

from sapwood import kernels
from sapwood.errors import ModelError, UsageError
from sapwood.lm.base import Parts
from sapwood.lm.checkpoint import RunPart
from sapwood.lm.counts.vocabulary import Vocabulary
from sapwood.lm.latent.anchor_words import pivot_words
from sapwood.lm.latent.bigram import LatentBigram
from sapwood.lm.latent.bigram_data import HeldOutBigrams, Ids
from sapwood.lm.latent.tiles import BigramTiles
from sapwood.lm.registry import Boundaries
from sapwood.numerics.convergence import ConvergenceMonitor
from sapwood.numerics.simplex import Optimum, maximise
from sapwood.runtime.log import Log
from sapwood.runtime.progress import Progress
from sapwood.storage.schema import Column, Schema
from sapwood.storage.shapes import Array, Float, Shaped

if TYPE_CHECKING:
    from sapwood.lm.latent.aggregate import AggregateMarkov

# Relative decrease of the objective that rounding may cause.
_ROUNDING = {"single": 1e-6, "double": 1e-12}
# Minimum probability of a word's states in single precision, so that nothing is impossible after any word.
_SMALLEST_STATE = 1e-9
# Smaller probabilities of words are zero.
_SMALLEST_WORD = 1e-30
# Weights of old and new expected counts in an iteration over all counts.
_ALL_NEW = np.array([0.0, 1.0])
# Other contents of a checkpoint.
_NUMBERS = ("step", "pivot_iterations", "iterations")
# Maximum number of iterations of the concave problem.
PIVOT_ITERATIONS = 200


@dataclass
class Best:
    """The best parameters so far, their perplexity on held-out text, and their number of iterations."""

    perplexity: float = float("inf")
    step: int = 0
    pivot_iterations: int = 0
    iterations: int = 0
    r: Float[Array, "words states"] | None = None
    s: Float[Array, "words states"] | None = None


@dataclass(frozen=True, eq=False)
class Phase(ConvergenceMonitor):
    """Progress of a phase, and the number of iterations since held-out text improved."""

    phase: str = ""
    worse: int = 0


class _Best(TypedDict):
    step: int
    pivot_iterations: int
    iterations: int


class _Phase(TypedDict):
    phase: str
    iteration: int
    worse: int


class _State(_Best):
    best: _Best
    course: _Phase
    converged: bool


def _parameters(name: str, *, along: str = "") -> Column:
    return Column(name, "float", "words states", least=0, along=along)


STATE = Schema(
    kind="state",
    version=1,
    title="state of a training",
    remedy="",
    columns=(
        _parameters("r"),
        _parameters("s"),
        _parameters("best.r", along="best.r"),
        _parameters("best.s", along="best.r"),
        _parameters("statistics.*"),
        _parameters("ascent", along="ascent"),
        Column("objectives", "float64", "objectives", unchecked=True),
        Column("figures", "float64", "5", unchecked=True),
    ),
    metadata=_State,
)


class AggregateTrainer:
    """One training: parameters in the inner order of the tiles, and their updates.

    It is a part of a run, which keeps its state.
    """

    def __init__(
        self,
        settings: AggregateMarkov,
        matrix: scipy.sparse.csr_array,
        dev: Ids | HeldOutBigrams | None,
        progress: Progress,
        log: Log,
        part: RunPart,
    ) -> None:
        self.settings, self.progress, self.log, self.part = settings, progress, log, part
        self.dtype: type[np.floating] = np.float32 if settings.precision == "single" else np.float64
        groups = None if settings.stepwise_batches == 1 else settings.stepwise_batches
        self.tiles = BigramTiles(matrix, settings.states, groups=groups, dtype=self.dtype, workers=settings.executor)
        self.size = matrix.shape[0]
        self.share = self.tiles.column_totals / self.tiles.total
        self.held_out = dev if dev is None or isinstance(dev, HeldOutBigrams) else HeldOutBigrams(dev, self.size)
        if self.held_out is not None:
            self.held_out = self.held_out.of(self.tiles.column_totals[self.tiles.column_place] > 0)
        self.best, self.phase = Best(), Phase()
        self.step = self.pivot_iterations = self.iterations = 0
        self.log_likelihood = float("nan")
        self.r: np.ndarray = np.empty((0, 0), self.dtype)
        self.s: np.ndarray = np.empty((0, 0), self.dtype)
        # The expected counts of stepwise EM, and the progress of the concave problem.
        self.statistics: tuple[np.ndarray, ...] = ()
        self.ascent: Optimum | None = None

    # Resuming.

    def resume(self) -> bool:
        """Resume an interrupted run; returns whether it was interrupted in this training."""
        return bool(self.part.state(self._restore))

    def _keep(self) -> None:
        self.part.keep(self._state)

    def _state(self) -> Parts:
        arrays = {"r": self.r, "s": self.s}
        if self.best.r is not None and self.best.s is not None and self.best.step < self.step:
            arrays |= {"best.r": self.best.r, "best.s": self.best.s}
        arrays |= {f"statistics.{number}": array for number, array in enumerate(self.statistics)}
        ascent = self.ascent or Optimum(self.r, [])
        if self.ascent is not None:
            arrays["ascent"] = ascent.weights
        best, current = self.best, self.phase
        arrays["objectives"] = np.array(ascent.objectives, np.float64)
        arrays["figures"] = np.array(
            [self.log_likelihood, best.perplexity, current.objective, current.gain, ascent.power]
        )
        numbers: dict[str, Any] = {name: getattr(self, name) for name in _NUMBERS}
        numbers["best"] = {name: getattr(best, name) for name in _Best.__annotations__}
        numbers["course"] = {name: getattr(current, name) for name in _Phase.__annotations__}
        return arrays, {**numbers, "converged": bool(ascent.converged)}

    def _restore(self, arrays: Mapping[str, Shaped[Array, "..."]], metadata: dict[str, Any]) -> bool:
        """Restore what `_state` returned."""
        STATE.check(arrays, metadata)
        if arrays["r"].shape != (self.size, self.settings.states):
            raise ModelError("r: does not fit the text")
        self.log_likelihood, perplexity, objective, gain, power = arrays["figures"].tolist()
        self.r, self.s = (np.array(arrays[name], self.dtype) for name in "rs")
        self.best = Best(perplexity, **metadata["best"])
        self.phase = Phase(**metadata["course"], objective=objective, gain=gain)
        if self.best.perplexity < float("inf"):
            self.best.r, self.best.s = (np.array(arrays.get(f"best.{name}", arrays[name]), self.dtype) for name in "rs")
        if "ascent" in arrays:
            self.ascent = Optimum(arrays["ascent"], arrays["objectives"].tolist(), metadata["converged"], power)
        self.statistics = tuple(arrays[name].copy() for name in sorted(arrays) if name.startswith("statistics."))
        for name in _NUMBERS:
            setattr(self, name, metadata[name])
        return True

    # Initial parameters.

    def start_at_random(self) -> None:
        """Start with equally probable states after every word, and word frequencies with noise."""
        m = self.settings.states
        rng = np.random.default_rng(self.settings.random_state)
        self.r = np.full((self.size, m), 1 / m, self.dtype)
        # Drawn in the vocabulary's order, so that the start does not depend on that of the tiles.
        noise = rng.random((self.size, m), self.dtype)
        self.s = 1 + self.dtype(self.settings.noise) * noise[self.tiles.columns]
        self.s *= self.share[:, None].astype(self.dtype)
        self.s /= self.s.sum(axis=0, dtype=np.float64).astype(self.dtype)

    def start_from(self, model: LatentBigram) -> None:
        """Start from a model's parameters."""
        if model.given.shape != (self.size, self.settings.states):
            raise UsageError(
                f"init has {model.given.shape[1]} states of {model.given.shape[0]} words, "
                f"and {self.settings.states} of {self.size} are wanted"
            )
        self.r = model.given[self.tiles.rows].astype(self.dtype)
        self.s = model.emitted[self.tiles.columns].astype(self.dtype)

    def start_from_pivots(self) -> None:
        """Start with `s` from anchors."""
        settings = self.settings
        with self.progress.stage("anchors", 1, "step") as stage:
            self.s = pivot_words(
                self.tiles,
                settings.states,
                shrinkage=settings.anchor_shrinkage,
                anchor_count=settings.anchor_count,
                random_state=settings.random_state,
                threads=settings.executor.threads,
            ).astype(self.dtype)
            stage.step()
        m = self.s.shape[1]
        if m < settings.states:
            self.progress.note(
                f"the words seen {settings.anchor_count:g} times or more have anchors for {m} states only"
            )
        self.r = np.full((self.size, m), 1 / m, self.dtype)

    def fit_rows(self) -> None:
        """Fit `r` by EM with `s` fixed: until held-out text stops improving, or to the optimum."""
        settings = self.settings
        smooth = settings.method == "pivot+em" and self.held_out is not None
        iterations = settings.pivot_iterations or (1 if smooth else PIVOT_ITERATIONS)
        if self.held_out is not None or settings.prior:
            self.run_phase("pivot", iterations, rows_only=True)
        else:
            self._fit_rows_exactly(iterations)

    def _fit_rows_exactly(self, iterations: int) -> None:
        sums = np.empty_like(self.r)

        def evaluate(weights: np.ndarray) -> tuple[float, np.ndarray]:
            sums.fill(0)
            value = self.tiles.expect_rows(np.ascontiguousarray(weights, self.dtype), self.s, sums)
            return value / self.tiles.total, sums.astype(np.float64) / self.tiles.total

        def note(found: Optimum) -> None:
            self.ascent = found
            self.step = self.pivot_iterations = number = len(found.objectives) - 1
            value = found.objectives[-2] * self.tiles.total
            self.log.write("iteration", step=number, phase="pivot", iteration=number, log_likelihood=value)
            self._keep()
            stage.step(1, logL=f"{value:.6g}")

        start = self.ascent or self.r.astype(np.float64)
        with self.progress.stage(f"pivot, {self.r.shape[1]} states", iterations, "iteration") as stage:
            if self.step:
                stage.step(self.step)
            optimum = maximise(
                evaluate, start, iterations=iterations, tolerance=self.settings.tolerance, axis=1, note=note
            )
        if not optimum.converged:
            self._warn_not_converged(iterations)
        self.r[:] = np.maximum(optimum.weights, _SMALLEST_STATE if self.dtype is np.float32 else 0.0)
        self.log_likelihood, self.ascent = optimum.objective * self.tiles.total, None

    # Iterations.

    def run_phase(self, phase: str, iterations: int, *, rows_only: bool = False) -> None:
        """Iterate up to the maximum or until held-out text stops improving."""
        settings, stepwise = self.settings, self.settings.stepwise_batches > 1 and not rows_only
        if self.phase.phase != phase:
            self.phase = Phase(phase)
            self.statistics = self._first_statistics() if stepwise else ()
            if rows_only:
                self._measure(phase)
        current = self.phase
        r_sums = np.empty_like(self.r)
        s_sums = np.empty_like(self.s) if not rows_only else np.empty((0, 0), self.dtype)
        with self.progress.stage(f"{phase}, {self.r.shape[1]} states", iterations, "iteration") as stage:
            if current.iteration:
                stage.step(current.iteration)
            while current.iteration < iterations and not self._is_enough():
                iteration = current.iteration + 1
                if stepwise:
                    after = current.after(self._pass_in_batches(iteration, r_sums, s_sums))
                else:
                    value = self._whole_pass(r_sums, s_sums, rows_only)
                    after = current.after(value, rounding=_ROUNDING[settings.precision] * abs(value))
                # While gains still grow, EM is leaving the symmetry of the start: too early to give up.
                leaving = after.gain > current.gain > 0
                self.step += 1
                if rows_only:
                    self.pivot_iterations = iteration
                else:
                    self.iterations = iteration
                figures: dict[str, Any] = {"phase": phase, "iteration": iteration}
                self.log.write("iteration", step=self.step, **figures, log_likelihood=self.log_likelihood)
                shown, worse = {"logL": f"{self.log_likelihood:.6g}"}, 0
                if self.held_out is not None:
                    perplexity = self._measure(phase)
                    worse = 0 if self.best.step == self.step or leaving else current.worse + 1
                    shown |= {"dev": f"{perplexity:.1f}", "best": f"{self.best.perplexity:.1f}"}
                self.phase = current = replace(after, worse=worse)
                self._keep()
                stage.step(1, **shown)
        if rows_only and not self._is_enough() and iterations > 1:
            self._warn_not_converged(iterations)
        if self.best.r is not None and self.best.s is not None:
            # EM starts from the best of pivot, and the model is the best overall.
            self.r, self.s = self.best.r.copy(), self.best.s.copy()
            self.pivot_iterations, self.iterations = self.best.pivot_iterations, self.best.iterations

    def _warn_not_converged(self, iterations: int) -> None:
        """Warn that the concave problem was stopped early."""
        option = "iterations" if self.settings.method == "pivot" else "pivot_iterations"
        said = f"pivot: {iterations} iterations, the most there may be, were not enough for the concave problem"
        self.progress.note(f"{said}; {option} can be raised")

    def _is_enough(self) -> bool:
        """Return whether held-out text, or without it the objective, has stopped improving."""
        if self.held_out is not None:
            return self.phase.worse >= self.settings.patience
        return self.phase.has_converged(self.settings.tolerance * abs(self.phase.objective))

    def _measure(self, phase: str) -> float:
        """Return the perplexity of held-out text, and keep the parameters if they are the best."""
        if self.held_out is None:
            return float("nan")
        perplexity = self.held_out.perplexity(self.r, self.s, self.tiles.row_place, self.tiles.column_place)
        self.log.write("dev", step=self.step, phase=phase, perplexity=perplexity)
        if perplexity < self.best.perplexity:
            self.best = Best(
                perplexity, self.step, self.pivot_iterations, self.iterations, self.r.copy(), self.s.copy()
            )
        return perplexity

    def _whole_pass(self, r_sums: np.ndarray, s_sums: np.ndarray, rows_only: bool) -> float:
        """Do one iteration of EM, or of its half for `r`; returns the objective before it."""
        r_sums.fill(0)
        if rows_only:
            self.log_likelihood = self.tiles.expect_rows(self.r, self.s, r_sums)
        else:
            s_sums.fill(0)
            self.log_likelihood = self.tiles.expect(self.r, self.s, r_sums, s_sums)
        objective = self.log_likelihood + self._log_prior(rows_only)
        # The sums become the expected counts, and nothing earlier is kept.
        self._maximise_rows(r_sums, r_sums, _ALL_NEW)
        if not rows_only:
            self._maximise_columns(s_sums, s_sums, _ALL_NEW)
        return objective

    def _log_prior(self, rows_only: bool) -> float:
        """Return the log-density of the priors, up to a constant."""
        settings, m, value = self.settings, self.r.shape[1], 0.0
        parts = []
        if settings.prior:
            parts.append((self.r, np.where(self.tiles.row_totals > 0, settings.prior / m, 0.0)))
        if settings.word_prior and not rows_only:
            parts.append((self.s, settings.word_prior * self.share))
        for values, weights in parts:

            def logs(begin: int, end: int, values: np.ndarray = values, weights: np.ndarray = weights) -> float:
                return float(kernels.weighted_logs(begin, end, values, weights))

            value += sum(self.tiles.by_rows(logs, self.size))
        return value

    def _maximise_rows(self, r_sums: np.ndarray, expected: np.ndarray, blend: np.ndarray) -> None:
        pseudo = self.settings.prior / self.r.shape[1]
        smallest = _SMALLEST_STATE if self.dtype is np.float32 else 0.0

        def rows(begin: int, end: int) -> None:
            kernels.blend_rows(begin, end, self.r, r_sums, blend, expected, pseudo, smallest)

        self.tiles.by_rows(rows, self.size)

    def _maximise_columns(self, s_sums: np.ndarray, expected: np.ndarray, blend: np.ndarray) -> None:
        def blended(begin: int, end: int) -> np.ndarray:
            totals = np.zeros(self.s.shape[1])
            kernels.blend_columns(begin, end, self.s, s_sums, blend, expected, totals)
            return totals

        whole = np.asarray(sum(self.tiles.by_rows(blended, self.size))) + self.settings.word_prior
        scale = np.divide(1.0, whole, out=np.zeros_like(whole), where=whole > 0)
        pseudo = self.settings.word_prior * self.share

        def words(begin: int, end: int) -> None:
            kernels.maximise_columns(begin, end, self.s, expected, pseudo, scale, _SMALLEST_WORD)

        self.tiles.by_rows(words, self.size)

    # Stepwise EM.

    def _first_statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the expected counts of states with first words and with second words under the parameters."""
        by_row = self.r * self.tiles.row_totals[:, None].astype(self.dtype)
        by_column = self.s * by_row.sum(axis=0, dtype=np.float64).astype(self.dtype)
        return by_row, by_column

    def _pass_in_batches(self, iteration: int, r_sums: np.ndarray, s_sums: np.ndarray) -> float:
        """Go over all counts once, updating the parameters after each batch: a round of tiles."""
        tiles, batches = self.tiles, self.settings.stepwise_batches
        by_row, by_column = self.statistics
        seen = tiles.round_totals()
        rng = np.random.default_rng([self.settings.random_state, iteration])
        self.log_likelihood = 0.0
        for number, batch in enumerate(rng.permutation(batches).tolist()):
            if seen[batch] == 0:
                continue
            r_sums.fill(0)
            s_sums.fill(0)
            self.log_likelihood += tiles.expect(self.r, self.s, r_sums, s_sums, [batch])
            part = ((iteration - 1) * batches + number + 2) ** -self.settings.stepwise_power
            blend = np.array([1 - part, part * tiles.total / seen[batch]])
            self._maximise_rows(r_sums, by_row, blend)
            self._maximise_columns(s_sums, by_column, blend)
        return self.log_likelihood

    # Result.

    def model(self, vocabulary: Vocabulary, boundaries: Boundaries) -> LatentBigram:
        """Return the model; words after which nothing was seen have the overall frequencies of states."""
        tiles = self.tiles
        given = np.empty(self.r.shape, self.dtype)
        given[tiles.rows] = self.r
        emitted = np.empty_like(given)
        emitted[tiles.columns] = self.s
        totals = np.empty(self.size)
        totals[tiles.rows] = tiles.row_totals
        prior = totals @ given.astype(np.float64) / tiles.total
        given[totals <= 0] = prior
        info: dict[str, Any] = {
            "method": self.settings.method,
            "settings": self.settings.settings(),
            "iterations": self.iterations,
            "pivot_iterations": self.pivot_iterations,
            "bigrams": {"distinct": tiles.entries, "all": tiles.total},
        }
        if self.held_out is not None:
            info["dev_perplexity"] = self.best.perplexity
        return LatentBigram(vocabulary, given, emitted, prior, boundaries, info)
