"""`sapwood import`."""

from __future__ import annotations

from pathlib import Path

import click

from sapwood.cli.options import common
from sapwood.cli.options.aliases import IMPORT
from sapwood.cli.options.help import GroupedCommand
from sapwood.cli.options.types import BETWEEN_0_AND_1
from sapwood.errors import InputError


@click.command("import", cls=GroupedCommand, aliases=IMPORT, short_help="Import a grammar from text files.")
@click.argument("prefix")
@click.option("-o", "--output", default="model.sapwood", help="Write the model to this file.")
@click.option(
    "--min-expected-count",
    type=BETWEEN_0_AND_1,
    default=1e-6,
    help="Drop rules over unary chains whose expected count per tree is below this.",
)
@common.quiet_option
@click.pass_context
def command(context: click.Context, prefix: str, output: str, min_expected_count: float, quiet: bool) -> None:
    """Import a grammar from the text files PREFIX.grammar, PREFIX.lexicon and PREFIX.splits.

    Reads the text grammars of BerkeleyParser (WriteGrammarToTextFile), also compressed (.gz), and those of `sapwood
    inspect --export`, which have additional files such as PREFIX.json.

    \b
    Examples:
      sapwood import eng_sm6 -o english.sapwood
      sapwood inspect model.sapwood --export text/ && sapwood import text/model -o again.sapwood
    """
    from sapwood.grammar.io.berkeley import import_berkeley
    from sapwood.grammar.io.text import is_text_grammar, read_text

    if Path(prefix).is_dir():
        raise InputError(f"{prefix}: is a folder; add the common prefix of its files, as in {Path(prefix, 'model')}")
    common.check_output(output)
    progress = common.make_progress(quiet)
    if is_text_grammar(prefix):
        common.refuse_given(context, ["min_expected_count"], "is for grammars of BerkeleyParser")
        grammar = read_text(prefix, progress=progress)
    else:
        grammar = import_berkeley(prefix, min_expected_count=min_expected_count, progress=progress)
    grammar.save(output)
    progress.note(
        f"{output}: {len(grammar.symbols):,} symbols, {len(grammar.rules):,} rules, {grammar.lexicon.n_words:,} words"
    )
