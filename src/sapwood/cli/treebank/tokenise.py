"""`sapwood tokenise`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sapwood.cli.options import common
from sapwood.cli.options.output import tree_output
from sapwood.model.installed import default_model_path, find_model
from sapwood.storage.files import read_lines
from sapwood.trees.formats.brackets import TOKENS

if TYPE_CHECKING:
    from sapwood.trees.tokenise.lines import Lines


@click.command("tokenise", short_help="Split raw text into sentences and tokens.")
@click.argument("file", default="-")
@click.option("-m", "--model", help="Model whose tokeniser to use. [default: the included English model]")
@click.option("--tokeniser", help="Tokeniser: penn, blanks, characters, spacy:de. [default: the model's]")
@common.lines_option
@click.option("-o", "--output", help="Output file. [default: standard output]")
@common.quiet_option
def command(file: str, model: str | None, tokeniser: str | None, lines: Lines, output: str | None, quiet: bool) -> None:
    """Split the text of FILE (default: standard input): one sentence per line, tokens separated by spaces.

    The tokens are those that `sapwood parse --raw` parses with the same model. With --lines sentences, there is one
    line of output per line of input, blank lines included.

    \b
    Examples:
      sapwood tokenise novel.txt > tokens.txt
      sapwood tokenise --lines sentences titles.txt > tokens.txt
      sapwood tokenise -m model.sapwood --tokeniser spacy:de < roman.txt
    """
    path = str(find_model(model)) if model is not None else str(default_model_path())
    common.check_inputs(file)
    common.refuse_replacing({"-o": output}, [path, file])
    from sapwood.model.parser_model import ParserModel
    from sapwood.trees.tokenise.lines import tokenise_lines
    from sapwood.trees.tokenise.registry import find_tokeniser

    style = ParserModel.gather(path).preparation.tokeniser
    cut = find_tokeniser(tokeniser or style.name, asdict(style))
    progress = common.make_progress(quiet)
    with tree_output(output, None) as writer, progress.stage("tokenising", None, "sentences") as stage:
        for tokens in tokenise_lines(cut, (line for _, line in read_lines(file)), lines):
            writer.line(" ".join(TOKENS.write(token.word) for token in tokens))
            stage.step()
