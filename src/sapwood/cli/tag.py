"""`sapwood tag`."""

from __future__ import annotations

import sys

import click

from sapwood.cli import _common as common
from sapwood.cli._output import tree_output
from sapwood.files import STANDARD_STREAM
from sapwood.models import default_model_path, find_model


@click.command("tag", short_help="Tag sentences: words in, word/TAG out.")
@click.argument("file", default=STANDARD_STREAM)
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="Model file of a tagger or a parser; give several for their product. [default: the included English model]",
)
@click.option("--raw", is_flag=True, help="The input is plain text: split it into sentences and tokens.")
@click.option("--score", is_flag=True, help="FILE has word/TAG: tell how many tags the model finds.")
@click.option("-o", "--output", help="Output file. [default: standard output]")
@common.threads_option
@common.json_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    file: str,
    models: tuple[str, ...],
    raw: bool,
    score: bool,
    output: str | None,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Tag the words of FILE (default: standard input): one sentence a line, tokens separated by blanks.

    `sapwood train --sequences` learns taggers. A parser has tags, too, and knows more of a sentence when it chooses
    them; it takes longer. Output is as of `sapwood parse --to tagged`.

    With --score it tells how many words have the tag that FILE gives them, with an interval, and how many of those
    that the model knows and of those that it does not.

    \b
    Examples:
      sapwood tag tokens.txt -m tagger.sapwood > tagged.txt
      sapwood tag --raw < novel.txt
      sapwood tag test.txt -m tagger.sapwood --score
    """
    if score:
        common.refuse_given(context, ["raw", "output"], "does not go with --score")
    else:
        common.refuse_given(context, ["as_json"], "goes with --score")
    common.check_inputs(file)
    read = [str(find_model(model)) for model in models] or [str(default_model_path())]
    common.refuse_replacing({"-o": output}, [*read, file])
    progress = common.make_progress(quiet)
    from_stream = file == STANDARD_STREAM
    if from_stream and sys.stdin.isatty():
        progress.note("reading from the terminal; end with Ctrl-D")
    workers = common.open_workers(context, None, (threads or 1) if from_stream and not score else threads)
    parser = common.load_parser(models, workers=workers)
    if score:
        from sapwood.evaluate.tags import evaluate_tagger
        from sapwood.trees.formats import read_tagged

        with common.naming([file]):
            result = evaluate_tagger(parser, read_tagged(file), progress=progress)
        if as_json:
            common.print_json(result.to_dict())
        else:
            click.echo(result.format())
        return
    from sapwood.inference.parse_files import TextFormat

    form = TextFormat(raw, False, "tagged", False)
    with tree_output(output, "tagged") as writer, progress.stage("tagging", None, "sentences") as stage:
        for result_of_one in form.results(parser, file):
            writer.tree(result_of_one.tree)
            stage.step()
