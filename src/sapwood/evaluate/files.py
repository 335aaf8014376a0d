"""Scoring of the trees in one file, or text, against those in another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sapwood.errors import InputError, TreeFormatError
from sapwood.evaluate.brackets import Scorer
from sapwood.evaluate.evalb_params import EvalbParameters
from sapwood.evaluate.result import EvaluationResult
from sapwood.runtime.progress import Progress, Silent, track
from sapwood.storage.files import name_of, read_lines
from sapwood.trees.formats.gaps import Gaps
from sapwood.trees.formats.registry import InputFormat, detect_format, locate_trees
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tree import Tree

# Lines for sentences without a parse.
_MISSING = ("", "()", "(())")


def score_files(
    gold: str,
    predicted: str,
    *,
    format: InputFormat = "auto",
    normaliser: Normaliser | None = None,
    parameters: EvalbParameters | str = "default",
    gaps: Gaps = "keep",
    progress: Progress | None = None,
) -> EvaluationResult:
    """Score the trees of one file against those of another, in the same order.

    Parameters
    ----------
    gold, predicted
        The files. A blank line among the predicted trees is a sentence without a parse.
    format
        Format of both files.
    normaliser
        Cleans trees before they are compared; None: no cleaning.
    parameters
        Scoring parameters: see `get_parameters`.
    gaps
        Treatment of phrases with gaps, as for `sapwood.read_trees`.
    progress
        Receives progress reports.
    """
    one, other = (_Side(name_of(path), read_lines(path)) for path in (gold, predicted))
    return _score(one, other, format, normaliser, parameters, gaps, progress or Silent())


def score_texts(
    gold: str,
    predicted: str,
    *,
    normaliser: Normaliser | None = None,
    parameters: EvalbParameters | str = "default",
) -> EvaluationResult:
    """Score the trees of one text against those of another, both in brackets, as `score_files` does.

    Examples
    --------
    >>> score_texts("(S (N dogs) (V sleep))", "(S (N dogs) (N sleep))").tag_accuracy
    50.0
    """
    one, other = (
        _Side(name, list(enumerate(text.split("\n"), 1))) for name, text in (("gold", gold), ("predicted", predicted))
    )
    return _score(one, other, "brackets", normaliser, parameters, "keep", Silent())


def refuse_nothing(result: EvaluationResult, gold: str) -> None:
    """Raise `InputError` if no sentence could be compared."""
    if result.sentences == 0:
        raise InputError(f"{gold}: no trees to score")
    if result.messages and result.errors == result.sentences:
        raise InputError(
            f"{gold}: no sentence has the words of its prediction; are the two in the same order? "
            f"({result.messages[0]})"
        )


class _Side(NamedTuple):
    """One input: its name, and its numbered lines."""

    name: str
    lines: Iterable[tuple[int, str]]


def _score(
    gold: _Side,
    predicted: _Side,
    format: InputFormat,
    normaliser: Normaliser | None,
    parameters: EvalbParameters | str,
    gaps: Gaps,
    progress: Progress,
) -> EvaluationResult:
    gold_trees = list(locate_trees(gold.lines, source=gold.name, format=format, gaps=gaps))
    predicted_trees = _read_predictions(predicted, format, gaps, len(gold_trees))
    if len(gold_trees) != len(predicted_trees):
        raise InputError(
            f"{gold.name} has {len(gold_trees)} trees, {predicted.name} has {len(predicted_trees)}; "
            "they must line up (write a blank line for a sentence without a parse); the first tree without a partner "
            f"ends on {place_of_first_alone((gold.name, gold_trees), (predicted.name, predicted_trees))}"
        )
    scorer = Scorer(parameters)
    pairs = zip(gold_trees, predicted_trees, strict=True)
    for pair in track(pairs, progress, "scoring", len(gold_trees), "trees"):
        (gold_tree, gold_line), (predicted_tree, line) = pair
        clean = gold_tree if normaliser is None else normaliser(gold_tree)
        if clean is None:
            continue
        if normaliser is not None and predicted_tree is not None:
            predicted_tree = normaliser(predicted_tree)
        scorer.add(clean, predicted_tree, f"{gold.name}:{gold_line}, {predicted.name}:{line}")
    return scorer.result()


def place_of_first_alone(*sides: tuple[str, Sequence[tuple[Tree | None, int]]]) -> str:
    """Return the place of the first tree, with its last line, that the file with fewer trees has no partner for."""
    (_, fewer), (name, more) = sorted(sides, key=lambda side: len(side[1]))
    return f"{name}:{more[len(fewer)][1]}"


def _read_predictions(
    side: _Side, input_format: InputFormat, gaps: Gaps, expected: int
) -> list[tuple[Tree | None, int]]:
    """Read predicted trees and their line numbers; with one tree per line, a blank line (or `()`) is a missing tree."""
    lines = list(side.lines)
    if input_format == "auto":
        input_format = detect_format((line for line in lines if line[1].strip() not in _MISSING), side.name)
    if input_format in ("brackets", "discbracket") and len(lines) == expected:
        try:
            trees: list[tuple[Tree | None, int]] = []
            for number, line in lines:
                alone = locate_trees([(number, line)], source=side.name, format=input_format, gaps=gaps)
                found = [] if line.strip() in _MISSING else list(alone)
                if len(found) > 1:
                    break
                trees.append((found[0][0] if found else None, number))
            else:
                return trees
        except TreeFormatError:
            pass  # perhaps trees over several lines: read them as such, and raise there if need be
    return list(locate_trees(lines, source=side.name, format=input_format, gaps=gaps))
