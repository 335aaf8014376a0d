"""Aggregate Markov models: `p(w2|w1) = sum_h r(h|w1) s(w2|h)` from counts of bigrams (Saul and Pereira 1997).

Three ways to learn them (Cohen and Collins 2014, section 8):

- `em`: from a random start, to a local optimum of the likelihood;
- `pivot`: `s` from anchor words (section 5.2, see `pivot_words`), then the most likely `r`, a concave problem;
- `pivot+em`: EM from there, which needs a few iterations where a random start needs ten or twenty.

The likelihood of other text is best long before that of the counts is: with held-out text the iterations end when its
perplexity does not fall any more, and the best parameters are returned. Dirichlet priors do the rest for words seen
rarely.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import scipy.sparse

from sapwood.errors import UsageError
from sapwood.lm.aggregate_training import PIVOT_ITERATIONS, Training
from sapwood.lm.counts import Counts
from sapwood.lm.latent_model import LatentBigram
from sapwood.lm.methods import Boundaries
from sapwood.lm.resuming import Run
from sapwood.lm.transitions import HeldOut, Ids
from sapwood.lm.vocabulary import Vocabulary
from sapwood.run.log import Log, NoLog
from sapwood.run.progress import Progress, Silent
from sapwood.run.workers import Threads, Workers

LatentMethod = Literal["em", "pivot", "pivot+em"]
__all__ = ["PIVOT_ITERATIONS", "AggregateMarkov", "LatentMethod", "Precision"]

Precision = Literal["single", "double"]
# Settings that make no difference to the result.
_PLACES = ("threads", "workers")


@dataclass(frozen=True, kw_only=True)
class AggregateMarkov:
    """Learns a latent bigram model with `states` hidden states.

    Parameters
    ----------
    states
        How many.
    method
        See above.
    iterations
        The most iterations of EM.
    patience
        With held-out text: how many iterations without an improvement end it.
    prior
        A Dirichlet prior on the states of each word: as if each word had been followed this often more, by all states
        equally. 0 is maximum likelihood.
    word_prior
        A Dirichlet prior on the words of each state: as if each state had been seen this often more, with words as
        frequent as they are everywhere.
    noise
        A random start makes words in each state up to so much more probable than they are everywhere.
    batches
        1: each iteration goes over all counts before it changes anything. More: stepwise EM, where the counts are
        done in so many parts, and after each the expected counts move `(k + 2)^-step_power` of the way to that part's
        (Liang and Klein 2009); it gets further in one pass, which pays for very large counts.
    step_power
        See `batches`; above 0.5 and at most 1.
    kappa, anchor_count
        Of `pivot_words`: how much rare words are held back, and how often anchors have been seen at least.
    pivot_iterations
        The most iterations of the concave problem of `pivot`; by default `PIVOT_ITERATIONS`, but 1 for `pivot+em`
        with held-out text: EM does best from a smooth start, where each word still has many states, and stops in time.
    tolerance
        Without held-out text, iterations end when they gain less than this part of the objective.
    precision
        Of the computation: `single`, or `double` at half the speed and twice the memory.
    random_state
        Seed of the random start and of projections.
    threads
        How many threads of this process to use.
    workers
        Where passes over the counts run instead: a `sapwood.run.cluster.Cluster`. The result depends on neither.

    Examples
    --------
    >>> import numpy as np
    >>> from sapwood.lm.vocabulary import Vocabulary
    >>> words = Vocabulary(["<unk>", "<s>", "</s>", "a", "b", "c"])
    >>> text = words.encode("a b a c a b a b a c a c a b a".split())
    >>> counts = scipy.sparse.csr_array((np.ones(14), (text[:-1], text[1:])), (6, 6))
    >>> model = AggregateMarkov(states=2, iterations=20).fit(counts, vocabulary=words)
    >>> [word for word, _ in model.next_words("b", 1)]
    ['a']
    """

    states: int = 128
    method: LatentMethod = "em"
    iterations: int = 100
    patience: int = 3
    prior: float = 3.0
    word_prior: float = 100.0
    noise: float = 0.1
    batches: int = 1
    step_power: float = 0.6
    kappa: float = 500.0
    anchor_count: float = 30.0
    pivot_iterations: int | None = None
    tolerance: float = 1e-6
    precision: Precision = "single"
    random_state: int = 0
    threads: int = 1
    workers: Workers | None = None

    def __post_init__(self) -> None:
        for name in ("states", "iterations", "patience", "batches", "threads", "pivot_iterations"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, not {value}")
        for name in ("prior", "word_prior", "noise", "kappa", "anchor_count"):
            if not 0 <= (size := getattr(self, name)) < float("inf"):
                raise UsageError(f"{name} must be 0 or more, not {size}")
        for name, choices in (("method", get_args(LatentMethod)), ("precision", get_args(Precision))):
            if getattr(self, name) not in choices:
                raise UsageError(f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}")
        if not 0.5 < self.step_power <= 1:
            raise UsageError(f"step_power must be above 0.5 and at most 1, not {self.step_power}")

    @property
    def where(self) -> Workers:
        """Where passes over the counts run."""
        return self.workers if self.workers is not None else Threads(self.threads)

    def settings(self) -> dict[str, Any]:
        """Return what the result depends on beside the counts, as JSON values."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _PLACES}

    def fit(
        self,
        counts: Counts | scipy.sparse.csr_array,
        *,
        vocabulary: Vocabulary | None = None,
        boundaries: Boundaries = "stream",
        dev: Ids | HeldOut | None = None,
        init: LatentBigram | None = None,
        progress: Progress | None = None,
        log: Log | None = None,
        run: Run | None = None,
        name: str = "latent",
    ) -> LatentBigram:
        """Return the model.

        Parameters
        ----------
        counts
            Of bigrams: `Counts`, or a sparse square matrix with first words in rows.
        vocabulary, boundaries
            The words, and whether lines are sentences, if the counts are a matrix.
        dev
            Held-out ids, one array or several, whose perplexity says when to stop (the paper takes the first half of
            its development set).
        init
            A model over the same words to begin EM with, in place of a random start.
        progress, log
            What to report to. The log gets a line `iteration` with `log_likelihood` (of what the iteration began with)
            and, with `dev`, a line `dev` with `perplexity` (of what it ended with), for each iteration.
        run, name
            A run that this is a training of, under this name, and which may have been interrupted in it.
        """
        if isinstance(counts, Counts):
            matrix, vocabulary, boundaries = counts.bigrams(), counts.vocabulary, counts.boundaries
        else:
            matrix = scipy.sparse.csr_array(counts)
        if vocabulary is None:
            raise UsageError("a matrix of counts needs a vocabulary that says which words it is about")
        if matrix.shape != (len(vocabulary), len(vocabulary)):
            raise UsageError(f"counts of shape {matrix.shape} are not about a vocabulary of {len(vocabulary)} words")
        if init is not None and self.method != "em":
            raise UsageError(f"init is where EM begins; method {self.method!r} has its own beginning")
        training = Training(self, matrix, dev, progress or Silent(), log or NoLog(), run or Run(), name)
        del matrix
        if not training.resume():
            if init is not None:
                training.start_from(init)
            elif self.method == "em":
                training.start_at_random()
            else:
                training.start_from_pivots()
        if self.method != "em" and training.course.phase != "em":
            training.fit_rows()
        if self.method != "pivot":
            training.iterate("em", self.iterations)
        return training.model(vocabulary, boundaries)
