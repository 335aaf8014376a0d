"""Slow, obvious twins of latent bigram models, and small models and texts to try them on."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse

from sapwood.lm.counts.vocabulary import Vocabulary
from sapwood.lm.latent.bigram import LatentBigram


def words(size: int, counts: np.ndarray | None = None) -> Vocabulary:
    """A vocabulary of so many words, the three special ones among them."""
    return Vocabulary(["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(3, size))], counts)


def distributions(rng: np.random.Generator, shape: tuple[int, int], axis: int, sharpness: float = 1.0) -> np.ndarray:
    values = rng.random(shape) ** sharpness + 1e-3
    return values / values.sum(axis=axis, keepdims=True)


def random_model(rng: np.random.Generator, size: int, states: int, boundaries: str = "stream") -> LatentBigram:
    """A model whose words 1 and 2 are never said, as in a stream; of sentences only 1 is."""
    given = distributions(rng, (size, states), 1, 3.0)
    emitted = distributions(rng, (size, states), 0, 3.0)
    emitted[1 if boundaries == "sentence" else [1, 2]] = 0.0
    emitted /= emitted.sum(axis=0)
    prior = distributions(rng, (1, states), 1)[0]
    counts = rng.integers(1, 50, size)
    return LatentBigram(
        words(size, counts),
        given.astype(np.float32),
        emitted.astype(np.float32),
        prior,
        boundaries,  # type: ignore[arg-type]
    )


def random_text(rng: np.random.Generator, model: LatentBigram, length: int) -> np.ndarray:
    """Ids drawn from a model, `<unk>` among them."""
    table = model.given.astype(float) @ model.emitted.T.astype(float)
    ids = [3]
    while len(ids) < length:
        chances = table[ids[-1]]
        ids.append(int(rng.choice(len(chances), p=chances / chances.sum())))
    return np.array(ids, np.int32)


def bigrams(ids: np.ndarray, size: int) -> scipy.sparse.csr_array:
    counts = np.zeros((size, size))
    for first, second in itertools.pairwise(ids):
        counts[first, second] += 1
    return scipy.sparse.csr_array(counts)


def em_step(
    counts: np.ndarray, r: np.ndarray, s: np.ndarray, prior: float = 0.0, word_prior: float = 0.0
) -> tuple[np.ndarray, np.ndarray, float]:
    """One iteration of EM by the textbook, with dense arrays `(V, V, m)`; returns the log-likelihood before it too."""
    joint = r[:, None, :] * s[None, :, :]
    z = joint.sum(axis=2)
    seen = counts > 0
    expected = counts[:, :, None] * joint / np.where(seen, z, 1.0)[:, :, None]
    by_row = expected.sum(axis=1) + np.where(counts.sum(axis=1)[:, None] > 0, prior / r.shape[1], 0.0)
    by_column = expected.sum(axis=0) + word_prior * (counts.sum(axis=0) / counts.sum())[:, None]
    rows = by_row.sum(axis=1, keepdims=True)
    return (
        np.where(rows > 0, by_row / np.where(rows > 0, rows, 1.0), r),
        by_column / by_column.sum(axis=0),
        float((counts[seen] * np.log(z[seen])).sum()),
    )
