"""`sapwood eval`."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from sapwood.cli.options import common
from sapwood.cli.options.induction import (
    eval_induced,
    eval_unlabelled,
    induced_model,
    is_conllu,
    score_unlabelled,
    show_unlabelled,
)
from sapwood.cli.options.types import NATURAL
from sapwood.errors import UsageError
from sapwood.evaluate import EvaluationResult, get_parameters
from sapwood.evaluate.files import refuse_nothing, score_files
from sapwood.runtime.progress import Progress
from sapwood.storage.files import name_of
from sapwood.trees.formats.registry import InputFormat
from sapwood.trees.normalise import Normaliser

if TYPE_CHECKING:
    from sapwood.evaluate.calibration import Reliability
    from sapwood.evaluate.evalb_params import EvalbParameters
    from sapwood.inference import Parser
    from sapwood.trees.tree import Tree

# Options that do not apply to unlabelled scores, and options that do not apply to models of heads and spans.
_LABELLED = ("params", "confidence", "resamples", "seed", "sentences", "calibration", "no_normalise")
_OF_GRAMMARS = ("decoder", "threshold", "encoder", "precision", "max_memory", "timeout")


@click.command("eval", short_help="Score trees, or a model, against gold trees.")
@click.argument("gold")
@click.argument("predicted", required=False)
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="Model to parse the gold sentences with; repeat for the product of several. [default: the included "
    "English model]",
)
@common.params_option
@common.resampling_options
@click.option(
    "--sentences",
    type=NATURAL,
    is_flag=False,
    flag_value=0,
    help="Print scores per sentence instead, worst first; with N, only N of them.",
    metavar="[N]",
)
@click.option(
    "--unlabelled",
    is_flag=True,
    help="Score unlabelled spans without punctuation, as for induced models; for CoNLL-U, score heads.",
)
@click.option("--gold-tags", is_flag=True, help="With -m, parse with the gold part-of-speech tags.")
@click.option("--calibration", is_flag=True, help="With -m, report the calibration of phrase probabilities.")
@common.parser_options
@common.encoder_option
@common.precision_option
@click.option("--no-normalise", is_flag=True, help="Compare trees without normalising them.")
@common.threads_option
@common.cluster_option
@common.normaliser_options
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    /,
    gold: str,
    predicted: str | None,
    models: tuple[str, ...],
    params: str,
    confidence: float,
    resamples: int,
    seed: int,
    sentences: int | None,
    unlabelled: bool,
    gold_tags: bool,
    calibration: bool,
    no_normalise: bool,
    threads: int | None,
    cluster: str | None,
    normaliser: Normaliser,
    input_format: InputFormat,
    skip_bad: bool,
    as_json: bool,
    quiet: bool,
    **parsing: Any,
) -> None:
    """Score PREDICTED trees, or a model's parses, against GOLD trees.

    Gold and predicted trees are first normalised (function tags, empty elements, repeated unaries); with -m, in the
    same way as the model's training trees. A blank line in PREDICTED is a sentence without a parse.

    \b
    Examples:
      sapwood eval test.mrg -m model.sapwood
      sapwood eval test.mrg -m seed1.sapwood -m seed2.sapwood
      sapwood eval test.mrg parsed.mrg --params collins --json
      sapwood eval test.mrg parsed.mrg --sentences 20
      sapwood eval test.mrg -m model.sapwood --calibration
      sapwood eval test.mrg parsed.mrg --unlabelled
    """
    _check_options(context, gold, predicted, models)
    progress = common.make_progress(quiet)
    if predicted is not None and (unlabelled or is_conllu(predicted)):
        common.refuse_given(context, _LABELLED, "cannot be used with unlabelled scores")
        show_unlabelled(score_unlabelled(gold, predicted, input_format, progress), as_json)
        return
    if predicted is None and (learned := induced_model(models)) is not None:
        common.refuse_given(context, (*_LABELLED, *_OF_GRAMMARS), f"is for grammars, and {models[0]} is not one")
        workers = common.open_workers(context, cluster, threads)
        show_unlabelled(eval_induced(learned, gold, input_format, skip_bad, gold_tags, workers, progress), as_json)
        return
    parameters, reliability = get_parameters(params), None
    if predicted is None:
        workers = common.open_workers(context, cluster, threads)
        parser = common.load_parser(models, workers=workers, marginals=calibration, **parsing)
        started = time.perf_counter()
        trees = common.trees_from([gold], input_format, skip_bad, progress)
        if not models:
            trees = common.note_unknown_words(trees, lambda tree: tree.words(), parser, progress)
        if unlabelled or parser.model.preparation.induced is not None:
            common.refuse_given(context, _LABELLED, "cannot be used with unlabelled scores")
            show_unlabelled(eval_unlabelled(parser, trees, gold_tags, progress), as_json)
            return
        result, reliability = _score_parses(parser, trees, parameters, gold_tags, calibration, progress)
    else:
        started = time.perf_counter()
        clean = None if no_normalise else normaliser
        result = score_files(
            gold, predicted, format=input_format, normaliser=clean, parameters=parameters, gaps=common.gaps_option(),
            progress=progress,
        )  # fmt: skip
    seconds = time.perf_counter() - started
    _report_problems(result, gold, progress)
    if sentences is not None:
        _print_sentences(result, sentences, as_json)
    else:
        _print_scores(result, _Resampling(confidence, resamples, seed), reliability, seconds, as_json)


def _check_options(context: click.Context, gold: str, predicted: str | None, models: tuple[str, ...]) -> None:
    """Refuse options that cannot be combined, and files that cannot be read."""
    given = context.params
    if given["sentences"] is not None:
        common.refuse_given(context, ["confidence", "resamples", "seed"], "cannot be used with --sentences")
        if given["calibration"]:
            raise UsageError("--calibration cannot be used with --sentences")
    if predicted is not None and models:
        raise UsageError("give either PREDICTED trees or a model (-m), not both")
    if predicted is not None:
        common.refuse_given(context, ("gold_tags", "calibration", *_OF_GRAMMARS, "threads", "cluster"), "requires -m")
    else:
        taken = (*common.NORMALISER_OPTIONS, "no_normalise")
        common.refuse_given(context, taken, "cannot be used with -m: trees are normalised as the model's were")
    if given["no_normalise"]:
        common.refuse_given(context, common.NORMALISER_OPTIONS, "cannot be used with --no-normalise")
    common.check_inputs(gold, predicted)
    if given["skip_bad"] and predicted is not None:
        raise UsageError("--skip-bad would shift gold against predicted trees; it requires -m")


def _score_parses(
    parser: Parser, trees: Iterable[Tree], parameters: EvalbParameters, gold_tags: bool, calibration: bool,
    progress: Progress,
) -> tuple[EvaluationResult, Reliability | None]:  # fmt: skip
    """Return the scores of a parser and, if wanted, the calibration of its probabilities."""
    from sapwood.evaluate.calibration import Reliability
    from sapwood.evaluate.dev_set import evaluate_parser

    reliability = Reliability() if calibration else None
    result = evaluate_parser(
        parser, trees, parameters=parameters, gold_tags=gold_tags, reliability=reliability, progress=progress
    )
    return result, reliability


def _print_sentences(result: EvaluationResult, count: int, as_json: bool) -> None:
    """Print the scores of the worst sentences; 0 prints all."""
    chosen = result.worst()[: count or None]
    if as_json:
        for row in result.sentence_dicts(chosen):
            common.print_json(row)
    else:
        click.echo(result.format_sentences(chosen))


class _Resampling(NamedTuple):
    """Bootstrap settings of the confidence intervals."""

    confidence: float
    resamples: int
    seed: int


def _print_scores(
    result: EvaluationResult, resampling: _Resampling, reliability: Reliability | None, seconds: float, as_json: bool
) -> None:
    """Print the scores with their confidence intervals, and the calibration."""
    if as_json:
        found = result.report(**resampling._asdict())
        more = {} if reliability is None else {"calibration": reliability.to_dict()}
        common.print_json({**found, **more, "seconds": round(seconds, 3)})
    else:
        intervals = result.intervals(**resampling._asdict())
        click.echo(result.format(intervals, f"{100 * resampling.confidence:.4g} % of all"))
        if reliability is not None:
            click.echo(f"\n{reliability.format()}")


def _report_problems(result: EvaluationResult, gold: str, progress: Progress) -> None:
    """Report sentences that could not be compared; raises an error if there are no others."""
    refuse_nothing(result, name_of(gold))
    if result.messages:
        shown = "".join(f"\n  {message}" for message in result.messages[:5])
        more = f"\n  ... and {len(result.messages) - 5} more" if len(result.messages) > 5 else ""
        progress.note(f"{result.errors} sentence(s) in error, not scored:{shown}{more}")
