"""How probable a model finds texts: all of them together, or line by line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sapwood.errors import InputError, ModelError, UsageError
from sapwood.files import name_of, read_lines
from sapwood.lm.evaluation import Evaluation, evaluate
from sapwood.lm.methods import Boundaries
from sapwood.lm.models import AnyModel, held, kind_of
from sapwood.lm.reading import read_ids
from sapwood.lm.text import Sources, source_list
from sapwood.lm.vocabulary import BEGIN, END, SPECIAL, UNKNOWN
from sapwood.run.progress import Progress, Silent, track
from sapwood.shapes import Array, Float

# White space and control characters of ASCII.
_WORD = re.compile(r"[^\x00-\x20]+")


def evaluate_text(
    model: AnyModel,
    sources: Sources,
    *,
    boundaries: Boundaries | None = None,
    ends: bool = True,
    progress: Progress | None = None,
) -> Evaluation:
    """Say how well a model predicts texts, all together.

    Parameters
    ----------
    model
        Any.
    sources
        A path or several, as `encode_text` takes them.
    boundaries
        By default as in training.
    ends
        Whether the ends of sentences are predicted, too.
    progress
        What to report to.
    """
    pieces = read_ids(sources, model.vocabulary, _boundaries(model, boundaries))
    found = evaluate(model, track(pieces, progress or Silent(), "evaluating", unit="pieces"), ends=ends)
    if found.tokens + found.unknown == 0:
        raise InputError(f"{', '.join(map(name_of, source_list(sources)))}: no words in it")
    return found


@dataclass(frozen=True)
class ScoredLine:
    """A line of text as a model sees it.

    Attributes
    ----------
    text
        The words, with a blank between them.
    words
        Those that are predicted: an end for each sentence, too, but no beginning.
    log_probabilities
        Theirs, natural; that of an unknown word is that of all unknown words together.
    known
        Whether the model knows each.
    """

    text: str
    words: list[str]
    log_probabilities: list[float]
    known: list[bool]

    @property
    def evaluation(self) -> Evaluation:
        """The log-probability of what is known, how much that is, and how many unknown words there are."""
        counted = [value for value, known in zip(self.log_probabilities, self.known, strict=True) if known]
        return Evaluation(sum(counted), len(counted), len(self.words) - len(counted))


def score_lines(
    model: AnyModel, source: str | Path, *, boundaries: Boundaries | None = None, batch: int = 512
) -> Iterator[ScoredLine]:
    """Yield the lines of a text with the log-probability of each word, some lines at a time (`batch`).

    A line may be several sentences, for a literal `<s>` or `</s>` ends one, too; in a stream the words of a line are
    contexts for those of the next.
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
    """Yield each line, and its words with the marks of sentences."""
    marks = SPECIAL[BEGIN], SPECIAL[END]
    for _, line in read_lines(path):
        words = _WORD.findall(line)
        text = " ".join(words)
        if boundaries == "sentence":
            sentences = [list(part) for is_mark, part in itertools.groupby(words, marks.__contains__) if not is_mark]
            words = [word for sentence in sentences for word in (marks[0], *sentence, marks[1])]
        yield text, words
