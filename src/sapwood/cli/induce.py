"""`sapwood induce`."""

from __future__ import annotations

import time
from typing import Any

import click

from sapwood.cli import _common as common
from sapwood.cli._groups import GroupedCommand, config_options, help_all_option, run_settings
from sapwood.cli._types import Choice
from sapwood.errors import UsageError
from sapwood.files import STANDARD_STREAM
from sapwood.run.config import write_config
from sapwood.trees.punctuation import PUNCTUATION, Punctuation

_TEXT = ("tags", "classes", "punctuation", "from", "gold", "heads")
_FORMATS = ("auto", "text", "tagged", "conllu", "brackets", "export")


class _InduceCommand(GroupedCommand):
    """Has an option for each setting of each model, made when first asked for."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        names = [parameter.name for parameter in self.params]
        if "model" not in names:
            from sapwood.cli._settings import headings_of, options_of
            from sapwood.induction.inducers import DEFAULT_MODEL, INDUCERS

            model = click.Option(
                ["--model"],
                type=Choice(tuple(INDUCERS)),
                default=DEFAULT_MODEL,
                show_default=True,
                help="What to learn: phrases (l-pcfg, pcfg, pcfg-i, pcfg-ie), heads (dmv, dep-i, dep-ie, dep-ies), "
                "spans (ccm), or heads and spans (dmv+ccm).",
            )
            self.params.insert(names.index("output") + 1, model)
            self.params += [*options_of(INDUCERS), help_all_option()]
            self.groups |= {heading: tuple(names) for heading, names in headings_of(INDUCERS, "models").items()}
        return super().get_params(ctx)


@click.command("induce", cls=_InduceCommand, groups={"Text": _TEXT}, short_help="Learn a model from plain text.")
@click.argument("text", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="Where to write the model.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every random choice.")
@click.option("--resume", is_flag=True, help="Go on with a run that was interrupted.")
@click.option("--log", "log_path", help="Where to write a line (JSON) for each iteration; `sapwood plot` draws them.")
@config_options
@common.threads_option
@common.cluster_option
@common.json_option
@common.quiet_option
@click.option("--tags", is_flag=True, help="Learn from the tags: of word/TAG, of CoNLL-U, or of a treebank.")
@click.option(
    "--classes",
    type=click.IntRange(min=0),
    help="Without --tags: how many classes words are sorted into first; 0 learns from words as they are. [default: 48]",
)
@click.option(
    "--punctuation",
    type=Choice(PUNCTUATION),
    default="drop",
    show_default=True,
    help="Set punctuation aside, or keep it as words like others.",
)
@click.option(
    "--from",
    "input_format",
    type=Choice(_FORMATS),
    default="auto",
    show_default=True,
    help="Format of the text.",
)
@click.option("--gold", is_flag=True, help="TEXT is a treebank: compare the result with its trees at the end.")
@click.option("--heads", help="With --gold: head rules, english, icelandic or a file. [default: english]")
@click.pass_context
def command(
    context: click.Context,
    /,
    text: tuple[str, ...],
    output: str,
    model: str,
    seed: int,
    resume: bool,
    log_path: str | None,
    save_config: str | None,
    threads: int | None,
    cluster: str | None,
    as_json: bool,
    quiet: bool,
    tags: bool,
    classes: int | None,
    punctuation: Punctuation,
    input_format: Any,
    gold: bool,
    heads: str | None,
    **given: Any,
) -> None:
    """Learn a model of trees from one or more TEXT files without trees, and write it to a file.

    A text is one sentence a line, tokens apart by blanks; lines of word/TAG; CoNLL-U; or a treebank, whose trees are
    not looked at. Without --tags words are sorted into classes, and learned from by these.

    Models of phrases are grammars: parse, inspect and eval take them, and all other commands for models. Models of
    heads parse into CoNLL-U. First it is said whether the model can be found from such a text at all.

    It can be interrupted at any time: what is done is kept in MODEL.checkpoint, and the same command with --resume goes
    on from there to the same result.

    \b
    Examples:
      sapwood induce novel.txt -o model.sapwood
      sapwood induce tagged.txt --tags --model dmv -o heads.sapwood
      sapwood induce train.mrg --tags --gold -o model.sapwood
      sapwood induce train.mrg --tags --model pcfg-ie --states 5 --restarts 10 -o model.sapwood
      sapwood parse other.txt --tags -m heads.sapwood
    """
    from sapwood.cli._settings import naming_options, users
    from sapwood.induction.induced import InducedModel
    from sapwood.induction.inducers import INDUCERS, make_inducer
    from sapwood.induction.report import report
    from sapwood.induction.run import InductionRun
    from sapwood.induction.text import make_text, read_sentences
    from sapwood.trees.heads import HeadRules
    from sapwood.trees.tree import Tree

    settings = {name: value for name, value in given.items() if value is not None}
    for name in settings:
        if model not in users(name, INDUCERS):
            raise UsageError(f"--{name.replace('_', '-')} goes with --model {' and '.join(users(name, INDUCERS))}")
    if output == STANDARD_STREAM:
        raise UsageError("a model cannot be written to standard output; name a file")
    if tags and classes is not None:
        raise UsageError("--classes does not go with --tags, which are classes already")
    if heads is not None and not gold:
        raise UsageError("--heads goes with --gold")
    rules = None if heads is None else HeadRules.named(heads)
    common.check_inputs(*text)
    common.refuse_replacing({"-o": output, "--log": log_path, "--save-config": save_config}, text)
    settings |= {"random_state": seed, "threads": common.default_threads(threads)}
    with naming_options(settings):
        inducer = make_inducer(model, **settings)
    if cluster is not None:
        inducer = inducer.replace(workers=common.open_workers(context, cluster, inducer.threads))
    run = InductionRun(inducer, output=output, resume=resume, log=log_path)
    if save_config is not None:
        gone = ("output", "resume", "log", "cluster", "gold", "heads")
        write_config(save_config, {name: value for name, value in run_settings(context).items() if name not in gone})
    progress = common.make_progress(quiet)
    started = time.perf_counter()
    sentences = (sentence for path in text for sentence in read_sentences(path, input_format))
    trees: list[Tree] = []
    if gold:
        sentences = _kept(sentences, trees)
    with common.naming(text):
        prepared = make_text(sentences, tags=tags, classes=classes, punctuation=punctuation, progress=progress)
    with common.resumable(run.kept.left):
        found = run(prepared, progress)
    seconds = time.perf_counter() - started
    progress.note(f"{output}: {found!r} from {prepared.n_sentences:,} sentences in {seconds:.1f} s")
    table = ""
    if gold:
        table = report(found, trees, tags=tags, length=inducer.stages[-1], rules=rules, progress=progress)
        if not as_json:
            click.echo(table)
    if as_json:
        kind = "heads" if isinstance(found, InducedModel) and found.heads is not None else "phrases"
        common.print_json(
            {
                "model": output,
                "learned": model,
                "kind": kind,
                "sentences": prepared.n_sentences,
                "words": len(prepared.word),
                "terminals": len(prepared.terminals),
                "iterations": found.info.get("iterations"),
                "log_likelihood": found.info.get("log_likelihood"),
                "seconds": round(seconds, 3),
            }
        )


def _kept(sentences: Any, trees: list[Any]) -> Any:
    """Yield sentences that are trees, and remember these."""
    from sapwood.trees.tree import Tree

    for sentence in sentences:
        if not isinstance(sentence, Tree) and sentence:
            raise UsageError("--gold: takes a treebank; this text has no trees")
        if isinstance(sentence, Tree):
            trees.append(sentence)
        yield sentence
