"""`sapwood sample`."""

from __future__ import annotations

import click

from sapwood.cli.options import common
from sapwood.cli.options.induction import induced_model
from sapwood.cli.options.output import to_option, tree_output
from sapwood.cli.options.types import POSITIVE
from sapwood.errors import UsageError
from sapwood.model.installed import default_model_path, find_model


@click.command("sample", short_help="Sample trees or sentences from a grammar.")
@click.argument("model", required=False)
@click.option("-n", "--number", type=POSITIVE, default=5, help="Number of trees.")
@to_option
@click.option("-o", "--output", help="Output file. [default: standard output]")
@common.seed_option
@click.option("--max-words", type=POSITIVE, default=200, help="Reject trees with more than N words.")
@click.option("--unknown", is_flag=True, help="Also sample unknown words, shown as their signature: <Aa *ing>.")
@common.silent_option
def command(
    model: str | None,
    number: int,
    output_format: str,
    output: str | None,
    seed: int,
    max_words: int,
    unknown: bool,
) -> None:
    """Sample trees from the grammar of MODEL (default: the included model), one per line.

    A grammar is a distribution over trees, and samples show what it has learned and what it has not. Each tree of an
    ensemble comes from one of its grammars, chosen at random. A CRF or span scorer takes no part in this: they score
    the trees of a given sentence.

    \b
    Examples:
      sapwood sample model.sapwood -n 10
      sapwood sample model.sapwood -n 1000 --to tokens > sentences.txt
      sapwood sample --seed 7 --to draw -n 1 --max-words 12
    """
    path = str(default_model_path()) if model is None else str(find_model(model))
    common.check_inputs(path)
    common.refuse_replacing({"-o": output}, [path])
    if induced_model([path]) is not None:
        raise UsageError(f"{path}: a model of heads or spans, which has no grammar to sample from")
    from sapwood.model.parser_model import ParserModel

    trees = ParserModel.load(path).sample(number, random_state=seed, max_words=max_words, unknown=unknown)
    with tree_output(output, output_format) as writer:
        for tree in trees:
            writer.tree(tree)
