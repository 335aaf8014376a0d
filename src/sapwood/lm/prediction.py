"""What a model that gives the distribution of the next word can do: suggest words, and go on with a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sapwood.errors import UsageError
from sapwood.lm.text import Boundaries
from sapwood.lm.vocabulary import BEGIN, END, UNKNOWN, Vocabulary

# Gives the probability of each word, `(V,)` float64, after some ids; the array may be changed.
Distribution = Callable[[Sequence[int]], np.ndarray]


def context_ids(context: str | Sequence[str], vocabulary: Vocabulary, boundaries: Boundaries) -> list[int]:
    """Return the ids of words that a text begins with; if lines are sentences, `<s>` stands before them."""
    ids = [int(number) for number in vocabulary.encode([context] if isinstance(context, str) else context)]
    return [BEGIN, *ids] if boundaries == "sentence" else ids


def top_words(scores: np.ndarray, vocabulary: Vocabulary, k: int) -> list[tuple[str, float]]:
    """Return the words with the highest scores, none of them 0 or less, the more frequent first among equals."""
    if k < 1:
        raise UsageError(f"k must be at least 1, not {k}")
    best = np.argsort(-scores, kind="stable")[:k]
    return [(vocabulary.words[number], float(scores[number])) for number in best if scores[number] > 0]


def next_words(
    distribution: Distribution, vocabulary: Vocabulary, context: Sequence[int], k: int
) -> list[tuple[str, float]]:
    """Return the `k` most probable words after a context; `<unk>` is not among them."""
    chances = distribution(context)
    chances[[UNKNOWN, BEGIN]] = 0.0
    return top_words(chances, vocabulary, k)


def sample(
    distribution: Distribution,
    vocabulary: Vocabulary,
    boundaries: Boundaries,
    n: int,
    *,
    random_state: int = 0,
    max_words: int = 100,
    unknown: bool = False,
) -> list[list[str]]:
    """Draw `n` sentences, each of at most `max_words` words; in a stream, `n` sequences of that many.

    With `unknown` the sequences have `<unk>` as often as the model predicts it; else another word is drawn.
    """
    rng = np.random.default_rng(random_state)
    sentences = boundaries == "sentence"
    result = []
    for _ in range(n):
        ids = [BEGIN] if sentences else []
        while len(ids) < max_words + sentences:
            chances = distribution(ids)
            chances[BEGIN] = 0.0
            if not unknown:
                chances[UNKNOWN] = 0.0
            word = choose(np.cumsum(chances), rng)
            if sentences and word == END:
                break
            ids.append(word)
        result.append(vocabulary.decode(ids[sentences:]))
    return result


def choose(sums: np.ndarray, rng: np.random.Generator) -> int:
    """Return a random place, with the probabilities (up to a factor) whose running sums these are."""
    if not sums[-1] > 0:
        raise UsageError("the model gives no probability to any word but <unk>: there is nothing to draw")
    place = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
    # Rounding must not lead past the last place that has any probability.
    return min(place, int(np.searchsorted(sums, sums[-1])))
