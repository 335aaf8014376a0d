"""`sapwood select`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from sapwood.cli.options import common
from sapwood.cli.options.types import POSITIVE
from sapwood.errors import InputError, UsageError
from sapwood.model.installed import find_model
from sapwood.runtime.progress import Progress
from sapwood.storage.files import name_of, open_output
from sapwood.trees.formats.registry import InputFormat
from sapwood.trees.normalise import Normaliser

if TYPE_CHECKING:
    from sapwood.inference.parser import Parser
    from sapwood.learn.active_learning import Proposal
    from sapwood.runtime.executor import Executor
    from sapwood.trees.tree import Tree

# Default learner of the parser: quick, and the best of our methods on a few hundred trees.
_METHOD, _STATES = "pivot+em", 8
# Number of uncertain phrases and tags to list per sentence.
_TOLD = 10


@click.command("select", short_help="Select and parse the sentences to annotate next.")
@click.argument("treebank")
@click.argument("text")
@click.option("-n", "--count", type=POSITIVE, default=100, help="Number of sentences to select.")
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="Model of the parser to improve; repeat for the product of several. [default: trained on TREEBANK]",
)
@click.option("-o", "--output", help="Output file. [default: standard output]")
@click.option(
    "--sure",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.9,
    help="Phrases and tags less probable than this are uncertain.",
)
@click.option("--partial", is_flag=True, help="Omit uncertain phrases and tags (partial brackets).")
@click.option("--shortest", type=POSITIVE, default=10, help="Skip sentences shorter than N words.")
@click.option("--longest", type=POSITIVE, default=60, help="Skip sentences longer than N words.")
@click.option(
    "--outliers",
    type=click.FloatRange(0, 1),
    default=0.1,
    help="Skip this share of the highest-entropy sentences, which are often not sentences at all.",
)
@click.option(
    "--diversity",
    type=click.FloatRange(0, 1),
    default=0.5,
    help="Weight of diversity against uncertainty; 0 ignores it.",
)
@common.threads_option
@common.normaliser_options
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    treebank: str,
    text: str,
    count: int,
    models: tuple[str, ...],
    output: str | None,
    sure: float,
    partial: bool,
    shortest: int,
    longest: int,
    outliers: float,
    diversity: float,
    threads: int | None,
    normaliser: Normaliser,
    input_format: InputFormat,
    skip_bad: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Select the sentences of TEXT whose annotation would most improve a parser trained on TREEBANK, and parse them.

    TEXT has one sentence per line, tokens separated by spaces. The selected sentences are those on which the parser is
    most uncertain (entropy of the parse forest per word) and which differ from each other. The output is trees to
    correct, most useful first. Comment lines (#) before each tree give its line in TEXT, its entropy, and its most
    uncertain phrases and tags with their probabilities, including phrases missing from the tree. With --partial,
    uncertain phrases are omitted, and `sapwood train --partial` can train on the file as it is.

    Sentences already in TREEBANK are skipped. With --json, each line is an object as in `sapwood parse --json
    --marginals`, plus place (the line in TEXT), entropy, and missing: probable phrases that are not in the tree.

    \b
    Examples:
      sapwood select train.mrg raw.txt -o next.mrg
      sapwood select train.mrg raw.txt -n 300 -m model.sapwood -o next.mrg
      sapwood select train.mrg raw.txt --partial --sure 0.95 -o some.mrg
    """
    if shortest > longest:
        raise UsageError(f"--shortest {shortest} is more than --longest {longest}")
    if as_json:
        common.refuse_given(context, ["partial", "sure"], "cannot be used with --json, which has all probabilities")
    if models:
        common.refuse_given(
            context, common.NORMALISER_OPTIONS, "cannot be used with -m: trees are normalised as the model's were"
        )
    common.check_inputs(treebank, text)
    common.refuse_replacing({"-o": output}, [treebank, text, *(str(find_model(model)) for model in models)])
    progress = common.make_progress(quiet)
    from sapwood.learn.active_learning import select
    from sapwood.trees.formats.registry import read_tokens

    common.refuse_trees_as_text(text)
    trees = list(common.trees_from([treebank], input_format, skip_bad, progress))
    if not trees:
        raise InputError(f"{name_of(treebank)}: no trees in it")
    workers = common.open_workers(context, None, threads)
    if models:
        parser = common.load_parser(models, workers=workers)
    else:
        parser = _learned(trees, normaliser, workers, progress)
    clean = (tree for tree in map(parser.grammar.normaliser, trees) if tree is not None)
    proposals = select(
        parser, read_tokens(text), count, known=[tree.words() for tree in clean], shortest=shortest, longest=longest,
        outliers=outliers, diversity=diversity, progress=progress,
    )  # fmt: skip
    if not proposals:
        remedy = "give more text, or other bounds with --shortest and --longest"
        raise InputError(f"{name_of(text)}: no sentence of {shortest} to {longest} words to choose from; {remedy}")
    if len(proposals) < count:
        progress.note(f"{name_of(text)}: only {len(proposals):,} sentence(s) to choose from")
    with open_output(output) as stream:
        for proposal in proposals:
            if as_json:
                stream.write(json.dumps(proposal.to_dict(), ensure_ascii=False) + "\n")
            else:
                stream.writelines(f"{line}\n" for line in _written(proposal, name_of(text), sure, partial))
    words = sum(len(proposal.result.words) for proposal in proposals)
    progress.note(f"chose {len(proposals):,} sentences with {words:,} words")


def _learned(trees: list[Tree], normaliser: Normaliser, workers: Executor, progress: Progress) -> Parser:
    """Return a parser trained on the treebank."""
    from sapwood.inference.parser import Parser
    from sapwood.learn.registry import make_learner

    learner = make_learner(_METHOD, states=_STATES).replace(workers=workers)
    corpus = learner.prepare(trees, normaliser=normaliser, progress=progress)
    return Parser(learner.fit(corpus, progress=progress), workers=workers)


def _written(proposal: Proposal, source: str, sure: float, partial: bool) -> Iterator[str]:
    """Yield the output lines of a sentence: its place, its uncertain phrases, and its tree."""
    yield f"# {source}:{proposal.place}, {proposal.entropy:.3f} nats per word"
    if partial:
        yield str(proposal.partial(sure))
        return
    doubtful = proposal.uncertain(sure)
    for label, probability, words in doubtful[:_TOLD]:
        yield f"# {label} {probability:.2f}: {textwrap.shorten(words, 80, placeholder=' ...')}"
    if len(doubtful) > _TOLD:
        yield f"# ... and {len(doubtful) - _TOLD} more"
    yield str(proposal.result.tree)
