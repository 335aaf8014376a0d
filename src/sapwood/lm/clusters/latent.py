"""Word classes from plain text, for parsers that meet words that no tree has (`sapwood.trees.lexicon.word_classes`).

A latent bigram model (`sapwood.lm.latent.aggregate`) gives, for each word `w`, the hidden states that it leads to,
`r(h|w)`, and those that it comes from, `p(h|w)`, in proportion to `s(w|h) p(h)`. The square roots of both, side by
side, are its profile: distances between profiles are Hellinger distances. Classes are clusters of profiles (k-means), a
coarse and a finer set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from sapwood.errors import InputError, UsageError
from sapwood.lm.counts.text import Sources
from sapwood.lm.counts.vocabulary import SPECIAL
from sapwood.lm.latent.bigram import LatentBigram
from sapwood.lm.training import fit, read_training_text
from sapwood.numerics.kmeans import k_means
from sapwood.runtime.blas import with_one_blas_thread
from sapwood.runtime.context import RunContext, RunOptions
from sapwood.storage.shapes import Array, Float32
from sapwood.trees.lexicon.word_classes import MOST_LEVELS, WordClasses

# Fewer tokens are not informative.
_FEW = 1000


@with_one_blas_thread
def word_classes(
    texts: Sources,
    *,
    classes: Sequence[int] = (64, 320),
    states: int = 64,
    iterations: int = 60,
    min_count: int = 2,
    max_words: int = 100_000,
    random_state: int = 0,
    **options: Unpack[RunOptions],
) -> WordClasses:
    """Learn word classes from text, one sentence per line, words separated by spaces.

    Parameters
    ----------
    texts
        Paths of texts and of count files, as in `sapwood.lm.train`.
    classes
        Maximum number of classes, coarse to fine.
    states, iterations
        Hidden states of the latent bigram model, and iterations of EM.
    min_count, max_words
        Words seen less often, and all but the most frequent, have no class.
    random_state
        Seed of every random choice.
    options
        `threads`: number of threads of this process; `workers`: an executor that counts and learns instead; `progress`
        and `log`: progress display and log; `checkpoint`: file to keep the state of training in. The result depends on
        none of them.
    """
    context = RunContext.of(**options)
    progress = context.progress
    if not 1 <= len(classes) <= MOST_LEVELS or not all(1 <= number < 1 << 16 for number in classes):
        raise UsageError(f"classes are 1 to {MOST_LEVELS} numbers from 1 to {(1 << 16) - 1}, not {list(classes)}")
    text = read_training_text(
        texts, method="em", min_count=min_count, max_words=max_words, boundaries="sentence",
        threads=context.threads, workers=context.workers, progress=progress,
    )  # fmt: skip
    words = text.counts.vocabulary.words[len(SPECIAL) :]
    if text.counts.tokens < _FEW or not words:
        raise InputError(f"{text.counts.tokens} words of text are too few to learn classes of words from; give more")
    model = fit(
        text, "em", states=min(states, len(words)), iterations=iterations, random_state=random_state,
        threads=context.threads, workers=context.workers, progress=progress, log=context.log,
        checkpoint=context.checkpoint,
    )  # fmt: skip
    assert isinstance(model, LatentBigram)
    seen = profiles(model)[len(SPECIAL) :]
    numbers = []
    with progress.stage("word classes", len(classes), "levels") as stage:
        for level, number in enumerate(classes):
            numbers.append(k_means(seen, number, np.random.default_rng([random_state, level])))
            stage.step()
    order = sorted(range(len(words)), key=words.__getitem__)
    return WordClasses(tuple(words[place] for place in order), np.stack(numbers, axis=1)[order].astype(np.int32))


def profiles(model: LatentBigram) -> Float32[Array, "words features"]:
    """Return the square roots of each word's distributions over the states after and before it, side by side."""
    before = model.emitted.astype(np.float64) * model.prior
    total = before.sum(axis=1, keepdims=True)
    before = np.divide(before, total, out=np.zeros_like(before), where=total > 0)
    return np.sqrt(np.concatenate([model.given, before], axis=1)).astype(np.float32)
