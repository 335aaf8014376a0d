"""`sapwood lm train`."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli import _common as common
from sapwood.cli import _lm_common as shared
from sapwood.cli._groups import GroupedCommand, config_options, run_settings
from sapwood.cli._types import Choice
from sapwood.errors import UsageError
from sapwood.files import STANDARD_STREAM
from sapwood.lm.methods import LONGEST_ORDER, METHODS, Boundaries, Method, check_method, default_method
from sapwood.run.checkpoint import KeptFiles
from sapwood.run.config import write_config
from sapwood.run.log import TrainingLog

if TYPE_CHECKING:
    from sapwood.lm.training import TrainingText

_GROUPS = {
    "What is counted": ("min-count", "vocabulary", "boundaries", "memory"),
    "Hidden states (em, pivot, pivot+em, mixed-order, mix)": (
        "states",
        "iterations",
        "prior",
        "patience",
        "tolerance",
    ),
    "EM (em, pivot+em, mixed-order, mix)": ("word-prior", "noise", "batches", "step-power"),
    "Anchors (pivot, pivot+em, mix)": ("anchor-count", "kappa", "pivot-iterations"),
    "Several words back (mixed-order, mix)": ("lags",),
    "N-grams (kn, mkn, mix)": ("order",),
}
_NGRAMS = ("kn", "mkn")


@click.command("train", cls=GroupedCommand, groups=_GROUPS, short_help="Learn a language model from texts or counts.")
@click.argument("text", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="Where to write the model; of kn and mkn, .arpa[.gz] is ARPA.")
@click.option(
    "--method",
    type=Choice(list(METHODS)),
    help="How to learn: hidden states between a word and the next (em, pivot, pivot+em) or some words further on "
    "(mixed-order); n-grams by Kneser and Ney, interpolated (kn) or modified (mkn); or all of that in one (mix), "
    f"which is the best and slowest. [default: {default_method(True)}, or {default_method(False)} without --dev]",
)
@click.option("--dev", help="Text to stop by, to take weights of mixtures from, and to measure the result on.")
@click.option("--resume", is_flag=True, help="Go on with a training run that was interrupted.")
@config_options
@click.option("--log", "log_path", help="Where to write a line (JSON) for each iteration; not of kn and mkn.")
@click.option(
    "--min-count",
    type=click.IntRange(min=1),
    help="Words seen less often become <unk>. [default: 2, of counts files 1]",
)
@shared.vocabulary_option
@shared.boundaries_option("sentence, or that of the counts files")
@shared.memory_option
@click.option("--states", type=click.IntRange(min=1), help="How many. [default: 128]")
@click.option(
    "--iterations",
    type=click.IntRange(min=1),
    help="The most iterations of EM, or of pivot's concave problem. [default: 100; pivot: 200]",
)
@click.option(
    "--prior",
    type=click.FloatRange(0, 1e9),
    help="As if each word had been followed so often more, by all states equally. [default: 3]",
)
@click.option(
    "--word-prior",
    type=click.FloatRange(0, 1e9),
    help="As if each state had been seen so often more, with words as they are everywhere. [default: 100]",
)
@click.option(
    "--batches",
    type=click.IntRange(min=1),
    help="Stepwise EM: change the model so often in each iteration, which pays for very large counts. [default: 1]",
)
@click.option(
    "--anchor-count", type=click.FloatRange(0, 1e9), help="Words seen less often stand for no state. [default: 30]"
)
@click.option(
    "--kappa", type=click.FloatRange(0, 1e9), help="How much rare words are held back among anchors. [default: 500]"
)
@click.option(
    "--pivot-iterations",
    type=click.IntRange(min=1),
    help="Of pivot+em and mix: the most iterations of the concave problem. [default: 1, or 200 without --dev]",
)
@click.option("--patience", type=click.IntRange(min=1), help="How often --dev may get no more probable. [default: 3]")
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1),
    help="Without --dev, the part of the objective that an iteration must gain. [default: 1e-6]",
)
@click.option(
    "--noise", type=click.FloatRange(0, 1e9), help="How much a random start differs from an even one. [default: 0.1]"
)
@click.option(
    "--step-power",
    type=click.FloatRange(0.5, 1, min_open=True),
    help="How fast the steps of --batches get shorter. [default: 0.6]",
)
@click.option("--lags", type=click.IntRange(1, 16), help="How many words back to look. [default: 3]")
@click.option(
    "--order",
    type=click.IntRange(1, LONGEST_ORDER),
    help="The longest n-grams. [default: 3, or that of the counts files]",
)
@shared.seed_option
@shared.threads_option
@common.cluster_option
@common.json_option
@common.quiet_option
@click.pass_context
def train_command(
    context: click.Context,
    /,
    text: tuple[str, ...],
    output: str,
    method: Method | None,
    dev: str | None,
    resume: bool,
    save_config: str | None,
    log_path: str | None,
    min_count: int | None,
    max_words: int | None,
    boundaries: Boundaries | None,
    memory: float,
    order: int | None,
    seed: int,
    threads: int | None,
    cluster: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Learn a language model from TEXT files, one sentence a line, words separated by blanks.

    Files of counts (`sapwood lm count`) are taken as well. Files in .gz, .bz2, .xz and .zst are decompressed, and - is
    standard input. Learning with hidden states goes on as long as the text of --dev gets more probable, and pivot's
    concave problem is left early, too; without --dev, until the likelihood hardly rises.

    Training can be interrupted at any time: what is done is kept beside the model, in MODEL.checkpoint, and the same
    command with --resume goes on from there to the same result. (kn and mkn take seconds, and begin anew.)

    \b
    Examples:
      sapwood lm train train.txt --dev dev.txt -o best.sapwood
      sapwood lm train train.txt --dev dev.txt --method pivot+em --states 256 -o model.sapwood
      sapwood lm train train.counts --dev dev.txt --method em --log train.jsonl -o model.sapwood
      sapwood lm train train.txt --method mkn --order 5 -o model.arpa.gz
      sapwood lm train train.txt --dev dev.txt --config run.toml -o model.sapwood
    """
    method = method or default_method(dev is not None)
    settings = {name: value for name, value in options.items() if value is not None}
    check_method(method, [*settings, *(["order"] if order is not None else [])], dev is not None)
    _check_files(text, dev, method, {"-o": output, "--log": log_path, "--save-config": save_config})
    kept = KeptFiles(output)
    kept.check(resume=resume, log=log_path)
    progress = common.make_progress(quiet)
    workers = common.open_workers(context, cluster, threads)
    from sapwood.lm import training
    from sapwood.lm.evaluation import evaluate
    from sapwood.lm.models import save_model

    began = time.perf_counter()
    read = training.read_training_text(
        text, method=method, dev=dev, order=order, min_count=min_count, max_words=max_words, boundaries=boundaries,
        memory=shared.in_bytes(memory), threads=workers.threads, workers=workers, progress=progress,
    )  # fmt: skip
    with common.resumable(kept.left):
        with _open_log(log_path, kept, resume) as log:
            model = training.fit(
                read, method, random_state=seed, threads=workers.threads, workers=workers, progress=progress, log=log,
                checkpoint=kept.checkpoint(), **settings,
            )  # fmt: skip
        save_model(model, output)
        kept.clear()
    if save_config is not None:
        given = {name: value for name, value in run_settings(context).items() if name not in ("resume", "cluster")}
        write_config(save_config, {**given, **_chosen(read, method, settings)})
    seconds = time.perf_counter() - began
    found = model.describe()
    tokens, unknown = read.counts.tokens, int(read.counts.vocabulary.counts[0])
    progress.note(f"{output}: {found['kind']} of {found['words']:,} words, from {tokens:,} tokens in {seconds:.1f} s")
    report: dict[str, Any] = {"model": output, "method": method, "tokens": tokens, "unknown": unknown, **found}
    report["seconds"] = round(seconds, 3)
    if read.dev is not None:
        evaluation = evaluate(model, read.dev)
        report["dev"] = shared.evaluation_report(evaluation, progress)
        if not as_json:
            click.echo(shared.format_evaluation(evaluation))
    if as_json:
        shared.print_json(report)


def _check_files(text: tuple[str, ...], dev: str | None, method: Method, outputs: dict[str, str | None]) -> None:
    """Find out before the work begins whether files can be read and written."""
    from sapwood.lm.models import is_arpa_name

    output = outputs["-o"]
    if output == STANDARD_STREAM:
        raise UsageError("a model cannot be written to standard output; name a file")
    if method in _NGRAMS and outputs["--log"] is not None:
        raise UsageError(f"--log goes with --method {', '.join(other for other in METHODS if other not in _NGRAMS)}")
    if is_arpa_name(str(output)) and method not in _NGRAMS:
        raise UsageError(f"-o {output}: ARPA files hold n-gram models only, those of --method kn and mkn")
    common.check_inputs(*text, dev)
    common.refuse_replacing(outputs, [*text, dev])


def _open_log(path: str | None, kept: KeptFiles, resume: bool) -> contextlib.AbstractContextManager[TrainingLog | None]:
    if path is None:
        return contextlib.nullcontext()
    return TrainingLog.resume(path, lines=int(kept.reached().get("lines", 0))) if resume else TrainingLog(path)


def _chosen(read: TrainingText, method: Method, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that were not given but chosen, by the names of options."""
    from sapwood.lm.training import resolved_settings

    resolved = resolved_settings(method, **settings)
    chosen = {name.replace("_", "-"): value for name, value in resolved.items() if value is not None}
    chosen |= {"method": method, "min-count": read.min_count, "boundaries": read.counts.boundaries}
    return chosen | ({"order": read.counts.order} if "order" in METHODS[method] else {})
