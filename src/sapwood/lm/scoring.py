"""Scoring of texts with a model: in total, or line by line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sapwood.errors import InputError, ModelError, UsageError
from sapwood.lm.base import Evaluation, evaluate
from sapwood.lm.counts.load import read_ids
from sapwood.lm.counts.text import Sources, source_list
from sapwood.lm.counts.vocabulary import BEGIN, END, SPECIAL, UNKNOWN
from sapwood.lm.io import AnyModel, held, kind_of
from sapwood.lm.registry import Boundaries
from sapwood.runtime.progress import Progress, Silent, track
from sapwood.storage.files import name_of, read_lines
from sapwood.storage.shapes import Array, Float

# ASCII white space and control characters.
_WORD = re.compile(r"[^\x00-\x20]+")


def evaluate_text(
    model: AnyModel,
    sources: Sources,
    *,
    boundaries: Boundaries | None = None,
    ends: bool = True,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate a model on texts, all together.

    Parameters
    ----------
    model
        Any language model.
    sources
        A path or several, as for `encode_text`.
    boundaries
        By default as in training.
    ends
        Whether the ends of sentences are predicted.
    progress
        Progress display.
    """
    pieces = read_ids(sources, model.vocabulary, _boundaries(model, boundaries))
    found = evaluate(model, track(pieces, progress or Silent(), "evaluating", unit="pieces"), ends=ends)
    if found.tokens + found.unknown == 0:
        raise InputError(f"{', '.join(map(name_of, source_list(sources)))}: no words in it")
    return found


@dataclass(frozen=True)
class ScoredLine:
    """A scored line of text.

    Attributes
    ----------
    text
        The words, separated by spaces.
    words
        The predicted words, including the end but not the beginning of each sentence.
    log_probabilities
        Their log-probabilities (natural); unknown words have that of `<unk>`.
    known
        Whether the model knows each.
    """

    text: str
    words: list[str]
    log_probabilities: list[float]
    known: list[bool]

    @property
    def evaluation(self) -> Evaluation:
        """The log-probability of known words, their number, and the number of unknown words."""
        counted = [value for value, known in zip(self.log_probabilities, self.known, strict=True) if known]
        return Evaluation(sum(counted), len(counted), len(self.words) - len(counted))


def score_lines(
    model: AnyModel, source: str | Path, *, boundaries: Boundaries | None = None, batch: int = 512
) -> Iterator[ScoredLine]:
    """Yield the lines of a text with the log-probability of each word, processed in batches of `batch` lines.

    A line may be several sentences, because a literal `<s>` or `</s>` also ends one; in a stream the words of a line
    are contexts for those of the next.
    """
    if (kind := kind_of(source)) is not None:
        raise ModelError(f"{source}: holds {held(kind)}, not text")
    lines = _lines(source, _boundaries(model, boundaries))
    begin = BEGIN if model.boundaries == "sentence" else -1
    before = np.zeros(0, np.int32)
    while some := list(itertools.islice(lines, batch)):
        numbers = [model.vocabulary.encode(words) for _, words in some]
        ids = np.concatenate(numbers)
        values = np.split(model.log_probabilities(ids, context=before), np.cumsum([len(each) for each in numbers])[:-1])
        before = np.concatenate([before, ids])[-16:]
        for (text, words), own, scores in zip(some, numbers, values, strict=True):
            yield _scored(text, words, own.tolist(), scores, begin)


def _scored(text: str, words: list[str], ids: list[int], values: Float[Array, "words"], begin: int) -> ScoredLine:
    kept = [place for place, number in enumerate(ids) if number != begin]
    scores = values.tolist()
    known = [ids[place] != UNKNOWN for place in kept]
    return ScoredLine(text, [words[place] for place in kept], [scores[place] for place in kept], known)


def _boundaries(model: AnyModel, boundaries: Boundaries | None) -> Boundaries:
    if boundaries == "sentence" and model.boundaries == "stream":
        raise UsageError("boundaries sentence: this is a model of a stream, which knows no ends of sentences")
    return boundaries or model.boundaries


def _lines(path: str | Path, boundaries: Boundaries) -> Iterator[tuple[str, list[str]]]:
    """Yield each line, and its words with sentence marks."""
    marks = SPECIAL[BEGIN], SPECIAL[END]
    for _, line in read_lines(path):
        words = _WORD.findall(line)
        text = " ".join(words)
        if boundaries == "sentence":
            sentences = [list(part) for is_mark, part in itertools.groupby(words, marks.__contains__) if not is_mark]
            words = [word for sentence in sentences for word in (marks[0], *sentence, marks[1])]
        yield text, words
