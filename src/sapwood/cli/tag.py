"""`sapwood tag`."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from sapwood.cli.options import common
from sapwood.cli.options.output import tree_output
from sapwood.model.installed import default_model_path, find_model
from sapwood.storage.files import STANDARD_STREAM, name_of

if TYPE_CHECKING:
    from sapwood.runtime.progress import Progress
    from sapwood.trees.tokenise.lines import Lines


@click.command("tag", short_help="Tag sentences: words in, word/TAG out.")
@click.argument("file", default=STANDARD_STREAM)
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="Tagger or parser model; repeat to tag with the product of several. [default: the included English model]",
)
@click.option("--raw", is_flag=True, help="Input is raw text: split it into sentences and tokens.")
@common.lines_option
@click.option("--score", is_flag=True, help="FILE contains word/TAG: report tagging accuracy.")
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
    lines: Lines,
    score: bool,
    output: str | None,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Tag the words of FILE (default: standard input): one sentence per line, tokens separated by spaces.

    Train taggers with `sapwood train --sequences`. Parsers can tag, too: they use more of the sentence, but are slower.
    The output format is that of `sapwood parse --to tagged`.

    With --score, report the tagging accuracy on FILE with a confidence interval, overall and for known and unknown
    words.

    \b
    Examples:
      sapwood tag tokens.txt -m tagger.sapwood > tagged.txt
      sapwood tag --raw < novel.txt
      sapwood tag test.txt -m tagger.sapwood --score
    """
    if score:
        common.refuse_given(context, ["raw", "lines", "output"], "cannot be used with --score")
    else:
        common.refuse_given(context, ["as_json"], "requires --score")
    if not raw:
        common.refuse_given(context, ["lines"], "requires --raw")
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
        from sapwood.trees.formats.registry import read_tagged

        with common.naming([file]):
            result = evaluate_tagger(parser, read_tagged(file), progress=progress)
        if as_json:
            common.print_json(result.to_dict())
        else:
            click.echo(result.format())
        return
    from sapwood.inference.batch import TextIO

    form = TextIO(raw, output="tagged", lines=lines)
    with tree_output(output, "tagged") as writer, progress.stage("tagging", None, "sentences") as stage:
        for result_of_one in form.results(parser, file, tell=partial(_tell, progress, file)):
            writer.tree(result_of_one.tree)
            stage.step()


def _tell(progress: Progress, file: str, finding: str) -> None:
    """Report that tokens look like raw text."""
    progress.note(f"{name_of(file)}: {finding}; use --raw to split and tokenise it")
