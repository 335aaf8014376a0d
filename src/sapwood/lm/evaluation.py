"""How well a model predicts a text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sapwood.lm.transitions import Ids
from sapwood.lm.vocabulary import BEGIN, END, UNKNOWN
from sapwood.shapes import Array, Int

if TYPE_CHECKING:
    from sapwood.lm.base import LanguageModel


@dataclass(frozen=True)
class Evaluation:
    """The log-probability (natural) of the words that count, how many they are, and how many unknown ones do not."""

    log_probability: float
    tokens: int
    unknown: int

    @property
    def perplexity(self) -> float:
        """The inverse of the geometric mean of the probabilities; `nan` of no tokens."""
        if self.tokens == 0:
            return math.nan
        mean = -self.log_probability / self.tokens
        return math.exp(mean) if mean < 700 else math.inf

    def __add__(self, other: Evaluation) -> Evaluation:
        return Evaluation(
            self.log_probability + other.log_probability, self.tokens + other.tokens, self.unknown + other.unknown
        )


def evaluate(
    model: LanguageModel, text: Ids, *, ends: bool = True, context: Int[Array, "before"] | None = None
) -> Evaluation:
    """Evaluate a model on a text given as ids, in one piece or several (as `encode_text` yields them).

    Parameters
    ----------
    model
        Any model of this room.
    text
        The ids. Unknown words are not predicted, but are contexts for what follows; neither is `<s>`.
    ends
        Whether `</s>` counts as a word to be predicted. (In a stream it does as any other word.)
    context
        What comes before the text.
    """
    total = Evaluation(0.0, 0, 0)
    sentences = model.boundaries == "sentence"
    before = np.zeros(0, np.int32) if context is None else np.asarray(context, np.int32)
    for ids in [text] if isinstance(text, np.ndarray) else text:
        values = model.log_probabilities(ids, context=before)
        counted = ids != UNKNOWN
        unknown = len(ids) - int(counted.sum())
        if sentences:
            counted &= ids != BEGIN
            if not ends:
                counted &= ids != END
        total += Evaluation(float(values[counted].sum()), int(counted.sum()), unknown)
        before = np.concatenate([before, ids])[-16:]
    return total
