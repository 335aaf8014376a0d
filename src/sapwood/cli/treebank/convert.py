"""`sapwood convert`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import click

from sapwood.cli.options import common
from sapwood.cli.options.output import note_learned_heads, to_option, tree_output
from sapwood.cli.options.types import ChoiceParam
from sapwood.errors import InputError, UsageError
from sapwood.runtime.progress import Progress
from sapwood.storage.files import name_of
from sapwood.trees.heads.learned import ENOUGH_TREES, learn_heads
from sapwood.trees.heads.rules import HeadRules, count_labels
from sapwood.trees.normalise import Normaliser
from sapwood.trees.symbols import parse_symbol
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

# Number of trees whose labels select the head rules.
_LOOK = 100


@click.command("convert", short_help="Convert trees between formats, normalise or binarise them.")
@click.argument("file", default="-")
@click.option("-o", "--output", help="Output file. [default: standard output]")
@to_option
@click.option(
    "--normalise", is_flag=True, help="Normalise function tags, empty elements, repeated unaries and the root."
)
@click.option(
    "--binarise",
    "direction",
    type=ChoiceParam(["right", "left", "head"]),
    help="Normalise, collapse unary chains and binarise, as for training.",
)
@common.transform_options
@click.option("--invert", is_flag=True, help="Undo --binarise.")
@common.normaliser_options
@common.format_option
@common.skip_bad_option
@common.quiet_option
@click.pass_context
def command(
    context: click.Context,
    file: str,
    output: str | None,
    output_format: Any,
    normalise: bool,
    direction: Any,
    vertical: int | None,
    horizontal: int | None,
    heads: str | None,
    annotate_tags: bool | None,
    invert: bool,
    normaliser: Normaliser,
    input_format: Any,
    skip_bad: bool,
    quiet: bool,
) -> None:
    """Convert the trees of FILE (default: standard input) to another format; normalise or binarise them.

    \b
    Examples:
      sapwood convert train.mrg --normalise --to tokens > train.txt
      sapwood convert negra.export --normalise -o negra.mrg
      sapwood convert train.mrg --binarise right | sapwood convert --invert
    """
    if invert and (normalise or direction):
        raise UsageError("--invert undoes --binarise; it cannot be used with --binarise or --normalise")
    rules = HeadRules.named(heads) if heads is not None and output_format == "conllu" else None
    if not direction:
        others = [name for name in common.TRANSFORM_OPTIONS if name != "heads" or rules is None]
        common.refuse_given(context, others, "requires --binarise" + ", or --to conllu" * ("heads" in others))
        if not normalise:
            common.refuse_given(context, common.NORMALISER_OPTIONS, "requires --normalise or --binarise")
    common.check_inputs(file, common.head_file(heads))
    if output is not None:
        common.check_output(output)
    progress = common.make_progress(quiet)
    table = heads if direction else None
    changes = common.transform_changes(direction or "right", vertical, horizontal, table, annotate_tags)
    transform = TreeTransform(root=normaliser.root, **changes)
    trees = common.trees_from([file], input_format, skip_bad, progress)
    if output_format == "conllu" and rules is None:
        rules, trees = _fitting_heads(trees, name_of(file), progress)
    written = dropped = 0
    with tree_output(output, output_format, rules) as writer, progress.stage("converting", unit="trees") as stage:
        for tree in trees:
            stage.step()
            if normalise or direction:
                clean = normaliser(tree)
                if clean is None:
                    dropped += 1
                    continue
                tree = transform(clean) if direction else clean
            elif invert:
                tree = transform.invert(_read_symbols(tree, f"{name_of(file)}: tree {written + 1}"))
            written += 1
            writer.tree(tree)
    if dropped:
        progress.note(f"skipped {dropped} tree(s) that are empty after normalisation")


def _fitting_heads(trees: Iterator[Tree], name: str, progress: Progress) -> tuple[HeadRules, Iterator[Tree]]:
    """Return head rules that fit the first trees, or that are learned from more of them; and all trees."""
    seen = list(islice(trees, _LOOK))
    phrases, tags = count_labels(seen)
    rules = HeadRules.fitting(phrases, tags)
    if rules is None and seen:
        seen += islice(trees, ENOUGH_TREES - len(seen))
        rules = learn_heads(seen)
        note_learned_heads(phrases, name, f"its first {len(seen):,} trees", progress)
    return rules or HeadRules.leftmost(), chain(seen, trees)


def _read_symbols(tree: Tree, place: str) -> Tree:
    """Return a tree written by --binarise with its symbols; raises an error for any other label."""

    def visit(node: Tree, below: list[Tree]) -> Tree:
        symbol = parse_symbol(node.label)
        if symbol is None or (node.word is not None and symbol.parts.intermediate):
            raise InputError(
                f"{place}: the label {node.label!r} does not come from --binarise, so --invert cannot undo it"
            )
        return Tree(symbol, below, word=node.word)

    return tree.fold(visit)
