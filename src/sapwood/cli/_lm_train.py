"""`sapwood lm train`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli import _common as common
from sapwood.cli import _lm_common as shared
from sapwood.cli._lm_count import describe_model
from sapwood.cli._lm_eval import evaluation_report, format_evaluation, note_infinite
from sapwood.cli._lm_learn import Learning, Steps, warm_up
from sapwood.errors import InputError, UsageError
from sapwood.files import STANDARD_STREAM, is_regular
from sapwood.run.log import NoLog, TrainingLog
from sapwood.run.progress import Progress

if TYPE_CHECKING:
    import numpy as np

    from sapwood.lm.counts import Counts

# Options that mean something to some methods only.
_LATENT = ("states", "iterations", "prior", "log_path")
_EM = (*_LATENT, "word_prior", "batches")
_ONLY: dict[str, tuple[str, ...]] = {
    "em": _EM,
    "pivot": (*_LATENT, "least"),
    "pivot+em": (*_EM, "least"),
    "mixed-order": (*_EM, "lags"),
    "kn": ("order",),
    "mkn": ("order",),
    "mix": (*_EM, "least", "lags", "order"),
}
METHODS = tuple(_ONLY)
# They walk through the text itself, of which counts say too little.
_WALKING = ("mixed-order", "mix")
_MIN_COUNT = 2
_DEFAULT_ORDER = 3


@click.command("train", short_help="Learn a language model from texts or counts.")
@click.argument("text", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="Where to write the model; of kn and mkn, .arpa[.gz] is ARPA.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="em",
    show_default=True,
    help="How to learn: hidden states between a word and the next (em, pivot, pivot+em) or some words further on "
    "(mixed-order); n-grams by Kneser and Ney, interpolated (kn) or modified (mkn); or all of that in one (mix), "
    "which is the best and slowest.",
)
@click.option("--dev", help="Text to stop by, to take weights of mixtures from, and to measure the result on.")
@click.option("--states", type=click.IntRange(min=1), help="Hidden states. [default: 128]")
@click.option(
    "--order",
    type=click.IntRange(1, shared.LONGEST_ORDER),
    help="kn, mkn, mix: the longest n-grams. [default: 3, or that of the counts files]",
)
@click.option("--lags", type=click.IntRange(1, 16), help="mixed-order, mix: how many words back to look. [default: 3]")
@click.option(
    "--min-count",
    type=click.IntRange(min=1),
    help="Words seen less often become <unk>. [default: 2, of counts files 1]",
)
@shared.vocabulary_option
@click.option(
    "--boundaries",
    type=click.Choice(shared.BOUNDARIES),
    help="Each line is a sentence, or line ends mean nothing. [default: sentence, or that of the counts files]",
)
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
    "--least", type=click.FloatRange(0, 1e9), help="pivot: words seen less often stand for no state. [default: 30]"
)
@click.option("--log", "log_path", help="Where to write a line (JSON) for each iteration.")
@shared.memory_option
@shared.seed_option
@shared.threads_option
@common.json_option
@common.quiet_option
@click.pass_context
def train_command(
    context: click.Context,
    /,
    text: tuple[str, ...],
    output: str,
    method: str,
    dev: str | None,
    min_count: int | None,
    vocabulary: int | None,
    boundaries: str | None,
    memory: float,
    seed: int,
    threads: int | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Learn a language model from TEXT files, one sentence a line, words separated by blanks.

    Files of counts (`sapwood lm count`) are taken as well. Files in .gz and .zst are decompressed, and - is standard
    input. Learning by em, pivot+em and mixed-order goes on as long as the text of --dev gets more probable; without
    --dev, until the likelihood hardly rises.

    \b
    Examples:
      sapwood lm train train.txt --dev dev.txt --states 128 --method pivot+em -o model.sapwood
      sapwood lm train train.counts --dev dev.txt --states 256 --log train.jsonl -o model.sapwood
      sapwood lm train train.txt --method mkn --order 5 -o model.arpa.gz
      sapwood lm train train.txt --dev dev.txt --method mix -o best.sapwood
    """
    log_path = options.pop("log_path")
    _check_options(context, method, output, dev)
    common.check_inputs(*text, dev)
    common.refuse_replacing({"-o": output, "--log": log_path}, [*text, dev])
    from_counts = any(shared.kind_of(path) is not None for path in text)
    if method in _WALKING:
        _check_texts(method, text, from_counts)
    progress = common.make_progress(quiet)
    workers = common.default_threads(threads)
    began = time.perf_counter()
    counts = shared.read_counts(
        text,
        order=options.pop("order"),
        default_order=_DEFAULT_ORDER if "order" in _ONLY[method] else 2,
        min_count=min_count or (1 if from_counts else _MIN_COUNT),
        vocabulary=vocabulary,
        boundaries=boundaries,
        threads=workers,
        memory=memory,
        progress=progress,
    )
    held_out = None if dev is None else _ids([dev], counts, progress)
    if held_out is not None and not len(held_out):
        raise InputError(f"{dev}: no words in it")
    walked = _ids(text, counts, progress) if method in _WALKING and not from_counts else None
    settings = {name: value for name, value in options.items() if value is not None}
    learn = Learning(method, settings, seed, workers)
    learn.check(counts)
    with common.compiling_note(progress):
        warm_up(method, counts.order, workers)
    with (
        contextlib.nullcontext(NoLog()) if log_path is None else TrainingLog(log_path) as log,
        contextlib.nullcontext() if dev is None else common.naming([dev]),
    ):
        log.write(
            "start", step=0, method=method, settings={**settings, "order": counts.order, "seed": seed},
            tokens=counts.tokens, words=len(counts.vocabulary),
        )  # fmt: skip
        steps = Steps(log, several=method in _WALKING)
        model = learn(counts, walked, held_out, progress, steps)
        log.write("end", step=steps.done)
    _save(model, output)
    seconds = time.perf_counter() - began
    found = describe_model(model)
    progress.note(
        f"{output}: {found['kind']} of {found['words']:,} words, from {counts.tokens:,} tokens in {seconds:.1f} s"
    )
    report = {
        "model": output,
        "method": method,
        "tokens": counts.tokens,
        "unknown": int(counts.vocabulary.counts[0]),
        **found,
        "seconds": round(seconds, 3),
    }
    if held_out is not None:
        from sapwood.lm.evaluation import evaluate

        evaluation = evaluate(model, held_out)
        note_infinite(evaluation, progress)
        report["dev"] = evaluation_report(evaluation)
        if not as_json:
            click.echo(format_evaluation(evaluation))
    if as_json:
        common.print_json(report)


def is_arpa_name(path: str) -> bool:
    """Return whether the name says that the file is in the ARPA format."""
    return path.endswith(shared.ARPA_NAMES)


def _save(model: Any, output: str) -> None:
    from sapwood.lm.arpa import write_arpa

    if is_arpa_name(output):
        write_arpa(model, output)
    else:
        model.save(output)


def _check_options(context: click.Context, method: str, output: str, dev: str | None) -> None:
    """Refuse options of other methods, rather than let them do nothing, and what cannot be written."""
    for name in sorted({option for options in _ONLY.values() for option in options} - set(_ONLY[method])):
        users = ", ".join(other for other, options in _ONLY.items() if name in options)
        common.refuse_given(context, [name], f"goes with --method {users}")
    if output == STANDARD_STREAM:
        raise UsageError("a model cannot be written to standard output; name a file")
    if is_arpa_name(output) and method not in ("kn", "mkn"):
        raise UsageError(f"-o {output}: ARPA files hold n-gram models only, those of --method kn and mkn")
    if method == "mix" and dev is None:
        raise UsageError("--method mix needs --dev, from which the weights of its members come")


def _check_texts(method: str, texts: Sequence[str], from_counts: bool) -> None:
    """Refuse what a model of several words cannot be learned from."""
    if from_counts and method == "mixed-order":
        raise UsageError("--method mixed-order needs the text itself; counts of n-grams do not have all it looks at")
    if from_counts:
        return
    for path in texts:
        if path == STANDARD_STREAM or (Path(path).exists() and not is_regular(path)):
            raise UsageError(f"{path}: is read more than once with --method {method}; name a file")


def _ids(paths: Sequence[str], counts: Counts, progress: Progress) -> np.ndarray:
    """Return texts as one array of ids."""
    import numpy as np

    from sapwood.run.progress import track

    pieces = list(track(shared.encode(paths, counts), progress, "reading", unit="pieces"))
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int32)
