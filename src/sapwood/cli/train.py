"""`sapwood train`."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli import _common as common
from sapwood.cli import _teaching as teaching
from sapwood.cli._groups import GroupedCommand, config_options, help_all_option, run_settings
from sapwood.cli._types import Choice
from sapwood.errors import InputError, UsageError
from sapwood.files import STANDARD_STREAM
from sapwood.run.config import write_config
from sapwood.run.progress import Progress
from sapwood.trees.formats import InputFormat
from sapwood.trees.normalise import Normaliser
from sapwood.trees.transform import Direction

if TYPE_CHECKING:
    from sapwood.evaluate.held_out import HeldOut
    from sapwood.learn.base import Learner
    from sapwood.trees.corpus import Corpus

# Options that say nothing of sequences.
_OF_TREES = (
    "direction", "vertical", "horizontal", "heads", "annotate_tags", *common.NORMALISER_OPTIONS, "input_format",
    "partial",
)  # fmt: skip
_TREES = (
    "binarise", "vertical", "horizontal", "heads", "annotate-tags", "function-tags", "keep-tag",
    "label-map", "keep-empties", "keep-repeated",
    "from", "skip-bad",
)  # fmt: skip


class _TrainCommand(GroupedCommand):
    """Has an option for each setting of each method.

    They are made when first asked for: learners take a second to import, and `sapwood --help` does not need them.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        names = [parameter.name for parameter in self.params]
        if "method" not in names:
            from sapwood.cli._settings import ensemble_option, headings, method_option, setting_options

            place = names.index("output") + 1
            self.params[place:place] = [method_option(), ensemble_option()]
            self.params += [*setting_options(), help_all_option()]
            self.groups |= {heading: tuple(names) for heading, names in headings().items()}
        return super().get_params(ctx)


@click.command(
    "train",
    cls=_TrainCommand,
    groups={teaching.HEADING: teaching.GROUP, "Trees": _TREES},
    short_help="Learn a grammar from treebanks.",
)
@click.argument("treebank", nargs=-1, required=True)
@click.option("--sequences", is_flag=True, help="TREEBANK and --dev are tagged sequences, word/TAG: learn a tagger.")
@click.option("-o", "--output", required=True, help="Where to write the model.")
@click.option("--dev", help="Treebank to choose the best grammar by, and to score it on after training.")
@click.option("--fast", is_flag=True, help="Only count rules: --method pcfg, in seconds, and much less accurate.")
@click.option(
    "--layer/--no-layer",
    default=None,
    help="Learn weights of words and spans on top, by cross-validation: more accurate. [default: without methods]",
)
@click.option(
    "--network/--no-network",
    default=None,
    help="Learn a small neural network beside the grammar: more accurate. [default: without methods]",
)
@teaching.teaching_options
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every random choice.")
@click.option("--resume", is_flag=True, help="Go on with a training run that was interrupted.")
@click.option("--log", "log_path", help="Where to write a line (JSON) for each iteration; `sapwood plot` draws them.")
@click.option(
    "--tokeniser", help="How the model cuts plain text up: penn, blanks, characters, spacy:de. [default: penn]"
)
@config_options
@common.threads_option
@common.cluster_option
@common.json_option
@common.quiet_option
@click.option(
    "--binarise",
    "direction",
    type=Choice(["right", "left", "head"]),
    default="right",
    show_default=True,
    help="Binarise to the right, to the left, or outward from the head.",
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
    layer: bool | None,
    network: bool | None,
    partial: tuple[str, ...],
    text: tuple[str, ...],
    tokeniser: str | None,
    seed: int,
    resume: bool,
    log_path: str | None,
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
    """Learn a grammar from one or more TREEBANK files and write it to a model file.

    Without --method, it learns what works best for a treebank of that size: several grammars by different methods from
    few trees, one by split-merge from many, and a layer and a network on top in both cases.

    You can interrupt training at any time. What is done is kept beside the model, in MODEL.checkpoint, and the same
    command with --resume continues to the same result. (Methods that take seconds start again.)

    \b
    Examples:
      sapwood train train.mrg -o model.sapwood
      sapwood train train.mrg --dev dev.mrg --log train.jsonl -o model.sapwood
      sapwood train train.mrg --text raw.txt -o model.sapwood
      sapwood train train.mrg --fast -o model.sapwood
      sapwood train wsj/*.mrg --ensemble 4 -o model.sapwood
      sapwood train train.mrg --dev dev.mrg --method pivot+em --states 24 -o model.sapwood
      sapwood train --sequences tagged.txt -o tagger.sapwood
    """
    from sapwood.cli._settings import check_methods, naming_options, read_pairs
    from sapwood.evaluate.held_out import HeldOut
    from sapwood.grammar.tensor_grammar import TensorGrammar
    from sapwood.learn.methods import DEFAULT_METHOD
    from sapwood.learn.reading import Reader, learn_by_reading
    from sapwood.learn.recipe import is_few, make_recipe
    from sapwood.learn.run import TrainingRun
    from sapwood.learn.settings import declared
    from sapwood.trees import Corpus

    if sequences:
        common.refuse_given(context, _OF_TREES, "is for trees, and --sequences are none")
    lessons = teaching.take_lessons(given, partial, text)
    settings = {name: value for name, value in (given | {"features": features}).items() if value is not None}
    if sequences and lessons.read_text:
        raise UsageError("--text-use read is for trees, and --sequences are none")
    if (sequences or lessons.wanted) and not (method or fast or isinstance(ensemble, tuple)):
        method = DEFAULT_METHOD
    method = check_methods(method, ensemble, fast, [*settings, *(["init"] if init else [])])
    is_usual = method is None and not (settings or init or more or isinstance(ensemble, tuple))
    if output == STANDARD_STREAM:
        raise UsageError("a model cannot be written to standard output; name a file")
    files = (*treebank, *partial, *text, dev, common.head_file(heads), init)
    common.check_inputs(*files)
    if lessons.read_text and (problem := lessons.unreadable()) is not None:
        raise UsageError(f"{problem}; --text-use classes learns classes of words alone")
    common.refuse_replacing({"-o": output, "--log": log_path, "--save-config": save_config}, files)
    if init is not None:
        settings["init"] = TensorGrammar.load(init)
    settings = {"threads": common.default_threads(threads), **settings, **read_pairs(more)}
    if settings.get("stop", "iterations") != "iterations" and dev is None:
        raise UsageError(f"--stop {settings['stop']} needs --dev")
    run = TrainingRun(tokeniser=tokeniser, output=output, resume=resume, log=log_path)
    make = functools.partial(make_recipe, method, ensemble=ensemble, layer=layer, network=network, **settings)
    with naming_options(settings):
        recipe = make()
    if "random_state" not in settings and any("random_state" in declared(one) for one in recipe.learners):
        make = functools.partial(make, random_state=seed)
    if cluster is not None:
        make = functools.partial(make, workers=common.open_workers(context, cluster, recipe.first.threads))
    learner = make().first
    if save_config is not None:
        write_config(save_config, _kept(context))
    progress = common.make_progress(quiet)
    lessons.read(skip_bad, progress)
    started = time.perf_counter()
    held_out = None
    if sequences:
        corpus, held_out = _read_sequences(learner, treebank, dev, skip_bad, progress)
    else:
        base = replace(learner.preparation, root=normaliser.root)
        transform = common.make_transform(base, direction, vertical, horizontal, heads, annotate_tags)
        trees = common.trees_from(treebank, input_format, skip_bad, progress)
        with common.naming(treebank):
            corpus = Corpus.from_trees(trees, normaliser=normaliser, transform=transform, progress=progress)
        if corpus.dropped:
            progress.note(f"left out {corpus.dropped} tree(s) of which normalising left nothing")
        if dev is not None:
            with common.naming([dev]):
                trees = common.trees_from([dev], input_format, skip_bad, progress)
                held_out = HeldOut(trees, corpus, workers=learner.where)
    with common.resumable(run.kept.left):
        classes = None
        if lessons.classes:
            from sapwood.lm import word_classes

            classes = word_classes(list(text), random_state=seed, workers=learner.where, progress=progress)
        make = functools.partial(make, classes=classes)
        reads = lessons.read_text
        if reads is None:
            reads = is_usual and is_few(corpus.n_trees) and lessons.unreadable() is None
        reader = Reader()
        sentences = reader.draw(lessons.sentences(), make().seed) if reads else []
        if reads and not sentences:
            length = f"{reader.shortest} to {reader.longest} words"
            progress.note(f"the text has no sentence of {length} to read, and is for classes of words alone")
        if sentences:
            recipe, grammars = learn_by_reading(run, make, corpus, sentences, held_out, progress)
        else:
            recipe = lessons.added(make(n_trees=corpus.n_trees))
            grammars = run(recipe, corpus, held_out, progress)
    seconds = time.perf_counter() - started
    many = f"{len(grammars)} grammars, the first " if len(grammars) > 1 else ""
    what = "sequences" if sequences else "trees"
    parts = [f"a {part}" for part in ("layer", "network") if part in grammars[0].info]
    on_top = f" with {' and '.join(parts)}" if parts else ""
    progress.note(f"{output}: {many}{grammars[0]!r}{on_top} from {corpus.n_trees:,} {what} in {seconds:.1f} s")
    report: dict[str, Any] = {
        "model": output,
        "method": recipe.method,
        "trees": corpus.n_trees,
        "words": corpus.n_words,
        "dropped": corpus.dropped,
        **lessons.counts,
        "read": grammars[0].info.get("read", 0),
        "grammars": len(grammars),
        "symbols": len(grammars[0].symbols),
        "states": int(grammars[0].states.sum()),
        "rules": len(grammars[0].rules),
        "seconds": round(seconds, 3),
    }
    if held_out is not None:
        result = held_out.score(grammars, progress)
        report["dev"] = result.to_dict()
        if not as_json:
            tags = f"tag accuracy {result.tag_accuracy:.2f} on {result.sentences:,} sequences"
            click.echo(tags if sequences else result.format())
    if as_json:
        common.print_json(report)


def _read_sequences(
    learner: Learner, paths: Sequence[str], dev: str | None, skip_bad: bool, progress: Progress
) -> tuple[Corpus, HeldOut | None]:
    """Return tagged sequences as right-branching trees, and those to measure taggers on."""
    from sapwood.learn.tagging import held_out_sequences, tagged_corpus
    from sapwood.trees.formats import read_tagged

    def read(path: str) -> Iterator[list[tuple[str, str]]]:
        bad: list[InputError] = []
        yield from read_tagged(path, on_bad=bad.append if skip_bad else None)
        if bad:
            shown = "".join(f"\n  {error}" for error in bad[:5])
            progress.note(f"skipped {len(bad)} line(s) that are no tagged sequences:{shown}")

    with common.naming(paths):
        corpus = tagged_corpus(learner, (pairs for path in paths for pairs in read(path)), progress=progress)
    if dev is None:
        return corpus, None
    with common.naming([dev]):
        return corpus, held_out_sequences(learner, read(dev), corpus)


def _kept(context: click.Context) -> dict[str, Any]:
    """Return the settings of this run that a configuration file is to remember: not where its files are."""
    gone = ("output", "resume", "log", "dev", "cluster", "partial", "text")
    return {name: value for name, value in run_settings(context).items() if name not in gone}
