"""`sapwood train`."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli.options import common, unlabelled
from sapwood.cli.options.aliases import LEARNERS, Aliases
from sapwood.cli.options.declared import naming_options
from sapwood.cli.options.help import GroupedCommand, config_options, help_all_option, run_settings
from sapwood.cli.options.types import ChoiceParam
from sapwood.errors import InputError, UsageError
from sapwood.runtime.checkpoint import RunFiles
from sapwood.runtime.config import write_config
from sapwood.runtime.progress import Progress
from sapwood.storage.files import STANDARD_STREAM
from sapwood.trees.formats.registry import InputFormat
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tokenise.registry import find_tokeniser
from sapwood.trees.transform import Direction

if TYPE_CHECKING:
    from sapwood.evaluate.dev_set import DevSet
    from sapwood.grammar.tensor_grammar import TensorGrammar
    from sapwood.learn.base import Learner
    from sapwood.model.parser_model import ParserModel
    from sapwood.pipeline.unlabelled import TextUse
    from sapwood.runtime.executor import Executor
    from sapwood.trees.corpus import Corpus
    from sapwood.trees.tree import Tree

# Options that do not apply to sequences.
_OF_TREES = (
    "direction", "vertical", "horizontal", "heads", "annotate_tags", *common.NORMALISER_OPTIONS, "input_format",
    "partial", "encoder",
)  # fmt: skip
_TREES = (
    "binarise", "vertical", "horizontal", "heads", "annotate-tags", "function-tags", "keep-tag",
    "label-map", "keep-empties", "keep-repeated",
    "from", "skip-bad",
)  # fmt: skip
_ALIASES = Aliases(
    {"layer": "crf", "network": "span-scorer", **unlabelled.FORMER_OPTIONS},
    {"text-use": unlabelled.FORMER_USES},
)


class _TrainCommand(GroupedCommand):
    """A command with an option for each setting of each method.

    The options are created on first use: learners take a second to import, and `sapwood --help` does not need them.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.aliases |= LEARNERS

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        names = [parameter.name for parameter in self.params]
        if "method" not in names:
            from sapwood.cli.options.params import ensemble_option, headings, method_option, setting_options

            place = names.index("output") + 1
            self.params[place:place] = [method_option(), ensemble_option()]
            self.params += [*setting_options(), help_all_option()]
            self.groups |= {heading: tuple(names) for heading, names in headings().items()}
        return super().get_params(ctx)


@click.command(
    "train",
    cls=_TrainCommand,
    groups={unlabelled.HEADING: unlabelled.GROUP, "Trees": _TREES},
    aliases=_ALIASES,
    short_help="Train a parser on treebanks.",
)
@click.argument("treebank", nargs=-1, required=True)
@click.option("--sequences", is_flag=True, help="Train a tagger: TREEBANK and --dev contain word/TAG sequences.")
@click.option("-o", "--output", required=True, help="Write the model to this file.")
@click.option("--dev", help="Development treebank, for model selection and the final score.")
@click.option("--fast", is_flag=True, help="Train a plain PCFG (--method pcfg) in seconds; much less accurate.")
@click.option(
    "--crf/--no-crf",
    default=None,
    help="Train a CRF over the parse forest by cross-validation; more accurate, slower to train. "
    "[default: on, unless --method is given]",
)
@click.option(
    "--span-scorer/--no-span-scorer",
    default=None,
    help="Train a neural span scorer alongside the grammar; more accurate, slower to train. "
    "[default: on, unless --method is given]",
)
@click.option(
    "--encoder",
    help="Pretrained encoder whose vectors the span scorer uses as well: a folder (model.onnx or model.safetensors, "
    "tokenizer.json), or the name of an installed package.",
)
@unlabelled.unlabelled_options
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed.")
@click.option("--resume", is_flag=True, help="Resume an interrupted run.")
@click.option("--log", "log_path", help="Write one JSON line per iteration to this file; plot it with `sapwood plot`.")
@common.logger_option
@click.option(
    "--tokeniser",
    help="Tokeniser for raw text, stored in the model: penn, blanks, characters, spacy:de. [default: penn]",
)
@config_options
@common.threads_option
@common.cluster_option
@common.json_option
@common.quiet_option
@click.option(
    "--binarise",
    "direction",
    type=ChoiceParam(["right", "left", "head"]),
    default="right",
    show_default=True,
    help="Direction of binarisation: right, left, or outward from the head.",
)
@common.transform_options
@common.normaliser_options
@common.format_option
@common.skip_bad_option
@click.pass_context
def command(
    context: click.Context,
    /,
    treebank: tuple[str, ...],
    sequences: bool,
    output: str,
    method: str | None,
    dev: str | None,
    ensemble: int | tuple[str, ...] | None,
    fast: bool,
    crf: bool | None,
    span_scorer: bool | None,
    encoder: str | None,
    partial: tuple[str, ...],
    text: tuple[str, ...],
    text_use: TextUse | None,
    silver: tuple[str, ...],
    teacher: str | None,
    gold_weight: int | None,
    adapt: str | None,
    adapt_weight: float | None,
    tokeniser: str | None,
    seed: int,
    resume: bool,
    log_path: str | None,
    loggers: tuple[str, ...],
    save_config: str | None,
    threads: int | None,
    cluster: str | None,
    as_json: bool,
    quiet: bool,
    direction: Direction,
    vertical: int | None,
    horizontal: int | None,
    heads: str | None,
    annotate_tags: bool | None,
    normaliser: Normaliser,
    input_format: InputFormat,
    skip_bad: bool,
    features: str | None,
    init: str | None,
    more: tuple[str, ...],
    **given: Any,
) -> None:
    """Train a parser on one or more TREEBANK files and write it to a model file.

    Without --method, the recipe depends on the size of the treebank: an ensemble of several methods for a small one,
    split-merge for a large one, and a CRF and a span scorer in both cases.

    Training can be interrupted at any time. Checkpoints are kept in MODEL.checkpoint, and the same command with
    --resume continues to the same result. (Methods that take seconds start from scratch.)

    \b
    Examples:
      sapwood train train.mrg -o model.sapwood
      sapwood train train.mrg --dev dev.mrg --log train.jsonl -o model.sapwood
      sapwood train train.mrg --text raw.txt -o model.sapwood
      sapwood train train.mrg --silver predicted.mrg -o model.sapwood
      sapwood train new.mrg --adapt old.sapwood -o model.sapwood
      sapwood train train.mrg --fast -o model.sapwood
      sapwood train wsj/*.mrg --ensemble 4 -o model.sapwood
      sapwood train train.mrg --dev dev.mrg --method pivot+em --states 24 -o model.sapwood
      sapwood train --sequences tagged.txt -o tagger.sapwood
    """
    from sapwood.cli.options.params import check_methods, read_pairs
    from sapwood.pipeline.recipe import first_learner
    from sapwood.pipeline.train import default_method, train
    from sapwood.pipeline.unlabelled import UnlabelledData

    unlabelled.check_adaptation(context, adapt, adapt_weight)
    if sequences:
        common.refuse_given(context, _OF_TREES, "is for trees, not for --sequences")
    semi_supervised = unlabelled.take_semi_supervised(given)
    settings = {name: value for name, value in (given | {"features": features}).items() if value is not None}
    files = (*treebank, *partial, *text, *silver, dev, common.head_file(heads), init, _file_of(adapt))
    _check_files(files, {"-o": output, "--log": log_path, "--save-config": save_config})
    changes = common.transform_changes(direction, vertical, horizontal, heads, annotate_tags)
    progress, run_files = common.make_progress(quiet), RunFiles(output, resume=resume, log=log_path, loggers=loggers)
    run_files.check()
    if tokeniser is not None:
        find_tokeniser(tokeniser)
    brackets = unlabelled.read_partial_files(partial, skip_bad, progress)
    data = UnlabelledData.of(brackets, text or None, text_use, semi_supervised)
    data.check(sequences=sequences, named=unlabelled.as_option)
    unlabelled.check_distillation(silver, teacher, gold_weight, data, sequences=sequences)
    method = method if fast else default_method(method, ensemble, needs_one=sequences or data.for_em)
    method = check_methods(method, ensemble, fast, [*settings, *(["init"] if init else [])])
    settings = {"threads": common.default_threads(threads), **settings, **_initial(init), **read_pairs(more)}
    if settings.get("stop", "iterations") != "iterations" and dev is None:
        raise UsageError(f"--stop {settings['stop']} needs --dev")
    settings |= {"method": method, "ensemble": ensemble, "seed": seed}
    with naming_options(settings):
        learner = first_learner(**settings)
    if cluster is not None:
        settings["workers"] = common.open_workers(context, cluster, learner.threads)
        learner = learner.replace(workers=settings["workers"])
    if save_config is not None:
        write_config(save_config, _saved_settings(context))
    started = time.perf_counter()
    read = functools.partial(common.trees_from, input_format=input_format, skip_bad=skip_bad, progress=progress)
    if (old := _load(adapt)) is not None:
        corpus, held_out = _read_further_trees(old, treebank, dev, read, learner.executor, progress)
    elif sequences:
        corpus, held_out = _read_sequences(learner, treebank, dev, skip_bad, progress)
    else:
        corpus, held_out = _read_trees(learner, treebank, dev, read, normaliser, changes, progress)
    plain = data.read_text()
    with common.resumable(run_files.leftover):
        model = train(
            corpus, dev=held_out, sequences=sequences, crf=crf, span_scorer=span_scorer,
            encoder=encoder, partial=data.partial,
            silver=read(silver) if silver else None, teacher=teacher, gold_weight=gold_weight,
            adapt=old, adapt_weight=adapt_weight,
            text=plain or text or None, text_use=text_use, semi_supervised=semi_supervised or None, tokeniser=tokeniser,
            output=output, resume=resume, log=log_path, loggers=loggers, progress=progress, **settings,
        )  # fmt: skip
    counts = {"partial": len(brackets or ()), "text": 0 if plain is None else len(plain.sentences)}
    report = _report(output, model, corpus, counts, time.perf_counter() - started)
    what = f"{corpus.n_trees:,} {'sequences' if sequences else 'trees'}"
    progress.note(f"{output}: {_summary(model)} from {what} in {report['seconds']:.1f} s")
    if held_out is not None:
        report["dev"] = _score(model, held_out, progress, show=not as_json)
    if as_json:
        common.print_json(report)


def _file_of(model: str | None) -> str | None:
    """Return the path of a model, None if it is one by name."""
    return model if model is not None and Path(model).exists() else None


def _load(model: str | None) -> ParserModel | None:
    """Return the model to adapt, if any."""
    from sapwood.model.parser_model import ParserModel

    return None if model is None else ParserModel.gather(model)


def _initial(path: str | None) -> dict[str, TensorGrammar]:
    """Return the grammar to start from as a setting, if any."""
    from sapwood.grammar.tensor_grammar import TensorGrammar

    return {} if path is None else {"init": TensorGrammar.load(path)}


def _check_files(inputs: Sequence[str | None], outputs: dict[str, str | None]) -> None:
    """Check all files before the work begins."""
    if outputs["-o"] == STANDARD_STREAM:
        raise UsageError("a model cannot be written to standard output; name a file")
    common.check_inputs(*inputs)
    common.refuse_replacing(outputs, inputs)


def _read_trees(
    learner: Learner,
    paths: Sequence[str],
    dev: str | None,
    read: Callable[[Sequence[str]], Iterator[Tree]],
    normaliser: Normaliser,
    transform: dict[str, Any],
    progress: Progress,
) -> tuple[Corpus, DevSet | None]:
    """Return the trees of files, for training and for evaluation."""
    from sapwood.pipeline.train import prepare_corpus, prepare_dev

    with common.naming(paths):
        corpus = prepare_corpus(learner, read(paths), normaliser=normaliser, transform=transform, progress=progress)
    if dev is None:
        return corpus, None
    with common.naming([dev]):
        return corpus, prepare_dev(learner, read([dev]), corpus)


def _read_further_trees(
    model: ParserModel,
    paths: Sequence[str],
    dev: str | None,
    read: Callable[[Sequence[str]], Iterator[Tree]],
    workers: Executor,
    progress: Progress,
) -> tuple[Corpus, DevSet | None]:
    """Return the trees of files that a model is adapted to, and those for evaluation."""
    from sapwood.pipeline.adaptation import prepare_adaptation

    with common.naming(paths):
        corpus, _ = prepare_adaptation(model, read(paths), progress=progress)
    if dev is None:
        return corpus, None
    with common.naming([dev]):
        return prepare_adaptation(model, corpus, read([dev]), workers=workers)


def _read_sequences(
    learner: Learner, paths: Sequence[str], dev: str | None, skip_bad: bool, progress: Progress
) -> tuple[Corpus, DevSet | None]:
    """Return the tagged sequences of files, for training and for evaluation."""
    from sapwood.pipeline.train import prepare_corpus, prepare_dev
    from sapwood.trees.formats.registry import read_tagged

    def read(path: str) -> Iterator[list[tuple[str, str]]]:
        bad: list[InputError] = []
        yield from read_tagged(path, on_bad=bad.append if skip_bad else None)
        if bad:
            shown = "".join(f"\n  {error}" for error in bad[:5])
            progress.note(f"skipped {len(bad)} line(s) that are not tagged sequences:{shown}")

    with common.naming(paths):
        tagged = (pairs for path in paths for pairs in read(path))
        corpus = prepare_corpus(learner, tagged, sequences=True, progress=progress)
    if dev is None:
        return corpus, None
    with common.naming([dev]):
        return corpus, prepare_dev(learner, read(dev), corpus, sequences=True)


def _summary(model: ParserModel) -> str:
    """Return a description of the model for a message."""
    several = f"{len(model.grammars)} grammars, the first " if len(model.grammars) > 1 else ""
    parts = []
    if model.crf is not None and len(model.crf.places):
        parts.append("a CRF")
    if model.span_scorer is not None:
        parts.append("a span scorer")
    return f"{several}{model.grammar!r}{' with ' if parts else ''}{' and '.join(parts)}"


def _report(output: str, model: ParserModel, corpus: Corpus, counts: dict[str, int], seconds: float) -> dict[str, Any]:
    """Return the values of `--json`, without scores."""
    grammar = model.grammar
    return {
        "model": output,
        "method": ", ".join(dict.fromkeys(one.info["method"] for one in model.grammars)),
        "trees": corpus.n_trees,
        "words": corpus.n_words,
        "dropped": corpus.dropped,
        **counts,
        "read": grammar.info.get("read", 0),
        "grammars": len(model.grammars),
        "symbols": len(grammar.symbols),
        "states": int(grammar.states.sum()),
        "rules": len(grammar.rules),
        "seconds": round(seconds, 3),
    }


def _score(model: ParserModel, held_out: DevSet, progress: Progress, *, show: bool) -> dict[str, Any]:
    """Return the scores of the model on the development set, and print them if asked to."""
    result = held_out.score(model, progress)
    if show and held_out.goal == "tags":
        click.echo(f"tag accuracy {result.tag_accuracy:.2f} on {result.sentences:,} sequences")
    elif show:
        click.echo(result.format())
    return result.to_dict()


def _saved_settings(context: click.Context) -> dict[str, Any]:
    """Return the settings of this run for a configuration file, without paths."""
    paths = (
        "output", "resume", "log", "logger", "dev", "cluster", "partial", "text", "silver", "teacher", "encoder",
        "adapt",
    )  # fmt: skip
    return {name: value for name, value in run_settings(context).items() if name not in paths}
