"""Aggregate Markov models: `p(w2|w1) = sum_h r(h|w1) s(w2|h)` from bigram counts (Saul and Pereira 1997).

There are three methods to learn them (Cohen and Collins 2014, section 8):

- `em`: from a random start, to a local optimum of the likelihood;
- `pivot`: `s` from anchor words (section 5.2, see `anchor_words`), then the most likely `r`, a concave problem;
- `pivot+em`: EM from there, which needs a few iterations where a random start needs ten or twenty.

The likelihood of held-out text peaks long before that of the counts: with held-out text, training stops when its
perplexity no longer falls, and the best parameters are returned. Dirichlet priors regularise rare words.
"""

from __future__ import annotations

from dataclasses import dataclass

import scipy.sparse

from sapwood.errors import UsageError
from sapwood.lm.checkpoint import CheckpointedRun, RunPart
from sapwood.lm.counts.counts import Counts
from sapwood.lm.counts.vocabulary import Vocabulary
from sapwood.lm.latent.bigram import LatentBigram
from sapwood.lm.latent.bigram_data import HeldOutBigrams, Ids
from sapwood.lm.latent.trainer import PIVOT_ITERATIONS, AggregateTrainer
from sapwood.lm.registry import Boundaries, LatentMethod, LatentParams, Precision
from sapwood.runtime.log import Log, NoLog
from sapwood.runtime.progress import Progress, Silent

__all__ = ["PIVOT_ITERATIONS", "AggregateMarkov", "LatentMethod", "Precision"]


@dataclass(frozen=True, kw_only=True, repr=False)
class AggregateMarkov(LatentParams):
    """Learns a latent bigram model with `states` hidden states.

    Parameters
    ----------
    states
        Number of hidden states.
    method
        See above.
    iterations
        Maximum number of iterations of EM.
    patience
        With held-out text: stop after this many iterations without improvement.
    prior
        Dirichlet pseudo-count for the states of each word, divided equally among all states. 0 is maximum likelihood.
    word_prior
        Dirichlet pseudo-count for the words of each state, divided in proportion to the frequencies of words.
    noise
        A random start makes words in each state up to this fraction more probable than their frequencies.
    stepwise_batches
        1: each iteration goes over all counts before it updates the parameters. More: stepwise EM with this many parts;
        after each the expected counts move `(k + 2)^-stepwise_power` of the way to those of the part (Liang and Klein
        2009). It gets further in one pass, which pays off for very large counts.
    stepwise_power
        See `stepwise_batches`; above 0.5 and at most 1.
    anchor_shrinkage, anchor_count
        Settings of `pivot_words`: damping of rare words, and minimum count of anchors.
    pivot_iterations
        Maximum number of iterations of the concave problem of `pivot`; by default `PIVOT_ITERATIONS`, but 1 for
        `pivot+em` with held-out text: EM works best from a smooth start, where each word still has many states, and
        stops in time.
    tolerance
        Without held-out text, stop when an iteration gains less than this fraction of the objective.
    precision
        Floating-point precision: `single`, or `double` at half the speed and twice the memory.
    random_state
        Seed of the random start and of projections.
    threads
        Number of threads of this process.
    workers
        A `sapwood.runtime.dask.executor.DaskCluster` that runs passes over the counts instead. The result depends on
        neither.

    Examples
    --------
    >>> import numpy as np
    >>> from sapwood.lm.counts.vocabulary import Vocabulary
    >>> words = Vocabulary(["<unk>", "<s>", "</s>", "a", "b", "c"])
    >>> text = words.encode("a b a c a b a b a c a c a b a".split())
    >>> counts = scipy.sparse.csr_array((np.ones(14), (text[:-1], text[1:])), (6, 6))
    >>> model = AggregateMarkov(states=2, iterations=20).fit(counts, vocabulary=words)
    >>> [word for word, _ in model.next_words("b", 1)]
    ['a']
    """

    def fit(
        self,
        counts: Counts | scipy.sparse.csr_array,
        *,
        vocabulary: Vocabulary | None = None,
        boundaries: Boundaries = "stream",
        dev: Ids | HeldOutBigrams | None = None,
        init: LatentBigram | None = None,
        progress: Progress | None = None,
        log: Log | None = None,
        part: RunPart | None = None,
    ) -> LatentBigram:
        """Return the model.

        Parameters
        ----------
        counts
            Bigram counts: `Counts`, or a sparse square matrix with first words in rows.
        vocabulary, boundaries
            The words, and whether lines are sentences, if the counts are a matrix.
        dev
            Held-out ids, one array or several, whose perplexity decides when to stop (the paper uses the first half of
            its development set).
        init
            A model over the same words to start EM from, instead of a random start.
        progress, log
            Progress display and log. For each iteration the log gets a line `iteration` with `log_likelihood` (before
            the iteration) and, with `dev`, a line `dev` with `perplexity` (after it).
        part
            The part of a run, possibly resumed, that this training is.
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
        training = AggregateTrainer(
            self, matrix, dev, progress or Silent(), log or NoLog(), part or CheckpointedRun().part("latent")
        )
        del matrix
        if not training.resume():
            if init is not None:
                training.start_from(init)
            elif self.method == "em":
                training.start_at_random()
            else:
                training.start_from_pivots()
        if self.method != "em" and training.phase.phase != "em":
            training.fit_rows()
        if self.method != "pivot":
            training.run_phase("em", self.iterations)
        return training.model(vocabulary, boundaries)
