"""`sapwood induce`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from sapwood.cli.options import common
from sapwood.cli.options.aliases import INDUCE
from sapwood.cli.options.help import GroupedCommand, config_options, help_all_option, run_settings
from sapwood.cli.options.types import NATURAL, POSITIVE, ChoiceParam
from sapwood.errors import UsageError
from sapwood.runtime.config import write_config
from sapwood.storage.files import STANDARD_STREAM
from sapwood.trees.punctuation import PUNCTUATION, Punctuation

if TYPE_CHECKING:
    from sapwood.induction.learners import Inducer, InductionResult
    from sapwood.induction.text import Text
    from sapwood.trees.heads.rules import HeadRules

_TEXT = ("tags", "classes", "vocabulary", "punctuation", "from", "gold", "heads")
_ENSEMBLE = ("ensemble", "trees", "binary")
_FORMATS = ("auto", "text", "tagged", "conllu", "brackets", "export", "discbracket")


class CommitteeType(click.ParamType):
    """The number of members of a committee, or a comma-separated list of models and files."""

    name = "NUMBER|MEMBERS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | tuple[str, ...]:
        """Return the number, or the members."""
        if not isinstance(value, str):
            return value
        if value.strip("+-").isdigit():
            return int(POSITIVE(value, param, ctx))
        return tuple(part.strip() for part in value.split(",") if part.strip())


class _InduceCommand(GroupedCommand):
    """A command with an option for each setting of each model, created on first use."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        names = [parameter.name for parameter in self.params]
        if "model" not in names:
            from sapwood.cli.options.params import headings_of, options_of
            from sapwood.induction.learners import DEFAULT_MODEL, INDUCERS

            model = click.Option(
                ["--model"],
                type=ChoiceParam(tuple(INDUCERS)),
                default=DEFAULT_MODEL,
                help="Model to induce: constituents (tensor-pcfg, simple-pcfg, pcfg, pcfg-i, pcfg-ie), dependencies "
                "(dmv, dep-i, dep-ie, dep-ies), spans (ccm), or dependencies and spans (dmv+ccm).",
            )
            self.params.insert(names.index("output") + 1, model)
            self.params += [*options_of(INDUCERS), help_all_option()]
            self.groups |= {heading: tuple(names) for heading, names in headings_of(INDUCERS, "models").items()}
        return super().get_params(ctx)


@click.command(
    "induce",
    cls=_InduceCommand,
    aliases=INDUCE,
    groups={"Text": _TEXT, "Ensembles": _ENSEMBLE},
    short_help="Induce a grammar or dependency model from plain text.",
)
@click.argument("text", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="Write the model to this file.")
@click.option(
    "--ensemble",
    type=CommitteeType(),
    help="Average the trees of several models, and train one parser on them: the number of recommended models, or a "
    "comma-separated list of models (dmv), models with their number of word classes (dmv:96), and files of models or "
    "of trees.",
)
@common.seed_option
@click.option("--resume", is_flag=True, help="Resume an interrupted run.")
@click.option("--log", "log_path", help="Write one JSON line per iteration to this file; plot it with `sapwood plot`.")
@common.logger_option
@config_options
@common.threads_option
@common.cluster_option
@common.json_option
@common.quiet_option
@click.option(
    "--tags", is_flag=True, help="Learn from the part-of-speech tags of the input (word/TAG, CoNLL-U or a treebank)."
)
@click.option(
    "--classes",
    type=NATURAL,
    help="Number of word classes to learn from without --tags; 0 learns from the words themselves. [default: 48]",
)
@click.option(
    "--vocabulary",
    type=click.IntRange(min=1),
    help="Learn from the words themselves: the N most frequent ones seen more than once, others by shape and ending.",
)
@click.option(
    "--punctuation", type=ChoiceParam(PUNCTUATION), default="drop", help="Drop punctuation, or keep it as words."
)
@click.option("--from", "input_format", type=ChoiceParam(_FORMATS), default="auto", help="Input format of the text.")
@click.option("--gold", is_flag=True, help="TEXT is a treebank: evaluate the result against its trees.")
@click.option("--trees", "trees_path", help="With --ensemble, write the averaged trees to this file.")
@click.option("--binary", is_flag=True, help="With --ensemble, average to binary trees, even where members disagree.")
@click.option("--heads", help="Head rules for --gold: english, icelandic or a file. [default: english]")
@click.pass_context
def command(
    context: click.Context,
    /,
    text: tuple[str, ...],
    output: str,
    model: str,
    ensemble: int | tuple[str, ...] | None,
    seed: int,
    resume: bool,
    log_path: str | None,
    loggers: tuple[str, ...],
    save_config: str | None,
    threads: int | None,
    cluster: str | None,
    as_json: bool,
    quiet: bool,
    tags: bool,
    classes: int | None,
    vocabulary: int | None,
    punctuation: Punctuation,
    input_format: Any,
    gold: bool,
    trees_path: str | None,
    binary: bool,
    heads: str | None,
    **given: Any,
) -> None:
    """Induce a grammar or a dependency model from one or more TEXT files without trees, and write it to a file.

    TEXT has one sentence per line, tokens separated by spaces; or it is word/TAG, CoNLL-U, or a treebank, whose trees
    are ignored. Without --tags, words are first clustered into classes, and the model is learned from these.

    Constituency models are grammars: parse, inspect, eval and all other commands for models accept them. Dependency
    models parse into CoNLL-U. The command first reports whether the model is identifiable from such a text.

    With --ensemble, several models are learned, their trees are averaged, and an ordinary parser is trained on the
    averaged trees. It is more accurate than the models, and fast.

    A run can be interrupted at any time. Checkpoints are kept in MODEL.checkpoint, and the same command with --resume
    continues to the same result.

    \b
    Examples:
      sapwood induce novel.txt -o model.sapwood
      sapwood induce tagged.txt --tags --model dmv -o heads.sapwood
      sapwood induce train.mrg --tags --gold -o model.sapwood
      sapwood induce train.mrg --tags --model pcfg-ie --states 5 --restarts 10 -o model.sapwood
      sapwood induce novel.txt --ensemble 8 -o parser.sapwood
      sapwood induce novel.txt --ensemble dmv,dmv:96,other.sapwood,trees.mrg -o parser.sapwood
      sapwood parse other.txt --tags -m heads.sapwood
    """
    from sapwood.induction.evaluation import report
    from sapwood.induction.run import InductionRun
    from sapwood.induction.text import make_text, read_sentences
    from sapwood.trees.heads.rules import HeadRules
    from sapwood.trees.tree import Tree

    settings = {name: value for name, value in given.items() if value is not None}
    _check_options(context, settings)
    rules = None if heads is None else HeadRules.named(heads)
    common.check_inputs(*text)
    outputs = {"-o": output, "--log": log_path, "--save-config": save_config, "--trees": trees_path}
    common.refuse_replacing(outputs, text)
    if ensemble is not None:
        shared = {"ensemble": ensemble, "tags": tags, "classes": classes, "punctuation": punctuation, "seed": seed}
        _induce_ensemble(
            context, text, input_format, rules if gold else None, gold,
            **shared, binary=binary, trees=trees_path, output=output, resume=resume, **settings,
        )  # fmt: skip
        return
    inducer = _make_inducer(context, cluster, **settings, random_state=seed, threads=common.default_threads(threads))
    run = InductionRun(inducer, output=output, resume=resume, log=log_path, loggers=loggers)
    if save_config is not None:
        gone = ("output", "resume", "log", "logger", "cluster", "gold", "heads")
        write_config(save_config, {name: value for name, value in run_settings(context).items() if name not in gone})
    progress = common.make_progress(quiet)
    started = time.perf_counter()
    sentences = (sentence for path in text for sentence in read_sentences(path, input_format))
    trees: list[Tree] = []
    if gold:
        sentences = _kept(sentences, trees)
    with common.naming(text):
        prepared = make_text(
            sentences, tags=tags, classes=classes, vocabulary=vocabulary, punctuation=punctuation, progress=progress
        )
    with common.resumable(run.kept.leftover):
        found = run(prepared, progress)
    seconds = time.perf_counter() - started
    progress.note(f"{output}: {found!r} from {prepared.n_sentences:,} sentences in {seconds:.1f} s")
    if gold:
        table = report(found, trees, tags=tags, length=inducer.stages[-1], rules=rules, progress=progress)
        if not as_json:
            click.echo(table)
    if as_json:
        common.print_json(
            {"model": output, "learned": model, **_figures(found, prepared), "seconds": round(seconds, 3)}
        )


def _induce_ensemble(
    context: click.Context, text: tuple[str, ...], input_format: Any, rules: HeadRules | None, gold: bool,
    **arguments: Any,
) -> None:  # fmt: skip
    """Learn a committee and the parser that is distilled from it."""
    from sapwood.cli.options.declared import naming_options
    from sapwood.induction.text import read_sentences
    from sapwood.pipeline.ensemble_induction import induce_ensemble, report_ensemble
    from sapwood.runtime.checkpoint import RunFiles

    given, output = context.params, arguments["output"]
    progress = common.make_progress(given["quiet"])
    if given["save_config"] is not None:
        gone = ("output", "resume", "model", "trees", "gold", "heads")
        kept = {name: value for name, value in run_settings(context).items() if name not in gone}
        members = arguments["ensemble"]
        write_config(
            given["save_config"], {**kept, "ensemble": members if isinstance(members, int) else ",".join(members)}
        )
    started = time.perf_counter()
    sentences: Any = (sentence for path in text for sentence in read_sentences(path, input_format))
    trees: list[Any] = []
    if gold:
        sentences = _kept(sentences, trees)
    with common.naming(text):
        sentences = list(sentences)
    with common.resumable(RunFiles(output).leftover), naming_options(["ensemble", "resume", "tags", "classes"]):
        threads = common.default_threads(given["threads"])
        found = induce_ensemble(sentences, threads=threads, progress=progress, **arguments)
    seconds = time.perf_counter() - started
    progress.note(f"{output}: {found.model!r} from {len(found.committee.tokens):,} sentences in {seconds:.1f} s")
    if gold and not given["as_json"]:
        click.echo(report_ensemble(found, trees, tags=arguments["tags"], rules=rules, progress=progress))
    if given["as_json"]:
        common.print_json(
            {
                "model": output,
                "members": list(found.committee.members),
                "sentences": len(found.committee.tokens),
                "words": sum(map(len, found.committee.tokens)),
                "seconds": round(seconds, 3),
            }
        )


def _check_options(context: click.Context, settings: Mapping[str, Any]) -> None:
    """Refuse settings of other models, and options that cannot be combined."""
    from sapwood.cli.options.params import users
    from sapwood.induction.learners import INDUCERS

    given = context.params
    if given["ensemble"] is None:
        if unused := [
            option for option, value in (("--trees", given["trees_path"]), ("--binary", given["binary"])) if value
        ]:
            raise UsageError(f"{unused[0]} requires --ensemble")
    else:
        common.refuse_given(context, ["model"], "cannot be used with --ensemble, which names its models itself")
        common.refuse_given(context, ["log_path", "cluster"], "cannot be used with --ensemble")
    for name in settings:
        if given["ensemble"] is None and given["model"] not in users(name, INDUCERS):
            raise UsageError(f"--{name.replace('_', '-')} requires --model {' or '.join(users(name, INDUCERS))}")
    if given["output"] == STANDARD_STREAM:
        raise UsageError("a model cannot be written to standard output; name a file")
    if given["tags"] and given["classes"] is not None:
        raise UsageError("--classes cannot be used with --tags, which are classes already")
    if given["vocabulary"] is not None and (given["tags"] or given["classes"] is not None):
        raise UsageError("--vocabulary learns from words; it cannot be used with --tags or --classes")
    if given["heads"] is not None and not given["gold"]:
        raise UsageError("--heads requires --gold")


def _make_inducer(context: click.Context, cluster: str | None, **settings: Any) -> Inducer:
    """Return the inducer, with the workers of a cluster if one was named."""
    from sapwood.cli.options.declared import naming_options
    from sapwood.induction.learners import make_inducer

    with naming_options(settings):
        inducer = make_inducer(context.params["model"], **settings)
    if cluster is None:
        return inducer
    return inducer.replace(workers=common.open_workers(context, cluster, inducer.threads))


def _figures(found: InductionResult, text: Text) -> dict[str, Any]:
    """Return the figures of a model and of the text it was learned from."""
    from sapwood.induction.induced_model import InducedModel

    return {
        "kind": "heads" if isinstance(found, InducedModel) and found.heads is not None else "phrases",
        "sentences": text.n_sentences,
        "words": len(text.word),
        "terminals": len(text.terminals),
        "iterations": found.info.get("iterations"),
        "log_likelihood": found.info.get("log_likelihood"),
    }


def _kept(sentences: Any, trees: list[Any]) -> Any:
    """Yield the sentences of trees, and collect the trees."""
    from sapwood.trees.tree import Tree

    for sentence in sentences:
        if not isinstance(sentence, Tree) and sentence:
            raise UsageError("--gold requires a treebank; this text has no trees")
        if isinstance(sentence, Tree):
            trees.append(sentence)
        yield sentence
