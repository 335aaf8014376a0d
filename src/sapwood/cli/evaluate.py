"""`sapwood eval`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from sapwood.cli import _common as common
from sapwood.errors import InputError, TreeFormatError, UsageError
from sapwood.evaluate import EvaluationResult, Scorer, get_parameters
from sapwood.files import name_of, read_lines
from sapwood.run.progress import Progress, track
from sapwood.trees.brackets import parse_trees
from sapwood.trees.export import parse_export
from sapwood.trees.formats import InputFormat, detect_format, read_trees
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tree import Tree


@click.command("eval", short_help="Score trees or a model against gold trees.")
@click.argument("gold")
@click.argument("predicted", required=False)
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="Parse the gold sentences with this model, or the product of several, and score the result. "
    "[default: bundled]",
)
@click.option(
    "--params",
    default="default",
    show_default=True,
    help="What counts: default, collins, or an EVALB parameter file (.prm).",
)
@click.option("--gold-tags", is_flag=True, help="With -m: give the parser the gold part-of-speech tags.")
@common.parser_options
@click.option("--no-normalise", is_flag=True, help="Compare the trees as they are.")
@common.threads_option
@common.normaliser_options
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    gold: str,
    predicted: str | None,
    models: tuple[str, ...],
    params: str,
    gold_tags: bool,
    decoder: str,
    threshold: float,
    no_normalise: bool,
    threads: int | None,
    function_tags: str,
    keep_empties: bool,
    keep_repeated: bool,
    input_format: Any,
    skip_bad: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Score PREDICTED trees, or a model's parses, against GOLD trees.

    Gold and predicted trees are normalised first (function tags, empty elements, repeated unaries), with -m the way
    the model's training trees were. A blank line among the predicted trees is a sentence that was not parsed.

    \b
    Examples:
      sapwood eval test.mrg -m model.sapwood
      sapwood eval test.mrg -m seed1.sapwood -m seed2.sapwood
      sapwood eval test.mrg parsed.mrg --params collins --json
    """
    if predicted is not None and models:
        raise UsageError("give either PREDICTED trees or a model (-m), not both")
    if predicted is not None:
        common.refuse_given(context, ["gold_tags", "decoder", "threshold", "threads"], "goes with -m")
    else:
        taken = (*common.NORMALISER_OPTIONS, "no_normalise")
        common.refuse_given(context, taken, "does not go with -m: trees are normalised as the model's were")
    if no_normalise:
        common.refuse_given(context, common.NORMALISER_OPTIONS, "does not go with --no-normalise")
    common.check_inputs(gold, predicted)
    if skip_bad and predicted is not None:
        raise UsageError("--skip-bad would shift gold against predicted trees; it goes with -m only")
    progress = common.make_progress(quiet)
    parameters = get_parameters(params)
    if predicted is None:
        parser = common.load_parser(
            models, progress, decoder=decoder, threshold=threshold, threads=common.default_threads(threads)
        )
        result, seconds = evaluate_model(
            parser, gold, input_format, parameters, skip_bad, progress, gold_tags=gold_tags
        )
    else:
        started = time.perf_counter()
        normaliser = None if no_normalise else common.make_normaliser(function_tags, keep_empties, keep_repeated)
        result = _evaluate_files(gold, predicted, input_format, normaliser, parameters, progress)
        seconds = time.perf_counter() - started
    _report_problems(result, gold, progress)
    if as_json:
        common.print_json({**result.to_dict(), "seconds": round(seconds, 3)})
    else:
        click.echo(result.format())


def _report_problems(result: EvaluationResult, gold: str, progress: Progress) -> None:
    """Say which sentences could not be compared; if that is all of them, there is no result."""
    if result.sentences == 0:
        raise InputError(f"{name_of(gold)}: no trees to score")
    if result.messages and result.errors == result.sentences:
        raise InputError(
            f"{name_of(gold)}: no sentence has the words of its prediction; are the two in the same order? "
            f"({result.messages[0]})"
        )
    if result.messages:
        shown = "".join(f"\n  {message}" for message in result.messages[:5])
        more = f"\n  ... and {len(result.messages) - 5} more" if len(result.messages) > 5 else ""
        progress.note(f"{result.errors} sentence(s) in error, not scored:{shown}{more}")


def evaluate_model(
    parser: Any,
    gold: str,
    input_format: InputFormat,
    parameters: Any,
    skip_bad: bool,
    progress: Progress,
    *,
    gold_tags: bool = False,
) -> tuple[EvaluationResult, float]:
    """Parse the sentences of a treebank and score the parses; returns the scores and the seconds it took."""
    normaliser = parser.grammar.normaliser
    started = time.perf_counter()
    trees = [
        clean
        for tree in common.trees_from([gold], input_format, skip_bad, progress)
        if (clean := normaliser(tree)) is not None
    ]
    sentences: Iterator[Any] = (
        list(zip(tree.words(), tree.tags(), strict=True)) if gold_tags else tree.words() for tree in trees
    )
    scorer = Scorer(get_parameters(parameters) if isinstance(parameters, str) else parameters)
    results = track(parser.parse(sentences), progress, "parsing", len(trees), "sentences")
    failed = 0
    for tree, result in zip(trees, results, strict=True):
        scorer.add(tree, result.tree)
        failed += result.failed
    return replace(scorer.result(), failed=failed), time.perf_counter() - started


def _evaluate_files(
    gold: str,
    predicted: str,
    input_format: InputFormat,
    normaliser: Normaliser | None,
    parameters: Any,
    progress: Progress,
) -> EvaluationResult:
    gold_trees = list(read_trees(gold, format=input_format))
    predicted_trees = _read_predictions(predicted, input_format, len(gold_trees))
    if len(gold_trees) != len(predicted_trees):
        raise InputError(
            f"{name_of(gold)} has {len(gold_trees)} trees, {name_of(predicted)} has {len(predicted_trees)}; "
            "they must line up (write a blank line for a sentence without a parse)"
        )
    scorer = Scorer(parameters)
    pairs = zip(gold_trees, predicted_trees, strict=True)
    for gold_tree, predicted_tree in track(pairs, progress, "scoring", len(gold_trees), "trees"):
        if normaliser is None:
            scorer.add(gold_tree, predicted_tree)
            continue
        clean = normaliser(gold_tree)
        if clean is not None:
            scorer.add(clean, None if predicted_tree is None else normaliser(predicted_tree))
    return scorer.result()


def _read_predictions(path: str, input_format: InputFormat, expected: int) -> list[Tree | None]:
    """Read predicted trees; in a file of one tree a line a blank line (or `()`) is a missing one."""
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
