"""`sapwood next`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from sapwood.cli import _common as common
from sapwood.errors import InputError, UsageError
from sapwood.files import name_of, open_output
from sapwood.models import find_model
from sapwood.run.progress import Progress
from sapwood.trees.formats import InputFormat
from sapwood.trees.normalise import Normaliser

if TYPE_CHECKING:
    from sapwood.inference.parser import Parser
    from sapwood.learn.annotating import Proposal
    from sapwood.run.workers import Workers
    from sapwood.trees.tree import Tree

# What learns the parser if none is given: quick, and the best of our methods on some hundred trees.
_METHOD, _STATES = "pivot+em", 8
# How many doubtful phrases and tags of a sentence are told.
_TOLD = 10


@click.command("next", short_help="Choose the sentences to annotate next, and parse them.")
@click.argument("treebank")
@click.argument("text")
@click.option("-n", "--count", type=click.IntRange(min=1), default=100, show_default=True, help="How many sentences.")
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="Model file of the parser that is to be taught. [default: one that is learned from TREEBANK]",
)
@click.option("-o", "--output", help="Output file. [default: standard output]")
@click.option(
    "--sure",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.9,
    show_default=True,
    help="Less probable phrases and tags are doubtful.",
)
@click.option("--partial", is_flag=True, help="Leave out doubtful phrases and tags: partial brackets.")
@click.option(
    "--shortest", type=click.IntRange(min=1), default=10, show_default=True, help="Leave out shorter sentences."
)
@click.option(
    "--longest", type=click.IntRange(min=1), default=60, show_default=True, help="Leave out longer sentences."
)
@click.option(
    "--outliers",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="Leave out this share of the most undecided sentences, which often are none.",
)
@click.option(
    "--diversity",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="How far sentences are to differ from each other.",
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
    """Choose sentences of TEXT whose annotation would teach a parser of TREEBANK most, and parse them.

    TEXT has one sentence a line, tokens separated by blanks. Chosen are sentences of whose trees the parser is
    undecided (the entropy of what it makes of them, per word) and that differ from each other. They are written as
    trees to be corrected, the most useful first; lines with `#` before each say where it stands in TEXT, how undecided
    the parser is, and which phrases and tags are the most doubtful ones, with their probabilities (those of phrases
    that the tree does not have are small). With --partial what is doubtful is left open, and `sapwood train --partial`
    can learn from the file as it is.

    Sentences that TREEBANK has are left out. With --json each line is an object as of `sapwood parse --json
    --marginals`, with place (the line in TEXT), entropy, and missing: probable phrases that the tree does not have.

    \b
    Examples:
      sapwood next train.mrg raw.txt -o next.mrg
      sapwood next train.mrg raw.txt -n 300 -m model.sapwood -o next.mrg
      sapwood next train.mrg raw.txt --partial --sure 0.95 -o some.mrg
    """
    if shortest > longest:
        raise UsageError(f"--shortest {shortest} is more than --longest {longest}")
    if as_json:
        common.refuse_given(context, ["partial", "sure"], "does not go with --json, which has all probabilities")
    if models:
        common.refuse_given(
            context, common.NORMALISER_OPTIONS, "does not go with -m: trees are normalised as the model's were"
        )
    common.check_inputs(treebank, text)
    common.refuse_replacing({"-o": output}, [treebank, text, *(str(find_model(model)) for model in models)])
    progress = common.make_progress(quiet)
    from sapwood.learn.annotating import propose
    from sapwood.trees.formats import read_tokens

    trees = list(common.trees_from([treebank], input_format, skip_bad, progress))
    if not trees:
        raise InputError(f"{name_of(treebank)}: no trees in it")
    workers = common.open_workers(context, None, threads)
    if models:
        parser = common.load_parser(models, workers=workers)
    else:
        parser = _learned(trees, normaliser, workers, progress)
    clean = (tree for tree in map(parser.grammar.normaliser, trees) if tree is not None)
    proposals = propose(
        parser, read_tokens(text), count, known=[tree.words() for tree in clean], shortest=shortest, longest=longest,
        outliers=outliers, diversity=diversity, progress=progress,
    )  # fmt: skip
    if not proposals:
        remedy = "give more text, or other bounds with --shortest and --longest"
        raise InputError(f"{name_of(text)}: no sentence to choose of {shortest} to {longest} words; {remedy}")
    if len(proposals) < count:
        progress.note(f"{name_of(text)}: only {len(proposals):,} sentence(s) to choose from")
    with open_output(output) as stream:
        for proposal in proposals:
            lines = (
                [json.dumps(proposal.to_dict(), ensure_ascii=False)]
                if as_json
                else _written(proposal, name_of(text), sure, partial)
            )
            stream.writelines(f"{line}\n" for line in lines)
    words = sum(len(proposal.result.words) for proposal in proposals)
    progress.note(f"chose {len(proposals):,} sentences with {words:,} words")


def _learned(trees: list[Tree], normaliser: Normaliser, workers: Workers, progress: Progress) -> Parser:
    """Return a parser of the treebank."""
    from sapwood.inference.parser import Parser
    from sapwood.learn.methods import make_learner

    learner = make_learner(_METHOD, states=_STATES).replace(workers=workers)
    corpus = learner.prepare(trees, normaliser=normaliser, progress=progress)
    return Parser(learner.fit(corpus, progress=progress), workers=workers)


def _written(proposal: Proposal, source: str, sure: float, partial: bool) -> Iterator[str]:
    """Yield the lines of a sentence: where it stands and what is doubtful, and its tree."""
    yield f"# {source}:{proposal.place}, {proposal.entropy:.3f} nats a word"
    if partial:
        yield str(proposal.partial(sure))
        return
    doubtful = proposal.doubtful(sure)
    for label, probability, words in doubtful[:_TOLD]:
        yield f"# {label} {probability:.2f}: {textwrap.shorten(words, 80, placeholder=' ...')}"
    if len(doubtful) > _TOLD:
        yield f"# ... and {len(doubtful) - _TOLD} more"
    yield str(proposal.result.tree)
