"""One training of an aggregate Markov model: parameters, where they begin, and what an iteration does to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from sapwood import kernels
from sapwood.anchors.concave import maximise
from sapwood.errors import SapwoodError, UsageError
from sapwood.lm.latent_model import LatentBigram
from sapwood.lm.methods import Boundaries
from sapwood.lm.pivot_words import pivot_words
from sapwood.lm.tiles import BigramTiles
from sapwood.lm.transitions import HeldOut, Ids
from sapwood.lm.vocabulary import Vocabulary
from sapwood.run.log import Log
from sapwood.run.progress import Progress
from sapwood.shapes import Array, Float

if TYPE_CHECKING:
    from sapwood.lm.aggregate import AggregateMarkov

# By how much rounding may make the objective seem to fall, relative to its size.
_ROUNDING = {"single": 1e-6, "double": 1e-12}
# In single precision states of a word are at least this probable, so that nothing is impossible after any word.
_SMALLEST_STATE = 1e-9
# Smaller probabilities of words are zero.
_SMALLEST_WORD = 1e-30
# How much of earlier and of new expected counts an iteration over all counts takes.
_ALL_NEW = np.array([0.0, 1.0])
# The most iterations of the concave problem.
PIVOT_ITERATIONS = 200


@dataclass
class Best:
    """The best parameters so far, the perplexity of held-out text with them, and how many iterations led there."""

    perplexity: float = float("inf")
    step: int = 0
    pivot_iterations: int = 0
    iterations: int = 0
    r: Float[Array, "words states"] | None = None
    s: Float[Array, "words states"] | None = None


class Training:
    """One training: parameters in the inner order of the tiles, and what happens to them."""

    def __init__(
        self,
        settings: AggregateMarkov,
        matrix: scipy.sparse.csr_array,
        dev: Ids | HeldOut | None,
        progress: Progress,
        log: Log,
    ) -> None:
        self.settings, self.progress, self.log = settings, progress, log
        self.dtype: type[np.floating] = np.float32 if settings.precision == "single" else np.float64
        groups = None if settings.batches == 1 else settings.batches
        self.tiles = BigramTiles(matrix, settings.states, groups=groups, dtype=self.dtype, threads=settings.threads)
        self.size = matrix.shape[0]
        self.share = self.tiles.column_totals / self.tiles.total
        self.held_out = dev if dev is None or isinstance(dev, HeldOut) else HeldOut(dev, self.size)
        if self.held_out is not None:
            self.held_out = self.held_out.of(self.tiles.column_totals[self.tiles.column_place] > 0)
        self.best = Best()
        self.step = self.pivot_iterations = self.iterations = 0
        self.log_likelihood = float("nan")
        self.r = np.empty((0, 0), self.dtype)
        self.s = np.empty((0, 0), self.dtype)

    # Where it begins.

    def start_at_random(self) -> None:
        """All states equally probable after every word; words as frequent as they are, with noise."""
        m = self.settings.states
        rng = np.random.default_rng(self.settings.random_state)
        self.r = np.full((self.size, m), 1 / m, self.dtype)
        # Drawn in the vocabulary's order, so that the start does not depend on that of the tiles.
        noise = rng.random((self.size, m), self.dtype)
        self.s = 1 + self.dtype(self.settings.noise) * noise[self.tiles.columns]
        self.s *= self.share[:, None].astype(self.dtype)
        self.s /= self.s.sum(axis=0, dtype=np.float64).astype(self.dtype)

    def start_from(self, model: LatentBigram) -> None:
        """Begin with a model's parameters."""
        if model.given.shape != (self.size, self.settings.states):
            raise UsageError(
                f"init has {model.given.shape[1]} states of {model.given.shape[0]} words, "
                f"and {self.settings.states} of {self.size} are wanted"
            )
        self.r = model.given[self.tiles.rows].astype(self.dtype)
        self.s = model.emitted[self.tiles.columns].astype(self.dtype)

    def start_from_pivots(self) -> None:
        """`s` from anchors, then `r` by EM with `s` fixed: until held-out text says so, or to the optimum."""
        settings = self.settings
        with self.progress.stage("anchors", 1, "step") as stage:
            self.s = pivot_words(
                self.tiles,
                settings.states,
                kappa=settings.kappa,
                anchor_count=settings.anchor_count,
                random_state=settings.random_state,
                threads=settings.threads,
            ).astype(self.dtype)
            stage.step()
        smooth = settings.method == "pivot+em" and self.held_out is not None
        iterations = settings.pivot_iterations or (1 if smooth else PIVOT_ITERATIONS)
        m = self.s.shape[1]
        if m < settings.states:
            self.progress.note(
                f"the words seen {settings.anchor_count:g} times or more have anchors for {m} states only"
            )
        self.r = np.full((self.size, m), 1 / m, self.dtype)
        if self.held_out is not None or settings.prior:
            self.iterate("pivot", iterations, rows_only=True)
            return
        sums = np.empty_like(self.r)

        def evaluate(weights: np.ndarray) -> tuple[float, np.ndarray]:
            sums.fill(0)
            value = self.tiles.expect_rows(np.ascontiguousarray(weights, self.dtype), self.s, sums)
            return value / self.tiles.total, sums.astype(np.float64) / self.tiles.total

        optimum = maximise(
            evaluate, self.r.astype(np.float64), iterations=iterations, tolerance=settings.tolerance, axis=1
        )
        self.r[:] = np.maximum(optimum.weights, _SMALLEST_STATE if self.dtype is np.float32 else 0.0)
        self.log_likelihood = optimum.objective * self.tiles.total
        for number, value in enumerate(optimum.objectives[:-1], 1):
            self.log.write(
                "iteration", step=number, phase="pivot", iteration=number, log_likelihood=value * self.tiles.total
            )
        self.step = self.pivot_iterations = len(optimum.objectives) - 1

    # What an iteration does.

    def iterate(self, phase: str, iterations: int, *, rows_only: bool = False) -> None:
        """Do iterations until they are done or held-out text has not got better for a while."""
        settings, before, gained, worse = self.settings, float("-inf"), float("-inf"), 0
        stepwise = settings.batches > 1 and not rows_only
        r_sums = np.empty_like(self.r)
        s_sums = np.empty_like(self.s) if not rows_only else np.empty((0, 0), self.dtype)
        statistics = self._first_statistics() if stepwise else None
        if rows_only:
            self._measure(phase)
        with self.progress.stage(f"{phase}, {self.r.shape[1]} states", iterations, "iteration") as stage:
            for iteration in range(1, iterations + 1):
                if statistics is not None:
                    value = self._pass_in_batches(iteration, r_sums, s_sums, statistics)
                else:
                    value = self._whole_pass(r_sums, s_sums, rows_only)
                    if not value >= before - _ROUNDING[settings.precision] * abs(value):
                        raise SapwoodError(
                            f"iteration {iteration}: the objective fell from {before:.9g} to {value:.9g}, which EM "
                            "cannot do: this is an error in sapwood or in the machine"
                        )
                # While gains still grow, EM is on its way out of the symmetry of the start: not the time to give up.
                leaving, gained, before = value - before > gained > 0, value - before, value
                self.step += 1
                if rows_only:
                    self.pivot_iterations = iteration
                else:
                    self.iterations = iteration
                figures: dict[str, Any] = {"phase": phase, "iteration": iteration}
                self.log.write("iteration", step=self.step, **figures, log_likelihood=self.log_likelihood)
                shown = {"logL": f"{self.log_likelihood:.6g}"}
                if self.held_out is not None:
                    perplexity = self._measure(phase)
                    worse = 0 if self.best.step == self.step or leaving else worse + 1
                    shown |= {"dev": f"{perplexity:.1f}", "best": f"{self.best.perplexity:.1f}"}
                stage.step(1, **shown)
                if worse >= settings.patience or (self.held_out is None and gained <= settings.tolerance * abs(value)):
                    break
        if self.best.r is not None and self.best.s is not None:
            # EM goes on from the best of pivot, and the model is the best of all.
            self.r, self.s = self.best.r.copy(), self.best.s.copy()
            self.pivot_iterations, self.iterations = self.best.pivot_iterations, self.best.iterations

    def _measure(self, phase: str) -> float:
        """Return the perplexity of held-out text, and keep the parameters if there were none better."""
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
        """One iteration of EM, or of its half for `r`; returns the objective before it."""
        r_sums.fill(0)
        if rows_only:
            self.log_likelihood = self.tiles.expect_rows(self.r, self.s, r_sums)
        else:
            s_sums.fill(0)
            self.log_likelihood = self.tiles.expect(self.r, self.s, r_sums, s_sums)
        objective = self.log_likelihood + self._log_prior(rows_only)
        # The sums become what is expected, and nothing of what was before is kept.
        self._maximise_rows(r_sums, r_sums, _ALL_NEW)
        if not rows_only:
            self._maximise_columns(s_sums, s_sums, _ALL_NEW)
        return objective

    def _log_prior(self, rows_only: bool) -> float:
        """Return the logarithm of the priors' density, up to a constant."""
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
        """Return the expected counts of states with first words and with second words that the parameters stand for."""
        by_row = self.r * self.tiles.row_totals[:, None].astype(self.dtype)
        by_column = self.s * by_row.sum(axis=0, dtype=np.float64).astype(self.dtype)
        return by_row, by_column

    def _pass_in_batches(
        self, iteration: int, r_sums: np.ndarray, s_sums: np.ndarray, statistics: tuple[np.ndarray, np.ndarray]
    ) -> float:
        """Go over all counts once, changing the parameters after each batch: a round of tiles."""
        tiles, batches = self.tiles, self.settings.batches
        by_row, by_column = statistics
        seen = tiles.round_totals()
        rng = np.random.default_rng([self.settings.random_state, iteration])
        self.log_likelihood = 0.0
        for number, batch in enumerate(rng.permutation(batches).tolist()):
            if seen[batch] == 0:
                continue
            r_sums.fill(0)
            s_sums.fill(0)
            self.log_likelihood += tiles.expect(self.r, self.s, r_sums, s_sums, [batch])
            part = ((iteration - 1) * batches + number + 2) ** -self.settings.step_power
            blend = np.array([1 - part, part * tiles.total / seen[batch]])
            self._maximise_rows(r_sums, by_row, blend)
            self._maximise_columns(s_sums, by_column, blend)
        return self.log_likelihood

    # What comes out.

    def model(self, vocabulary: Vocabulary, boundaries: Boundaries) -> LatentBigram:
        """Return the model; words that nothing was seen after have the states that are frequent everywhere."""
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
