"""Classes of words from plain text, for parsers that meet words which no tree has (`sapwood.trees.word_classes`).

A latent bigram model (`sapwood.lm.aggregate`) says of each word `w` which hidden states it leads to, `r(h|w)`, and
which ones it comes from, `p(h|w)`, in proportion to `s(w|h) p(h)`. The square roots of both, side by side, are its
profile: distances between profiles are Hellinger's. Classes are clusters of profiles (k-means), a coarse and a finer
set.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sapwood.errors import InputError, UsageError
from sapwood.learn.spectral.clustering import k_means
from sapwood.lm.latent_model import LatentBigram
from sapwood.lm.text import Sources
from sapwood.lm.training import fit, read_training_text
from sapwood.lm.vocabulary import SPECIAL
from sapwood.run.parallel import with_one_blas_thread
from sapwood.run.progress import Progress, Silent
from sapwood.run.workers import Workers
from sapwood.shapes import Array, Float32
from sapwood.trees.word_classes import MOST_LEVELS, WordClasses

# Fewer tokens say nothing worth knowing.
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
    threads: int = 1,
    workers: Workers | None = None,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
) -> WordClasses:
    """Learn classes of words from text, one sentence a line, words separated by blanks.

    Parameters
    ----------
    texts
        Paths of texts and of files of counts, as `sapwood.lm.train` takes them.
    classes
        How many classes there are at the most, coarse to fine.
    states, iterations
        Hidden states of the latent bigram model, and iterations of EM that it is learned by.
    min_count, max_words
        Words seen less often, and all but the most frequent, have no class.
    random_state
        Seed of every random choice.
    threads, workers
        How many threads of this process to use, and where to count and learn instead. The result depends on neither.
    progress
        What to report to.
    checkpoint
        A file to keep the state of training in.
    """
    progress = progress or Silent()
    if not 1 <= len(classes) <= MOST_LEVELS or not all(1 <= number < 1 << 16 for number in classes):
        raise UsageError(f"classes are 1 to {MOST_LEVELS} numbers from 1 to {(1 << 16) - 1}, not {list(classes)}")
    text = read_training_text(
        texts, method="em", min_count=min_count, max_words=max_words, boundaries="sentence", threads=threads,
        workers=workers, progress=progress,
    )  # fmt: skip
    words = text.counts.vocabulary.words[len(SPECIAL) :]
    if text.counts.tokens < _FEW or not words:
        raise InputError(f"{text.counts.tokens} words of text are too few to learn classes of words from; give more")
    model = fit(
        text, "em", states=min(states, len(words)), iterations=iterations, random_state=random_state, threads=threads,
        workers=workers, progress=progress, checkpoint=checkpoint,
    )  # fmt: skip
    assert isinstance(model, LatentBigram)
    seen = profiles(model)[len(SPECIAL) :]
    numbers = []
    with progress.stage("classes of words", len(classes), "levels") as stage:
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
