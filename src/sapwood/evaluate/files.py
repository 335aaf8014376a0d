"""Scores of the trees in one file against those in another."""

from __future__ import annotations

from sapwood.errors import InputError, TreeFormatError
from sapwood.evaluate.brackets import Scorer
from sapwood.evaluate.parameters import EvalbParameters
from sapwood.evaluate.result import EvaluationResult
from sapwood.files import name_of, read_lines
from sapwood.run.progress import Progress, Silent, track
from sapwood.trees.brackets import parse_trees
from sapwood.trees.export import parse_export
from sapwood.trees.formats import INPUT_FORMATS, InputFormat, detect_format, read_trees
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tree import Tree


def score_files(
    gold: str,
    predicted: str,
    *,
    format: InputFormat = "auto",
    normaliser: Normaliser | None = None,
    parameters: EvalbParameters | str = "default",
    progress: Progress | None = None,
) -> EvaluationResult:
    """Score the trees of one file against those of another, which must line up.

    Parameters
    ----------
    gold, predicted
        The files. A blank line among the predicted trees is a sentence that was not parsed.
    format
        Of both.
    normaliser
        How trees are cleaned before they are compared; None: not at all.
    parameters
        What counts: see `get_parameters`.
    progress
        What to report to.
    """
    gold_trees = list(read_trees(gold, format=format))
    predicted_trees = _read_predictions(predicted, format, len(gold_trees))
    if len(gold_trees) != len(predicted_trees):
        raise InputError(
            f"{name_of(gold)} has {len(gold_trees)} trees, {name_of(predicted)} has {len(predicted_trees)}; "
            "they must line up (write a blank line for a sentence without a parse)"
        )
    scorer = Scorer(parameters)
    pairs = zip(gold_trees, predicted_trees, strict=True)
    for gold_tree, predicted_tree in track(pairs, progress or Silent(), "scoring", len(gold_trees), "trees"):
        if normaliser is None:
            scorer.add(gold_tree, predicted_tree)
            continue
        clean = normaliser(gold_tree)
        if clean is not None:
            scorer.add(clean, None if predicted_tree is None else normaliser(predicted_tree))
    return scorer.result()


def _read_predictions(path: str, input_format: InputFormat, expected: int) -> list[Tree | None]:
    """Read predicted trees; in a file of one tree a line a blank line (or `()`) is a missing one."""
    if input_format not in INPUT_FORMATS:  # of another package
        return list(read_trees(path, format=input_format))
    lines = list(read_lines(path))
    if input_format == "export" or (input_format == "auto" and detect_format(lines) == "export"):
        return list(parse_export(lines, source=name_of(path)))
    if len(lines) == expected:
        try:
            trees: list[Tree | None] = []
            for number, line in lines:
                found = (
                    []
                    if line.strip() in ("", "()", "(())")
                    else list(parse_trees([(number, line)], source=name_of(path)))
                )
                if len(found) > 1:
                    break
                trees.append(found[0] if found else None)
            else:
                return trees
        except TreeFormatError:
            pass  # perhaps trees over several lines: read them as such, and let that complain
    return list(parse_trees(lines, source=name_of(path)))
