"""`sapwood train`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from sapwood.cli import _common as common
from sapwood.errors import UsageError
from sapwood.files import STANDARD_STREAM, is_regular


@click.command("train", short_help="Learn a grammar from treebanks.")
@click.argument("treebank", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="Where to write the model.")
@click.option("--method", type=click.Choice(["pcfg"]), default="pcfg", show_default=True, help="How to learn.")
@click.option("--dev", help="Treebank to score the model on after training.")
@click.option("--states", type=click.IntRange(min=1), help="Hidden states per symbol (a PCFG has one).")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every random choice.")
@common.threads_option
@click.option(
    "--binarise",
    "direction",
    type=click.Choice(["right", "left", "head"]),
    default="right",
    show_default=True,
    help="Binarise to the right, to the left, or outward from the head.",
)
@common.transform_options
@common.normaliser_options
@common.format_option
@common.skip_bad_option
@common.json_option
@common.quiet_option
def command(
    treebank: tuple[str, ...],
    output: str,
    method: str,
    dev: str | None,
    states: int | None,
    seed: int,
    threads: int | None,
    vertical: int,
    horizontal: int,
    direction: Any,
    heads: str | None,
    annotate_tags: bool,
    function_tags: str,
    keep_empties: bool,
    keep_repeated: bool,
    input_format: Any,
    skip_bad: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Learn a grammar from one or more TREEBANK files and write it to a model file.

    \b
    Examples:
      sapwood train train.mrg -o model.sapwood
      sapwood train wsj/*.mrg --dev dev.mrg --horizontal 2 -o model.sapwood --json
    """
    from sapwood.learn import PCFG
    from sapwood.trees import Corpus

    if states not in (None, 1) and method == "pcfg":
        raise UsageError(f"--states {states}: a PCFG has one state per symbol; leave --states out")
    if output == STANDARD_STREAM:
        raise UsageError("a model cannot be written to standard output; name a file")
    common.check_inputs(*treebank, dev, heads)
    common.check_output(output)
    for path in (*treebank, dev, heads):
        if path and is_regular(path) and is_regular(output) and Path(path).samefile(output):
            raise UsageError(f"-o {output}: is one of the input files; the model would replace it")
    progress = common.make_progress(quiet)
    started = time.perf_counter()
    normaliser = common.make_normaliser(function_tags, keep_empties, keep_repeated)
    transform = common.make_transform(direction, vertical, horizontal, heads, annotate_tags, normaliser.root)
    trees = common.trees_from(treebank, input_format, skip_bad, progress)
    with common.naming(treebank):
        corpus = Corpus.from_trees(trees, normaliser=normaliser, transform=transform, progress=progress)
    if corpus.dropped:
        progress.note(f"left out {corpus.dropped} tree(s) of which normalising left nothing")
    grammar = PCFG().fit(corpus, progress=progress).with_info(seed=seed)
    seconds = time.perf_counter() - started
    grammar.save(output)
    progress.note(f"{output}: {grammar!r} from {corpus.n_trees:,} trees in {seconds:.1f} s")
    report: dict[str, Any] = {
        "model": output,
        "method": method,
        "trees": corpus.n_trees,
        "words": corpus.n_words,
        "dropped": corpus.dropped,
        "symbols": len(grammar.symbols),
        "rules": len(grammar.rules),
        "seconds": round(seconds, 3),
    }
    if dev is not None:
        from sapwood.cli.evaluate import evaluate_model

        parser = common.load_parser(output, progress, threads=common.default_threads(threads))
        result, parse_seconds = evaluate_model(parser, dev, input_format, "default", skip_bad, progress)
        report["dev"] = {**result.to_dict(), "seconds": round(parse_seconds, 3)}
        if not as_json:
            click.echo(result.format())
    if as_json:
        common.print_json(report)
