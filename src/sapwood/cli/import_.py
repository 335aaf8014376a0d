"""`sapwood import`."""

from __future__ import annotations

from pathlib import Path

import click

from sapwood.cli import _common as common
from sapwood.errors import InputError


@click.command("import", short_help="Make a model of a grammar in text files.")
@click.argument("prefix")
@click.option("-o", "--output", default="model.sapwood", show_default=True, help="Where to write the model.")
@click.option(
    "--least",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=1e-6,
    show_default=True,
    help="Of a grammar with unary rules: how often a rule over chains of labels must be expected in a tree.",
)
@common.quiet_option
@click.pass_context
def command(context: click.Context, prefix: str, output: str, least: float, quiet: bool) -> None:
    """Make a model of a grammar in text: PREFIX.grammar, PREFIX.lexicon and PREFIX.splits.

    These are what BerkeleyParser writes of its grammars (WriteGrammarToTextFile), which can be compressed (.gz), and,
    with PREFIX.json and others beside them, what `sapwood inspect --export` writes.

    \b
    Examples:
      sapwood import eng_sm6 -o english.sapwood
      sapwood inspect model.sapwood --export text/ && sapwood import text/model -o again.sapwood
    """
    from sapwood.grammar.berkeley import import_berkeley
    from sapwood.grammar.text_reading import is_text_grammar, read_text

    if Path(prefix).is_dir():
        raise InputError(
            f"{prefix}: is a folder; say how the names of the files in it begin, as in {Path(prefix, 'model')}"
        )
    common.check_output(output)
    progress = common.make_progress(quiet)
    if is_text_grammar(prefix):
        common.refuse_given(context, ["least"], "is for grammars of BerkeleyParser")
        grammar = read_text(prefix, progress=progress)
    else:
        grammar = import_berkeley(prefix, least=least, progress=progress)
    grammar.save(output)
    progress.note(
        f"{output}: {len(grammar.symbols):,} symbols, {len(grammar.rules):,} rules, {grammar.lexicon.n_words:,} words"
    )
