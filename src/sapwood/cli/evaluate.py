"""`sapwood eval`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from sapwood.cli import _common as common
from sapwood.cli._induced import (
    eval_induced,
    eval_unlabelled,
    induced_model,
    is_conllu,
    score_unlabelled,
    show_unlabelled,
)
from sapwood.errors import UsageError
from sapwood.evaluate import EvaluationResult, get_parameters
from sapwood.evaluate.files import refuse_nothing, score_files
from sapwood.files import name_of
from sapwood.run.progress import Progress
from sapwood.trees.formats import InputFormat
from sapwood.trees.normalise import Normaliser

if TYPE_CHECKING:
    from sapwood.inference.parser import Precision

# Options that mean nothing where there are no labels, and nothing to models of heads and spans.
_LABELLED = ("params", "confidence", "resamples", "seed", "sentences", "calibration", "no_normalise")
_OF_GRAMMARS = ("decoder", "threshold", "precision", "max_memory", "timeout")


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
@common.params_option
@common.resampling_options
@click.option(
    "--sentences",
    type=click.IntRange(min=0),
    is_flag=False,
    flag_value=0,
    help="Print the scores of each sentence instead, the worst first; with N, of that many.",
    metavar="[N]",
)
@click.option(
    "--unlabelled",
    is_flag=True,
    help="Score spans without labels and punctuation, as for models learned without trees; or, of CoNLL-U, heads.",
)
@click.option("--gold-tags", is_flag=True, help="With -m: give the parser the gold part-of-speech tags.")
@click.option("--calibration", is_flag=True, help="With -m: also show how often phrases of each probability are right.")
@common.parser_options
@common.precision_option
@click.option("--no-normalise", is_flag=True, help="Compare the trees as they are.")
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
    decoder: str | None,
    threshold: float | None,
    precision: Precision,
    max_memory: int | None,
    timeout: float | None,
    no_normalise: bool,
    threads: int | None,
    cluster: str | None,
    normaliser: Normaliser,
    input_format: InputFormat,
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
      sapwood eval test.mrg parsed.mrg --sentences 20
      sapwood eval test.mrg -m model.sapwood --calibration
      sapwood eval test.mrg parsed.mrg --unlabelled
    """
    if sentences is not None:
        common.refuse_given(context, ["confidence", "resamples", "seed"], "does not go with --sentences")
        if calibration:
            raise UsageError("--calibration does not go with --sentences")
    if predicted is not None and models:
        raise UsageError("give either PREDICTED trees or a model (-m), not both")
    if predicted is not None:
        ours = [
            "gold_tags",
            "calibration",
            "decoder",
            "threshold",
            "precision",
            "max_memory",
            "timeout",
            "threads",
            "cluster",
        ]
        common.refuse_given(context, ours, "goes with -m")
    else:
        taken = (*common.NORMALISER_OPTIONS, "no_normalise")
        common.refuse_given(context, taken, "does not go with -m: trees are normalised as the model's were")
    if no_normalise:
        common.refuse_given(context, common.NORMALISER_OPTIONS, "does not go with --no-normalise")
    common.check_inputs(gold, predicted)
    if skip_bad and predicted is not None:
        raise UsageError("--skip-bad would shift gold against predicted trees; it goes with -m only")
    progress = common.make_progress(quiet)
    if predicted is not None and (unlabelled or is_conllu(predicted)):
        common.refuse_given(context, _LABELLED, "does not go with scores without labels")
        show_unlabelled(score_unlabelled(gold, predicted, input_format, progress), as_json)
        return
    if predicted is None and (learned := induced_model(models)) is not None:
        common.refuse_given(context, (*_LABELLED, *_OF_GRAMMARS), f"is for grammars, and {models[0]} is none")
        workers = common.open_workers(context, cluster, threads)
        show_unlabelled(eval_induced(learned, gold, input_format, skip_bad, gold_tags, workers, progress), as_json)
        return
    parameters = get_parameters(params)
    reliability = None
    if predicted is None:
        from sapwood.evaluate.calibration import Reliability
        from sapwood.evaluate.held_out import evaluate_parser

        reliability = Reliability() if calibration else None

        parser = common.load_parser(
            models,
            decoder=decoder,
            threshold=threshold,
            precision=precision,
            max_memory=max_memory,
            timeout=timeout,
            workers=common.open_workers(context, cluster, threads),
            marginals=calibration,
        )
        started = time.perf_counter()
        trees = common.trees_from([gold], input_format, skip_bad, progress)
        if unlabelled or common.is_induced(parser.grammar):
            common.refuse_given(context, _LABELLED, "does not go with scores without labels")
            show_unlabelled(eval_unlabelled(parser, trees, gold_tags, progress), as_json)
            return
        result = evaluate_parser(
            parser, trees, parameters=parameters, gold_tags=gold_tags, reliability=reliability, progress=progress
        )
    else:
        started = time.perf_counter()
        cleaned = None if no_normalise else normaliser
        result = score_files(
            gold, predicted, format=input_format, normaliser=cleaned, parameters=parameters, progress=progress
        )
    seconds = time.perf_counter() - started
    _report_problems(result, gold, progress)
    if sentences is not None:
        chosen = result.worst()[: sentences or None]
        if as_json:
            for row in result.sentence_dicts(chosen):
                common.print_json(row)
        else:
            click.echo(result.format_sentences(chosen))
        return
    if as_json:
        found = result.report(confidence=confidence, resamples=resamples, seed=seed)
        more = {} if reliability is None else {"calibration": reliability.to_dict()}
        common.print_json({**found, **more, "seconds": round(seconds, 3)})
    else:
        intervals = result.intervals(confidence=confidence, resamples=resamples, seed=seed)
        click.echo(result.format(intervals, f"{100 * confidence:.4g} % of all"))
        if reliability is not None:
            click.echo(f"\n{reliability.format()}")


def _report_problems(result: EvaluationResult, gold: str, progress: Progress) -> None:
    """Say which sentences could not be compared; if that is all of them, there is no result."""
    refuse_nothing(result, name_of(gold))
    if result.messages:
        shown = "".join(f"\n  {message}" for message in result.messages[:5])
        more = f"\n  ... and {len(result.messages) - 5} more" if len(result.messages) > 5 else ""
        progress.note(f"{result.errors} sentence(s) in error, not scored:{shown}{more}")
