"""`sapwood lm train`."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli.lm import common as shared
from sapwood.cli.options import common
from sapwood.cli.options.aliases import LM_TRAIN
from sapwood.cli.options.declared import naming_options, setting_option, shown
from sapwood.cli.options.help import GroupedCommand, config_options, run_settings
from sapwood.cli.options.types import POSITIVE, ChoiceParam
from sapwood.errors import UsageError
from sapwood.lm.registry import (
    LONGEST_ORDER,
    METHODS,
    Method,
    MixedOrderParams,
    check_method,
    default_method,
)
from sapwood.runtime.checkpoint import RunFiles
from sapwood.runtime.config import write_config
from sapwood.runtime.log import NoLog, TrainingLog
from sapwood.runtime.loggers import also_to
from sapwood.runtime.params import defaults, params_of
from sapwood.storage.files import STANDARD_STREAM

if TYPE_CHECKING:
    from sapwood.lm.training import TrainingText

_GROUPS = {
    "Counts": ("min-count", "vocabulary", "boundaries", "memory"),
    "Hidden states (em, pivot, pivot+em, mixed-order, mix)": (
        "states",
        "iterations",
        "prior",
        "patience",
        "tolerance",
    ),
    "EM (em, pivot+em, mixed-order, mix)": ("word-prior", "noise", "stepwise-batches", "stepwise-power"),
    "Anchors (pivot, pivot+em, mix)": ("anchor-count", "anchor-shrinkage", "pivot-iterations"),
    "Mixed order (mixed-order, mix)": ("lags",),
    "N-grams (kn, mkn, mix)": ("order",),
}
_NGRAMS = ("kn", "mkn")
_WITH_LOG = f"--method {', '.join(method for method in METHODS if method not in _NGRAMS)}"
# Defaults that are not the same for all methods.
_DEFAULTS = {"iterations": "100; pivot: 200", "pivot_iterations": "1, or 200 without --dev"}


def _setting_options() -> list[click.Option]:
    """Return an option for each setting of each method but the order."""
    ordinary = defaults(MixedOrderParams)
    names = {name for names in METHODS.values() for name in names}
    return [
        setting_option(name, setting, f"{setting.help} [default: {_DEFAULTS.get(name) or shown(ordinary[name])}]")
        for name, setting in params_of(MixedOrderParams).items()
        if name in names
    ]


@click.command(
    "train",
    cls=GroupedCommand,
    aliases=LM_TRAIN,
    groups=_GROUPS,
    params=_setting_options(),
    short_help="Train a language model on texts or counts.",
)
@click.argument("text", nargs=-1, required=True)
@click.option(
    "-o", "--output", required=True, help="Write the model to this file; with kn and mkn, .arpa[.gz] writes ARPA."
)
@click.option(
    "--method",
    type=ChoiceParam(list(METHODS)),
    help="Hidden-state bigrams (em, pivot, pivot+em), mixed-order hidden states (mixed-order), interpolated (kn) or "
    "modified (mkn) Kneser-Ney n-grams, or a mixture of all (mix: most accurate, slowest). "
    f"[default: {default_method(True)}, or {default_method(False)} without --dev]",
)
@click.option("--dev", help="Development text, for early stopping, mixture weights and the final perplexity.")
@click.option("--resume", is_flag=True, help="Resume an interrupted run.")
@config_options
@click.option("--log", "log_path", help="Write one JSON line per iteration to this file (not for kn and mkn).")
@common.logger_option
@click.option(
    "--min-count",
    type=POSITIVE,
    help="Replace words seen fewer than N times by <unk>. [default: 2; for counts files, 1]",
)
@shared.vocabulary_option
@shared.boundaries_option("sentence, or as in the counts files")
@shared.memory_option
@click.option(
    "--order",
    type=click.IntRange(1, LONGEST_ORDER),
    help="Maximum length of n-grams. [default: 3, or as in the counts files]",
)
@common.seed_option
@common.threads_option
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
    loggers: tuple[str, ...],
    memory: float,
    order: int | None,
    seed: int,
    threads: int | None,
    cluster: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Train a language model on TEXT files: one sentence per line, words separated by spaces.

    Counts files (`sapwood lm count`) are accepted as well. Files in .gz, .bz2, .xz and .zst are decompressed, and - is
    standard input. Models with hidden states, and the concave problem of pivot, are trained until the likelihood of
    --dev stops improving or, without --dev, until the training likelihood converges.

    Training can be interrupted at any time. Checkpoints are kept in MODEL.checkpoint, and the same command with
    --resume continues to the same result. (kn and mkn take seconds and start from scratch.)

    \b
    Examples:
      sapwood lm train train.txt --dev dev.txt -o best.sapwood
      sapwood lm train train.txt --dev dev.txt --method pivot+em --states 256 -o model.sapwood
      sapwood lm train train.counts --dev dev.txt --method em --log train.jsonl -o model.sapwood
      sapwood lm train train.txt --method mkn --order 5 -o model.arpa.gz
      sapwood lm train train.txt --dev dev.txt --config run.toml -o model.sapwood
    """
    method = method or default_method(dev is not None)
    counting = {name: options.pop(name) for name in ("min_count", "max_words", "boundaries")}
    settings = {name: value for name, value in options.items() if value is not None}
    with naming_options([*settings, "order"]):
        check_method(method, settings if order is None else {**settings, "order": order}, dev is not None)
    _check_files(text, dev, method, {"-o": output, "--log": log_path, "--save-config": save_config})
    if method in _NGRAMS and loggers:
        raise UsageError(f"--logger requires {_WITH_LOG}")
    kept = RunFiles(output, resume=resume, log=log_path, loggers=loggers)
    kept.check()
    progress = common.make_progress(quiet)
    workers = common.open_workers(context, cluster, threads)
    from sapwood.lm import training
    from sapwood.lm.base import evaluate
    from sapwood.lm.io import save_model

    began = time.perf_counter()
    read = training.read_training_text(
        text, method=method, dev=dev, order=order, memory=shared.in_bytes(memory), threads=workers.threads,
        workers=workers, progress=progress, **counting,
    )  # fmt: skip
    with common.resumable(kept.leftover):
        with _open_log(log_path, kept, resume) as file, also_to(loggers, file or NoLog()) as log:
            model = training.fit(
                read, method, random_state=seed, threads=workers.threads, workers=workers, progress=progress, log=log,
                checkpoint=kept.checkpoint(), **settings,
            )  # fmt: skip
        save_model(model, output)
        kept.clear()
    if save_config is not None:
        write_config(save_config, _settings(context, read, method, settings))
    seconds = time.perf_counter() - began
    figures = {"tokens": read.counts.tokens, "unknown": int(read.counts.vocabulary.counts[0]), **model.describe()}
    report: dict[str, Any] = {"model": output, "method": method, **figures, "seconds": round(seconds, 3)}
    progress.note("{model}: {kind} of {words:,} words, from {tokens:,} tokens in {seconds:.1f} s".format(**report))
    if read.dev is not None:
        evaluation = evaluate(model, read.dev)
        report["dev"] = shared.evaluation_report(evaluation, progress)
        if not as_json:
            click.echo(shared.format_evaluation(evaluation))
    if as_json:
        shared.print_json(report)


def _check_files(text: tuple[str, ...], dev: str | None, method: Method, outputs: dict[str, str | None]) -> None:
    """Check before the work begins that files can be read and written."""
    from sapwood.lm.io import is_arpa_name

    output = outputs["-o"]
    if output == STANDARD_STREAM:
        raise UsageError("a model cannot be written to standard output; name a file")
    if method in _NGRAMS and outputs["--log"] is not None:
        raise UsageError(f"--log requires {_WITH_LOG}")
    if is_arpa_name(str(output)) and method not in _NGRAMS:
        raise UsageError(f"-o {output}: ARPA files hold n-gram models only, those of --method kn and mkn")
    common.check_inputs(*text, dev)
    common.refuse_trees_as_text(*text, dev)
    common.refuse_replacing(outputs, [*text, dev])


def _open_log(path: str | None, kept: RunFiles, resume: bool) -> contextlib.AbstractContextManager[TrainingLog | None]:
    if path is None:
        return contextlib.nullcontext()
    return TrainingLog.resume(path, lines=int(kept.progress_so_far().get("lines", 0))) if resume else TrainingLog(path)


def _settings(context: click.Context, read: TrainingText, method: Method, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that affect the model, given or chosen automatically, by option name."""
    from sapwood.lm.training import resolved_settings

    found = {
        name: value for name, value in run_settings(context).items() if name not in ("resume", "cluster", "logger")
    }
    resolved = resolved_settings(method, **settings)
    found |= {name.replace("_", "-"): value for name, value in resolved.items() if value is not None}
    found |= {"method": method, "min-count": read.min_count, "boundaries": read.counts.boundaries}
    return found | ({"order": read.counts.order} if "order" in METHODS[method] else {})
