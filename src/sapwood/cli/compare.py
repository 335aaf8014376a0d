"""`sapwood compare`."""

from __future__ import annotations

import click

from sapwood.cli.options import common
from sapwood.cli.options.types import NATURAL
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.evaluate import EvaluationResult, compare, get_parameters
from sapwood.evaluate.files import score_files
from sapwood.model.installed import find_model
from sapwood.storage.arrays import read_header
from sapwood.storage.files import STANDARD_STREAM, is_regular, name_of
from sapwood.trees.formats.registry import InputFormat
from sapwood.trees.normalise import Normaliser


@click.command("compare", short_help="Test whether one parser is better than another.")
@click.argument("gold")
@click.argument("a")
@click.argument("b")
@common.params_option
@common.resampling_options
@click.option("--sentences", type=NATURAL, default=5, help="List the N sentences with the largest differences.")
@click.option("--no-normalise", is_flag=True, help="Compare trees in files without normalising them.")
@common.threads_option
@common.normaliser_options
@common.format_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    gold: str,
    a: str,
    b: str,
    params: str,
    confidence: float,
    resamples: int,
    seed: int,
    sentences: int,
    no_normalise: bool,
    threads: int | None,
    normaliser: Normaliser,
    input_format: InputFormat,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare two parsers, A and B, on the sentences of GOLD.

    A and B are files of trees, or models (a file, or `en` for the included one) that parse the gold sentences.
    Intervals come from a paired bootstrap, p-values from approximate randomisation.

    \b
    Examples:
      sapwood compare test.mrg old.mrg new.mrg
      sapwood compare test.mrg pcfg.sapwood split-merge.sapwood --json
    """
    if gold == STANDARD_STREAM:
        raise UsageError("GOLD is read once for A and once for B, and cannot be standard input; name a file")
    models = [_is_model(path) for path in (a, b)]
    if not any(models):
        common.refuse_given(context, ["threads"], "requires a model")
    if all(models):
        taken = (*common.NORMALISER_OPTIONS, "no_normalise")
        common.refuse_given(context, taken, "cannot be used with two models: trees are normalised as theirs were")
    if no_normalise:
        common.refuse_given(context, common.NORMALISER_OPTIONS, "cannot be used with --no-normalise")
    common.check_inputs(gold, *(path for path, model in zip((a, b), models, strict=True) if not model))
    progress = common.make_progress(quiet)
    parameters = get_parameters(params)
    cleaned = None if no_normalise else normaliser

    def score(path: str, model: bool) -> EvaluationResult:
        if not model:
            return score_files(
                gold, path, format=input_format, normaliser=cleaned, parameters=parameters, gaps=common.gaps_option(),
                progress=progress,
            )  # fmt: skip
        from sapwood.evaluate.dev_set import evaluate_parser

        parser = common.load_parser(path, threads=common.default_threads(threads))
        trees = common.trees_from([gold], input_format, False, progress)
        return evaluate_parser(parser, trees, parameters=parameters, progress=progress)

    results = [score(path, model) for path, model in zip((a, b), models, strict=True)]
    for path, result in zip((a, b), results, strict=True):
        if result.messages:
            raise InputError(f"{name_of(path)}: {result.messages[0]}; A and B must have the words of the gold trees")
        if not result.scored:
            raise InputError(f"{name_of(gold)}: no trees to score")
    found = compare(*results, confidence=confidence, resamples=resamples, seed=seed)
    if as_json:
        common.print_json({"a": name_of(a), "b": name_of(b), **found.to_dict(sentences)})
    else:
        click.echo(f"A: {name_of(a)}\nB: {name_of(b)}\n\n{found.format(sentences)}")


def _is_model(path: str) -> bool:
    """Return whether a file is a model rather than trees, judging by its content."""
    file = find_model(path)
    try:
        return file.suffix == ".sapwood" or (is_regular(file) and bool(read_header(file)))
    except ModelError:
        return False
